"""The rules against eight dialogues that were written and marked after them: what they are worth on new wording.

These dialogues must not be tuned on: no rule or word may be added because a test here would then pass, and the bounds
stay a little below what the rules reached when they first met them (119 of 189 marks, 10 of 20 planted inventions, 8
false ones). Of 19 withheld facts they found 6 at first, with 6 false ones, and 4, with 3 false ones, since a fact
must be asked for by itself to be withheld. The dialogues are harder than most talk of models: their patients avoid the
vignette's words on purpose.
"""

from __future__ import annotations

import pytest

from core.metrics.ledger import Ledger, facts_of, ledger
from tests.core.metrics.ledger.hand_marked import FOLDER, HELD_OUT, HandMarked, hand_marked

DIALOGUES = hand_marked(HELD_OUT)
LEAST_AGREEMENT = 0.60
LEAST_FOUND = 0.45
MOST_FALSE_INVENTIONS = 9
MOST_FALSELY_WITHHELD = 6


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


def test_planted_inventions(ledgers: dict[str, Ledger]) -> None:
    planted = [(one.name, p) for one in DIALOGUES for p in one.invented if not p.get("denial")]
    found = [p for name, p in planted if any(_is(p, s.turn, s.text) for s in ledgers[name].invented)]
    false = [
        (one.name, s.text)
        for one in DIALOGUES
        for s in ledgers[one.name].invented
        if not s.denial and not any(_is(p, s.turn, s.text) for p in one.invented)
    ]

    assert len(planted) == 20
    assert len(found) >= LEAST_FOUND * len(planted)
    assert len(false) <= MOST_FALSE_INVENTIONS, false


def test_little_is_called_withheld_that_was_not(ledgers: dict[str, Ledger]) -> None:
    hand = {(one.name, fact, turn) for one in DIALOGUES for fact, turn in one.withheld.items()}
    rules = {
        (one.name, mark.fact.id, mark.withheld_turn)
        for one in DIALOGUES
        for mark in ledgers[one.name].marks
        if mark.withheld_turn is not None
    }

    assert len(hand & rules) >= 3
    assert len(rules - hand) <= MOST_FALSELY_WITHHELD, rules - hand


def _is(planted: dict[str, object], turn: int, text: str) -> bool:
    return planted["turn"] == turn and str(planted["words"]) in text
