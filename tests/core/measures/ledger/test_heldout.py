"""The rules against eight dialogues that were written and marked after them: what they are worth on new wording.

These dialogues must not be tuned on: no rule or word may be added because a test here would then pass, and the bounds
stay a little below what the rules reached when they first met them (119 of 189 marks). The dialogues are harder than
most talk of models: their patients avoid the vignette's words on purpose. What is withheld and invented in them was
found too seldom by rules (4 of 19 and 10 of 20) for them to go on deciding it.
"""

from __future__ import annotations

import pytest

from core.agents.ledger_models import Mark
from core.measures.ledger.marks import MEASURED, Ledger, Measured, ledger
from core.text.facts import facts_of
from tests.core.measures.ledger.hand_marked import FOLDER, HELD_OUT, HandMarked, hand_marked

DIALOGUES = hand_marked(HELD_OUT)
LEAST_AGREEMENT = 0.60


@pytest.fixture(scope="module")
def ledgers() -> dict[str, Ledger]:
    return {one.name: ledger(one.case, one.dialogue) for one in DIALOGUES}


def test_the_eight_share_no_case_with_the_twelve() -> None:
    assert len(DIALOGUES) == 8
    assert sum(one.case.profile is not None for one in DIALOGUES) == 4
    assert not {one.case.case_key for one in DIALOGUES} & {one.case.case_key for one in hand_marked(FOLDER)}
    assert all(8 <= len(one.dialogue) <= 16 for one in DIALOGUES)


@pytest.mark.parametrize("one", DIALOGUES, ids=lambda one: one.name)
def test_every_fact_is_marked_by_hand_once(one: HandMarked) -> None:
    assert {fact.id for fact in facts_of(one.case)} == set(one.marks)
    assert set(one.withheld) <= set(one.marks)
    assert all(planted["words"] in one.dialogue[planted["turn"]].text for planted in one.invented)


def test_agreement_on_new_wording(ledgers: dict[str, Ledger]) -> None:
    pairs = [(mark.mark, one.marks[mark.fact.id][0]) for one in DIALOGUES for mark in ledgers[one.name].marks]

    assert len(pairs) == 189
    assert sum(rule == hand for rule, hand in pairs) >= LEAST_AGREEMENT * len(pairs)


def test_what_is_said_to_be_told_was_told(ledgers: dict[str, Ledger]) -> None:
    told = [
        (one.name, mark.fact.id, one.marks[mark.fact.id][1])
        for one in DIALOGUES
        for mark in ledgers[one.name].marks
        if mark.mark != "never_elicited"
    ]
    wrong = [(name, fact) for name, fact, turn in told if turn is None]

    assert len(told) >= 45
    assert len(wrong) <= 6, wrong


@pytest.mark.parametrize("mark", MEASURED)
def test_what_is_printed_beside_the_marks_is_what_is_measured(mark: Mark, ledgers: dict[str, Ledger]) -> None:
    """Of the facts that a patient can tell; what only tests show would make every figure look better."""
    pairs = [
        (found.mark == mark, one.marks[found.fact.id][0] == mark)
        for one in DIALOGUES
        for found in ledgers[one.name].marks
        if found.fact.told
    ]
    by_rule, by_hand = (sum(pair[who] for pair in pairs) for who in (0, 1))
    measured = Measured(pairs.count((True, True)), by_hand, by_rule)

    print(f"{mark}: recall {measured.recall:.2f} ({measured}), precision {measured.precision:.2f}")
    assert len(pairs) == 135
    assert MEASURED[mark] == measured


def test_a_fact_that_was_asked_for_and_kept_back_is_seldom_called_never_asked_for(ledgers: dict[str, Ledger]) -> None:
    """Else a doctor would be blamed for what it did ask."""
    kept_back = [
        mark
        for one in DIALOGUES
        for mark in ledgers[one.name].marks
        if mark.fact.id in one.withheld and one.marks[mark.fact.id][0] == "never_elicited"
    ]
    asked = [mark for mark in kept_back if mark.mark != "never_elicited" or mark.question_turn is not None]

    assert len(kept_back) == 19
    assert len(asked) >= 17
