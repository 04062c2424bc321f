"""Coverage of intervals and rejection rates of tests, in small; the full simulation is benchmarks/bench_stats.py.

Tolerances: 94–96.5 % and at most 5 %, and 3.3 binomial standard errors for the number of simulations.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from core.stats.bootstrap import bootstrap_interval
from core.stats.differences import bootstrap_difference, paired_difference
from core.stats.intervals import Interval
from core.stats.smoothed import mean_interval

TRIALS = 5
LARGE = [(20, 1_500), (100, 1_200), (2_000, 300)]
SIZES = [(20, 200), *(pytest.param(*size, marks=pytest.mark.slow) for size in LARGE)]


def arms(n: int, runs: int, a: float = 1, b: float = 1) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Two models equally good on average; on half of the cases, the chances of the second are drawn again."""
    rng = np.random.default_rng(n)
    for _ in range(runs):
        chance = rng.beta(a, b, n)
        other = np.where(rng.random(n) < 0.5, chance, rng.beta(a, b, n))
        yield rng.binomial(TRIALS, chance, n) / TRIALS, rng.binomial(TRIALS, other, n) / TRIALS


def error(share: float, runs: int) -> float:
    return 3.3 * (share * (1 - share) / runs) ** 0.5


def covers(interval: Interval, truth: float) -> bool:
    return interval.low - 1e-9 <= truth <= interval.high + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize(("n", "runs"), SIZES)
def test_coverage_and_rejection_rate_are_at_their_nominal_levels(n: int, runs: int) -> None:
    smoothed = percentiles = rejected = 0
    for first, second in arms(n, runs):
        smoothed += covers(mean_interval(first), 0.5)
        percentiles += covers(bootstrap_interval(first), 0.5)
        rejected += paired_difference(first, second).p <= 0.05
    for covered in (smoothed / runs, percentiles / runs):
        assert 0.94 - error(0.94, runs) <= covered <= 0.965 + error(0.965, runs)
    assert 0.02 - error(0.02, runs) <= rejected / runs <= 0.05 + error(0.05, runs)


@pytest.mark.slow
def test_without_expansion_coverage_is_too_low_for_twenty_cases() -> None:
    runs = 1_500
    covered, rejected = {True: 0, False: 0}, {True: 0, False: 0}
    for first, second in arms(20, runs):
        for expanded in (True, False):
            compared = bootstrap_difference(first, second, expanded=expanded)
            covered[expanded] += covers(compared.interval, 0)
            rejected[expanded] += compared.p <= 0.05
    assert covered[True] - covered[False] > 0.01 * runs
    assert rejected[False] - rejected[True] > 0.01 * runs
    assert rejected[False] > 0.055 * runs
