"""Interval of a mean over cases of scores with any value between two limits, such as ROUGE, a recall or a rating.

The pseudo-cases of ``core.stats.smoothed`` stand for a case that is all wrong and one that is all right. Among scores
around .05 no case is near 1, and a pseudo-case there would move the whole interval. Instead the log odds of the mean
have Student's interval, with the standard error of the delta method: it is as skewed as scores near a limit are, and
stays within the limits. Its variance is larger by 2/n, because the deviation of few skewed scores is too small.

Coverage of 95 % is 93 to 97 % from 20 cases on for scores as skewed as a gamma distribution of shape 1/2, see
benchmarks/bench_coverage.py. With heavier tails (log-normal with a standard deviation of 1) it is 92 % for 20 and for
60 cases.
"""

from __future__ import annotations

import numpy as np
import scipy  # type: ignore[import-untyped]
from numpy.typing import ArrayLike

from core.stats.intervals import NOTHING, Interval
from core.stats.smoothed import mean_interval

_ROUNDING = 1e-9


def right_or_wrong(values: ArrayLike, trials: ArrayLike = 1, *, low: float = 0.0, high: float = 1.0) -> bool:
    """Return whether each value is the mean of as many ``trials`` that are each ``low`` or ``high``.

    Three trials of a case with a mean of 2/3 are: two are right. A mean of 0.31 is not.
    """
    right = (np.asarray(values, dtype=np.float64) - low) / (high - low) * np.asarray(trials, dtype=np.float64)
    return bool((np.abs(right - np.rint(right)) < _ROUNDING * np.maximum(1.0, np.abs(right))).all())


def score_interval(
    values: ArrayLike, level: float = 0.95, *, trials: ArrayLike = 1, low: float = 0.0, high: float = 1.0
) -> Interval:
    """Return the interval of the mean of one score per case, each the mean of its ``trials``.

    Scores that are right or wrong in each trial, and scores that are all equal, have the smoothed interval: they show
    no deviation, but the next case may differ. The bounds are NaN without values.
    """
    sample = np.asarray(values, dtype=np.float64)
    n = sample.size
    if not n or not high > low:
        return NOTHING
    if np.ptp(sample) <= _ROUNDING * (high - low) or right_or_wrong(sample, trials, low=low, high=high):
        return mean_interval(sample, level, low=low, high=high)
    share, deviation = (float(f) / (high - low) for f in (sample.mean() - low, sample.std(ddof=1)))
    error = deviation * ((1 + 2 / n) / n) ** 0.5 / (share * (1 - share))
    half = float(scipy.special.stdtrit(n - 1, (1 + level) / 2)) * error
    bounds = scipy.special.expit(scipy.special.logit(share) + np.array([-half, half]))
    return Interval(*(low + (high - low) * float(bound) for bound in bounds))
