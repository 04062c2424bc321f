"""The unpaired bootstrap: against an enumeration of all resamples, scipy's bootstrap, and coverage in simulation."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from core.errors import UsageError
from core.stats.differences import bootstrap_difference, unpaired_difference

FIRST, SECOND = [1.0, 0.6, 0.0, 0.8], [0.2, 0.0, 0.6]


def all_resamples(first: list[float], second: list[float]) -> np.ndarray:
    """Return the difference of means of every pair of resamples, each as likely as any other."""
    means = [[np.mean(drawn) for drawn in itertools.product(arm, repeat=len(arm))] for arm in (first, second)]
    return np.subtract.outer(means[0], means[1]).ravel()


def random_arm(generator: np.random.Generator, n: int, trials: int, mean: float, icc: float = 0.4) -> np.ndarray:
    """Return shares of right trials of n cases, whose chances are beta-distributed around a mean."""
    size = (1 - icc) / icc
    return generator.binomial(trials, generator.beta(mean * size, (1 - mean) * size, n)) / trials


def test_p_and_percentiles_are_those_of_all_resamples() -> None:
    differences, observed = all_resamples(FIRST, SECOND), np.mean(FIRST) - np.mean(SECOND)
    result = unpaired_difference(FIRST, SECOND, expanded=False)
    assert result.engine == "exact"
    assert result.mean == pytest.approx(observed)
    assert result.p == pytest.approx(np.mean(np.abs(differences - observed) >= abs(observed) - 1e-9), abs=1e-9)
    low, high = np.quantile(differences, [0.025, 0.975], method="inverted_cdf")
    assert result.interval == pytest.approx((low, high), abs=1e-9)


def test_the_arms_swapped_have_the_same_p_and_the_mirrored_interval() -> None:
    result, swapped = unpaired_difference(FIRST, SECOND), unpaired_difference(SECOND, FIRST)
    assert swapped.p == pytest.approx(result.p)
    assert swapped.mean == pytest.approx(-result.mean)
    # a bound may lie one step of the possible means inside: at most the tail is outside on either side
    assert swapped.interval == pytest.approx((-result.interval.high, -result.interval.low), abs=0.06)


@pytest.mark.parametrize("sizes", [(40, 40), (100, 83), (140, 140)])
def test_exact_resampled_and_scipys_bootstrap_agree(sizes: tuple[int, int]) -> None:
    generator = np.random.default_rng(sizes[0])
    first, second = (random_arm(generator, n, 10, mean) for n, mean in zip(sizes, (0.8, 0.7), strict=True))
    exact = unpaired_difference(first, second, expanded=False)
    resampled = unpaired_difference(first, second, expanded=False, engine="resampled")
    assert (exact.engine, resampled.engine) == ("exact", "resampled")
    other = stats.bootstrap(
        (first, second),
        lambda a, b, axis: np.mean(a, axis=axis) - np.mean(b, axis=axis),
        n_resamples=20_000,
        method="percentile",
        rng=np.random.default_rng(1),
    )
    observed = first.mean() - second.mean()
    distance = np.abs(other.bootstrap_distribution - observed)
    p = float(np.mean(distance >= abs(observed) - 1e-9))
    noise = 4 * (p * (1 - p) / 10_000) ** 0.5 + 1e-4
    assert exact.p == pytest.approx(p, abs=noise)
    assert resampled.p == pytest.approx(p, abs=noise)
    bounds = other.confidence_interval
    assert exact.interval == pytest.approx((bounds.low, bounds.high), abs=0.006)
    assert resampled.interval == pytest.approx((bounds.low, bounds.high), abs=0.006)


def test_the_seed_fixes_resamples_that_have_no_lattice() -> None:
    generator = np.random.default_rng(3)
    first, second = generator.random(30), generator.random(50)
    result = unpaired_difference(first, second)
    assert result.engine == "resampled"
    assert result == unpaired_difference(first, second)
    assert result != unpaired_difference(first, second, seed=1)
    with pytest.raises(UsageError):
        unpaired_difference(first, second, engine="exact")


@pytest.mark.slow
@pytest.mark.parametrize(("n", "means"), [(40, (0.75, 0.6)), (100, (0.5, 0.5)), (25, (0.3, 0.4))])
def test_intervals_cover_the_true_difference_in_93_to_97_percent_of_simulated_studies(
    n: int, means: tuple[float, float]
) -> None:
    generator, studies, covered = np.random.default_rng(n), 1_500, 0
    for _ in range(studies):
        first, second = (random_arm(generator, n, 5, mean) for mean in means)
        low, high = unpaired_difference(first, second).interval
        covered += low <= means[0] - means[1] <= high
    assert 0.93 <= covered / studies <= 0.97


def test_the_paired_test_of_correlated_arms_is_stronger() -> None:
    generator = np.random.default_rng(8)
    chances = generator.beta(1.2, 0.8, 100)
    first, second = (generator.binomial(5, np.clip(chances + shift, 0, 1)) / 5 for shift in (0.0, -0.08))
    assert bootstrap_difference(first, second).p < unpaired_difference(first, second).p


@pytest.mark.slow
def test_equal_arms_reject_in_about_5_percent() -> None:
    generator, studies = np.random.default_rng(8), 1_000
    rejected = sum(
        unpaired_difference(random_arm(generator, 40, 5, 0.6), random_arm(generator, 40, 5, 0.6)).p <= 0.05
        for _ in range(studies)
    )
    assert 0.03 <= rejected / studies <= 0.07


def test_arms_without_any_spread_have_no_interval() -> None:
    equal, unlike = unpaired_difference([1, 1, 1], [1, 1]), unpaired_difference([1, 1, 1], [0, 0, 0])
    assert (equal.p, equal.mean) == (1.0, 0.0)
    assert np.isnan([*equal.interval, *unlike.interval, unlike.p]).all()
    assert unlike.mean == 1.0
    assert np.isnan(unpaired_difference([1], [0, 1]).p)
