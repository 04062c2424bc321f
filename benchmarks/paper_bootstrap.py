"""The significance test of the published tables, digit for digit (Johri et al. 2025, Methods).

The resamples depend only on the number of cases, so one matrix serves every test of that size. If rounding errors
decide whether a resample counts, its mean is computed again in the order of operations of the published loop.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.callbacks import ProgressCallback
from core.errors import UsageError

Floats = NDArray[np.float64]

SEED = 20
RESAMPLES = 10_000
DIGITS = 4
_BLOCK_ROWS = 500
_NEAR = 1e-9
"""Far above the rounding error of a mean of thousands of scores, far below the distance of two possible means."""


class _Pair(NamedTuple):
    first: Floats
    second: Floats
    differences: Floats

    def deviation(self, drawn: Floats) -> Floats:
        """Return mean(drawn) − mean(differences) of each row, in the published test's order of operations."""
        return np.mean((self.second + drawn) - self.first, axis=-1)  # type: ignore[no-any-return]


class Resamples(NamedTuple):
    """The cases of each resample in the order of drawing, and the count of each case; both (resamples, n)."""

    drawn: NDArray[np.unsignedinteger]
    counts: NDArray[np.uint8]


def paper_p_values(
    tests: Sequence[tuple[ArrayLike, ArrayLike]], progress: ProgressCallback = lambda done, planned: None
) -> list[float]:
    """Return the published two-sided p-value, rounded to 4 decimals, of each pair of arms on the same cases.

    An arm has one value per case, in the order of the data set's file: the float64 mean of its trials. The order of
    cases and the order of the arms (as in the tables) are part of the result: they decide rounding errors, and these
    decide ties. NaN without cases. Tests of the same size are much faster in one call.
    """
    pairs = [_pair(first, second) for first, second in tests]
    positions: dict[int, list[int]] = defaultdict(list)
    for position, pair in enumerate(pairs):
        positions[pair.first.size].append(position)
    results = [float("nan")] * len(pairs)
    done = 0
    for n, members in positions.items():
        if n:
            for position, p in zip(members, _p_values([pairs[m] for m in members]), strict=True):
                results[position] = p
        done += len(members)
        progress(done, len(pairs))
    return results


@lru_cache(maxsize=2)
def resamples_of(n: int) -> Resamples:
    """Return the 10,000 resamples of ``n`` cases that successive calls of ``RandomState(20).choice`` draw.

    About 60 MB for 2,000 cases; the two latest sizes are cached.
    """
    generator = np.random.RandomState(SEED)
    drawn = np.empty((RESAMPLES, n), dtype=np.min_scalar_type(max(n - 1, 1)))
    counts = np.empty((RESAMPLES, n), dtype=np.uint8)
    for start in range(0, RESAMPLES, _BLOCK_ROWS):
        block = generator.randint(0, n, size=(_BLOCK_ROWS, n))
        rows = slice(start, start + _BLOCK_ROWS)
        drawn[rows] = block
        block += n * np.arange(_BLOCK_ROWS)[:, np.newaxis]
        counts[rows] = np.bincount(block.ravel(), minlength=block.size).reshape(block.shape)
    return Resamples(drawn, counts)


def _p_values(pairs: list[_Pair]) -> list[float]:
    """Return the p-value of each pair; all pairs have the same number of cases."""
    columns = np.column_stack([pair.differences for pair in pairs])
    resamples = resamples_of(len(columns))
    blocks = (resamples.counts[start : start + _BLOCK_ROWS] for start in range(0, RESAMPLES, _BLOCK_ROWS))
    means = np.concatenate([block.astype(np.float64) @ columns for block in blocks]) / len(columns)
    return [_p_value(means[:, i], pair, resamples) for i, pair in enumerate(pairs)]


def _p_value(means: Floats, pair: _Pair, resamples: Resamples) -> float:
    observed = np.mean(pair.differences)
    if not observed:
        return 1.0
    excess = np.abs(means - observed) - np.abs(observed)
    close = np.abs(excess) < _NEAR
    # Scores are fractions of a few trials, so exact ties are common; the last bits of the published loop's sums decide.
    recomputed = pair.deviation(pair.differences[resamples.drawn[close]])
    hits = int(np.sum(excess[~close] > 0)) + int(np.sum(np.abs(recomputed) >= np.abs(observed)))
    return round((hits + 1) / (RESAMPLES + 1), DIGITS)


def _pair(first: ArrayLike, second: ArrayLike) -> _Pair:
    a, b = (np.ascontiguousarray(scores, dtype=np.float64) for scores in (first, second))
    if a.ndim != 1 or a.shape != b.shape or not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise UsageError("The paper's test needs one score of either arm for each case, without gaps.")
    return _Pair(a, b, a - b)


class Band(NamedTuple):
    """The p-value if no exact tie between resamples counts, and if every tie counts."""

    low: float
    high: float


def tie_band(first: ArrayLike, second: ArrayLike) -> Band:
    """Return the smallest and the largest p-value that the resamples allow, rounded as printed."""
    differences = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    observed = differences.mean()
    counts = resamples_of(differences.size).counts
    blocks = (counts[start : start + _BLOCK_ROWS].astype(np.float64) for start in range(0, RESAMPLES, _BLOCK_ROWS))
    means = np.concatenate([block @ differences for block in blocks]) / differences.size
    excess = np.abs(means - observed) - abs(observed)
    return Band(*(round((int(np.sum(excess > bound)) + 1) / (RESAMPLES + 1), DIGITS) for bound in (_NEAR, -_NEAR)))
