"""Items and opening of a case by rule: from a profile, and from a vignette alone."""

from __future__ import annotations

import re
from typing import Any

import pytest

from core.case import Case, Fact, Opening, Profile
from core.datasets.library import library
from core.text.case_items import (
    OPENINGS_BY_RULE,
    PLEA,
    UNWELL,
    HistoryItem,
    is_vague,
    itemized,
    items_by_rule,
    items_from_json,
    items_to_json,
    openings_by,
)
from core.text.facts import complaint_noun, join_values
from core.text.rouge import words_of

VIGNETTE = (
    "A 46-year-old woman comes to the clinic because of chest pain for 3 days. She denies fever, cough, or chills. "
    "She takes metformin. Her father died of a stroke. Her blood pressure is 150/90 mm Hg. "
    "An X-ray of the chest shows a widened mediastinum."
)


def a_case(vignette: str = VIGNETTE, **changes: Any) -> Case:
    fields = {
        "case_key": "t/1",
        "dataset": "t",
        "specialty": "Cardiology",
        "vignette": vignette,
        "answer": "Gout",
        "choices": ("Gout", "Flu"),
        "question": "What is it?",
    }
    return Case.model_validate({**fields, **changes})


def test_a_case_without_stored_items_has_those_of_its_vignette() -> None:
    view = itemized(a_case())
    assert view.items == items_by_rule(a_case()).items
    assert view.made_by.startswith("rules-")


def test_a_vignette_is_split_into_topics_with_its_own_words() -> None:
    values = {item.key: item.value for item in items_by_rule(a_case()).items}
    assert values["age and sex"] == "46-year-old woman"
    assert values["main complaint"] == "chest pain"
    assert values["onset and duration of the chest pain"] == "for 3 days"
    assert values["symptoms that are absent"] == "denies fever; cough; chills"
    assert "metformin" in values["current medication"]
    assert "died of a stroke" in values["family history"]
    assert "150/90 mm Hg" in values["vital signs"]
    assert "widened mediastinum" in values["imaging and other tests"]


def test_every_word_of_a_value_is_in_the_vignette() -> None:
    wrong = []
    for case in library():
        plain = case.model_copy(update={"profile": None})
        items = items_by_rule(plain).items
        vignette_words = set(words_of(plain.vignette))
        item_words = set(words_of(" ".join(item.value for item in items)))
        if not (
            all(set(words_of(item.value)) <= vignette_words for item in items)
            and len({item.key for item in items}) == len(items) >= 5
            and len(item_words & vignette_words) >= 0.75 * len(vignette_words)
        ):
            wrong.append(case.case_key)
    assert wrong == []


def test_a_profile_gives_one_item_a_topic_under_its_own_keys() -> None:
    facts = {
        "age": "40-year-old",
        "sex": "male",
        "chief complaint": "itchy rash",
        "fever": "no fever",
        "cough": "no cough",
        "medication": "no medication",
    }
    basic = [Fact(key=k, value=v, lay=v) for k, v in facts.items()]
    results = (Fact(key="pulse", value="96/min", lay="fine", section="vital_signs"),)
    profile = Profile(demographics=tuple(basic[:2]), basic=tuple(basic[2:]), optional=results)
    made = items_by_rule(a_case(profile=profile))
    assert made.made_by.startswith("profile-")
    assert [(i.key, i.value) for i in made.items] == [
        ("age and sex", "40-year-old; male"),
        ("main complaint", "itchy rash"),
        ("fever and cough", "no fever; cough"),
        ("medication", "no medication"),
        ("pulse", "pulse 96/min"),
    ]


def test_the_items_of_the_library_contain_every_profile_completely() -> None:
    for case in library():
        assert case.profile is not None
        item_words = set(words_of(" ".join(item.value for item in items_by_rule(case).items)))
        profile_words = set(words_of(" ".join(fact.value for fact in case.profile.facts)))
        assert (
            profile_words - {"no", "not", "never", "has", "had", "any"} <= item_words
        )  # consecutive denials share their negation


