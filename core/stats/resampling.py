"""Bootstrap intervals of many means over the same cases at once: one draw of cases serves every column.

The same resamples as ``core.stats.bootstrap.resampled_interval`` with the same seed, in a hundredth of the time where
there are hundreds of columns. A column that some cases lack takes the mean over those that were drawn and have it. A
column of shares, 0 to 1, that is the same in all cases has Wilson's interval, as there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from core.stats.bootstrap import RESAMPLES, SEED, resampled_interval, tail_of
from core.stats.intervals import NOTHING, Interval
from core.stats.proportions import wilson_if_alike

Floats = NDArray[np.float64]
FEW = 50
"""A column that fewer cases have is resampled by itself: a draw from all cases could hold none of them."""
_BLOCK = 2_000_000


def column_intervals(
    matrix: Floats,
    level: float = 0.95,
    *,
    shares: Sequence[bool] | None = None,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> list[Interval]:
    """Return the interval of each column's mean; rows are cases, NaN is a case without a value.

    ``shares`` says of each column whether its values lie between 0 and 1; none does if it is not given.
    """
    present = ~np.isnan(matrix)
    counts = present.sum(axis=0)
    many = np.flatnonzero(counts >= FEW)
    bounds = [
        resampled_interval(matrix[present[:, c], c], level, resamples=resamples, seed=seed, shares=False)
        if counts[c] < FEW else NOTHING
        for c in range(matrix.shape[1])
    ]  # fmt: skip
    if many.size:
        means = _resampled_means(matrix[:, many], resamples, seed)
        for position, column in enumerate(many):
            tail = tail_of(int(counts[column]), level, True)
            low, high = np.nanquantile(means[:, position], [tail, 1 - tail])
            bounds[column] = Interval(float(low), float(high))
    return [
        wilson_if_alike(found, float(matrix[present[:, c], c].mean()), int(counts[c]), level)
        if share and counts[c] else found
        for c, (found, share) in enumerate(zip(bounds, shares or [False] * len(bounds), strict=True))
    ]  # fmt: skip


def _resampled_means(matrix: Floats, resamples: int, seed: int) -> Floats:
    """Return the columns' means in each resample."""
    present = ~np.isnan(matrix)
    filled = np.where(present, matrix, 0.0)
    whole = bool(present.all())
    weights = present.astype(np.float64)
    blocks = []
    for drawn in drawn_cases(matrix.shape[0], resamples, seed):
        held = float(matrix.shape[0]) if whole else drawn @ weights
        with np.errstate(invalid="ignore"):
            blocks.append((drawn @ filled) / held)
    return np.concatenate(blocks)


def drawn_cases(n: int, resamples: int, seed: int) -> Iterator[Floats]:
    """Yield, in blocks to bound memory, how often each case is drawn in each resample."""
    generator = np.random.default_rng(seed)
    block = max(1, _BLOCK // n)
    for start in range(0, resamples, block):
        size = min(block, resamples - start)
        index = generator.integers(0, n, (size, n)) + n * np.arange(size)[:, None]
        yield np.bincount(index.ravel(), minlength=size * n).reshape(size, n).astype(np.float64)
