"""Invented statements: what no word of the case supports, and what only says the case in plain words."""

from __future__ import annotations

from core.metrics.patients.outside import invented_marks
from tests.core.metrics.patients.patient_talks import OPENING, dialogue
from tests.core.store.builders import a_case

CASE = a_case(
    vignette="A 40-year-old man has itching of the arms for 2 weeks. His temperature is 38.4 °C. "
    "He had an appendectomy.",
    profile=None,
)


def invented(question: str, reply: str) -> list[str]:
    return [mark.words for mark in invented_marks(CASE, dialogue(OPENING, (question, reply)))]


def test_a_symptom_that_the_case_lacks_is_invented() -> None:
    assert invented("Do you have a cough or headaches?", "Yes, I have a severe headache.") == [
        "Yes, I have a severe headache."
    ]


def test_plain_words_for_the_case_are_not() -> None:
    assert not invented("Do you have a fever?", "Yes, I have had a fever.")
    assert not invented("Any operations?", "I had my appendix removed as a child.")


def test_denials_and_not_knowing_are_not() -> None:
    assert not invented("Do you have headaches?", "No, I don't have headaches.")
    assert not invented("Do you have headaches?", "It's hard to tell whether I have headaches.")
    assert not invented("Do you have headaches?", "Headaches are not something I've mentioned.")


def test_the_reply_to_the_opening_is_a_retelling() -> None:
    assert not invented_marks(CASE, dialogue(("What brings you in?", "I have a severe headache.")))


def test_the_place_is_that_of_the_statement() -> None:
    reply = "My arms itch. I have a severe headache."
    (mark,) = invented_marks(CASE, dialogue(OPENING, ("Do you have headaches?", reply)))
    assert reply[mark.start : mark.end] == mark.words == "I have a severe headache."
