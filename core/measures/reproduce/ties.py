"""How far exact ties leave the paper's p-value open: whether a resample that ties counts is up to rounding errors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.stats.paper import DIGITS, RESAMPLES, resamples_of

_NEAR = 1e-9
_BLOCK = 500


class Band(NamedTuple):
    """The p-value if no tie counts, and if every one does."""

    low: float
    high: float


def tie_band(first: ArrayLike, second: ArrayLike) -> Band:
    """Return the smallest and the largest p-value that the paper's resamples allow, rounded as printed."""
    differences = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    observed = differences.mean()
    excess = np.abs(_means(differences) - observed) - abs(observed)
    return Band(*(round((int(np.sum(excess > bound)) + 1) / (RESAMPLES + 1), DIGITS) for bound in (_NEAR, -_NEAR)))


def _means(differences: NDArray[np.float64]) -> NDArray[np.float64]:
    counts = resamples_of(differences.size).counts
    blocks = (counts[start : start + _BLOCK].astype(np.float64) for start in range(0, RESAMPLES, _BLOCK))
    return np.concatenate([block @ differences for block in blocks]) / differences.size
