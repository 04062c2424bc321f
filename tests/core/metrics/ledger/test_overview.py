"""Coverage by turn, what a doctor never asks over many cases, and ledgers one after the other."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from core.agents.base import Turn
from core.case import Case
from core.metrics.ledger import (
    AtomicFact,
    FactMark,
    Ledger,
    Mark,
    Statement,
    Topic,
    coverage,
    invented_per_conversation,
    ledgers_of,
    never_asked,
)
from tests.core.metrics.ledger.hand_marked import talk


def fact(id_: str, topic: Topic = "onset", told: bool = True) -> AtomicFact:
    return AtomicFact(id=id_, key="k", text=id_, lay=id_, told=told, topic=topic)


def mark(id_: str, what: Mark, turn: int | None = None, withheld: int | None = None, **fields: object) -> FactMark:
    return FactMark(fact(id_, **fields), what, turn, None, withheld)  # type: ignore[arg-type]


def of(case_key: str, *marks: FactMark, turns: int = 4, invented: int = 0, denials: int = 0) -> Ledger:
    said = [Statement(1, "x", None, denial) for denial in [False] * invented + [True] * denials]
    return Ledger(case_key, turns, marks, tuple(said), ())


def test_coverage_rises_with_every_fact_told() -> None:
    one = of(
        "a", mark("1", "asked", 1), mark("2", "volunteered", 3), mark("3", "never_elicited"), mark("4", "asked", 3)
    )

    assert coverage(one) == [(0, 0.0), (1, 0.25), (2, 0.25), (3, 0.75)]


def test_coverage_leaves_out_what_only_tests_show_unless_asked_for() -> None:
    one = of("a", mark("1", "asked", 1), mark("2", "never_elicited", told=False), turns=2)

    assert coverage(one) == [(0, 0.0), (1, 1.0)]
    assert coverage(one, told_only=False) == [(0, 0.0), (1, 0.5)]
    assert coverage(of("a", turns=2)) == []


def test_a_case_with_many_trials_weighs_no_more_than_one_with_few() -> None:
    ledgers = [of("a", mark("1", "asked", 1)) for _ in range(3)] + [of("b", mark("1", "never_elicited", None, 3))]

    (row,) = never_asked(ledgers)

    assert (row.topic, row.cases, row.facts) == ("onset", 2, 4)
    assert (row.asked.value, row.never_elicited.value, row.volunteered.value, row.withheld.value) == (0.5, 0.5, 0, 0.5)
    assert row.asked.interval.low <= 0.5 <= row.asked.interval.high


def test_topics_come_in_the_order_of_a_history() -> None:
    marks = [mark("1", "asked", 1, topic="medication"), mark("2", "asked", 1, topic="demographics")]
    shown = mark("3", "never_elicited", topic="imaging", told=False)

    assert [row.topic for row in never_asked([of("a", *marks, shown)])] == ["demographics", "medication"]
    assert [row.topic for row in never_asked([of("a", *marks, shown)], told_only=False)][-1] == "imaging"


def test_inventions_are_counted_by_case_without_plain_denials() -> None:
    ledgers = [of("a", invented=2, denials=5), of("a", invented=0), of("b", invented=4)]

    assert invented_per_conversation(ledgers).value == pytest.approx(2.5)
    assert math.isnan(invented_per_conversation([]).value)


CASE = Case(case_key="t/1", dataset="t", specialty="Other", answer="Gout", vignette="He has a fever.")


def endless(taken: list[int]) -> Iterator[tuple[Case, tuple[Turn, ...]]]:
    while True:
        taken.append(1)
        yield CASE, talk("What symptoms do you have?", "I have a fever.")


def test_a_stream_of_ledgers_reports_and_stops() -> None:
    done: list[int] = []
    taken: list[int] = []

    found = list(ledgers_of(endless(taken), progress=done.append, stop=lambda: len(done) == 3))

    assert [one.of("fever").mark for one in found] == ["asked"] * 3
    assert done == [1, 2, 3]
    assert len(taken) == 4


def test_a_stream_takes_edited_facts() -> None:
    own = {(CASE.case_key, CASE.content_hash): [fact("chills")]}

    (found,) = ledgers_of([(CASE, talk("What symptoms do you have?", "I have chills."))], overrides=own)

    assert [(m.fact.id, m.mark) for m in found.marks] == [("chills", "asked")]
