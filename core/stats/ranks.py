"""Which ranks are compatible with the scores of several conditions on the same cases.

``rank_ranges`` gives each condition an interval of ranks from the differences of all pairs, after Mogstad, Romano,
Shaikh and Wilhelm (Inference for Ranks …, Review of Economic Studies 91 (2024), section 3.1): if no pair is wrongly
called different, a condition's true rank lies between 1 + the number of conditions that are significantly better, and
n − the number that are significantly worse. Their bootstrap of the largest difference is replaced by the exact
sign-flip test of each pair (``core.stats.differences``), which has no error of approximation with few cases, and Holm's
correction over all pairs, so that all ranges together contain the true ranks with the chance ``level``.

The rule of public leaderboards (1 + the number of conditions whose lower bound is above one's upper bound) compares
intervals of each condition alone: it ignores that the conditions answered the same cases, and gives no last rank.
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.errors import UsageError
from core.stats.corrections import adjusted
from core.stats.differences import sign_flip_p


class RankRange(NamedTuple):
    """The ranks that a condition can have, 1 is best; conditions with equal true means share their best rank."""

    best: int
    worst: int

    @property
    def words(self) -> str:
        return f"{self.best}" if self.best == self.worst else f"{self.best}–{self.worst}"


def pair_p_values(scores: ArrayLike) -> NDArray[np.float64]:
    """Return the p-value of each pair of conditions, corrected by Holm over all pairs; 1 on the diagonal.

    Args:
        scores: Case × condition; any unit, no gaps.

    Returns:
        Condition × condition, symmetric, 0 to 1. With fewer than two cases nothing can be tested: all are 1.
    """
    table = np.asarray(scores, dtype=np.float64)
    if table.ndim != 2 or not np.isfinite(table).all():
        raise UsageError("A ranking needs a score of each condition for each case, without gaps.")
    count = table.shape[1]
    pairs = list(combinations(range(count), 2))
    p_values = np.ones((count, count))
    if table.shape[0] > 1:
        tests = (sign_flip_p(table[:, first] - table[:, second])[0] for first, second in pairs)
        for (first, second), p in zip(pairs, adjusted(tests, "holm"), strict=True):
            p_values[first, second] = p_values[second, first] = p
    return p_values


def rank_ranges(scores: ArrayLike, p_values: NDArray[np.float64], level: float = 0.95) -> list[RankRange]:
    """Return the range of ranks of each condition; a higher mean is better.

    Args:
        scores: Case × condition, as for ``pair_p_values``.
        p_values: The result of ``pair_p_values`` for these scores.
        level: The chance, between 0 and 1, that all ranges contain the true ranks.
    """
    means = np.asarray(scores, dtype=np.float64).mean(axis=0)
    different = p_values <= 1 - level
    better = means[:, None] > means[None, :]
    n_better = (different & better).sum(axis=0)
    n_worse = (different & better).sum(axis=1)
    return [RankRange(1 + int(above), means.size - int(below)) for above, below in zip(n_better, n_worse, strict=True)]
