"""Cases as atomic facts: from a profile, or from free text by rule."""

from __future__ import annotations

from core.case import Case, Fact, Profile
from core.text.facts import AtomicFact, facts_of

PLAIN = {"case_key": "t/1", "dataset": "t", "specialty": "Cardiology", "answer": "Pericarditis"}


def facts_by_text(vignette: str) -> dict[str, AtomicFact]:
    return {fact.text: fact for fact in facts_of(Case(**PLAIN, vignette=vignette))}


def test_a_profile_gives_its_facts_one_by_one() -> None:
    profile = Profile(
        demographics=(Fact(key="age", value="31-year-old", lay="I'm 31."),),
        basic=(
            Fact(key="fever", value="no fever", lay="I have no fever."),
            Fact(key="medication", value="ibuprofen", lay="I take ibuprofen."),
        ),
        optional=(Fact(key="pulse", value="96/min", lay="It was normal.", section="vital_signs"),),
    )

    facts = facts_of(Case(**PLAIN, vignette="x", profile=profile))

    assert [(f.id, f.topic, f.told) for f in facts] == [
        ("age", "demographics", True),
        ("fever", "negatives", True),
        ("medication", "medication", True),
        ("pulse", "vital signs", False),
    ]
    assert facts[1].lay == "I have no fever."


def test_a_denied_list_becomes_one_denied_fact_a_member() -> None:
    facts = facts_by_text("She denies fever, chills and weight loss.")

    assert list(facts) == ["no fever", "no chills", "no weight loss"]
    assert {fact.topic for fact in facts.values()} == {"negatives"}


def test_an_opening_sentence_gives_demographics_complaint_and_duration() -> None:
    facts = facts_by_text("A 40-year-old woman comes to the clinic because of a dry cough for 3 weeks.")

    assert {text: fact.topic for text, fact in facts.items()} == {
        "40-year-old woman": "demographics",
        "dry cough": "chief complaint",
        "for 3 weeks": "onset",
    }


def test_a_sentence_with_several_findings_becomes_several_facts() -> None:
    assert list(facts_by_text("He reports fever, night sweats and weight loss.")) == [
        "fever",
        "night sweats",
        "weight loss",
    ]


def test_the_patient_does_not_know_results_of_examination_and_tests() -> None:
    facts = facts_by_text(
        "He has a headache. Temperature is 38.2 °C, pulse is 90/min, and blood pressure is 120/80 mm Hg. Examination "
        "shows neck stiffness. There is a rash. Serum sodium is 140 mEq/L. A chest x-ray is normal. He takes metformin."
    )

    topics_of_results = {fact.topic for fact in facts.values() if not fact.told}
    assert topics_of_results == {"vital signs", "examination", "laboratory", "imaging"}
    assert [f.text for f in facts.values() if f.told] == ["headache", "takes metformin"]
    assert len([f for f in facts.values() if f.topic == "vital signs"]) == 3


def test_history_goes_to_its_topics() -> None:
    facts = facts_by_text(
        "His father had a stroke. He is allergic to penicillin. He smokes a pack a day. He takes aspirin. He returned "
        "from Kenya last week. He has a history of asthma."
    )

    assert [fact.topic for fact in facts.values()] == [
        "family history",
        "allergies",
        "social history",
        "medication",
        "exposure",
        "past history",
    ]


def test_ids_are_unique_and_stay_the_same() -> None:
    case = Case(**PLAIN, vignette="He has pain. He has pain. He has no fever.")
    ids = [fact.id for fact in facts_of(case)]

    assert ids == ["pain", "pain-2", "no-fever"]
    assert ids == [fact.id for fact in facts_of(case.model_copy(update={"answer": "Gout"}))]


def test_a_report_of_a_relative_is_no_family_history() -> None:
    facts = facts_by_text(
        "His mother has noticed that he sleeps badly. His mother has been giving him syrup. His mother has lupus."
    )

    assert [fact.topic == "family history" for fact in facts.values()] == [False, False, True]


def test_a_word_that_only_ends_like_a_medicine_is_none() -> None:
    facts = facts_by_text("He found food on his pillow in the morning. He takes warfarin in the morning.")

    assert [fact.topic == "medication" for fact in facts.values()] == [False, True]
