"""Coverage by turn."""

from __future__ import annotations

from core.agents.ledger_models import Mark
from core.measures.ledger.marks import FactMark, Ledger, coverage
from core.text.facts import AtomicFact
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


def test_coverage_leaves_out_what_only_tests_show() -> None:
    one = of("a", mark("1", "asked", 1), mark("2", "never_elicited", told=False), turns=2)

    assert coverage(one) == [(0, 0.0), (1, 1.0)]
    assert coverage(of("a", turns=2)) == []
