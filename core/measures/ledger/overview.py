"""Figures over ledgers: coverage turn by turn, and over many cases what a doctor never asks.

Comparable to Consultation's share of information uncovered (Liao et al., arXiv 2309.02077, metrics), which counts
words; here facts are counted. Intervals resample cases, as accuracies do (Johri et al. 2025, Methods).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from core.measures.ledger.marks import FactMark, Ledger
from core.stats.bootstrap import bootstrap_interval
from core.stats.intervals import Interval
from core.text.topics import TOPICS, Topic


@dataclass(frozen=True)
class Share:
    """A mean over cases with its 95 % interval; ``value`` is NaN where there is no case."""

    value: float
    interval: Interval


@dataclass(frozen=True)
class TopicRow:
    """What became of the facts of a topic; shares are means over cases of the share within a case."""

    topic: Topic
    cases: int
    facts: int
    """Facts of the topic over all conversations."""
    asked: Share
    volunteered: Share
    never_elicited: Share


def coverage(of: Ledger, told_only: bool = True) -> list[tuple[int, float]]:
    """Return (turn, share of the facts told up to it), one point a message; empty where there is no fact.

    ``told_only`` leaves out what only examination and tests show.
    """
    turns = [mark.turn for mark in of.marks if mark.fact.told or not told_only]
    if not turns:
        return []
    told = [turn for turn in turns if turn is not None]
    return [(number, sum(turn <= number for turn in told) / len(turns)) for number in range(of.turns)]


def never_asked(ledgers: Iterable[Ledger], told_only: bool = True) -> list[TopicRow]:
    """Return a row a topic that occurs, in the order of a history, over many conversations.

    The unit is the case: conversations about one case are joined first, so that cases of many trials weigh no more.
    """
    by_topic: dict[Topic, dict[str, list[FactMark]]] = defaultdict(lambda: defaultdict(list))
    for one in ledgers:
        for mark in one.marks:
            if mark.fact.told or not told_only:
                by_topic[mark.fact.topic][one.case_key].append(mark)
    return [_row(topic, list(by_topic[topic].values())) for topic in TOPICS if topic in by_topic]


def _row(topic: Topic, cases: Sequence[Sequence[FactMark]]) -> TopicRow:
    def share(holds: Callable[[FactMark], bool]) -> Share:
        return _mean([sum(map(holds, marks)) / len(marks) for marks in cases])

    return TopicRow(
        topic, len(cases), sum(map(len, cases)),
        share(lambda m: m.mark == "asked"), share(lambda m: m.mark == "volunteered"),
        share(lambda m: m.mark == "never_elicited"),
    )  # fmt: skip


def _mean(values: Sequence[float], shares: bool = True) -> Share:
    if not values:
        return Share(float("nan"), bootstrap_interval([]))
    return Share(sum(values) / len(values), bootstrap_interval(values, shares=shares))
