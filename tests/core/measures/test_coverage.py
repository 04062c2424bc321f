"""The facts that a conversation uncovers, on dialogues made by hand."""

from __future__ import annotations

import pytest

from core.asking.scene import Turn
from core.case import Case, Fact, Profile
from core.datasets.select import cases_of
from core.measures.coverage import facts_of, uncovered

PAIN = Fact(key="complaint", value="sharp chest pain for two days", lay="a stabbing pain in my chest since two days")
FEVER = Fact(key="fever", value="no fever", lay="I have not had a fever")
AGE = Fact(key="age", value="31-year-old", lay="I'm 31")
RUB = Fact(key="auscultation", value="pericardial friction rub", lay="a scratching sound", section="examination")
PLAIN = {"case_key": "t/1", "dataset": "t", "specialty": "Cardiology", "answer": "Pericarditis"}
CASE = Case(**PLAIN, vignette="x", profile=Profile(demographics=(AGE,), basic=(PAIN, FEVER), optional=(RUB,)))


def turns(*patient: str) -> tuple[Turn, ...]:
    """Return a dialogue with these replies, each after the same question of the doctor."""
    return tuple(turn for text in patient for turn in (Turn("doctor", "And what else?"), Turn("patient", text)))


def turns_by_fact(*patient: str, case: Case = CASE) -> dict[str, int | None]:
    return {item.fact.key: item.turn for item in uncovered(case, turns(*patient))}


def test_nothing_is_uncovered_before_the_patient_speaks() -> None:
    assert set(turns_by_fact().values()) == {None}
    assert [item.turn for item in uncovered(CASE, [Turn("doctor", "Sharp chest pain for two days?")])] == [None] * 4


def test_facts_come_in_the_profiles_order_and_say_who_can_tell_them() -> None:
    assert facts_of(CASE) == [(AGE, True), (PAIN, True), (FEVER, True), (RUB, False)]


@pytest.mark.parametrize(
    "reply",
    [
        "I've had a sharp pain in my chest for two days.",
        "It's a stabbing pain in my chest, since two days ago.",
        "SHARP CHEST PAINS, TWO DAYS!",
    ],
)
def test_clinical_and_lay_words_both_count(reply: str) -> None:
    assert turns_by_fact(reply)["complaint"] == 1


def test_a_passing_mention_is_not_enough() -> None:
    assert turns_by_fact("I sometimes have pain.")["complaint"] is None


def test_words_of_two_replies_are_not_put_together() -> None:
    assert turns_by_fact("Something sharp.", "In my chest.", "For two days.")["complaint"] is None


def test_the_first_reply_that_tells_it_counts() -> None:
    conversation = turns_by_fact("Hello.", "I'm 31.", "I am 31, as I said.", "Sharp chest pain for two days, yes.")
    assert (conversation["age"], conversation["complaint"]) == (3, 7)


def test_one_reply_can_uncover_several_facts() -> None:
    conversation = turns_by_fact("I'm 31, and for two days I've had a sharp chest pain.")
    assert (conversation["age"], conversation["complaint"], conversation["fever"]) == (1, 1, None)


def test_a_case_without_a_profile_is_taken_sentence_by_sentence() -> None:
    case = Case(**PLAIN, vignette="A man has a red rash on his arm. He works in a garden.")
    items = uncovered(case, turns("I have a red rash on my arm."))
    assert [item.fact.key for item in items] == ["sentence", "sentence"]
    assert all(item.told for item in items)
    assert items[0].fact.value == "A man has a red rash on his arm."


def test_a_fact_without_any_telling_word_is_never_uncovered() -> None:
    case = Case(**PLAIN, vignette="x", profile=Profile(basic=(Fact(key="odd", value="not any", lay="no"),)))
    assert turns_by_fact("No, not any.", case=case) == {"odd": None}


def test_a_patient_who_reads_out_every_lay_fact_uncovers_them_all() -> None:
    for case in cases_of("library")[:12]:
        told_facts = [fact for fact, can_tell in facts_of(case) if can_tell]
        items = uncovered(case, turns(*(fact.lay for fact in told_facts)))
        assert [item.fact.key for item in items if item.told and item.turn is None] == [], case.case_key
