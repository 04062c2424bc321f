"""Variance of a score by source: cases, trials of a case, answers of a trial, gradings of an answer.

Each trial is a conversation of its own, each answer is given to the same conversation, each grading is of the same
answer. Half the mean squared difference of two scores is the sum of the components below the level at which the two
part: symmetric differences (Koch, Technometrics 10 (1968), 551–558). Estimates are unbiased for unequal numbers of
replicates and for variances that differ from case to case, as those of right or wrong always do; for equal numbers they
are those of the analysis of variance. Every case has the same weight, whatever its number of replicates.

Intervals are from the jackknife over cases (Arvesen, Annals of Mathematical Statistics 40 (1969), 2076–2100), with
Student's quantiles after a transformation that removes the skewness (Hall, Journal of the Royal Statistical Society B
54 (1992), 221–228): variances are skewed, most of all those near 0. Simulated coverage: benchmarks/bench_noise.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import scipy  # type: ignore[import-untyped]
from numpy.typing import NDArray

from core.errors import UsageError
from core.stats.intervals import Interval
from core.stats.smoothed import mean_interval

Floats = NDArray[np.float64]
Source = Literal["cases", "conversations", "answers", "gradings"]
SOURCES: tuple[Source, ...] = ("cases", "conversations", "answers", "gradings")
"""The levels of the design, the outer one first."""
CaseScores = Sequence[Sequence[Sequence[float]]]
"""Trials of a case → answers of the trial → scores (0 to 1) of the gradings of the answer."""
LEAST_CASES = 3
"""Cases with a pair of a level that an estimate needs: the jackknife leaves one out."""
MOST_HALF_DIFFERENCE = 0.5
"""Half the squared difference of a right and a wrong answer."""


class Component(NamedTuple):
    """The variance that the ``sources`` cause together, with its 95 % interval.

    Several sources are in one component if the design has no pair that separates them. The ``estimate`` is unbiased
    and may be negative; the interval is cut off at 0. ``n_cases`` have such a pair. ``without_each`` are the estimates
    without each case with a score in turn, for the jackknife of what is computed from the component.
    """

    sources: tuple[Source, ...]
    estimate: float
    interval: Interval
    n_cases: int
    without_each: Floats


@dataclass(frozen=True)
class NoiseEstimate:
    """Components of the variance of single scores, and the mean score of ``n_cases`` cases.

    ``replicates`` are the mean numbers of trials of a case, of answers of a trial and of gradings of an answer.
    """

    components: tuple[Component, ...]
    mean: float
    n_cases: int
    replicates: Mapping[Source, float]

    def variance_of_mean(
        self, cases: float, trials: float = 1, answers: float = 1, gradings: float = 1, *, same_cases: bool = False
    ) -> float:
        """Return the variance of a mean with these numbers of cases, trials of each, answers and gradings.

        ``same_cases`` leaves out the component of cases: the variance between runs on the same cases. A component of
        several sources counts as if its first source alone caused it, so that more replicates of the others do not
        lower it. Negative estimates count as 0.
        """
        return sum(
            max(0.0, component.estimate) / self.divisor(component, cases, trials, answers, gradings)
            for component in self.components
            if not (same_cases and component.sources[0] == "cases")
        )

    @staticmethod
    def divisor(
        component: Component, cases: float, trials: float = 1, answers: float = 1, gradings: float = 1
    ) -> float:
        """Return the number of independent draws of a component that a mean has."""
        level = SOURCES.index(component.sources[0])
        return math.prod((cases, trials, answers, gradings)[: level + 1])

    def cases_needed(
        self, half_width: float, trials: int = 1, answers: int = 1, gradings: int = 1, *, same_cases: bool = False
    ) -> int | None:
        """Return the smallest number of cases whose 95 % interval of the mean is at most ± ``half_width``.

        ``None`` if more than ten million are needed. Student's t with n − 1 degrees of freedom, or the normal
        distribution for another run on the same cases.
        """
        if not 0 < half_width < 1:
            raise UsageError("The half-width of an interval lies between 0 and 1.")
        one = self.variance_of_mean(1, trials, answers, gradings, same_cases=same_cases)

        def enough(cases: int) -> bool:
            quantile = NORMAL_95 if same_cases else float(scipy.special.stdtrit(cases - 1, 0.975))
            return quantile * math.sqrt(one / cases) <= half_width

        low, high = 1, 2
        while not enough(high):
            low, high = high, 2 * high
            if low > _MOST_CASES:
                return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle) else (middle, high)
        return high


NORMAL_95 = 1.959963984540054
"""Quantile of the normal distribution for an interval of 95 %."""
_MOST_CASES = 10_000_000


class _Moments(NamedTuple):
    """Half mean squared differences of a case: of two gradings, answers and trials; NaN without such a pair.

    ``mean`` and ``square`` are those of the scores, each trial and each answer with the same weight.
    """

    gradings: float
    answers: float
    conversations: float
    mean: float
    square: float


def estimate_noise(cases: Sequence[CaseScores], level: float = 0.95) -> NoiseEstimate:
    """Estimate the components from the scores of cases, one of each grading; cases without a score are left out.

    Raises ``UsageError`` for a score outside 0 to 1.
    """
    used = [[[answer for answer in trial if answer] for trial in case] for case in cases]
    used = [[trial for trial in case if trial] for case in used]
    used = [case for case in used if case]
    if any(not 0 <= score <= 1 for case in used for trial in case for answer in trial for score in answer):
        raise UsageError("Scores lie between 0 and 1.")
    table = np.array([_moments(case) for case in used], dtype=np.float64).reshape(-1, len(_Moments._fields))
    replicates = _replicates(used)
    mean = float(table[:, 3].mean()) if len(table) else float("nan")
    return NoiseEstimate(tuple(_components(table, level)), mean, len(table), replicates)


def _replicates(cases: Sequence[CaseScores]) -> dict[Source, float]:
    trials = [trial for case in cases for trial in case]
    answers = [answer for trial in trials for answer in trial]
    gradings = sum(map(len, answers))
    return {
        "conversations": len(trials) / len(cases) if cases else 0.0,
        "answers": len(answers) / len(trials) if trials else 0.0,
        "gradings": gradings / len(answers) if answers else 0.0,
    }


def _moments(case: CaseScores) -> _Moments:
    of_gradings: list[float] = []
    of_answers: list[float] = []
    means: list[float] = []
    squares: list[float] = []
    for trial in case:
        answer_means = [sum(scores) / len(scores) for scores in trial]
        answer_squares = [sum(score**2 for score in scores) / len(scores) for scores in trial]
        within = [half_difference(scores, [s**2 for s in scores]) for scores in trial if len(scores) > 1]
        if within:
            of_gradings.append(sum(within) / len(within))
        if len(trial) > 1:
            of_answers.append(half_difference(answer_means, answer_squares))
        means.append(sum(answer_means) / len(trial))
        squares.append(sum(answer_squares) / len(trial))
    return _Moments(
        _mean_or_nan(of_gradings),
        _mean_or_nan(of_answers),
        half_difference(means, squares) if len(case) > 1 else float("nan"),
        sum(means) / len(case),
        sum(squares) / len(case),
    )


def half_difference(means: Sequence[float], squares: Sequence[float]) -> float:
    """Return half the mean squared difference between scores of two different units, over all pairs of units."""
    n, total = len(means), sum(means)
    products = (total**2 - sum(mean**2 for mean in means)) / (n * (n - 1))
    return sum(squares) / n - products


def _mean_or_nan(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else float("nan")


def _components(table: Floats, level: float) -> list[Component]:
    """Return the components, the outer one first; a level without pairs is joined with the next outer one."""
    if len(table) < LEAST_CASES:
        return []
    components: list[Component] = []
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
        interval = jackknife_interval(estimate, without_each, n_pairs, level)
        components.append(Component(joined, estimate, interval, n_pairs, without_each))
        inner, joined = outer, ()
    return components[::-1]


def _mean_without_each(values: Floats) -> tuple[Floats, float]:
    """Return the mean of the finite values without each value in turn, and the mean of all."""
    finite = np.isfinite(values)
    filled = np.where(finite, values, 0.0)
    total, n = filled.sum(), finite.sum()
    return (total - filled) / (n - finite), float(total / n)


def _between_cases(table: Floats) -> tuple[Floats, float]:
    """Return half the mean squared difference of scores of different cases, without each case in turn and of all."""
    means, squares = table[:, 3], table[:, 4]
    n, total, total_squares = len(means), means.sum(), (means**2).sum()
    products = (total**2 - total_squares) / (n * (n - 1))
    without = ((total - means) ** 2 - (total_squares - means**2)) / ((n - 1) * (n - 2))
    return (squares.sum() - squares) / (n - 1) - without, float(squares.mean() - products)


def jackknife_interval(
    estimate: float, without_each: Floats, n: int, level: float = 0.95, highest: float = MOST_HALF_DIFFERENCE
) -> Interval:
    """Return Hall's interval of a variance from the estimates without each case in turn, cut off at 0.

    ``n`` cases decide on Student's quantile. If nothing varies, the upper bound is that of a share of which no item was
    seen, times ``highest``, the highest value of a case: the next case may vary.
    """
    pseudo = len(without_each) * estimate - (len(without_each) - 1) * without_each
    error = float(pseudo.std(ddof=1)) / len(pseudo) ** 0.5
    if error < _NO_ERROR:
        return Interval(0.0, mean_interval(np.zeros(n), level, high=highest).high)
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
