"""Percentile bootstrap interval of a mean over cases (Johri et al. 2025, Methods: cases are resampled, not trials).

The interval is exact if the values lie on a lattice, as shares of a few trials do: the sum of a resample is then a
convolution of one small distribution with itself, and no random numbers are needed. Other values are resampled with a
fixed seed; from ``MANY`` cases they are rounded to a fine lattice instead, which is closer to endless resampling and
takes a twentieth of the time.
Intervals are expanded (``core.stats.intervals``): plain percentiles cover 93 % at 20 cases, not 95 %.
If all cases have the same score (all right, all wrong, a single case), all resamples are equal; a share then has
Wilson's interval, other means have none. Near such samples percentiles are too narrow, so the default for shares is
``core.stats.smoothed``.

Many means over the same cases share one draw of cases: the same resamples with the same seed, in a hundredth of the
time for hundreds of columns. A column without values for some cases takes the mean over the drawn cases with a value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy  # type: ignore[import-untyped]
from numpy.typing import ArrayLike, NDArray

from core.stats.intervals import NOTHING, Interval, expansion_of_mean, unless_alike, wilson_if_alike
from core.stats.scores import score_interval
from core.stats.smoothed import pseudo_shape, tail_share

Floats = NDArray[np.float64]

MAX_POINTS = 1 << 20
"""Support points of the resampled sum above which random resampling is cheaper than the exact method."""
MAX_DENOMINATOR = 1_000
RESAMPLES = 10_000
SEED = 20
_BLOCK = 500_000
_AT_ONCE = 500
_MAX_CACHED = 25_000_000
"""Largest number of draws (one byte each) that is cached for the next figure with the same number of cases."""
_ROUNDING = 1e-12
_TIE = 1e-6
"""Two means are equal if they are closer than this share of a lattice step."""
_FEW = 8
MANY = 1_000
"""Number of cases from which other values are rounded to ``_FINE`` steps: an error smaller than that of resampling."""
_FINE = 200


class Lattice(NamedTuple):
    """Values as ``low + step · ticks``."""

    low: float
    step: float
    ticks: NDArray[np.int64]

    @property
    def points(self) -> int:
        return int(self.ticks.max()) * self.ticks.size + 1


class Chance(NamedTuple):
    """Probability of a deviation larger than a distance, and of one equal to it."""

    beyond: float
    tied: float


class MeanDistribution(NamedTuple):
    """Possible means of a resample, ascending, and their probabilities."""

    means: Floats
    probabilities: Floats

    def interval(self, tail: float) -> Interval:
        """Return the bounds with at most the share ``tail`` of the probability outside on each side."""
        cumulated = np.cumsum(self.probabilities)
        low, high = np.searchsorted(cumulated, [tail - _ROUNDING, 1 - tail - _ROUNDING])
        last = self.means.size - 1
        return Interval(float(self.means[min(low, last)]), float(self.means[min(high, last)]))

    def chance_beyond(self, centre: float, distance: float) -> Chance:
        """Return the probability of a mean farther than ``distance`` from ``centre``, on both sides together."""
        spacing = self.means[1] - self.means[0] if self.means.size > 1 else 1.0
        excess = np.abs(self.means - centre) - distance
        tied = np.abs(excess) <= _TIE * spacing
        return Chance(float(self.probabilities[(excess > 0) & ~tied].sum()), float(self.probabilities[tied].sum()))


def bootstrap_interval(
    values: ArrayLike, level: float = 0.95, *, expanded: bool = True, shares: bool = True
) -> Interval:
    """Return the percentile bootstrap interval of the mean: exact if possible, else approximated or resampled.

    Args:
        values: One value per case; without values the bounds are NaN.
        level: Confidence level, between 0 and 1.
        expanded: Correct for few cases; without the correction the interval is that of the publication.
        shares: The values lie between 0 and 1; equal values then have Wilson's interval instead of NaN bounds.
    """
    exact = exact_interval(values, level, expanded=expanded, shares=shares)
    if exact is not None:
        return exact
    sample = np.asarray(values, dtype=float)
    even = 0 < np.ptp(sample) < _FINE / 10 * sample.std()  # a step is less than a tenth of a standard deviation
    if not even or not MANY <= sample.size <= MAX_POINTS // (_FINE + 2):
        return resampled_interval(sample, level, expanded=expanded, shares=shares)
    # each value is split between the two nearest steps, so that the mean does not change
    low, step = float(sample.min()), float(np.ptp(sample)) / _FINE
    below, beyond = np.divmod((sample - low) / step, 1)
    ticks = np.concatenate([below, below + 1]).astype(np.int64)
    one_draw = np.bincount(ticks, np.concatenate([1 - beyond, beyond]), _FINE + 2) / sample.size
    return _convolved(one_draw, sample.size, low, step).interval(tail_of(sample.size, level, expanded))


def exact_interval(
    values: ArrayLike, level: float = 0.95, *, expanded: bool = True, shares: bool = True
) -> Interval | None:
    """Return the limit of endless resampling, or ``None`` if the values fit no small lattice."""
    sample = np.asarray(values, dtype=float)
    if sample.size == 0:
        return NOTHING
    distribution = mean_distribution(sample)
    if distribution is None:
        return None
    interval = distribution.interval(tail_of(sample.size, level, expanded))
    return _unless_equal(interval, sample, level, shares) if expanded else interval


def resampled_interval(
    values: ArrayLike,
    level: float = 0.95,
    *,
    resamples: int = RESAMPLES,
    seed: int = SEED,
    expanded: bool = True,
    shares: bool = True,
) -> Interval:
    """Return the interval from ``resamples`` random resamples; the same seed gives the same interval."""
    sample = np.asarray(values, dtype=float)
    if sample.size == 0:
        return NOTHING
    tail = tail_of(sample.size, level, expanded)
    low, high = np.quantile(resampled_means(sample, resamples, seed), [tail, 1 - tail])
    interval = Interval(float(low), float(high))
    return _unless_equal(interval, sample, level, shares) if expanded else interval


def _unless_equal(interval: Interval, sample: Floats, level: float, shares: bool) -> Interval:
    # at a low level the bounds can meet although the values differ
    equal = math.isclose(float(sample.min()), float(sample.max()), abs_tol=_ROUNDING)
    if not equal:
        return interval
    return wilson_if_alike(interval, float(sample[0]), sample.size, level) if shares else NOTHING


def tail_of(n: int, level: float, expanded: bool) -> float:
    """Return the share of resamples outside the interval on each side."""
    return expansion_of_mean(n).tail(level) if expanded and n > 1 else (1 - level) / 2


def resampled_means(sample: Floats, resamples: int, seed: int) -> Floats:
    """Return the means of random resamples.

    With few distinct values, one multinomial draw per resample says how often each value is drawn. Otherwise cases are
    drawn one by one, in blocks to bound memory.
    """
    generator = np.random.default_rng(seed)
    n = sample.size
    distinct, counts = np.unique(sample, return_counts=True)
    if distinct.size * _FEW <= n:
        return np.asarray(generator.multinomial(n, counts / n, resamples) @ distinct / n)
    block = max(1, _BLOCK // n)
    sizes = [min(block, resamples - start) for start in range(0, resamples, block)]
    draws = (generator.integers(0, n, (size, n)) for size in sizes)
    return np.concatenate([sample[index].mean(axis=1) for index in draws])


def mean_distribution(sample: Floats, max_points: int = MAX_POINTS) -> MeanDistribution | None:
    """Return the distribution of a bootstrap mean, or ``None`` if the values fit no small lattice.

    The sum of n draws is distributed as the n-fold convolution of the distribution of one draw: its Fourier
    transform to the power n. The transform is accurate to about 1e-15, so smaller probabilities are noise.
    """
    lattice = find_lattice(sample)
    if lattice is None or lattice.points > max_points:
        return None
    return _convolved(np.bincount(lattice.ticks) / sample.size, sample.size, lattice.low, lattice.step)


def _convolved(one_draw: Floats, n: int, low: float, step: float) -> MeanDistribution:
    points = (one_draw.size - 1) * n + 1
    size = scipy.fft.next_fast_len(points, real=True)
    base, exponent = scipy.fft.rfft(one_draw, size), n
    result = np.ones_like(base)
    while exponent:  # exponentiation by squaring: ten times as fast as numpy's power, equally accurate
        if exponent & 1:
            result = result * base
        if exponent := exponent >> 1:
            base = base * base
    power = scipy.fft.irfft(result, size)[:points]
    probabilities = np.clip(power, 0, None)
    means = low + step * np.arange(points) / n
    return MeanDistribution(means, probabilities / probabilities.sum())


def find_lattice(sample: Floats, max_denominator: int = MAX_DENOMINATOR) -> Lattice | None:
    """Return the widest lattice through the values, or ``None`` if they are not fractions with a small denominator.

    With 5 trials a case the steps are 1/5; where the numbers of trials differ, 1 over their least common multiple.
    """
    distinct, position = np.unique(sample, return_inverse=True)
    fractions: list[Fraction] = []
    for value in distinct.tolist():  # ends at the first that is no such fraction: measured scores are none
        fractions.append(Fraction(value).limit_denominator(max_denominator))
        if abs(float(fractions[-1]) - value) > _ROUNDING * max(1, abs(value)):
            return None
    denominator = math.lcm(*(f.denominator for f in fractions))
    numerators = [int(f * denominator) for f in fractions]
    ticks = [n - numerators[0] for n in numerators]
    width = math.gcd(*ticks) or 1
    if ticks[-1] // width > MAX_POINTS:
        return None
    steps = np.array([tick // width for tick in ticks], dtype=np.int64)
    return Lattice(float(fractions[0]), width / denominator, steps[position])


FEW = 50
"""A column with values for fewer cases is resampled on its own: a draw from all cases could miss all of them."""


def column_intervals(
    matrix: Floats,
    level: float = 0.95,
    *,
    shares: Sequence[bool] | None = None,
    trials: Floats | None = None,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> list[Interval]:
    """Return the interval of each column's mean; rows are cases, NaN is a case without a value.

    Args:
        matrix: Case × column.
        level: Confidence level, between 0 and 1.
        shares: For each column, whether its values lie between 0 and 1 (default: no column); such a column has the
            interval of ``core.stats.scores``. The other columns are resampled together; equal values have NaN bounds.
        trials: Case × column: the number of trials whose mean a value is (default: 1).
        resamples: Number of resamples.
        seed: Seed of the random numbers.
    """
    present = ~np.isnan(matrix)
    counts = present.sum(axis=0)
    is_share = np.zeros(matrix.shape[1], dtype=bool) if shares is None else np.asarray(shares, dtype=bool)
    together = np.flatnonzero((counts >= FEW) & ~is_share)
    bounds = [NOTHING] * matrix.shape[1]
    for column in range(matrix.shape[1]):
        if is_share[column]:
            values = matrix[present[:, column], column]
            counted = 1 if trials is None else trials[present[:, column], column]
            bounds[column] = score_interval(values, level, trials=counted)
        elif counts[column] < FEW:
            bounds[column] = bootstrap_interval(matrix[present[:, column], column], level, shares=False)
    if together.size:
        means = _resampled_means(matrix[:, together], resamples, seed)
        for position, column in enumerate(together.tolist()):
            tail = tail_of(int(counts[column]), level, True)
            low, high = np.nanquantile(means[:, position], [tail, 1 - tail])
            bounds[column] = unless_alike(Interval(float(low), float(high)))
    return bounds


def _resampled_means(matrix: Floats, resamples: int, seed: int) -> Floats:
    present = ~np.isnan(matrix)
    filled, weights = np.where(present, matrix, 0.0), present.astype(np.float64)
    blocks = []
    for drawn in drawn_cases(matrix.shape[0], resamples, seed):
        n_values = float(matrix.shape[0]) if present.all() else drawn @ weights
        with np.errstate(invalid="ignore"):
            blocks.append((drawn @ filled) / n_values)
    return np.concatenate(blocks)


def drawn_cases(n: int, resamples: int, seed: int) -> Iterator[Floats]:
    """Yield the number of times that each case is drawn in each resample, in blocks to bound memory."""
    blocks = _cached_draws(n, resamples, seed) if n * resamples <= _MAX_CACHED else _draws(n, resamples, seed)
    return (block.astype(np.float64) for block in blocks)


@lru_cache(maxsize=2)
def _cached_draws(n: int, resamples: int, seed: int) -> list[NDArray[np.uint8]]:
    return list(_draws(n, resamples, seed))


def _draws(n: int, resamples: int, seed: int) -> Iterator[NDArray[np.uint8]]:
    generator = np.random.default_rng(seed)
    block = max(1, _BLOCK // n)
    for start in range(0, resamples, block):
        size = min(block, resamples - start)
        index = generator.integers(0, n, (size, n)) + n * np.arange(size)[:, None]
        # no case is ever drawn 256 times in n draws from n
        yield np.bincount(index.ravel(), minlength=size * n).reshape(size, n).astype(np.uint8)


def weighted_interval(
    figure: Callable[[Floats], Floats], counts: ArrayLike, pseudo_cases: int, resamples: int = RESAMPLES
) -> Interval:
    """Return the 95 % interval of a figure that is no mean, by random weights as in ``core.stats.smoothed``.

    Args:
        figure: Takes resample × weight, of the distinct cases and then of the pseudo-cases; returns a value for each
            resample.
        counts: How many cases each distinct case stands for.
        pseudo_cases: Their number; together they weigh as much as the two of a mean.
        resamples: Their number, a multiple of 500.
    """
    n = int(np.sum(counts))
    shapes = np.append(np.asarray(counts, dtype=np.float64), np.full(pseudo_cases, 2 * pseudo_shape(n) / pseudo_cases))
    rng = np.random.default_rng(SEED)
    drawn = (rng.standard_gamma(shapes, (_AT_ONCE, shapes.size)) for _ in range(resamples // _AT_ONCE))
    tail = tail_share(n, 0.95)
    low, high = np.quantile(np.concatenate([figure(weights) for weights in drawn]), [tail, 1 - tail])
    return Interval(float(low), float(high))
