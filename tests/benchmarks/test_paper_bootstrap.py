"""The published test: exactly equal to drawing resamples one by one, also with ties."""

from __future__ import annotations

import math

import numpy as np
import pytest
from paper_bootstrap import RESAMPLES, paper_p_values, resamples_of, tie_band

from core.errors import UsageError
from tests.benchmarks.small_release import literal

pytestmark = pytest.mark.slow


def paper_p(first: np.ndarray, second: np.ndarray) -> float:
    return paper_p_values([(first, second)])[0]


def arms(seed: int, n: int, trials: int = 5) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    chance = rng.beta(0.5, 0.7, n)
    return tuple(np.array([np.mean(rng.random(trials) < c) for c in chance]) for _ in range(2))


CASES = [(1, 2), (3, 20), (7, 301)]


@pytest.mark.parametrize(("seed", "n"), CASES)
def test_p_equals_that_of_the_published_loop(seed: int, n: int) -> None:
    first, second = arms(seed, n)
    assert paper_p(first, second) == literal(first, second)


def test_many_tests_together_equal_single_tests() -> None:
    pairs = [arms(seed, n) for seed, n in CASES] + [arms(20, 100), arms(21, 100), arms(22, 100, trials=3)]
    assert paper_p_values(pairs) == [paper_p(*pair) for pair in pairs]


def test_ties_depend_on_rounding_as_in_the_publication() -> None:
    # With integers all ties are equal; with floats some count and some do not, so that p lies between these bounds.
    first, second = arms(4, 100)
    ticks = np.rint((first - second) * 5).astype(int)
    sums = resamples_of(100).counts.astype(int) @ ticks
    beyond = np.abs(sums - ticks.sum()) - abs(ticks.sum())
    all_ties, no_ties = ((np.sum(hits) + 1) / 10_001 for hits in (beyond >= 0, beyond > 0))
    assert all_ties - no_ties > 0.01
    assert no_ties < paper_p(first, second) < all_ties


def test_the_order_of_cases_and_of_arms_is_part_of_the_result() -> None:
    first, second = arms(7, 301)
    shuffled = np.random.default_rng(0).permutation(301)
    assert paper_p(first[shuffled], second[shuffled]) != paper_p(first, second)
    assert paper_p(second, first) == literal(second, first)


def test_values_off_the_lattice_are_equal_to_the_loop_too() -> None:
    rng = np.random.default_rng(9)
    first, second = rng.random(150), rng.random(150)
    assert paper_p(first, second) == literal(first, second)


@pytest.mark.parametrize(("second", "p"), [([0.2] * 30, 1.0), ([1.0] * 30, 0.0001)])
def test_arms_with_constant_differences(second: list[float], p: float) -> None:
    assert paper_p([0.2] * 30, second) == literal(np.full(30, 0.2), np.array(second)) == p


def test_no_cases_and_gaps() -> None:
    assert math.isnan(paper_p([], []))
    assert [math.isnan(p) for p in paper_p_values([([], []), ([0.0, 1.0], [1.0, 1.0])])] == [True, False]
    for wrong in ([0.2, math.nan], [0.2], [[0.2, 0.4]]):
        with pytest.raises(UsageError, match="one score of either arm for each case"):
            paper_p(wrong, [0.2, 0.4])


def test_resamples_are_those_of_the_legacy_generator() -> None:
    drawn, counts = resamples_of(37)
    generator = np.random.RandomState(20)
    for row in drawn[:50]:
        assert (row == generator.choice(np.arange(37), 37)).all()
    assert (counts[123] == np.bincount(drawn[123], minlength=37)).all()
    assert (counts.sum(axis=1) == 37).all()


def test_ties_leave_a_band_around_the_papers_p_value() -> None:
    generator = np.random.default_rng(3)
    first, second = generator.integers(0, 6, (2, 60)) / 5
    band = tie_band(first, second)
    assert band.low < literal(first, second) <= band.high


def test_the_band_is_exact_for_two_cases() -> None:
    # d = (1, 0) has the mean ½; the mean of a resample is 0, ½ or 1: 0 and 1 tie, ½ does not
    drawn = np.random.RandomState(20).randint(0, 2, (RESAMPLES, 2))
    ties = sum(a == b for a, b in drawn.tolist())
    band = tie_band([1.0, 0.0], [0.0, 0.0])
    assert band == (round(1 / (RESAMPLES + 1), 4), round((ties + 1) / (RESAMPLES + 1), 4))
