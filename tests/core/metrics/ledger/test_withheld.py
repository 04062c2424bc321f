"""What counts as withheld: the doctor must have asked for just that, and the reply must deny it or not know it."""

from __future__ import annotations

import pytest

from core.case import Case
from core.metrics.ledger import Ledger, ledger
from core.metrics.ledger.withheld import asked_part
from tests.core.metrics.ledger.hand_marked import talk

CASE = Case(
    case_key="t/2", dataset="t", specialty="Neurology", answer="Migraine", synonyms=(),
    vignette=(
        "A 40-year-old woman comes to the clinic because of a headache for 3 weeks. She has a history of asthma. She "
        "takes metformin. She was born at term. She has vomiting. Her appetite is normal. She has no history of "
        "seizures. Her father had a stroke."
    ),
)  # fmt: skip
ASTHMA, METFORMIN, TERM, VOMITING = "history-of-asthma", "takes-metformin", "was-born-at-term", "vomiting"
STROKE, SEIZURES = "her-father-had-a-stroke", "no-history-of-seizures"


def withheld(question: str, reply: str) -> set[str]:
    return {m.fact.id for m in told(question, reply).marks if m.withheld_turn == 3}


def told(question: str, reply: str) -> Ledger:
    return ledger(CASE, talk("What brings you in?", "My head hurts.", question, reply))


@pytest.mark.parametrize(
    ("question", "reply", "expected"),
    [
        ("Do you have any other medical conditions?", "No, I don't.", {ASTHMA}),
        ("Do you have asthma?", "No.", {ASTHMA}),
        ("Are you taking any medications?", "I don't know.", {METFORMIN}),
        ("Have you been vomiting?", "No, I haven't.", {VOMITING}),
        ("Were you born at term?", "I don't know.", {TERM}),
        ("Is there any illness in your family?", "No, none that I know of.", {STROKE}),
        ("Do you have any chronic conditions or take any medicines?", "No.", {ASTHMA, METFORMIN}),
    ],
)
def test_what_was_asked_for_and_denied_or_not_known_is_withheld(question: str, reply: str, expected: set[str]) -> None:
    assert withheld(question, reply) == expected


@pytest.mark.parametrize(
    ("question", "reply"),
    [
        ("Do you have a history of diabetes or epilepsy?", "No, I have no history of those."),
        ("Is there a family history of blood disorders?", "No, nobody in my family has that."),
        ("Have there been any changes in your medications?", "No, nothing has changed."),
        ("Have you started any new medications?", "No, I haven't."),
        ("Are you taking any medications for your headache?", "No, nothing for the headache."),
        ("Have you had a headache like this before?", "No, never."),
        ("Does the pain burn?", "No, it doesn't burn."),
        ("Has your appetite changed?", "No, it hasn't changed."),
        ("Have you had seizures?", "No."),
        ("Any weakness?\n[Note: the patient may have asthma and take metformin.]", "No."),
    ],
)
def test_a_question_for_something_else_withholds_nothing(question: str, reply: str) -> None:
    assert withheld(question, reply) == set()


def test_births_must_be_asked_for_as_such() -> None:
    assert TERM not in withheld("Do you have any medical conditions?", "No, I don't.")
    assert TERM not in withheld("Do you take any long-term medicines or have any illnesses?", "No.")


def test_a_family_that_is_healthy_does_not_withhold_the_patients_own_past() -> None:
    assert ASTHMA not in withheld("Do your parents have any illnesses?", "I don't know about my family.")
    assert ASTHMA not in withheld("Does anyone in your family have asthma?", "No.")


def test_what_is_said_before_the_question_asks_for_nothing() -> None:
    assert asked_part("I see. You may have asthma. Any fever?") == "Any fever?"
    assert asked_part("Tell me about your pain.") == "Tell me about your pain."
