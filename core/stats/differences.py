"""Comparison of two arms (or models, or versions) on the same cases: difference of means, interval, two-sided p-value.

``paired_difference`` serves every comparison of two paired samples. p is that of the exact sign-flip test (Fisher, The
Design of Experiments (1935), section 21): if the arms were equal, each case's difference could as well have the other
sign, and p is the share of all 2ⁿ choices of signs with a mean at least as far from 0 as the observed mean. For yes/no
values this is McNemar's exact test. The interval is the smoothed one (``core.stats.smoothed``) of the differences,
which lie between −1 and 1; it contains 0 if p is above 1 − level, and otherwise at most ends there.

``bootstrap_difference`` is the comparison by resampling of Johri et al. 2025, Methods, corrected for few cases;
``benchmarks.paper_bootstrap`` has the published digits. ``unpaired_difference`` is that of their preprint (medRxiv
2023.09.12.23295399), which resamples the two arms independently.

``mcnemar`` compares paired yes/no judgements: whether two models (or judges) differ on the same items.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import scipy  # type: ignore[import-untyped]
from numpy.typing import ArrayLike, NDArray

from core.errors import UsageError
from core.stats.bootstrap import (
    MAX_POINTS,
    RESAMPLES,
    SEED,
    Chance,
    MeanDistribution,
    find_lattice,
    mean_distribution,
    resampled_means,
    tail_of,
)
from core.stats.intervals import (
    NOTHING,
    Expansion,
    Interval,
    expansion_of_difference,
    expansion_of_mean,
    t_interval,
    unless_alike,
)
from core.stats.scores import right_or_wrong
from core.stats.smoothed import mean_interval

Floats = NDArray[np.float64]
TestEngine = Literal["auto", "exact", "resampled"]

FLOOR = 1e-10
"""Smallest exact p-value before the small-sample correction: the rounding errors of the transform, summed over a tail,
are 2e-12 at 8,000 cases. A p-value at this floor is an upper bound."""
_TIE = 1e-12
_SAME = 1e-11
"""Two differences of means are equal if they are closer than this: a hundredth of the step of arms of 10,000 cases."""
_NEGLIGIBLE = 1e-18
_MOST_ENUMERATED = 20
"""Largest number of differences without a lattice for which all choices of signs are enumerated."""
_SIGN_BLOCK = 2_000


@dataclass(frozen=True)
class Difference:
    """Mean of the first arm minus mean of the second, in the unit of the scores.

    ``n`` is the number of cases (of the smaller arm, if unpaired arms differ); with fewer than two, p and bounds are
    NaN. ``engine`` says whether p is exact or from random draws.
    """

    mean: float
    interval: Interval
    p: float
    n: int
    engine: Literal["exact", "resampled"]


def changes(after: ArrayLike, before: ArrayLike) -> Floats:
    """Return after − before, 0 where they differ only by rounding (0.1 + 0.2 and 0.3)."""
    a, b = np.asarray(after, dtype=np.float64), np.asarray(before, dtype=np.float64)
    difference = a - b
    return np.where(np.abs(difference) <= _TIE * np.maximum(np.abs(a), np.abs(b)), 0.0, difference)


def mean_change(differences: ArrayLike) -> float:
    """Return the mean of ``changes``, 0 where they cancel but for rounding; NaN without values."""
    values = np.asarray(differences, dtype=np.float64)
    if not values.size:
        return math.nan
    mean = float(values.mean())
    return mean if abs(mean) > _TIE * float(np.abs(values).mean()) else 0.0


def paired_difference(
    first: ArrayLike, second: ArrayLike, level: float = 0.95, *, most: float | None = 1.0, scores: bool = False
) -> Difference:
    """Compare two arms on the same cases, in the same order.

    Args:
        first: One score per case.
        second: The other arm's score of the same case.
        level: Confidence level, between 0 and 1.
        most: The largest possible difference: 1 for shares; ``None`` for measures without a limit, such as lengths.
        scores: Whether values are scores with any value (``core.stats.scores``), not shares of right trials. The
            interval is then Student's, as it is without a limit: a difference as large as the limit is no likely one.
    """
    a, b = _paired_scores(first, second)
    differences = changes(a, b)
    n = differences.size
    mean = mean_change(differences)
    if n < 2:
        return Difference(mean, NOTHING, float("nan"), n, "exact")
    p, engine = sign_flip_p(differences)
    limit = math.inf if most is None else most
    if np.abs(differences).max() > limit + _TIE:
        raise UsageError(f"A difference is larger than {limit:g}, the largest possible one.")
    if most is None or (scores and not right_or_wrong(np.concatenate([a, b]))):
        low, high = np.clip(t_interval(differences, level), -limit, limit).tolist()
        interval = unless_alike(Interval(low, high))
    else:
        interval = mean_interval(np.clip(differences, -limit, limit), level, low=-limit, high=limit)
    return Difference(mean, _consistent(interval, mean, p <= 1 - level), p, n, engine)


def _consistent(interval: Interval, mean: float, significant: bool) -> Interval:
    """Return the interval; if it contradicts the test, its bound between the mean and 0 is moved to 0.

    With few cases the exact test is stricter than the interval, and uses only the observed sizes of differences.
    """
    low, high = interval
    if mean > 0 and (low > 0) != significant:
        low = 0.0
    elif mean < 0 and (high < 0) != significant:
        high = 0.0
    return Interval(low, high)


def sign_flip_p(differences: ArrayLike) -> tuple[float, Literal["exact", "resampled"]]:
    """Return the two-sided p-value of the sign-flip test that the mean difference is 0, and the method.

    The p-value is exact if the differences lie on a lattice, as those of shares of a few trials do (the sum is a
    convolution), or if at most 20 differences are not 0; otherwise it comes from 10,000 random choices of signs with a
    fixed seed. The smallest value is 2 / 2ⁿ, or 1e-10 (an upper bound) on a lattice with many cases.
    """
    values = np.asarray(differences, dtype=np.float64)
    sizes, total = np.abs(values[values != 0]), abs(float(values.sum()))
    if not sizes.size or total <= _TIE * sizes.sum():
        return 1.0, "exact"
    reached = total - 1e-9 * float(sizes.sum())
    lattice = find_lattice(np.append(0.0, sizes))
    if lattice is not None and 2 * int(lattice.ticks.sum()) < MAX_POINTS:
        ticks = lattice.ticks[1:]
        points = scipy.fft.next_fast_len(2 * int(ticks.sum()) + 1, real=True)
        transform = np.ones(points // 2 + 1)
        for tick, count in zip(*np.unique(ticks, return_counts=True), strict=True):
            transform *= np.cos(2 * np.pi * (tick * np.arange(transform.size) % points) / points) ** count
        chances = scipy.fft.irfft(transform, points).clip(0)
        least = int(np.ceil(reached / lattice.step - 1e-6))
        return min(1.0, max(FLOOR, float(chances[least : points - least + 1].sum()))), "exact"
    if sizes.size <= _MOST_ENUMERATED:
        sums = sizes[:1]  # the first sign is fixed: flipping all signs gives the same distances from 0
        for size in sizes[1:]:
            sums = np.concatenate([sums + size, sums - size])
        return float(np.mean(np.abs(sums) >= reached)), "exact"
    generator, hits = np.random.default_rng(SEED), 0
    # the sum of each choice out of eight sizes: a resample is then a look-up for every eight of its signs
    eights = np.pad(sizes, (0, -sizes.size % 8)).reshape(-1, 8)
    of_eight = eights @ np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).T.astype(np.float64)
    for start in range(0, RESAMPLES, _SIGN_BLOCK):
        shape = (min(_SIGN_BLOCK, RESAMPLES - start), sizes.size)
        bits = np.frombuffer(generator.bytes(shape[0] * shape[1] // 8 + 1), dtype=np.uint8)
        positive = np.packbits(np.unpackbits(bits)[: shape[0] * shape[1]].reshape(shape), axis=1)
        sums = of_eight.take(positive + 256 * np.arange(positive.shape[1])).sum(axis=1)
        hits += int(np.sum(np.abs(2 * sums - sizes.sum()) >= reached))
    return (hits + 1) / (RESAMPLES + 1), "resampled"


def bootstrap_difference(
    first: ArrayLike,
    second: ArrayLike,
    level: float = 0.95,
    *,
    engine: TestEngine = "auto",
    expanded: bool = True,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> Difference:
    """Compare two arms on the same cases by the bootstrap over cases.

    Args:
        first: One score per case.
        second: The other arm's score of the same case.
        level: Confidence level, between 0 and 1.
        engine: ``auto`` is exact if the differences lie on a lattice, else resampled; ``exact`` raises ``UsageError``
            if that is not possible.
        expanded: Correct for few cases (``core.stats.intervals``). Without the correction p and percentiles are those
            of the publication, apart from its random numbers.
        resamples: Number of resamples.
        seed: Seed of the random numbers.
    """
    a, b = _paired_scores(first, second)
    differences = changes(a, b)
    n = differences.size
    mean = mean_change(differences)
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
    p = _p(_resampled_chance(means, mean), mean, expansion, 0.0)
    low, high = np.quantile(means, [tail, 1 - tail])
    return Difference(mean, Interval(float(low), float(high)), p, n, "resampled")


def unpaired_difference(
    first: ArrayLike,
    second: ArrayLike,
    level: float = 0.95,
    *,
    engine: TestEngine = "auto",
    expanded: bool = True,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> Difference:
    """Compare two arms by the bootstrap that resamples each of them independently; they may have different cases.

    p is the share of resamples whose difference of means is at least as far from the observed difference as this is
    from 0. On the same cases the test ignores that their scores are correlated, so p is larger than that of
    ``bootstrap_difference`` and the interval wider. If no score differs within either arm, resamples say nothing: the
    bounds are NaN, and so is p unless the means are equal.

    Args:
        first: One score per case.
        second: One score per case of the other arm.
        level: Confidence level, between 0 and 1.
        engine: ``auto`` is exact if the scores of each arm lie on a lattice, else resampled; ``exact`` raises
            ``UsageError`` if that is not possible.
        expanded: Correct for few cases: bootstrap variances are too small by (n − 1)/n, and t has Welch's degrees of
            freedom. Without the correction p and percentiles are those of the preprint, apart from its random numbers.
        resamples: Number of resamples.
        seed: Seed of the random numbers.
    """
    a, b = _scores(first), _scores(second)
    n = min(a.size, b.size)
    mean = float(changes(a.mean(), b.mean())) if n else float("nan")
    if n < 2:
        return Difference(mean, NOTHING, float("nan"), n, "exact")
    if not np.ptp(a) and not np.ptp(b):
        return Difference(mean, NOTHING, 1.0 if abs(mean) < _TIE else float("nan"), n, "exact")
    expansion = expansion_of_difference(a, b) if expanded else None
    tail = expansion.tail(level) if expansion else (1 - level) / 2
    first_means, second_means = (None if engine == "resampled" else mean_distribution(arm) for arm in (a, b))
    if first_means is not None and second_means is not None:
        exact = _IndependentMeans(first_means, second_means)
        p = _p(exact.chance_beyond(mean, abs(mean)), mean, expansion, FLOOR)
        return Difference(mean, unless_alike(exact.interval(tail)), p, n, "exact")
    if engine == "exact":
        raise UsageError("The exact bootstrap needs scores that are fractions of a few trials: use resampling.")
    differences = resampled_means(a, resamples, seed) - resampled_means(b, resamples, seed + 1)
    chance = _resampled_chance(differences, mean)
    low, high = np.quantile(differences, [tail, 1 - tail])
    return Difference(
        mean, unless_alike(Interval(float(low), float(high))), _p(chance, mean, expansion, 0.0), n, "resampled"
    )


class _IndependentMeans:
    """The distribution of the difference between two independently resampled means.

    The means of arms of different sizes share no lattice: probabilities are sums over the means of the first arm.
    """

    def __init__(self, first: MeanDistribution, second: MeanDistribution) -> None:
        likely = first.probabilities > _NEGLIGIBLE
        self._first, self._chances = first.means[likely], first.probabilities[likely]
        self._second = second.means
        self._at_most = np.concatenate([[0.0], np.cumsum(second.probabilities)])

    def at_most(self, bound: float) -> float:
        """Return P(first − second ≤ bound); ties count."""
        below = np.searchsorted(self._second, self._first - bound - _SAME, side="left")
        return float(self._chances @ (1 - self._at_most[below]))

    def at_least(self, bound: float) -> float:
        """Return P(first − second ≥ bound); ties count."""
        up_to = np.searchsorted(self._second, self._first - bound + _SAME, side="right")
        return float(self._chances @ self._at_most[up_to])

    def chance_beyond(self, centre: float, distance: float) -> Chance:
        """Return the probability of a difference farther than ``distance`` from ``centre``, on both sides together."""
        low, high = centre - distance, centre + distance
        beyond = self.at_most(low - 3 * _SAME) + self.at_least(high + 3 * _SAME)
        return Chance(beyond, max(0.0, self.at_most(low) + self.at_least(high) - beyond))

    def interval(self, tail: float) -> Interval:
        """Return the bounds with at most the share ``tail`` of the probability outside on each side."""
        return Interval(self._quantile(tail), self._quantile(1 - tail))

    def _quantile(self, share: float) -> float:
        low = float(self._first[0] - self._second[-1]) - 1e-6
        high = float(self._first[-1] - self._second[0])
        while high - low > _SAME:
            middle = (low + high) / 2
            if self.at_most(middle) >= share - _TIE:
                high = middle
            else:
                low = middle
        return round(high, 10)


def _resampled_chance(differences: Floats, observed: float) -> Chance:
    """Return the shares of resampled differences farther from the observed one than this is from 0, and as far.

    The observed sample counts as one more extreme resample, so that no p-value is 0.
    """
    excess = np.abs(differences - observed) - abs(observed)
    tied = np.abs(excess) <= _TIE
    beyond, at = int(np.sum((excess > 0) & ~tied)) + 1, int(np.sum(tied))
    return Chance(beyond / (differences.size + 1), at / (differences.size + 1))


def _p(chance: Chance, mean: float, expansion: Expansion | None, floor: float) -> float:
    """Return the two-sided p-value: ties count in full, or half with the expansion (mid-p)."""
    if abs(mean) < _TIE:
        return 1.0
    if expansion is None:
        return min(1.0, max(floor, chance.beyond + chance.tied))
    return expansion.p(min(1.0, max(floor, chance.beyond + chance.tied / 2)))


def _paired_scores(first: ArrayLike, second: ArrayLike) -> tuple[Floats, Floats]:
    a, b = _scores(first), _scores(second)
    if a.size != b.size:
        raise UsageError("Paired arms need the same cases: only cases that count on both sides can be compared.")
    return a, b


def _scores(values: ArrayLike) -> Floats:
    scores = np.asarray(values, dtype=np.float64)
    if scores.ndim != 1 or not np.isfinite(scores).all():
        raise UsageError("A comparison needs one number for each case, without gaps.")
    return scores


class PairedCounts(NamedTuple):
    """Number of items with a yes from both judges, only the first, only the second, and neither."""

    both: int
    first_only: int
    second_only: int
    neither: int

    @property
    def agreement(self) -> float:
        """Share (0 to 1) of items with the same judgement from both; NaN without items."""
        return (self.both + self.neither) / sum(self) if sum(self) else float("nan")

    @property
    def kappa(self) -> float:
        """Cohen's kappa, −1 to 1; NaN if agreement by chance is already 1."""
        first, second, n = self.both + self.first_only, self.both + self.second_only, max(1, sum(self))
        by_chance = (first * second + (n - first) * (n - second)) / n**2
        return (self.agreement - by_chance) / (1 - by_chance) if by_chance < 1 else float("nan")


