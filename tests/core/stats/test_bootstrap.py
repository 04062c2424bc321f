"""Intervals of a mean, compared with values by hand, with the enumeration of all resamples, and with resampling."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from core.stats.bootstrap import (
    MAX_POINTS,
    bootstrap_interval,
    exact_interval,
    find_lattice,
    mean_distribution,
    resampled_interval,
    resampled_means,
)
from core.stats.intervals import t_interval


@pytest.mark.parametrize("interval", [exact_interval, resampled_interval, bootstrap_interval])
def test_equal_cases_still_have_an_interval(interval) -> None:
    # Wilson with z² = 3.8415: 20 of 20 have the lower bound 20/23.8415, 0 of 20 the upper bound 3.8415/23.8415
    assert interval([1.0] * 20) == (pytest.approx(0.838875, abs=1e-6), 1.0)
    assert interval([0.0] * 20) == (0.0, pytest.approx(0.161125, abs=1e-6))
    # one case with three of five trials right: (0.6 + 1.9207 ± √(3.8415 · (0.24 + 3.8415/4))) / 4.8415
    assert interval([0.6]) == pytest.approx((0.0771, 0.9642), abs=1e-4)
    # an interval that is widened for few cases can only be wider with fewer of them
    assert interval([1.0] * 5).low < interval([1.0] * 6).low


@pytest.mark.parametrize("interval", [exact_interval, resampled_interval, bootstrap_interval])
def test_plain_percentiles_and_other_measures_are_not_expanded(interval) -> None:
    assert interval([1.0] * 20, expanded=False) == (1.0, 1.0)
    assert all(map(math.isnan, interval([4.0] * 20, shares=False))), "the variation of other cases is unknown"


def test_no_case_gives_no_interval(subtests: pytest.Subtests) -> None:
    for interval in (exact_interval, resampled_interval, bootstrap_interval, t_interval):
        with subtests.test(interval=interval):
            assert all(math.isnan(bound) for bound in interval([]))


def test_two_cases_by_hand() -> None:
    # the four resamples of (0, 1) have the means 0, 1/2, 1/2, 1
    distribution = mean_distribution(np.array([0.0, 1.0]))
    assert distribution is not None
    assert distribution.means == pytest.approx([0, 0.5, 1])
    assert distribution.probabilities == pytest.approx([0.25, 0.5, 0.25])
    assert exact_interval([0.0, 1.0], expanded=False) == (0, 1)
    assert exact_interval([0.0, 1.0], level=0.4, expanded=False) == (0.5, 0.5)
    # expanded: t(0.7, 1) · √2 = 1.0275 standard errors leave 15.2 % beyond either end, less than the outer quarters
    assert exact_interval([0.0, 1.0], level=0.4) == (0, 1)


def test_the_exact_distribution_is_that_of_all_resamples(subtests: pytest.Subtests) -> None:
    rows: list[list[float]] = [[0, 0.2, 1], [0.4, 0.4, 0.6, 1], [1 / 3, 0.5, 0.8, 0, 1], [-2, 3, 3.5]]
    for sample in rows:
        with subtests.test(sample=sample):
            means = sorted(sum(draw) / len(sample) for draw in itertools.product(sample, repeat=len(sample)))
            distribution = mean_distribution(np.array(sample, dtype=float))
            assert distribution is not None
            cumulated = np.cumsum(distribution.probabilities)
            for at in np.unique(np.round(means, 9)):
                share = sum(mean <= at + 1e-8 for mean in means) / len(means)
                assert cumulated[np.searchsorted(distribution.means, at + 1e-8) - 1] == pytest.approx(share, abs=1e-12)
            low, high = exact_interval(sample, level=0.8, expanded=False)
            assert low == pytest.approx(next(m for i, m in enumerate(means, 1) if i / len(means) >= 0.1 - 1e-12))
            assert high == pytest.approx(next(m for i, m in enumerate(means, 1) if i / len(means) >= 0.9 - 1e-12))


def test_exact_and_resampled_agree_within_resampling_error(subtests: pytest.Subtests) -> None:
    rows: list[tuple[int, int]] = [(30, 5), (400, 5), (2_004, 5), (300, 3)]
    for n, trials in rows:
        with subtests.test(n=n, trials=trials):
            sample = np.random.default_rng(1).integers(0, trials + 1, n) / trials
            exact, resampled = exact_interval(sample), resampled_interval(sample)
            noise = sample.std() / n**0.5
            assert exact is not None
            assert np.abs(np.subtract(exact, resampled)).max() < 0.1 * noise + 1 / (trials * n)


@pytest.mark.slow
@pytest.mark.parametrize("n", [1_000, 2_500])
def test_many_values_off_a_lattice_agree_with_resampling_within_its_error(n: int) -> None:
    sample = np.random.default_rng(8).beta(2, 5, n)
    noise = sample.std() / n**0.5
    assert exact_interval(sample) is None
    assert np.abs(np.subtract(bootstrap_interval(sample), resampled_interval(sample))).max() < 0.1 * noise
    # no variation, and a value that outweighs all others: resampled
    assert all(map(math.isnan, bootstrap_interval(np.full(n, math.pi), shares=False)))
    outlier = np.append(sample, 1e4)
    assert bootstrap_interval(outlier) == resampled_interval(outlier)


def test_a_large_sample_comes_close_to_the_normal_interval() -> None:
    sample = np.random.default_rng(2).integers(0, 6, 2_004) / 5
    assert exact_interval(sample) == pytest.approx(t_interval(sample), abs=5e-4)


def test_lattices_are_found_and_others_refused() -> None:
    fifths = find_lattice(np.array([0.2, 1.0, 0.6]))
    assert fifths is not None
    assert (fifths.low, fifths.step, fifths.ticks.tolist()) == (0.2, 0.4, [0, 2, 1])
    mixed = find_lattice(np.array([1 / 3, 3 / 4, 0.0]))
    assert mixed is not None
    assert mixed.step == pytest.approx(1 / 12)
    assert find_lattice(np.array([0.0, math.pi / 4])) is None


def test_values_off_a_small_lattice_are_resampled() -> None:
    continuous = np.random.default_rng(3).random(50)
    assert exact_interval(continuous) is None
    assert bootstrap_interval(continuous) == resampled_interval(continuous)
    wide = np.array([1 / p for p in (2, 3, 5, 7, 11, 13, 17, 19)] * 2)
    assert mean_distribution(wide) is None or find_lattice(wide).points <= MAX_POINTS
    assert exact_interval(wide) is None


@pytest.mark.parametrize("interval", [exact_interval, resampled_interval, bootstrap_interval])
def test_expansion_widens_the_intervals_of_few_cases_and_leaves_those_of_many(interval) -> None:
    few, many = (np.random.default_rng(6).integers(0, 6, n) / 5 for n in (8, 5_000))
    assert np.diff(interval(few)) > 1.15 * np.diff(interval(few, expanded=False))
    assert interval(many) == pytest.approx(interval(many, expanded=False), abs=2e-4)


def test_the_expanded_interval_of_symmetric_cases_is_about_as_wide_as_the_t_interval() -> None:
    sample = np.arange(20) / 20
    assert np.diff(exact_interval(sample)) == pytest.approx(np.diff(t_interval(sample)), rel=0.03)
    assert np.diff(exact_interval(sample, expanded=False)) < 0.93 * np.diff(t_interval(sample))


def test_few_and_many_distinct_values_are_resampled_alike() -> None:
    few = np.random.default_rng(7).integers(0, 6, 100) / 5
    many = few + np.linspace(0, 1e-9, 100)
    quantiles = [np.quantile(resampled_means(x, 20_000, seed=20), [0.025, 0.25, 0.5, 0.75, 0.975]) for x in (few, many)]
    assert quantiles[0] == pytest.approx(quantiles[1], abs=0.05 * few.std() / 10 + 0.002)


def test_the_seed_decides() -> None:
    sample = np.random.default_rng(4).random(40)
    assert resampled_interval(sample) == resampled_interval(sample)
    assert resampled_interval(sample, seed=1) != resampled_interval(sample, seed=2)


def test_resampling_in_blocks_gives_all_resamples() -> None:
    sample = np.random.default_rng(5).random(900)
    means = resampled_means(sample, 10_000, seed=20)
    assert means.shape == (10_000,)
    assert means.mean() == pytest.approx(sample.mean(), abs=1e-3)
    assert means.std() == pytest.approx(sample.std() / 30, rel=0.05)


def test_the_t_interval_by_hand() -> None:
    # mean 0.5, sd 0.5, t(0.975, 2) = 4.302653
    assert t_interval([0, 0.5, 1]) == pytest.approx((0.5 - 4.302653 * 0.5 / 3**0.5, 0.5 + 4.302653 * 0.5 / 3**0.5))
    assert all(math.isnan(bound) for bound in t_interval([0.3]))
