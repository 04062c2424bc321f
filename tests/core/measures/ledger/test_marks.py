"""The rules of the ledger one by one, on the smallest dialogues that show them."""

from __future__ import annotations

import pytest

from core.case import Case
from core.measures.ledger.marks import FactMark, Ledger, ledger
from tests.core.measures.ledger.hand_marked import talk

VIGNETTE = (
    "A 40-year-old woman comes to the clinic because of chest pain for 3 weeks. She has had fever. She denies cough. "
    "She takes metformin. Her father had a stroke. Temperature is 38.4 °C. The lungs are clear."
)
CASE = Case(
    case_key="t/1",
    dataset="t",
    specialty="Cardiology",
    answer="Pericarditis",
    synonyms=("heart sac inflammation",),
    vignette=VIGNETTE,
)
GREETING = "What symptoms bring you in?"


def marked(*messages: str) -> Ledger:
    return ledger(CASE, talk(*messages))


def mark_of(found: Ledger, id_: str) -> FactMark:
    return next(mark for mark in found.marks if mark.fact.id == id_)


def of(id_: str, *messages: str) -> FactMark:
    return mark_of(marked(*messages), id_)


def test_the_greeting_asks_for_the_symptoms() -> None:
    complaint = of("chest-pain", GREETING, "My chest hurts.")

    assert (complaint.mark, complaint.turn, complaint.question_turn) == ("asked", 1, 0)


def test_what_was_not_asked_for_is_volunteered() -> None:
    medication = of("takes-metformin", GREETING, "My chest hurts and I take metformin.")

    assert (medication.mark, medication.turn, medication.question_turn) == ("volunteered", 1, None)


def test_a_fact_that_nobody_told_was_never_elicited() -> None:
    fact = of("her-father-had-a-stroke", GREETING, "My chest hurts.", "Any stroke in the family, your father maybe?")

    assert (fact.mark, fact.turn, fact.question_turn) == ("never_elicited", None, None), "nobody answered that question"


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        ("Do you take metformin?", 2),
        ("Do you take any medicines?", 2),
        ("Is there anything else?", None),
        ("Do you have a cough?", None),
    ],
)
def test_a_fact_that_never_came_up_names_the_question_that_asked_for_just_it(question: str, asked: int | None) -> None:
    fact = of("takes-metformin", GREETING, "My chest hurts.", question, "I don't know.", question, "No idea.")

    assert (fact.mark, fact.turn, fact.question_turn) == ("never_elicited", None, asked)


@pytest.mark.parametrize("reply", ["Yes.", "Yeah, I do.", "Both, doctor.", "A little, yes."])
def test_a_yes_tells_what_the_question_named(reply: str) -> None:
    assert of("fever", GREETING, "My chest hurts.", "Do you have a fever?", reply).mark == "asked"


@pytest.mark.parametrize("reply", ["No.", "Nope.", "Not at all.", "No, I don't.", "Don't think so."])
def test_a_no_tells_a_denied_fact_and_not_an_affirmed_one(reply: str) -> None:
    told = marked(GREETING, "My chest hurts.", "Do you have a cough or a fever?", reply)

    assert mark_of(told, "no-cough").mark == "asked"
    assert (mark_of(told, "fever").mark, mark_of(told, "fever").question_turn) == ("never_elicited", 2)


def test_a_denied_symptom_that_is_affirmed_is_not_told() -> None:
    assert of("no-cough", GREETING, "I have a bad cough.").mark == "never_elicited"


def test_what_was_not_known_at_first_may_be_told_later() -> None:
    fact = of(
        "takes-metformin",
        GREETING,
        "My chest hurts.",
        "Do you take any medicines?",
        "I'm not sure.",
        "No tablets at all?",
        "Oh, I take metformin.",
    )

    assert (fact.mark, fact.turn, fact.question_turn) == ("asked", 5, 4)


@pytest.mark.parametrize(
    ("reply", "agrees"),
    [
        ("For three weeks.", True),
        ("About 20 days.", True),
        ("A few weeks.", True),
        ("Six months.", False),
        ("Since yesterday.", False),
    ],
)
def test_durations_are_compared_as_values(reply: str, agrees: bool) -> None:
    told = marked(GREETING, "My chest hurts.", "How long have you had the pain?", reply)

    assert (mark_of(told, "for-3-weeks").mark == "asked") is agrees


@pytest.mark.parametrize(("reply", "agrees"), [("I'm forty.", True), ("40", True), ("I'm 62 years old.", False)])
def test_age_is_compared_as_a_value(reply: str, agrees: bool) -> None:
    told = marked(GREETING, "My chest hurts.", "How old are you?", reply)

    assert (mark_of(told, "40-year-old-woman").mark == "asked") is agrees


def test_what_only_an_examination_shows_is_not_told_by_a_symptom() -> None:
    assert of("temperature-is-38-4-c", GREETING, "I have a fever.").mark == "never_elicited"


@pytest.mark.parametrize("text", ["Is it pericarditis?", "They said heart sac inflammation."])
def test_naming_the_answer_is_a_leak(text: str) -> None:
    assert marked(GREETING, "My chest hurts.", "Go on.", text).leaked == (3,)


def test_an_answer_that_the_vignette_names_cannot_leak() -> None:
    case = CASE.model_copy(update={"vignette": f"{VIGNETTE} She had pericarditis as a child."})

    assert ledger(case, talk(GREETING, "I had pericarditis as a child.")).leaked == ()


def test_an_empty_dialogue_elicits_nothing() -> None:
    told = ledger(CASE, ())

    assert {m.mark for m in told.marks} == {"never_elicited"}
    assert (told.turns, told.leaked) == (0, ())
