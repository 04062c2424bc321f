"""The rules against twelve dialogues that were marked by hand before any rule was run on them."""

from __future__ import annotations

import pytest

from core.measures.ledger.marks import Ledger, ledger
from core.text.facts import facts_of
from tests.core.measures.ledger.hand_marked import HandMarked, hand_marked

DIALOGUES = hand_marked()
LEAST_AGREEMENT = 0.95


@pytest.fixture(scope="module")
def ledgers() -> dict[str, Ledger]:
    return {one.name: ledger(one.case, one.dialogue) for one in DIALOGUES}


def test_half_of_the_twelve_cases_have_a_profile() -> None:
    assert len(DIALOGUES) == 12
    assert sum(one.case.profile is not None for one in DIALOGUES) == 6
    assert all(8 <= len(one.dialogue) <= 16 for one in DIALOGUES)


@pytest.mark.parametrize("one", DIALOGUES, ids=lambda one: one.name)
def test_every_fact_is_marked_by_hand(one: HandMarked) -> None:
    assert {fact.id for fact in facts_of(one.case)} == set(one.marks)


def test_the_rules_agree_with_the_marks(ledgers: dict[str, Ledger]) -> None:
    pairs = [(mark.mark, one.marks[mark.fact.id][0]) for one in DIALOGUES for mark in ledgers[one.name].marks]

    assert len(pairs) > 250
    assert sum(rule == hand for rule, hand in pairs) >= LEAST_AGREEMENT * len(pairs)


@pytest.mark.parametrize("one", DIALOGUES, ids=lambda one: one.name)
def test_no_dialogue_is_marked_badly(one: HandMarked, ledgers: dict[str, Ledger]) -> None:
    wrong = [m.fact.id for m in ledgers[one.name].marks if m.mark != one.marks[m.fact.id][0]]

    assert len(wrong) <= 0.12 * len(one.marks), wrong


def test_told_facts_are_found_in_the_right_message(ledgers: dict[str, Ledger]) -> None:
    told = [
        (mark.turn, one.marks[mark.fact.id][1])
        for one in DIALOGUES
        for mark in ledgers[one.name].marks
        if mark.turn is not None and one.marks[mark.fact.id][1] is not None
    ]

    assert len(told) > 100
    assert sum(rule == hand for rule, hand in told) >= LEAST_AGREEMENT * len(told)


@pytest.mark.parametrize("one", DIALOGUES, ids=lambda one: one.name)
def test_only_the_patient_who_names_the_disease_leaks_it(one: HandMarked, ledgers: dict[str, Ledger]) -> None:
    assert list(ledgers[one.name].leaked) == one.leaked
