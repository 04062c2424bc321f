"""Intervals of figures that are functions of sums over cases, such as a share of answers; cases are resampled.

A share of items has the smoothed interval (``core.stats.smoothed``). Other figures have percentiles of random
resamples, with a fixed seed and a correction for few cases (``core.stats.intervals``).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.errors import UsageError
from core.stats.bootstrap import MANY, SEED, drawn_cases, tail_of
from core.stats.intervals import NOTHING, Interval
from core.stats.smoothed import ratio_interval

Floats = NDArray[np.float64]
RESAMPLES = 2_000
_FEW = 8


def resampled_sums(by_case: ArrayLike, resamples: int = RESAMPLES, seed: int = SEED) -> Floats:
    """Return the column sums of a table case × column over cases drawn with replacement: resample × column."""
    table = np.asarray(by_case, dtype=np.float64)
    if table.ndim != 2 or not np.isfinite(table).all():
        raise UsageError("Resampling needs a table of numbers: a row for each case, without gaps.")
    if not table.size:
        return np.zeros((resamples, table.shape[1]))
    if len(table) >= MANY:
        rows, counts = np.unique(table, axis=0, return_counts=True)
        if len(rows) * _FEW <= len(table):  # one multinomial draw per resample counts each distinct row
            return np.random.default_rng(seed).multinomial(len(table), counts / len(table), resamples) @ rows
    return np.concatenate([drawn @ table for drawn in drawn_cases(len(table), resamples, seed)])


def percentiles(figures: ArrayLike, n_cases: int, level: float = 0.95) -> Interval:
    """Return the interval from a figure's values in resamples of ``n_cases`` cases; non-finite values are dropped."""
    values = np.asarray(figures, dtype=np.float64)
    values = values[np.isfinite(values)]
    if not values.size:
        return NOTHING
    tail = tail_of(n_cases, level, True)
    low, high = np.quantile(values, [tail, 1 - tail])
    return Interval(float(low), float(high))


def ratio_intervals(numerators: ArrayLike, denominators: ArrayLike, level: float = 0.95) -> list[Interval]:
    """Return the interval of the share Σ numerators / Σ denominators for each column of two tables case × column."""
    above, below = np.asarray(numerators, dtype=np.float64), np.asarray(denominators, dtype=np.float64)
    if above.shape != below.shape:
        raise UsageError("Ratios need as many numerators as denominators.")
    return [ratio_interval(above[:, column], below[:, column], level) for column in range(above.shape[1])]


def ratio(numerators: ArrayLike, denominators: ArrayLike) -> float:
    """Return Σ numerators / Σ denominators; NaN if the denominator is 0."""
    below = float(np.sum(np.asarray(denominators, dtype=np.float64)))
    return float(np.sum(np.asarray(numerators, dtype=np.float64))) / below if below else math.nan
