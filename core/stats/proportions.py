"""Intervals of shares of independent items, such as cases: also where resampling them says nothing."""

from __future__ import annotations

import math

from scipy import special  # type: ignore[import-untyped]

from core.stats.intervals import NOTHING, Interval


def wilson(count: float, n: int, level: float = 0.95) -> Interval:
    """Return Wilson's score interval of ``count`` of ``n`` (Wilson 1927, JASA 22:209); NaN for none.

    ``count`` need not be whole: of numbers between 0 and 1 that have the same mean, zeros and ones vary most, so that
    the interval is on the safe side for any others.
    """
    if not n:
        return NOTHING
    z2 = float(special.ndtri((1 + level) / 2)) ** 2
    share = count / n
    centre, half = share + z2 / (2 * n), math.sqrt(z2 * (share * (1 - share) / n + z2 / (4 * n * n)))
    low, high = ((centre - half) / (1 + z2 / n), (centre + half) / (1 + z2 / n))
    return Interval(0.0 if count <= 0 else low, 1.0 if count >= n else high)


def wilson_if_alike(resampled: Interval, share: float, cases: int, level: float = 0.95) -> Interval:
    """Return the interval of a share, 0 to 1, as resampled; where its bounds meet, Wilson's over the cases.

    Cases that are all alike, as where all answers are right, are alike in every resample: that says nothing about
    other cases.
    """
    if not math.isclose(resampled.low, resampled.high, rel_tol=1e-9, abs_tol=1e-12):
        return resampled
    return wilson(share * cases, cases, level)
