"""Planning: power compared with statsmodels and simulation, and variance components with those of the data."""

from __future__ import annotations

import numpy as np
import pytest
from statsmodels.stats.power import TTestPower

from core.errors import UsageError
from core.stats.differences import paired_difference
from core.stats.power import (
    PairedComponents,
    cases_needed,
    components_of_pair,
    components_of_run,
    detectable_difference,
    plans,
    power,
)
from core.stats.trials import VarianceComponents

TYPICAL = PairedComponents(between=0.15, within=0.18)


def test_power_is_that_of_the_paired_t_test(subtests: pytest.Subtests) -> None:
    rows: list[tuple[float, int, int]] = [(0.05, 400, 5), (0.02, 2_000, 5), (-0.2, 20, 1), (0.3, 30, 5), (0.001, 2, 1)]
    for difference, cases, trials in rows:
        with subtests.test(difference=difference, cases=cases):
            effect = difference / (0.15 + 0.18 / trials) ** 0.5
            expected = TTestPower().power(abs(effect), cases, 0.05)
            assert power(TYPICAL, difference, cases, trials) == pytest.approx(expected, abs=1e-9)


def test_power_at_extreme_values() -> None:
    assert power(TYPICAL, 0, 300, 5) == pytest.approx(0.05)
    for cases in (300, 1_000, 2_004, 100_000):
        assert power(TYPICAL, 0.9, cases, 5) == pytest.approx(1)
    assert power(TYPICAL, 0.5, 1, 5) == 0
    assert power(PairedComponents(0, 0), 0.1, 10, 1) == 1
    assert power(PairedComponents(0, 0), 0, 10, 1) == 0


def test_the_cases_needed_are_the_smallest_sufficient_number() -> None:
    for trials in (1, 5):
        cases = cases_needed(TYPICAL, 0.05, trials)
        assert power(TYPICAL, 0.05, cases, trials) >= 0.8 > power(TYPICAL, 0.05, cases - 1, trials)
    # (1.96 + 0.8416)² · variance / difference²: 7.849 · 0.33 / 0.0025 = 1036, and two more for t
    assert cases_needed(TYPICAL, 0.05, 1) == pytest.approx(1_038, abs=1)


def test_the_detectable_difference_is_the_inverse_of_power() -> None:
    difference = detectable_difference(TYPICAL, 586, 5)
    assert power(TYPICAL, difference, 586, 5) == pytest.approx(0.8, abs=1e-6)
    assert detectable_difference(TYPICAL, 2, 1) == 1


def test_more_trials_only_reduce_the_variance_within_cases() -> None:
    noisy, stable = PairedComponents(0.01, 0.4), PairedComponents(0.4, 0.0)
    few, many = plans(noisy, 0.05, (1, 10))
    assert many.cases < few.cases / 4
    assert many.conversations == 10 * many.cases
    assert len({plan.cases for plan in plans(stable, 0.05)}) == 1


def test_impossible_plans_are_refused() -> None:
    with pytest.raises(UsageError, match="other than 0"):
        cases_needed(TYPICAL, 0, 5)
    with pytest.raises(UsageError, match="too small"):
        cases_needed(TYPICAL, 1e-5, 5)
    with pytest.raises(UsageError, match="between -1 and 1"):
        components_of_run(VarianceComponents(0.1, 0.1, 5, 100), 1.2)


def test_components_of_one_run_by_hand() -> None:
    run = VarianceComponents(between=0.1, within=0.08, trials_per_case=5, n_cases=60)
    assert components_of_run(run, correlation=0.25) == pytest.approx((0.15, 0.16))
    assert components_of_run(run._replace(between=-0.01)) == pytest.approx((0, 0.16))


def test_components_of_a_pair_by_hand() -> None:
    # differences of means 1, −1, 0.5; noise 0, 0, and (1·1)/(2·1) = 1/2 in one trial of the third's second arm
    got = components_of_pair([2, 0, 2, 1], [2, 2, 2, 1], [0, 2, 1, 1], [2, 2, 2, 5])
    assert got.within == pytest.approx(0.5 / 3)
    assert got.between == pytest.approx(np.var([1, -1, 0.5], ddof=1) - 0.25 / 3)
    assert np.isnan(components_of_pair([1], [2], [1], [2]).between)


def simulated(rng: np.random.Generator, cases: int, trials: int, shift: float) -> tuple[np.ndarray, np.ndarray]:
    """Trials of two models; the second's chances are another draw in half of the cases, and lower by ``shift``."""
    first = 0.3 + 0.4 * rng.random(cases)
    second = np.where(rng.random(cases) < 0.5, first, 0.3 + 0.4 * rng.random(cases)) - shift
    return rng.binomial(trials, first), rng.binomial(trials, second)


def test_components_of_a_pair_are_estimated_from_simulated_data() -> None:
    a, b = simulated(np.random.default_rng(1), 60_000, 4, 0)
    trials = np.full(60_000, 4)
    got = components_of_pair(a, trials, b, trials)
    # var of uniform(0.3, 0.7) is .16/12; half of the cases differ, by two independent draws; E[p(1 − p)] = .25 − .16/12
    assert got.between == pytest.approx(0.5 * 2 * 0.16 / 12, rel=0.1)
    assert got.within == pytest.approx(2 * (0.25 - 0.16 / 12), rel=0.02)


@pytest.mark.slow
def test_the_power_of_simulated_campaigns_is_the_planned_one() -> None:
    components = PairedComponents(0.16 / 12, 2 * (0.25 - 0.16 / 12))
    cases = cases_needed(components, 0.1, trials=3)
    rng = np.random.default_rng(2)
    runs = 500
    significant = 0
    for _ in range(runs):
        a, b = simulated(rng, cases, 3, 0.1)
        significant += paired_difference(a / 3, b / 3).p <= 0.05
    assert significant / runs == pytest.approx(0.8, abs=3.3 * (0.8 * 0.2 / runs) ** 0.5 + 0.01)
