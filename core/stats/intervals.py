"""An interval: the bounds of a mean, and the classical one from the normal theory."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special  # type: ignore[import-untyped]


class Interval(NamedTuple):
    """Lower and upper bound, in the unit of the values; both NaN where there is nothing to say."""

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
    half = float(special.stdtrit(n - 1, (1 + level) / 2)) * float(sample.std(ddof=1)) / n**0.5
    mean = float(sample.mean())
    return Interval(mean - half, mean + half)
