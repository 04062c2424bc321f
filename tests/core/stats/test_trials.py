"""Reliability over trials: pass^k and flip rate by enumeration, variance components by a textbook and simulation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from core.errors import UsageError
from core.stats.trials import flip_rate, icc_interval, pass_hat_k, variance_components
from tests.support.intervals import beta_bounds

CORRECT = [5, 3, 0, 1, 2]
COUNTED = [5, 5, 5, 1, 4]


def test_pass_hat_k_is_the_share_of_draws_that_are_all_right(subtests: pytest.Subtests) -> None:
    rows: list[int] = [1, 2, 3, 4, 5]
    for k in rows:
        with subtests.test(k=k):
            shares = []
            for right, trials in zip(CORRECT, COUNTED, strict=True):
                draws = list(itertools.combinations([1] * right + [0] * (trials - right), k))
                shares += [sum(map(all, draws)) / len(draws)] if draws else []
            got = pass_hat_k(CORRECT, COUNTED, k)
            assert got.value == pytest.approx(np.mean(shares))
            assert (got.n_cases, got.n_left_out) == (len(shares), 5 - len(shares))


def test_pass_hat_k_by_hand() -> None:
    # 3 of 5 right: 3 of the 10 pairs are both right
    assert pass_hat_k([3], [5], 2).value == pytest.approx(0.3)
    assert pass_hat_k(CORRECT, COUNTED, 1).value == pytest.approx((1 + 0.6 + 0 + 1 + 0.5) / 5)


def test_pass_hat_k_is_unbiased() -> None:
    chance = np.random.default_rng(1).random(40_000)
    correct = np.random.default_rng(2).binomial(5, chance)
    assert pass_hat_k(correct, np.full(40_000, 5), 3).value == pytest.approx(1 / 4, abs=0.008)


def test_flip_rate_by_hand() -> None:
    # cases 2 and 5 disagree; case 4 has one trial only
    assert flip_rate(CORRECT, COUNTED)[:3] == (0.5, 4, 1)


def test_too_few_trials_give_nan() -> None:
    assert math.isnan(pass_hat_k([1], [1], 2).value)
    assert math.isnan(flip_rate([], []).value)
    assert math.isnan(variance_components([1, 0], [1, 1]).icc)
    assert math.isnan(variance_components([3], [5]).icc)
    assert math.isnan(variance_components([5, 5], [5, 5]).icc)


def test_impossible_counts_are_refused() -> None:
    for correct, counted in (([2], [1]), ([-1], [1]), ([1, 1], [1])):
        with pytest.raises(UsageError):
            flip_rate(correct, counted)
    with pytest.raises(UsageError, match="at least 1"):
        pass_hat_k([1], [1], 0)


def test_the_textbook_example_of_shrout_and_fleiss() -> None:
    # Psychological Bulletin 86 (1979), table 2: between 11.24, within 6.26, ICC(1,1) = .17
    ratings = np.array([[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]])
    got = variance_components(ratings.sum(axis=1), np.full(6, 4), (ratings**2).sum(axis=1))
    assert got.within == pytest.approx(6.26, abs=0.005)
    assert 4 * got.between + got.within == pytest.approx(11.24, abs=0.005)
    assert got.icc == pytest.approx(0.166, abs=0.001)
    assert (got.trials_per_case, got.n_cases) == (4, 6)


def test_unequal_numbers_of_trials_by_hand() -> None:
    # scores (1, 0), (1, 1, 1), (0): mean 4/6; squares within 1/2 on 3 degrees of freedom;
    # between 2·(1/2 − 2/3)² + 3·(1/3)² + (2/3)² = 5/6 on 2; mean that counts (6 − 14/6)/2
    got = variance_components([1, 3, 0, 0], [2, 3, 1, 0])
    assert got.within == pytest.approx(1 / 6)
    assert got.trials_per_case == pytest.approx(11 / 6)
    assert got.between == pytest.approx((5 / 12 - 1 / 6) / (11 / 6))
    assert got.n_cases == 3


def test_trials_that_always_agree_and_that_agree_by_chance() -> None:
    assert variance_components([5, 0, 5, 0], [5, 5, 5, 5]).icc == 1
    by_chance = np.random.default_rng(3).binomial(5, 0.6, 20_000)
    assert variance_components(by_chance, np.full(20_000, 5)).icc == pytest.approx(0, abs=0.02)


def test_components_are_estimated_from_simulated_data() -> None:
    # beta(1, 2): variance of chances 1/18, of trials around them E[p(1 − p)] = 1/6
    rng = np.random.default_rng(4)
    counted = rng.integers(1, 7, 60_000)
    correct = rng.binomial(counted, rng.beta(1, 2, 60_000))
    got = variance_components(correct, counted)
    assert got.between == pytest.approx(1 / 18, rel=0.05)
    assert got.within == pytest.approx(1 / 6, rel=0.05)


def test_the_interval_of_the_icc_resamples_cases() -> None:
    correct, counted = [5, 4, 0, 1, 5, 0, 3, 5], [5] * 8
    interval = icc_interval(correct, counted)
    assert interval.low < variance_components(correct, counted).icc < interval.high <= 1
    # trials of a case always agree in every resample, so that there is no interval
    assert all(map(math.isnan, icc_interval([5, 0, 5, 0, 5], [5] * 5)))
    assert all(map(math.isnan, icc_interval([1, 0], [1, 1])))


def test_intervals_come_with_the_shares() -> None:
    assert pass_hat_k([5, 0, 5, 0], [5] * 4, 2).interval == pytest.approx(beta_bounds(2, 4))
