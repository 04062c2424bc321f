"""Paired comparisons, compared with the enumeration of all resamples, and exact with resampled ones."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from core.errors import UsageError
from core.measures.comparison import compare_cases
from core.stats.bootstrap import mean_distribution
from core.stats.differences import (
    FLOOR,
    Difference,
    bootstrap_difference,
    changes,
    paired_difference,
    unpaired_difference,
)

SMALL = [
    ([1.0, 0.2, 0.4], [0.0, 0.4, 0.4]),
    ([1.0, 0.8, 0.6, 1.0], [0.2, 1.0, 0.0, 0.5]),
    ([1 / 3, 1.0, 0.5, 0.0, 1.0], [0.0, 0.5, 0.5, 1.0, 0.0]),
]


def quantile(means: list[float], share: float) -> float:
    return next(m for i, m in enumerate(sorted(means), 1) if i / len(means) >= share - 1e-12)


def enumerated_p(means: list[float], mean: float) -> float:
    return sum(abs(m - mean) >= abs(mean) - 1e-9 for m in means) / len(means)


@pytest.mark.parametrize(("first", "second"), SMALL)
def test_paired_is_the_enumeration_of_all_resamples(first: list[float], second: list[float]) -> None:
    d = [a - b for a, b in zip(first, second, strict=True)]
    means = [sum(draw) / len(d) for draw in itertools.product(d, repeat=len(d))]
    got = bootstrap_difference(first, second, 0.8, engine="exact", expanded=False)
    assert (got.mean, got.n, got.engine) == (pytest.approx(sum(d) / len(d)), len(d), "exact")
    assert got.p == pytest.approx(enumerated_p(means, sum(d) / len(d)))
    assert got.interval == pytest.approx((quantile(means, 0.1), quantile(means, 0.9)))


def test_one_case_differs_by_hand() -> None:
    # d = (1, 0, 0): the mean 1/3 lies 1/3 from resamples with sum 0 (8 of 27) and sum 2 (6) and 2/3 from sum 3 (1)
    first, second = [1, 1, 0], [0, 1, 0]
    assert bootstrap_difference(first, second, expanded=False).p == pytest.approx(15 / 27)
    # expanded: ties count half, 1 + 14/2 of 27; the normal quantile of that, times √(2/3), on t with 2 df
    z = stats.norm.isf(8 / 54)
    assert bootstrap_difference(first, second).p == pytest.approx(2 * stats.t.sf(z * (2 / 3) ** 0.5, 2))


def test_equal_arms_do_not_differ() -> None:
    got = bootstrap_difference([0.2, 0.4, 1.0], [0.2, 0.4, 1.0])
    assert (got.mean, got.p) == (0, 1)
    assert got.interval.low <= 0 <= got.interval.high


def test_exchanging_the_arms_only_changes_the_sign() -> None:
    first, second = random_arms(np.random.default_rng(3), 40, 5)
    forward, backward = bootstrap_difference(first, second), bootstrap_difference(second, first)
    assert forward.p == pytest.approx(backward.p, rel=1e-9)
    assert forward.mean == -backward.mean
    # on a lattice the two quantiles can differ by one step
    assert forward.interval.low == pytest.approx(-backward.interval.high, abs=2 / (5 * 40))


def test_tiny_p_values_stop_at_the_floor() -> None:
    rng = np.random.default_rng(4)
    first, second = rng.binomial(5, 0.9, 2_004) / 5, rng.binomial(5, 0.2, 2_004) / 5
    assert bootstrap_difference(first, second, expanded=False).p == FLOOR
    assert FLOOR <= bootstrap_difference(first, second).p < 1e-9
    assert bootstrap_difference(first, second, engine="resampled", expanded=False).p == pytest.approx(1 / 10_001)


def test_few_equal_differences_are_not_significant() -> None:
    # without variance the bootstrap alone would call even two cases certain
    assert bootstrap_difference([1, 1], [0, 0], expanded=False).p == FLOOR
    assert bootstrap_difference([1, 1], [0, 0]).p > 0.05
    assert bootstrap_difference([1] * 20, [0] * 20).p < 0.0001


def test_too_few_cases_give_nan() -> None:
    for got in (bootstrap_difference([1], [0]), bootstrap_difference([], [])):
        assert isinstance(got, Difference)
        assert all(map(math.isnan, (got.p, *got.interval)))


def test_incomparable_scores_are_refused() -> None:
    with pytest.raises(UsageError, match="same cases"):
        bootstrap_difference([0.2, 0.4], [0.2])
    with pytest.raises(UsageError, match="without gaps"):
        bootstrap_difference([0.2, math.nan], [0.2, 0.4])
    continuous = np.random.default_rng(1).random((2, 30))
    assert bootstrap_difference(*continuous).engine == "resampled"
    with pytest.raises(UsageError, match="use resampling"):
        bootstrap_difference(*continuous, engine="exact")


def random_arms(rng: np.random.Generator, n: int, trials: int) -> tuple[np.ndarray, np.ndarray]:
    """Two arms on the same cases; half of the cases are equally hard for both, the second arm is slightly better."""
    hardness = rng.beta(0.7, 0.7, n)
    other = np.where(rng.random(n) < 0.5, hardness, rng.beta(0.7, 0.7, n))
    shift = rng.normal(scale=1.5 / n**0.5)
    return rng.binomial(trials, hardness, n) / trials, rng.binomial(trials, (other + shift).clip(0, 1), n) / trials


def test_exact_and_seeded_agree_within_resampling_error() -> None:
    rng = np.random.default_rng(8)
    for _ in range(30):
        first, second = random_arms(rng, int(rng.integers(15, 600)), int(rng.integers(1, 6)))
        exact, seeded = (bootstrap_difference(first, second, engine=e, expanded=False) for e in ("exact", "resampled"))
        noise = (exact.p * (1 - exact.p) / 10_000) ** 0.5
        assert abs(exact.p - seeded.p) < 4.5 * noise + 2e-4
        # a bound at 2.5 % has a resampling error of about 2.7 % of a standard error, and 4.5 times that at worst
        error = (np.diff(exact.interval) / 3.92).item()
        step = 1 / (60 * min(first.size, second.size))
        assert np.abs(np.subtract(exact.interval, seeded.interval)).max() < 0.12 * error + 13 * step


def test_p_of_a_mean_is_the_tail_of_its_distribution() -> None:
    rng = np.random.default_rng(5)
    first, second = random_arms(rng, 200, 5)
    distribution = mean_distribution(first - second)
    mean = float(np.mean(first - second))
    means = np.repeat(distribution.means, rng.multinomial(200_000, distribution.probabilities))
    share = np.mean(np.abs(means - mean) >= abs(mean) - 1e-9)
    assert bootstrap_difference(first, second, expanded=False).p == pytest.approx(share, abs=0.005)


def test_a_change_by_rounding_is_none() -> None:
    before, after = {"a": 0.1 + 0.2, "b": 0.7, "c": 0.2}, {"a": 0.3, "b": 0.1 + 0.6, "c": 0.9}
    compared = compare_cases(before, after)
    assert (compared.improved, compared.regressed, compared.equal) == (1, 0, 2)
    # changes of .3, −.1 and −.2 cancel
    for difference in (paired_difference, bootstrap_difference, unpaired_difference):
        assert difference([0.4, 0.2, 0.1], [0.1, 0.3, 0.3]).mean == 0, difference
    assert list(changes([0.3, 0.5], [0.1 + 0.2, 0.4])) == [0, pytest.approx(0.1)]
    assert compare_cases({"a": 0.4, "b": 0.2, "c": 0.1}, {"a": 0.1, "b": 0.3, "c": 0.3}).difference == 0
