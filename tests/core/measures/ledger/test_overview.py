"""Coverage by turn, and what a doctor never asks over many cases."""

from __future__ import annotations

from core.measures.ledger.marks import FactMark, Ledger, coverage, never_asked
from core.text.facts import AtomicFact
from core.text.judged import Mark
from core.text.topics import Topic


def fact(id_: str, topic: Topic = "onset", told: bool = True) -> AtomicFact:
    return AtomicFact(id=id_, key="k", text=id_, lay=id_, told=told, topic=topic)


def mark(id_: str, what: Mark, turn: int | None = None, **fields: object) -> FactMark:
    return FactMark(fact(id_, **fields), what, turn)  # type: ignore[arg-type]


def of(case_key: str, *marks: FactMark, turns: int = 4) -> Ledger:
    return Ledger(case_key, turns, marks, ())


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
    ledgers = [of("a", mark("1", "asked", 1)) for _ in range(3)] + [of("b", mark("1", "never_elicited"))]

    (row,) = never_asked(ledgers)

    assert (row.topic, row.cases, row.facts) == ("onset", 2, 4)
    assert (row.asked.value, row.never_elicited.value, row.volunteered.value) == (0.5, 0.5, 0)
    assert row.asked.interval.low <= 0.5 <= row.asked.interval.high


def test_topics_come_in_the_order_of_a_history() -> None:
    marks = [mark("1", "asked", 1, topic="medication"), mark("2", "asked", 1, topic="demographics")]
    shown = mark("3", "never_elicited", topic="imaging", told=False)

    assert [row.topic for row in never_asked([of("a", *marks, shown)])] == ["demographics", "medication"]
    assert [row.topic for row in never_asked([of("a", *marks, shown)], told_only=False)][-1] == "imaging"
