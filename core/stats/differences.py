"""Bootstrap comparison of two arms (or models, or versions): difference of means, interval, two-sided p-value.

p is the chance that a resampled difference lies at least as far from the observed one as the observed one lies from
zero (Johri et al. 2025, Methods); ``core.stats.paper`` has the published digits. By default p and interval are expanded
for few cases, and resamples at exactly that distance count half: with 20 cases they hold 5 % and 95 %, the plain ones
6.4 % and 93.5 % (benchmarks/bench_stats.py). With hundreds of cases the two hardly differ.

McNemar's test is that of paired yes/no judgements: whether two models (or judges) differ on the same items.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.errors import UsageError
from core.stats.bootstrap import RESAMPLES, SEED, Chance, mean_distribution, resampled_means, tail_of
from core.stats.intervals import NOTHING, Expansion, Interval, expansion_of_mean

Floats = NDArray[np.float64]
Engine = Literal["auto", "exact", "resampled"]

FLOOR = 1e-10
"""Smallest exact p-value before the small-sample correction: the transform's rounding errors, summed over a tail, are
2e-12 at 8,000 cases. A p-value at its floor means "at most this"."""
_TIE = 1e-12


@dataclass(frozen=True)
class Difference:
    """Mean of the first arm minus mean of the second, in the unit of the scores.

    ``n`` counts cases. p and bounds are NaN where there are fewer than two.
    """

    mean: float
    interval: Interval
    p: float
    n: int
    engine: Literal["exact", "resampled"]


def paired_difference(
    first: ArrayLike,
    second: ArrayLike,
    level: float = 0.95,
    *,
    engine: Engine = "auto",
    expanded: bool = True,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> Difference:
    """Compare two arms on the same cases, given in the same order.

    ``engine``: ``auto`` is exact where the differences lie on a lattice, else resampled; ``exact`` raises
    ``UsageError`` where that is not possible. ``expanded`` corrects for few cases; see ``core.stats.intervals``.
    Without it p and percentiles are the plain ones of the publication, but for its random numbers.
    """
    a, b = _scores(first), _scores(second)
    if a.size != b.size:
        raise UsageError("Paired arms need the same cases: compare arms of different cases as unpaired.")
    differences = a - b
    n = differences.size
    mean = float(differences.mean()) if n else float("nan")
    if n < 2:
        return Difference(mean, NOTHING, float("nan"), n, "exact")
    expansion = expansion_of_mean(n) if expanded else None
    tail = tail_of(n, level, expanded)
    distribution = None if engine == "resampled" else mean_distribution(differences)
    if distribution is not None:
        p = _p(distribution.chance_beyond(mean, abs(mean)), mean, expansion, FLOOR)
        return Difference(mean, distribution.interval(tail), p, n, "exact")
    if engine == "exact":
        raise UsageError("The exact bootstrap needs scores that are fractions of a few trials: use resampling.")
    means = resampled_means(differences, resamples, seed)
    excess = np.abs(means - mean) - abs(mean)
    tied = np.abs(excess) <= _TIE
    # The observed sample counts as one more resample, beyond: no p-value is 0.
    beyond, at = int(np.sum((excess > 0) & ~tied)) + 1, int(np.sum(tied))
    p = _p(Chance(beyond / (means.size + 1), at / (means.size + 1)), mean, expansion, 0.0)
    low, high = np.quantile(means, [tail, 1 - tail])
    return Difference(mean, Interval(float(low), float(high)), p, n, "resampled")


def _p(chance: Chance, mean: float, expansion: Expansion | None, floor: float) -> float:
    """Return the two-sided p-value: ties count in full in the plain one, half in the expanded one (mid-p)."""
    if abs(mean) < _TIE:
        return 1.0
    if expansion is None:
        return min(1.0, max(floor, chance.beyond + chance.tied))
    return expansion.p(min(1.0, max(floor, chance.beyond + chance.tied / 2)))


def _scores(values: ArrayLike) -> Floats:
    scores = np.asarray(values, dtype=np.float64)
    if scores.ndim != 1 or not np.isfinite(scores).all():
        raise UsageError("A comparison needs one number for each case, without gaps.")
    return scores


class PairedCounts(NamedTuple):
    """How many items got yes from both, from the first alone, from the second alone, from neither."""

    both: int
    first_only: int
    second_only: int
    neither: int

    @property
    def agreement(self) -> float:
        """The share (0 to 1) of items that got the same from both; NaN without items."""
        return (self.both + self.neither) / sum(self) if sum(self) else float("nan")

    @property
    def kappa(self) -> float:
        """Cohen's kappa; NaN where chance alone would make it 1."""
        first, second, n = self.both + self.first_only, self.both + self.second_only, max(1, sum(self))
        by_chance = (first * second + (n - first) * (n - second)) / n**2
        return (self.agreement - by_chance) / (1 - by_chance) if by_chance < 1 else float("nan")


class McNemar(NamedTuple):
    """``statistic``: the smaller discordant count (exact) or chi-square (asymptotic); ``p`` is two-sided."""

    statistic: float
    p: float
    counts: PairedCounts


def paired_counts(first: Sequence[bool], second: Sequence[bool]) -> PairedCounts:
    """Count paired judgements; raises ``UsageError`` where they do not pair up."""
    if len(first) != len(second):
        raise UsageError("Paired judgements need one of each for every item.")
    pairs = [(bool(a), bool(b)) for a, b in zip(first, second, strict=True)]
    return PairedCounts(*(pairs.count(kind) for kind in ((True, True), (True, False), (False, True), (False, False))))


def mcnemar(counts: PairedCounts, *, exact: bool = True, continuity: bool = True) -> McNemar:
    """Return the test by the binomial distribution, or by chi-square with or without continuity correction.

    Only items on which the two differ carry information; without any, p is 1.
    """
    if not counts.first_only + counts.second_only:
        return McNemar(0.0, 1.0, counts)
    from statsmodels.stats import contingency_tables  # type: ignore[import-untyped]  # slow to load

    table = [[counts.both, counts.first_only], [counts.second_only, counts.neither]]
    result = contingency_tables.mcnemar(table, exact=exact, correction=continuity)
    return McNemar(float(result.statistic), min(1.0, float(result.pvalue)), counts)
