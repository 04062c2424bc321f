"""How many cases and trials are needed to detect a difference between two models on the same cases.

The paired difference of N cases with T trials each has the variance (between + within / T) / N: more trials reduce the
sampling noise, but only more cases reduce the variation of the difference between cases. Power is that of the t-test.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np
import scipy  # type: ignore[import-untyped]
from numpy.typing import ArrayLike

from core.errors import UsageError
from core.stats.trials import VarianceComponents

CORRELATION = 0.5
"""Correlation of the true scores of two models on a case: 0.3 to 0.7 (median 0.5) among the three open-weight models of
the authors' release (Johri et al. 2025), over 4 formats and 2 question types."""
MOST_CASES = 10_000_000


class PairedComponents(NamedTuple):
    """Variance of the true differences of cases, and of the difference of single trials within a case."""

    between: float
    within: float

    def standard_error(self, cases: int, trials: float) -> float:
        """Return the standard error of the mean difference, in the unit of the scores."""
        return float(((max(self.between, 0.0) + self.within / trials) / cases) ** 0.5)


class SampleSize(NamedTuple):
    """Trials per case, cases needed, and the total number of conversations of one model."""

    trials: int
    cases: int
    conversations: int


def components_of_run(run: VarianceComponents, correlation: float = CORRELATION) -> PairedComponents:
    """Return the components against a second model of the same variance whose true scores correlate (−1 to 1)."""
    if not -1 <= correlation <= 1:
        raise UsageError("A correlation lies between -1 and 1.")
    return PairedComponents(2 * max(run.between, 0.0) * (1 - correlation), 2 * run.within)


def components_of_pair(
    first_correct: ArrayLike, first_counted: ArrayLike, second_correct: ArrayLike, second_counted: ArrayLike
) -> PairedComponents:
    """Estimate the components from two runs on the same cases, in the same order; no correlation is assumed.

    Moments over cases with at least two trials in both runs: the variance of the differences of case means, minus the
    part that trials alone cause. NaN with fewer than two such cases.
    """
    counts = (np.asarray(x, dtype=np.float64) for x in (first_correct, first_counted, second_correct, second_counted))
    a, n, b, m = counts
    used = (n >= 2) & (m >= 2)
    if used.sum() < 2:
        return PairedComponents(float("nan"), float("nan"))
    a, n, b, m = a[used], n[used], b[used], m[used]
    noise_a, noise_b = (right * (counted - right) / (counted * (counted - 1)) for right, counted in ((a, n), (b, m)))
    observed = (a / n - b / m).var(ddof=1)
    between = observed - (noise_a / n + noise_b / m).mean()
    return PairedComponents(float(between), float((noise_a + noise_b).mean()))


def power(components: PairedComponents, difference: float, cases: int, trials: int, level: float = 0.05) -> float:
    """Return the probability that a true ``difference`` (0 to 1) is significant at ``level``, two-sided."""
    if cases < 2:
        return 0.0
    error = components.standard_error(cases, trials)
    if not error:
        return 1.0 if difference else 0.0
    df = cases - 1
    threshold = float(scipy.special.stdtrit(df, 1 - level / 2))
    missed, reversed_sign = scipy.special.nctdtr(df, abs(difference) / error, [threshold, -threshold])
    # In the far tail the distribution function returns NaN instead of a value below 1e-16.
    return float(1 - (0.0 if math.isnan(missed) else missed) + (0.0 if math.isnan(reversed_sign) else reversed_sign))


def cases_needed(
    components: PairedComponents, difference: float, trials: int, target: float = 0.8, level: float = 0.05
) -> int:
    """Return the smallest number of cases that detects ``difference`` with the power ``target``.

    Raises ``UsageError`` if the difference is 0, or if more than ten million cases are needed.
    """
    if not difference or not 0 < target < 1 or trials < 1:
        raise UsageError("Planning needs a difference other than 0, a power between 0 and 1, and at least one trial.")
    high = 2
    while power(components, difference, high, trials, level) < target:
        high *= 2
        if high > MOST_CASES:
            raise UsageError("This difference is too small to be planned for: over ten million cases.")
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        enough = power(components, difference, middle, trials, level) >= target
        low, high = (low, middle) if enough else (middle, high)
    return high


@lru_cache(maxsize=4096)
def detectable_difference(
    components: PairedComponents, cases: int, trials: int, target: float = 0.8, level: float = 0.05
) -> float:
    """Return the smallest difference (0 to 1) that is detected with the power ``target``; 1 if none is."""
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        enough = power(components, middle, cases, trials, level) >= target
        low, high = (low, middle) if enough else (middle, high)
    return high


@cache
def detectable_effect(cases: int) -> float:
    """Return the smallest difference that this number of pairs detects with power 0.8, in standard deviations."""
    unit = PairedComponents(_LARGEST_EFFECT**-2, 0.0)
    return _LARGEST_EFFECT * detectable_difference(unit, cases, trials=1)


_LARGEST_EFFECT = 50.0
"""Upper end of the search, in standard deviations: two pairs need some 12."""


def plans(
    components: PairedComponents,
    difference: float,
    trials: Sequence[int] = (1, 2, 3, 5, 10),
    target: float = 0.8,
    level: float = 0.05,
) -> list[SampleSize]:
    """Return the cases and conversations needed, for each number of trials."""
    needed = [(t, cases_needed(components, difference, t, target, level)) for t in trials]
    return [SampleSize(t, cases, t * cases) for t, cases in needed]
