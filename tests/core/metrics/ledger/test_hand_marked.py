"""The rules against twelve dialogues that were marked by hand before any rule was run on them."""

from __future__ import annotations

import pytest

from core.metrics.ledger import Ledger, facts_of, ledger
from tests.core.metrics.ledger.hand_marked import HandMarked, hand_marked

DIALOGUES = hand_marked()
LEAST_AGREEMENT = 0.95
MOST_FALSE_INVENTIONS = 3


@pytest.fixture(scope="module")
def ledgers() -> dict[str, Ledger]:
    return {one.name: ledger(one.case, one.dialogue) for one in DIALOGUES}


def test_half_of_the_twelve_cases_have_a_profile_and_many_inventions_are_planted() -> None:
    assert len(DIALOGUES) == 12
    assert sum(one.case.profile is not None for one in DIALOGUES) == 6
    assert all(8 <= len(one.dialogue) <= 16 for one in DIALOGUES)
    assert sum(len(one.invented) for one in DIALOGUES) >= 10
    assert sum(planted["contradicts"] is not None for one in DIALOGUES for planted in one.invented) >= 5


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
def test_every_planted_invention_is_found(one: HandMarked, ledgers: dict[str, Ledger]) -> None:
    for planted in one.invented:
        found = [s for s in ledgers[one.name].invented if s.turn == planted["turn"] and planted["words"] in s.text]
        assert found, planted


def test_contradictions_name_the_fact(ledgers: dict[str, Ledger]) -> None:
    against = [(one.name, p) for one in DIALOGUES for p in one.invented if p["contradicts"] is not None]
    named = [p for name, p in against if any(s.contradicts == p["contradicts"] for s in ledgers[name].invented)]

    assert len(named) >= 0.9 * len(against)


def test_little_is_taken_for_invented_that_is_not(ledgers: dict[str, Ledger]) -> None:
    false = [
        (one.name, statement)
        for one in DIALOGUES
        for statement in ledgers[one.name].invented
        if not any(statement.turn == p["turn"] and p["words"] in statement.text for p in one.invented)
    ]

    assert len(false) <= MOST_FALSE_INVENTIONS, false


def test_what_was_withheld_is_mostly_seen(ledgers: dict[str, Ledger]) -> None:
    hand = {(one.name, id_, turn) for one in DIALOGUES for id_, turn in one.withheld.items()}
    rules = {
        (one.name, mark.fact.id, mark.withheld_turn)
        for one in DIALOGUES
        for mark in ledgers[one.name].marks
        if mark.withheld_turn is not None
    }

    assert len(hand & rules) >= 0.6 * len(hand)
    assert len(rules - hand) <= 3, rules - hand


@pytest.mark.parametrize("one", DIALOGUES, ids=lambda one: one.name)
def test_only_the_patient_who_names_the_disease_leaks_it(one: HandMarked, ledgers: dict[str, Ledger]) -> None:
    assert list(ledgers[one.name].leaked) == one.leaked
