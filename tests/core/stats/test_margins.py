"""Error rates and power of tests with a margin, exact for one trial a case: sums over all numbers of changed cases."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
import pytest
import scipy  # type: ignore[import-untyped]

from core.stats.intervals import Interval, t_interval
from core.stats.margins import (
    FEWEST_CASES,
    chance_to_pass,
    decide,
    margin_interval,
    smallest_margin,
    smoothed_components,
    with_pseudo_cases,
)
from core.stats.power import PairedComponents
from core.stats.smoothed import mean_interval


def chances(cases: int, gained: float, lost: float) -> dict[tuple[int, int], float]:
    """Return (cases that improve, cases that get worse) → its probability, without those below 1e-5."""
    law = scipy.stats.multinomial(cases, [gained, lost, 1 - gained - lost])
    most = int(cases * (gained + lost) + 6 * (cases * (gained + lost)) ** 0.5 + 6)
    pairs = [(up, down) for up, down in product(range(min(most, cases) + 1), repeat=2) if up + down <= cases]
    probabilities = law.pmf([(up, down, cases - up - down) for up, down in pairs])
    return {pair: float(p) for pair, p in zip(pairs, probabilities, strict=True) if p > 1e-5}


@cache
def bounds(cases: int, up: int, down: int) -> Interval:
    return margin_interval(sample(cases, up, down))


def sample(cases: int, up: int, down: int) -> np.ndarray:
    return np.repeat([1.0, -1.0, 0.0], [up, down, cases - up - down])


def chance_of(decision: str, cases: int, changed: float, true: float, margin: float) -> float:
    gained, lost = max(0.0, (changed + true) / 2), max(-true, (changed - true) / 2)
    return sum(
        p
        for (up, down), p in chances(cases, gained, lost).items()
        if decide(bounds(cases, up, down), "noninferiority", margin) == decision
    )


@pytest.mark.parametrize(
    ("cases", "changed", "margin"), [(FEWEST_CASES, 0.2, 0.15), (60, 0.1, 0.1), (100, 0.06, 0.05), (200, 0.15, 0.05)]
)
def test_wrong_passes_and_false_alarms_are_at_most_the_level_and_power_is_as_stated(
    cases: int, changed: float, margin: float
) -> None:
    assert chance_of("pass", cases, changed, -margin, margin) <= 0.05 + 0.02
    assert chance_of("fail", cases, changed, -margin, margin) <= 0.05 + 0.02
    assert chance_of("fail", cases, changed, 0.0, margin) <= 0.01
    components = with_pseudo_cases(PairedComponents(changed, 0.0), cases, 1)
    stated = chance_to_pass(components, "noninferiority", margin, cases)
    # with few changed cases the power jumps: it lies between two neighbouring numbers of cases
    neighbours = [chance_of("pass", n, changed, 0.0, margin) for n in (cases - 2, cases, cases + 2)]
    assert min(neighbours) - 0.02 <= stated <= max(neighbours) + 0.02


def test_students_interval_would_pass_too_often_if_few_cases_differ() -> None:
    """30 cases of which a tenth gets worse and none improves: no case differs in 4 % of the samples."""

    def low(up: int, down: int) -> float:
        return t_interval(sample(30, up, down), 0.9).low

    wrong = sum(p for (up, down), p in chances(30, 0.0, 0.1).items() if low(up, down) > -0.1)
    assert wrong > 0.15
    assert chance_of("pass", 30, 0.1, -0.1, 0.1) < 0.07


def test_each_bound_is_one_sided() -> None:
    differences = sample(50, 3, 6)
    assert margin_interval(differences, 0.05) == mean_interval(differences, 0.9, low=-1.0, high=1.0)


@pytest.mark.parametrize(
    ("low", "high", "kind", "decision"),
    [
        (-0.04, 0.02, "noninferiority", "pass"),
        (-0.04, -0.01, "noninferiority", "pass"),  # worse, but by less than the margin
        (-0.09, -0.02, "noninferiority", "unclear"),
        (-0.09, -0.06, "noninferiority", "fail"),
        (0.01, 0.09, "superiority", "pass"),
        (-0.01, 0.09, "superiority", "unclear"),
        (-0.09, -0.01, "superiority", "fail"),
        (-0.04, 0.04, "equivalence", "pass"),
        (-0.04, 0.06, "equivalence", "unclear"),
        (0.06, 0.09, "equivalence", "fail"),
        (-0.09, -0.06, "equivalence", "fail"),
    ],
)
def test_a_decision_needs_the_whole_interval_on_one_side(low: float, high: float, kind: str, decision: str) -> None:
    assert decide(Interval(low, high), kind, 0.05) == decision  # type: ignore[arg-type]


def test_cases_that_do_not_differ_promise_no_power_of_one() -> None:
    components = smoothed_components(np.zeros(30))
    assert 0 < chance_to_pass(components, "noninferiority", 0.05, 30) < 0.6
    # two pseudo-cases of shape s at ±1 give the mean of n zeros a variance of 2s / ((n + 2s)(n + 2s + 1))
    shape = 0.75 - 1.25 / 30
    expected = 30 * 2 * shape / ((30 + 2 * shape) * (31 + 2 * shape))
    assert components.between == pytest.approx(expected)


def test_the_smallest_margin_has_the_power() -> None:
    components = PairedComponents(0.2, 0.0)
    for kind in ("noninferiority", "superiority", "equivalence"):
        margin = smallest_margin(components, kind, 150)
        assert chance_to_pass(components, kind, margin, 150) == pytest.approx(0.8, abs=1e-3)
