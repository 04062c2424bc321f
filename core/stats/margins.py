"""Non-inferiority of two arms on the same cases.

The data are the differences of cases, second arm minus first, between −1 and 1; trials of a case are averaged first.
Each bound of the interval is one-sided: the true mean difference lies below the lower bound with a probability of
``level``, and so above the upper bound. A decision compares the interval with −margin. A pass there is wrong with
probability ``level`` at most, and so is a fail; an interval that contains −margin decides nothing.

The interval is the smoothed one (``core.stats.smoothed``), not Student's: if few cases differ, or none, Student's is
far too narrow, so that a model that harms too many cases passes too often. benchmarks/bench_gate.py measures both.
Power: ``core.stats.margin_power``.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from core.stats.intervals import NOTHING, Interval
from core.stats.smoothed import mean_interval

Decision = Literal["pass", "fail", "unclear"]
MOST_MARGIN = 0.5
"""The largest margin of a share: a larger one accepts that more than half of all answers become wrong."""
FEWEST_CASES = 20
"""With fewer cases than this, error rates were not measured, and no margin of practical use can be shown."""


def margin_fault(margin: float) -> str:
    """Return what is wrong with a margin of a share; empty if nothing is."""
    if 0 < margin <= MOST_MARGIN:
        return ""
    return f"A margin of {margin:g} decides nothing: it lies above 0, and is at most {MOST_MARGIN:g}."


def margin_interval(differences: ArrayLike, level: float = 0.05) -> Interval:
    """Return the bounds of the mean difference, each with the one-sided error rate ``level``; NaN without cases."""
    values = np.asarray(differences, dtype=np.float64)
    return mean_interval(values, 1 - 2 * level, low=-1.0, high=1.0) if values.size else NOTHING


def decide(interval: Interval, margin: float) -> Decision:
    """Compare an interval with −``margin``.

    It passes above −``margin``, and fails below it, not below 0: a loss within the margin is accepted.
    """
    low, high = interval
    if low > -margin:
        return "pass"
    return "fail" if high < -margin else "unclear"
