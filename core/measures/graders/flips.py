"""How often a grader contradicts itself: on the same words in several answers, and on one answer judged again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from core.stats.intervals import Interval
from core.stats.ratios import ratio_intervals
from core.store.database import Store
from core.store.queries.graders import FlipCount, flip_counts


@dataclass(frozen=True)
class FlipRate:
    """``both`` of ``pairs`` that a grader met more than once were judged right at one time and not at another.

    ``same`` is what was met again: the ``response``, the ``diagnosis`` read out of it, or the ``answer`` itself, under
    the same prompts. The interval resamples right answers with all their pairs.
    """

    grader: str
    same: str
    pairs: int
    both: int
    verdicts: int
    interval: Interval

    @property
    def share(self) -> float:
        """The share of pairs that got both verdicts, 0 to 1."""
        return self.both / self.pairs


def flip_rates(store: Store, runs: Sequence[str] | None = None) -> list[FlipRate]:
    """Return the flip rates of every grader that met anything again, in all runs or in some."""
    with store.read() as cursor:
        counts = flip_counts(cursor, runs)
    kinds = sorted({(one.grader, one.same) for one in counts})
    by_answer: dict[int, dict[tuple[str, str], FlipCount]] = {}
    for one in counts:
        by_answer.setdefault(one.right_answer, {})[one.grader, one.same] = one
    both, pairs = (_table(by_answer.values(), kinds, name) for name in ("both", "pairs"))
    intervals = ratio_intervals(both, pairs) if kinds else []
    return [_rate(kind, counts, interval) for kind, interval in zip(kinds, intervals, strict=True)]


def _rate(kind: tuple[str, str], counts: Sequence[FlipCount], interval: Interval) -> FlipRate:
    mine = [one for one in counts if (one.grader, one.same) == kind]
    pairs, both, verdicts = (sum(getattr(one, name) for one in mine) for name in ("pairs", "both", "verdicts"))
    return FlipRate(*kind, pairs=pairs, both=both, verdicts=verdicts, interval=interval)


def _table(
    by_answer: Iterable[Mapping[tuple[str, str], FlipCount]], kinds: Sequence[tuple[str, str]], name: str
) -> list[list[int]]:
    """Return right answer × kind: how many pairs, or how many judged both ways."""
    return [[getattr(held[kind], name) if kind in held else 0 for kind in kinds] for held in by_answer]
