"""Figures of repeated trials of a case: reliability (pass^k), flips, and the share of the variance between cases.

All functions take counts by case: of ``counted`` trials, ``correct`` were right. Cases with too few trials for a figure
are left out, and the result has their number.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.errors import UsageError
from core.stats.bootstrap import RESAMPLES
from core.stats.intervals import NOTHING, Interval, unless_alike
from core.stats.ratios import percentiles, resampled_sums
from core.stats.smoothed import mean_interval

Floats = NDArray[np.float64]


class Share(NamedTuple):
    """A mean over cases, 0 to 1 (NaN without cases), the number of cases in it and left out, and its interval."""

    value: float
    n_cases: int
    n_left_out: int
    interval: Interval


class VarianceComponents(NamedTuple):
    """Variance of scores (0 to 1) of single trials: between the true means of cases, and within a case.

    ``between`` is an unbiased estimate and can be negative. ``trials_per_case`` is the effective mean for unequal
    numbers of trials. All are NaN if no case has two trials or if there is only one case.
    """

    between: float
    within: float
    trials_per_case: float
    n_cases: int

    @property
    def icc(self) -> float:
        """Intraclass correlation: the share of variance between cases; 1 if the trials of each case always agree."""
        total = self.between + self.within
        return self.between / total if total else float("nan")


def pass_hat_k(correct: ArrayLike, counted: ArrayLike, k: int) -> Share:
    """Return pass^k: the probability that ``k`` trials of a case are all right, averaged over cases.

    Unbiased for each case: C(correct, k) / C(counted, k) (Yao et al. 2024, τ-bench). Cases with fewer than ``k``
    trials are left out. ``k`` = 1 is accuracy.
    """
    if k < 1:
        raise UsageError("pass^k needs k of at least 1.")
    right, trials = _counts(correct, counted)
    enough = trials >= k
    steps = np.arange(k)
    chances = (right[enough, None] - steps).clip(0) / (trials[enough, None] - steps)
    return _share(chances.prod(axis=1), trials)


def flip_rate(correct: ArrayLike, counted: ArrayLike) -> Share:
    """Return the share of cases whose trials disagree, of those with at least two trials."""
    right, trials = _counts(correct, counted)
    enough = trials >= 2
    return _share(((right > 0) & (right < trials))[enough].astype(np.float64), trials)


def icc_interval(correct: ArrayLike, counted: ArrayLike) -> Interval:
    """Return the interval of the one-way intraclass correlation of single trials, resampled by case.

    The bounds are NaN if the trials of each case always agree, or if all cases are equal: all resamples are then equal.
    """
    right, trials = _counts(correct, counted)
    used = trials > 0
    right, trials = right[used], trials[used]
    if not right.size or math.isnan(variance_components(right, trials).icc):
        return NOTHING
    columns = np.column_stack([np.ones(right.size), trials, trials**2, right, right**2 / trials])
    k, n, squared, total, of_means = resampled_sums(columns, RESAMPLES).T
    with np.errstate(divide="ignore", invalid="ignore"):
        within = (total - of_means) / (n - k)
        per_case = (n - squared / n) / (k - 1)
        between = ((of_means - total**2 / n) / (k - 1) - within) / per_case
        return unless_alike(percentiles(between / (between + within), right.size))


def variance_components(sums: ArrayLike, counted: ArrayLike, squares: ArrayLike | None = None) -> VarianceComponents:
    """Return the components of a one-way random-effects analysis of variance, cases as groups.

    ``sums`` and ``squares`` are the sum and the sum of squares of a case's scores; for right or wrong (1 or 0) both are
    the number of right trials.
    """
    totals, trials = _counts(sums, counted, binary=squares is None)
    squared = totals if squares is None else np.asarray(squares, dtype=np.float64)
    used = trials > 0
    totals, trials, squared = totals[used], trials[used], squared[used]
    k, n = trials.size, trials.sum()
    if k < 2 or n == k:
        nan = float("nan")
        return VarianceComponents(nan, nan, nan, k)
    within = float((squared - totals**2 / trials).sum() / (n - k))
    mean_square = float((trials * (totals / trials - totals.sum() / n) ** 2).sum() / (k - 1))
    per_case = float((n - (trials**2).sum() / n) / (k - 1))
    return VarianceComponents((mean_square - within) / per_case, within, per_case, k)


def _counts(correct: ArrayLike, counted: ArrayLike, *, binary: bool = True) -> tuple[Floats, Floats]:
    right, trials = np.asarray(correct, dtype=np.float64), np.asarray(counted, dtype=np.float64)
    if right.ndim != 1 or right.shape != trials.shape:
        raise UsageError("Each case needs two numbers: its right trials and its counted trials.")
    if binary and ((right < 0) | (right > trials)).any():
        raise UsageError("A case cannot have more right trials than trials.")
    return right, trials


def _share(values: Floats, trials: Floats) -> Share:
    mean = float(values.mean()) if values.size else float("nan")
    return Share(mean, values.size, trials.size - values.size, mean_interval(values))
