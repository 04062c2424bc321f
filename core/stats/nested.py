"""Variance of a score by source: cases, trials of a case, gradings of a trial's answer.

Half the mean squared difference of two scores is the sum of the components below the level at which the two part:
symmetric differences (Koch, Technometrics 10 (1968), 551–558). Estimates are unbiased for unequal numbers of trials and
gradings, and for variances that differ from case to case, as those of right or wrong always do; for equal numbers they
are those of the analysis of variance. Every case has the same weight, whatever its number of trials.

Intervals are from the jackknife over cases (Arvesen, Annals of Mathematical Statistics 40 (1969), 2076–2100), with
Student's quantiles after a transformation that removes the skewness (Hall, Journal of the Royal Statistical Society B
54 (1992), 221–228): variances are skewed, most of all those near 0. Simulated coverage: benchmarks/bench_noise.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import scipy  # type: ignore[import-untyped]
from numpy.typing import NDArray

from core.errors import UsageError
from core.stats.intervals import Interval
from core.stats.smoothed import mean_interval

Floats = NDArray[np.float64]
Source = Literal["cases", "trials", "gradings"]
SOURCES: tuple[Source, ...] = ("cases", "trials", "gradings")
"""The levels of the design, the outer one first."""
CaseScores = Sequence[Sequence[float]]
"""Trials of a case → scores (0 to 1) of the gradings of the trial's answer."""
LEAST_CASES = 3
"""Cases with a pair of a level that an estimate needs: the jackknife leaves one out."""
_MOST_HALF_DIFFERENCE = 0.5
"""Half the squared difference of a right and a wrong answer."""


class Component(NamedTuple):
    """The variance that the ``sources`` cause together, with its 95 % interval.

    Several sources are in one component if the design has no pair that separates them. The ``estimate`` is unbiased
    and may be negative; the interval is cut off at 0. ``n_cases`` have such a pair.
    """

    sources: tuple[Source, ...]
    estimate: float
    interval: Interval
    n_cases: int


class _Moments(NamedTuple):
    """Half mean squared differences of a case: of two gradings and of two trials; NaN without such a pair.

    ``mean`` and ``square`` are those of the scores, each trial with the same weight.
    """

    gradings: float
    trials: float
    mean: float
    square: float


def components(cases: Sequence[CaseScores], level: float = 0.95) -> list[Component]:
    """Return the components, that of cases first; a level without pairs is joined with the next outer one.

    Cases without a score are left out. There are no components for fewer than ``LEAST_CASES`` cases. Raises
    ``UsageError`` for a score outside 0 to 1.
    """
    used = [scored for case in cases if (scored := [trial for trial in case if trial])]
    if any(not 0 <= score <= 1 for case in used for trial in case for score in trial):
        raise UsageError("Scores lie between 0 and 1.")
    table = np.array([_moments(case) for case in used], dtype=np.float64).reshape(-1, len(_Moments._fields))
    if len(table) < LEAST_CASES:
        return []
    found: list[Component] = []
    inner: tuple[Floats, float] = (np.zeros(len(table)), 0.0)  # leave-one-out values and value of the level below
    joined: tuple[Source, ...] = ()
    for column, source in enumerate(reversed(SOURCES)):  # the columns of ``_Moments``; that of cases has their means
        joined = (source, *joined)
        values = table[:, column]
        n_pairs = int(np.isfinite(values).sum())
        if n_pairs < LEAST_CASES:
            continue
        outer = _between_cases(table) if source == "cases" else _mean_without_each(values)
        estimate, without_each = outer[1] - inner[1], outer[0] - inner[0]
        found.append(Component(joined, estimate, _jackknife_interval(estimate, without_each, n_pairs, level), n_pairs))
        inner, joined = outer, ()
    return found[::-1]


def _moments(case: CaseScores) -> _Moments:
    means = [sum(scores) / len(scores) for scores in case]
    squares = [sum(score**2 for score in scores) / len(scores) for scores in case]
    within = [_half_difference(scores, [score**2 for score in scores]) for scores in case if len(scores) > 1]
    return _Moments(
        sum(within) / len(within) if within else float("nan"),
        _half_difference(means, squares) if len(case) > 1 else float("nan"),
        sum(means) / len(case),
        sum(squares) / len(case),
    )


def _half_difference(means: Sequence[float], squares: Sequence[float]) -> float:
    """Return half the mean squared difference between scores of two different units, over all pairs of units."""
    n, total = len(means), sum(means)
    products = (total**2 - sum(mean**2 for mean in means)) / (n * (n - 1))
    return sum(squares) / n - products


def _mean_without_each(values: Floats) -> tuple[Floats, float]:
    """Return the mean of the finite values without each value in turn, and the mean of all."""
    finite = np.isfinite(values)
    filled = np.where(finite, values, 0.0)
    total, n = filled.sum(), finite.sum()
    return (total - filled) / (n - finite), float(total / n)


def _between_cases(table: Floats) -> tuple[Floats, float]:
    """Return half the mean squared difference of scores of different cases, without each case in turn and of all."""
    means, squares = table[:, 2], table[:, 3]
    n, total, total_squares = len(means), means.sum(), (means**2).sum()
    products = (total**2 - total_squares) / (n * (n - 1))
    without = ((total - means) ** 2 - (total_squares - means**2)) / ((n - 1) * (n - 2))
    return (squares.sum() - squares) / (n - 1) - without, float(squares.mean() - products)


def _jackknife_interval(estimate: float, without_each: Floats, n: int, level: float) -> Interval:
    """Return Hall's interval of a variance from the estimates without each case in turn, cut off at 0.

    ``n`` cases decide on Student's quantile. If nothing varies, the upper bound is that of a share of which no item was
    seen, times the highest value of a case: the next case may vary.
    """
    pseudo = len(without_each) * estimate - (len(without_each) - 1) * without_each
    error = float(pseudo.std(ddof=1)) / len(pseudo) ** 0.5
    if error < _NO_ERROR:
        return Interval(0.0, mean_interval(np.zeros(n), level, high=_MOST_HALF_DIFFERENCE).high)
    deviations = pseudo - pseudo.mean()
    skewness = float((deviations**3).mean()) / float(pseudo.std()) ** 3
    quantile = float(scipy.special.stdtrit(n - 1, (1 + level) / 2))
    low, high = (estimate - error * _untransformed(t, skewness, n) for t in (quantile, -quantile))
    return Interval(max(0.0, low), max(0.0, high))


_NO_ERROR = 1e-12


def _untransformed(t: float, skewness: float, n: int) -> float:
    """Return the value of the studentised mean whose transformation is ``t`` (Hall 1992, the cubic g)."""
    if abs(skewness) < 1e-6:
        return t
    root = n**0.5
    return float(root * 3 / skewness * (np.cbrt(1 + skewness * (t / root - skewness / (6 * n))) - 1))
