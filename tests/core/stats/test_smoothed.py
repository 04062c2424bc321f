"""The smoothed interval: compared with the beta distribution and random weights, and with added errors."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from core.errors import UsageError
from core.stats.calibrated import resemblance
from core.stats.choices import weights
from core.stats.intervals import Interval
from core.stats.margin_power import chance_to_pass, observed_law
from core.stats.ratios import percentiles, ratio, ratio_intervals, resampled_sums
from core.stats.smoothed import mean_interval, pseudo_shape, ratio_interval, tail_share
from tests.support.intervals import beta_bounds


def test_one_trial_a_case_has_the_bounds_of_the_beta_distribution(subtests: pytest.Subtests) -> None:
    rows: list[tuple[int, int]] = [(0, 1), (1, 2), (0, 5), (1, 5), (20, 20), (3, 317), (0, 2_004), (7, 20_000)]
    for right, cases in rows:
        with subtests.test(right=right, cases=cases):
            interval = mean_interval([1.0] * right + [0.0] * (cases - right))
            assert interval == pytest.approx(beta_bounds(right, cases), rel=1e-4)


def by_random_weights(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """Return the lower and upper bound from 100,000 draws of gamma weights."""
    n, rng = above.size, np.random.default_rng(3)
    shapes = np.append(np.ones(n), [pseudo_shape(n)] * 2)
    weights = rng.standard_gamma(shapes, (100_000, n + 2))
    figures = weights @ np.append(above, [0, below.mean()]) / (weights @ np.append(below, [below.mean()] * 2))
    tail = tail_share(n, 0.95)
    return np.quantile(figures, [tail, 1 - tail])


@pytest.mark.slow
def test_bounds_are_those_of_random_weights(subtests: pytest.Subtests) -> None:
    rows: list[list[float]] = [
        [0.8] + [1.0] * 19,
        [0.6] * 7,
        [0.2, 0.4, 1.0],
        list(np.random.default_rng(1).beta(2, 5, 150)),
        list(np.random.default_rng(2).integers(0, 6, 40) / 5),
        [0.8396632] * 400,
    ]
    for values in rows:
        with subtests.test(values=values):
            interval, sample = mean_interval(values), np.array(values)
            spread = interval.high - interval.low
            assert interval == pytest.approx(by_random_weights(sample, np.ones(sample.size)), abs=0.015 * spread)


def test_a_share_of_items_weighs_cases_whole() -> None:
    hits, items = np.array([1.0, 0, 3, 0, 2]), np.array([5.0, 4, 5, 3, 2])
    expected = by_random_weights(hits, items)
    assert ratio_interval(hits, items) == pytest.approx(expected, abs=0.01)
    assert ratio_interval(np.append(hits, 0), np.append(items, 0)) == pytest.approx(expected, abs=0.01)
    assert ratio_interval([2.0, 0, 5], [1.0, 1, 1]).high > 2, "more than one hit an item"
    assert all(map(math.isnan, ratio_interval([0.0], [0.0])))


def orders(cases: int, trials: int) -> dict[str, list[int]]:
    """Return orders of the cases in which wrong answers are added one by one."""
    rng = np.random.default_rng(4)
    everything = [case for case in range(cases) for _ in range(trials)]
    return {
        "case by case": everything,
        "spread over cases": [case for _ in range(trials) for case in range(cases)],
        "at random": list(rng.permutation(everything)),
    }


@pytest.mark.parametrize("order", ["case by case", "spread over cases", "at random"])
@pytest.mark.parametrize(("cases", "trials"), [(20, 5), (5, 5), (12, 1)])
def test_one_more_error_never_moves_a_bound_up(cases: int, trials: int, order: str) -> None:
    right = np.full(cases, float(trials))
    bounds = [mean_interval(right / trials)]
    for case in orders(cases, trials)[order]:
        right[case] -= 1
        bounds.append(mean_interval(right / trials))
    for before, after in itertools.pairwise(bounds):
        assert after.low <= before.low + 1e-9
        assert after.high <= before.high + 1e-9
    assert (bounds[0].high, bounds[-1].low) == (1, 0)


def test_one_wrong_trial_of_a_hundred_does_not_narrow_the_interval() -> None:
    every, all_but_one = mean_interval([1.0] * 20), mean_interval([0.8] + [1.0] * 19)
    assert every.low - 0.02 < all_but_one.low < every.low
    assert 0.99 < all_but_one.high < 1


def test_no_cases_and_no_range_have_no_interval() -> None:
    for interval in (mean_interval([]), mean_interval([0.0, 0.0], high=0.0)):
        assert isinstance(interval, Interval)
        assert all(map(math.isnan, interval))


def coverage(cases: int, mean: float, icc: float, trials: int, runs: int) -> float:
    """Return how often the interval covers the mean of cases with beta-distributed chances."""
    rng, size = np.random.default_rng(cases), 1 / icc - 1
    covered = 0
    for _ in range(runs):
        right = rng.binomial(trials, rng.beta(mean * size, (1 - mean) * size, cases))
        low, high = mean_interval(right / trials)
        covered += low <= mean <= high
    return covered / runs


@pytest.mark.slow
@pytest.mark.parametrize(("cases", "mean", "icc"), [(20, 0.1, 0.5), (60, 0.05, 0.8), (60, 0.3, 0.2)])
def test_coverage_in_small(cases: int, mean: float, icc: float) -> None:
    """A few cells of the table of benchmarks/bench_coverage.py, with fewer runs."""
    runs = 500
    assert 0.93 - 3.3 * (0.07 * 0.93 / runs) ** 0.5 <= coverage(cases, mean, icc, 5, runs)


@pytest.mark.parametrize("cases", [5, 20, 60, pytest.param(317, marks=pytest.mark.slow)])
def test_coverage_of_one_trial_a_case_is_never_below_93(cases: int) -> None:
    """Exact coverage: the binomial probability of the counts with an interval that covers the mean."""
    counts = np.arange(cases + 1)
    intervals = [mean_interval([1.0] * right + [0.0] * (cases - right)) for right in counts]
    means = (0.02, 0.05, 0.1, 0.3, 0.5)
    covered = {mean: [low <= mean <= high for low, high in intervals] for mean in means}
    coverage = {mean: stats.binom.pmf(counts, cases, mean)[covered[mean]].sum() for mean in means}
    assert {mean: share for mean, share in coverage.items() if share < 0.93} == {}


def test_tables_that_do_not_fit_are_refused() -> None:
    with pytest.raises(UsageError, match="as many numerators as denominators"):
        ratio_interval([1, 2], [3])
    with pytest.raises(UsageError, match="as many numerators as denominators"):
        ratio_intervals([[1], [2]], [[3]])
    for table in ([1.0, 2.0], [[1.0], [math.nan]], [[math.inf]]):
        with pytest.raises(UsageError, match="a row for each case, without gaps"):
            resampled_sums(table)
    with pytest.raises(UsageError, match="a row of differences, a share and a case each"):
        weights([[1.0], [0.0]], [1.0], ["a", "b"])
    with pytest.raises(UsageError, match="a row of differences, a share and a case each"):
        weights([[1.0], [0.0]], [1.0, 0.0], ["a"])
    with pytest.raises(UsageError, match="length needs a value for each item"):
        resemblance(["a", "b"], [True, False], {"length": [1.0]})
    law = observed_law([0.0, 0.5, -0.5])
    for margin, level in ((0, 0.05), (1, 0.05), (0.1, 0), (0.1, 0.5)):
        with pytest.raises(UsageError, match="A margin lies between 0 and 1"):
            chance_to_pass(law, margin, 30, level)


def test_nothing_to_resample_and_nothing_that_varies() -> None:
    assert resampled_sums(np.zeros((0, 2)), 7).tolist() == [[0.0, 0.0]] * 7
    assert np.isnan(percentiles([math.nan, math.inf], 5)).all()
    low, high = percentiles([3.0] * 100, 5)
    assert (low, high) == (3, 3)
    assert math.isnan(ratio([1, 2], [0, 0]))
    assert ratio([1, 2], [2, 4]) == 0.5
    # many cases of two kinds: the sums are those of all cases
    sums = resampled_sums([[1.0, 1.0]] * 300 + [[0.0, 1.0]] * 700, 50)
    assert sums[:, 1].tolist() == [1000.0] * 50
    assert abs(float(sums[:, 0].mean()) - 300) < 20
    # one side is missing, and a feature that is the same everywhere
    cases = [f"c{n}" for n in range(6)]
    assert [row.verdict for row in resemblance(cases, [True] * 6, {"length": range(6)})] == ["cannot say"]
    (row,) = resemblance(cases, [True] * 3 + [False] * 3, {"length": [2.0] * 6})
    assert (row.difference, row.verdict) == (0.0, "alike")