def test_of_several_denials_one_keeps_its_negation_in_the_wording_of_the_case() -> None:
    pieces = ["no fever", "no cough"]
    assert join_values(pieces, frozenset({"denied", "fever", "cough"})) == "denied fever; cough"
    assert join_values(pieces, frozenset({"no", "fever", "cough"})) == "no fever; cough"
    assert join_values(pieces, None) == "no fever; cough"
    assert join_values(["asthma", "no surgery"], None) == "asthma; no surgery"


def test_the_noun_of_a_complaint() -> None:
    wrong = [
        (text, got)
        for text, noun in [
            ("sudden chest pain on exertion", "chest pain"),
            ("Fever and cough", "fever"),
            ("trouble at school", "complaint"),
        ]
        if (got := complaint_noun(text)) != noun
    ]
    assert wrong == []


def opening(vignette: str = VIGNETTE, **changes: Any) -> str:
    return itemized(a_case(vignette, **changes)).opening


def test_the_opening_is_a_rough_complaint_and_a_plea() -> None:
    assert opening() == f"Hello doctor. I've come because of chest pain. {PLEA}"


def test_the_opening_of_a_profile_is_the_lay_complaint_without_its_details() -> None:
    lay = Fact(key="chief complaint", value="pain", lay="I've had a sharp chest pain for two days.")
    assert opening(profile=Profile(basic=(lay,))) == f"Hello doctor. I've had a sharp chest pain. {PLEA}"


def test_a_parent_opens_for_a_small_child() -> None:
    text = opening("A 3-year-old boy is brought to the physician because of a rash on his face for 2 days.")
    assert text == f"Hello doctor. I've come with my child because of a rash on his face. {PLEA}"


def test_the_rule_quotes_only_the_complaint(subtests: pytest.Subtests) -> None:
    table: list[tuple[str, str]] = [
        ("A 50-year-old man presents with dry, itchy skin for 3 weeks.", "I've come because of dry, itchy skin"),
        ("A 50-year-old man presents with two days of chest pain.", "I've come because of chest pain"),
        ("A 40-year-old woman, gravida 2, para 1, at 30 weeks' gestation comes to the clinic because of headaches.",
         "I've come because of headaches"),
        ("A 40-year-old man is referred for evaluation of a swollen knee.", "I've come because of a swollen knee"),
        ("A 21-year-old nurse starts to feel strange in his shift. He has a headache.",
         "I've come because of a headache"),
        # an earlier illness is no complaint
        ("A 25-year-old man with gout is seen today. He has been vomiting.", "I've come because of vomiting"),
        ("A pathologist receives a sample of the skin for analysis.", UNWELL),
    ]  # fmt: skip
    for vignette, complaint in table:
        with subtests.test(vignette=vignette, complaint=complaint):
            assert opening(vignette) == f"Hello doctor. {complaint}. {PLEA}"
            assert is_vague(opening(vignette)) == (complaint == UNWELL)


def test_an_opening_by_a_model_is_used_and_changes_no_hash() -> None:
    made = a_case().model_copy(update={"opening": Opening(text="Hello. My chest hurts.", made_by="openai/x 1a2b")})

    assert itemized(made).opening == "Hello. My chest hurts."
    assert made.content_hash == a_case().content_hash
    assert "opening" not in a_case().model_dump()
    assert openings_by([made, a_case()]) == f"openai/x 1a2b + {OPENINGS_BY_RULE}"
    assert openings_by([a_case()]) == OPENINGS_BY_RULE


def test_a_case_without_a_readable_complaint_opens_vaguely() -> None:
    assert opening("A 50-year-old man is seen.") == f"Hello doctor. {UNWELL}. {PLEA}"


def test_no_opening_contains_a_duration_or_the_answer() -> None:
    lasting = re.compile(r"\b(?:hour|day|week|month|year)s?\b(?! pregnant| of pregnancy)")
    for case in library():
        for view in (itemized(case), itemized(case.model_copy(update={"profile": None}))):
            assert not lasting.search(view.opening) or "pregnan" in view.opening, view.opening
            assert case.answer.lower() not in view.opening.lower()


def test_items_are_stored_and_read_back() -> None:
    items = (HistoryItem(key="Grüße", value='"a"; b', topic="onset"), HistoryItem(key="k", value="v", topic="other"))
    assert items_from_json(items_to_json(items)) == items
