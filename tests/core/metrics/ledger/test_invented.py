"""What is not invented though the case puts it otherwise, and what still is."""

from __future__ import annotations

import pytest

from core.case import Case
from core.metrics.ledger import Statement, ledger
from tests.core.metrics.ledger.hand_marked import talk


def invented(vignette: str, question: str, reply: str) -> tuple[Statement, ...]:
    case = Case(
        case_key="t/3", dataset="t", specialty="Neurology", vignette=vignette, answer="Sarcoidosis", synonyms=()
    )
    return ledger(case, talk("What brings you in?", "Hello.", question, reply)).invented


@pytest.mark.parametrize(
    ("vignette", "question", "reply"),
    [
        ("A 40-year-old man comes because of a 6-kg (13-lb) weight loss.", "Has your weight changed?",
         "Yes, I've lost about 13 pounds."),
        ("A 40-year-old man comes because of fatigue. His appetite is normal.", "How is your appetite?",
         "My appetite is normal."),
        ("A 40-year-old man comes because of fatigue. His weight has not changed.", "Has your weight changed?",
         "No, my weight has stayed the same."),
        ("A 40-year-old woman comes because she is unable to focus at work.", "Tell me more.",
         "I have trouble focusing at work."),
        ("A 40-year-old man comes because of fatigue. He has no surgical history aside from a knee surgery.",
         "Any operations?", "I had knee surgery."),
        ("A 40-year-old man comes because of fatigue. He has no depression.",
         "Does anyone in your family have depression?", "Yes, my mother has depression."),
        ("A 40-year-old woman comes because of menorrhagia and dysmenorrhea.", "What is wrong?",
         "I have heavy bleeding and painful periods."),
        ("A 3-year-old boy comes because of a rash. He has a cough.", "Has he had any previous episodes of rash or "
         "coughing?", "No, never before."),
        ("Three days after delivery, a newborn has a seizure.", "How old is the baby?", "She's three days old."),
        ("A 40-year-old man comes because of a rash on his arm.", "Any other rashes?",
         "No, I haven't had any other rashes like this one."),
    ],
)  # fmt: skip
def test_other_words_for_what_the_case_holds_invent_nothing(vignette: str, question: str, reply: str) -> None:
    assert [s for s in invented(vignette, question, reply) if not s.denial and s.contradicts] == []
    assert not [s for s in invented(vignette, question, reply) if not s.denial]


@pytest.mark.parametrize(
    ("vignette", "question", "reply", "against"),
    [
        ("A 40-year-old man comes because of a 6-kg weight loss.", "Has your weight changed?",
         "Yes, I've lost 40 pounds.", True),
        ("A 40-year-old man comes because of fatigue. He has no depression.", "Do you have depression?",
         "Yes, I have depression.", True),
        ("A 40-year-old man comes because of fatigue. He has no depression.",
         "Does anyone in your family have depression?", "I had a stroke once.", False),
        ("A 40-year-old man comes because of fatigue. His appetite is normal.", "How is your appetite?",
         "My appetite is normal and I cough up blood.", False),
        ("A 40-year-old woman comes because of a rash.", "Anything else?", "I have a bad cough.", False),
    ],
)  # fmt: skip
def test_what_the_case_does_not_hold_is_still_found(vignette: str, question: str, reply: str, against: bool) -> None:
    found = [s for s in invented(vignette, question, reply) if not s.denial]

    assert len(found) == 1
    assert (found[0].contradicts is not None) is against


def test_an_age_of_long_ago_is_not_the_patients_age() -> None:
    vignette = "An 8-year-old boy comes because of dry skin."

    assert not invented(vignette, "Since when?", "It has been like this since he was a baby, about 6 months old.")
    assert invented(vignette, "How old is he?", "He is 3 years old.")[0].contradicts == "8-year-old-boy"
