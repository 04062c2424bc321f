"""Intervals of a mean and of a share in closed form, and the correction of the bootstrap for few cases.

``t_interval`` is the classical interval of normal theory; ``wilson`` is that of a share of independent items such as
cases, and works when all items are equal. A resample of n cases varies less than a new sample, by (n − 1)/n, and
ignores the t distribution: plain percentiles are too narrow and plain p-values too small below some 50 cases. Expanded
ones are corrected (Hesterberg, The American Statistician 69 (2015), 371–386).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy  # type: ignore[import-untyped]
from numpy.typing import ArrayLike


class Interval(NamedTuple):
    """Lower and upper bound, in the unit of the values; both NaN if there is no interval."""

    low: float
    high: float


NOTHING = Interval(float("nan"), float("nan"))


def t_interval(values: ArrayLike, level: float = 0.95) -> Interval:
    """Return mean ± t(n − 1) · sd / √n, sd with n − 1 in the denominator; NaN for fewer than two values.

    This is the interval of the tables of Johri et al. 2025. It may reach beyond 0 and 1.
    """
    sample = np.asarray(values, dtype=float)
    n = sample.size
    if n < 2:
        return NOTHING
    half = float(scipy.special.stdtrit(n - 1, (1 + level) / 2)) * float(sample.std(ddof=1)) / n**0.5
    mean = float(sample.mean())
    return Interval(mean - half, mean + half)


def wilson(count: float, n: int, level: float = 0.95) -> Interval:
    """Return Wilson's score interval of ``count`` of ``n`` (Wilson 1927, JASA 22:209); NaN if ``n`` is 0.

    ``count`` need not be an integer: among numbers between 0 and 1 with the same mean, zeros and ones vary most, so
    the interval is conservative for all others.
    """
    if not n:
        return NOTHING
    z2 = float(scipy.special.ndtri((1 + level) / 2)) ** 2
    share = count / n
    centre, half = share + z2 / (2 * n), math.sqrt(z2 * (share * (1 - share) / n + z2 / (4 * n * n)))
    low, high = ((centre - half) / (1 + z2 / n), (centre + half) / (1 + z2 / n))
    return Interval(0.0 if count <= 0 else low, 1.0 if count >= n else high)


def wilson_if_alike(resampled: Interval, share: float, cases: int, level: float = 0.95) -> Interval:
    """Return the resampled interval of a share (0 to 1), or Wilson's over the cases if the resampled bounds meet.

    If all cases are equal (all answers right, say), so are all resamples: they say nothing about other cases.
    """
    if not math.isclose(resampled.low, resampled.high, rel_tol=1e-9, abs_tol=1e-12):
        return resampled
    return wilson(share * cases, cases, level)


def unless_alike(resampled: Interval) -> Interval:
    """Return the resampled interval, or NaN if its bounds meet: resamples that are all equal say nothing."""
    return NOTHING if math.isclose(resampled.low, resampled.high, rel_tol=1e-9, abs_tol=1e-12) else resampled


class Expansion(NamedTuple):
    """How much too small bootstrap deviations are.

    ``shrinkage``: bootstrap standard error over the unbiased one, at most 1. ``df``: degrees of freedom of t.
    """

    shrinkage: float
    df: float

    def tail(self, level: float) -> float:
        """Return the share to cut off on each side for an interval of this level: less than (1 − level)/2."""
        t = float(scipy.special.stdtrit(self.df, (1 + level) / 2))
        return float(scipy.special.ndtr(-t / self.shrinkage))

    def p(self, p: float) -> float:
        """Return the corrected two-sided p-value, never smaller than ``p``."""
        z = -float(scipy.special.ndtri(p / 2))
        return min(1.0, 2 * float(scipy.special.stdtr(self.df, -z * self.shrinkage)))


def expansion_of_mean(n: int) -> Expansion:
    """Return the correction for the mean of ``n`` ≥ 2 cases (or paired differences)."""
    return Expansion(((n - 1) / n) ** 0.5, n - 1)


def expansion_of_difference(first: ArrayLike, second: ArrayLike) -> Expansion:
    """Return the correction for the difference of the means of two independent samples of at least two values.

    The degrees of freedom are Welch's (Biometrika 34 (1947), 28–35). Not all values of both samples may be equal.
    """
    samples = [np.asarray(values, dtype=float) for values in (first, second)]
    sizes = np.array([sample.size for sample in samples], dtype=float)
    variances = np.array([sample.var(ddof=1) for sample in samples]) / sizes
    shrinkage = (float(variances @ ((sizes - 1) / sizes)) / float(variances.sum())) ** 0.5
    return Expansion(shrinkage, float(variances.sum() ** 2 / (variances**2 / (sizes - 1)).sum()))