class McNemar(NamedTuple):
    """``statistic``: the smaller discordant count (exact) or chi-square (asymptotic); ``p`` is two-sided."""

    statistic: float
    p: float
    counts: PairedCounts


def paired_counts(first: Sequence[bool], second: Sequence[bool]) -> PairedCounts:
    """Count paired judgements; raises ``UsageError`` if the numbers of judgements differ."""
    if len(first) != len(second):
        raise UsageError("Paired judgements need one of each for every item.")
    pairs = [(bool(a), bool(b)) for a, b in zip(first, second, strict=True)]
    return PairedCounts(*(pairs.count(kind) for kind in ((True, True), (True, False), (False, True), (False, False))))


def mcnemar(counts: PairedCounts, *, exact: bool = True, continuity: bool = True) -> McNemar:
    """Return the exact (binomial) test, or chi-square with or without continuity correction.

    Only items with different judgements carry information; without any, p is 1.
    """
    if not counts.first_only + counts.second_only:
        return McNemar(0.0, 1.0, counts)
    from statsmodels.stats import contingency_tables  # type: ignore[import-untyped]  # slow to load

    table = [[counts.both, counts.first_only], [counts.second_only, counts.neither]]
    result = contingency_tables.mcnemar(table, exact=exact, correction=continuity)
    return McNemar(float(result.statistic), min(1.0, float(result.pvalue)), counts)
