"""Error rates and power of tests with a margin, exact for one trial a case: sums over all numbers of changed cases."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
import pytest
import scipy  # type: ignore[import-untyped]

from core.stats.intervals import Interval, t_interval
from core.stats.margin_power import (
    DifferenceLaw,
    cases_to_pass,
    chance_to_pass,
    observed_law,
    planned_law,
    smallest_margin,
)
from core.stats.margins import FEWEST_CASES, Kind, decide, margin_interval
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
    ("cases", "changed", "margin"),
    [(FEWEST_CASES, 0.2, 0.15), (30, 0.116, 0.1), (60, 0.1, 0.1), (100, 0.06, 0.05), (200, 0.15, 0.05)],
)
def test_wrong_passes_and_false_alarms_are_at_most_the_level_and_power_is_as_stated(
    cases: int, changed: float, margin: float
) -> None:
    assert chance_of("pass", cases, changed, -margin, margin) <= 0.05 + 0.02
    assert chance_of("fail", cases, changed, -margin, margin) <= 0.05 + 0.02
    assert chance_of("fail", cases, changed, 0.0, margin) <= 0.01
    stated = chance_to_pass(planned_law(PairedComponents(changed, 0.0), 1), "noninferiority", margin, cases)
    assert stated == pytest.approx(chance_of("pass", cases, changed, 0.0, margin), abs=0.015)


@pytest.mark.parametrize(("cases", "share", "margin"), [(FEWEST_CASES, 0.2, 0.15), (30, 0.116, 0.1), (40, 0.05, 0.1)])
def test_the_mean_of_the_stated_power_is_the_power_if_few_cases_differ(cases: int, share: float, margin: float) -> None:
    """The number of cases that differ is binomial; the stated power depends on nothing else."""
    differing = range(cases + 1)
    chances = scipy.stats.binom.pmf(differing, cases, share)
    stated = sum(
        p * chance_to_pass(observed_law(sample(cases, n, 0)), "noninferiority", margin, cases)
        for n, p in zip(differing, chances, strict=True)
        if p > 1e-4
    )
    assert stated == pytest.approx(chance_of("pass", cases, share, 0.0, margin), abs=0.02)


@pytest.mark.parametrize(("kind", "true"), [("noninferiority", 0.0), ("superiority", 0.1), ("equivalence", 0.0)])
def test_the_power_of_several_trials_is_that_of_random_samples(kind: Kind, true: float) -> None:
    """Cases differ by 0.2 to 1 in five trials; a mean of 0.1 makes as many differences positive as it needs."""
    sizes = np.array([0.0, 0.2, 0.4, 1.0])
    chances = np.array([0.4, 0.3, 0.2, 0.1])
    positive = (1 + true / (sizes @ chances)) / 2
    rng, margin = np.random.default_rng(4), 0.1
    passes = []
    for _ in range(600):
        drawn = rng.choice(sizes, 50, p=chances) * np.where(rng.random(50) < positive, 1, -1)
        passes.append(decide(margin_interval(drawn), kind, margin) == "pass")
    stated = chance_to_pass(DifferenceLaw(sizes, chances), kind, margin, 50)
    assert stated == pytest.approx(float(np.mean(passes)), abs=0.06)  # three standard errors


def test_a_plan_has_the_law_of_cases_that_are_right_or_wrong() -> None:
    """Of 16 % of the cases the state differs, and an answer differs from it in 10 %: variances by hand."""
    law = planned_law(PairedComponents(0.8**2 * 0.16, 2 * 0.1 * 0.9), 3)
    assert law.chances.sum() == pytest.approx(1)
    assert law.sizes**2 @ law.chances == pytest.approx(0.8**2 * 0.16 + 2 * 0.1 * 0.9 / 3)
    # with one trial a case differs if its state differs and both answers or neither follow it, or the reverse
    single = planned_law(PairedComponents(0.8**2 * 0.16, 2 * 0.1 * 0.9), 1)
    assert single.chances[-1] == pytest.approx(0.16 * (0.9**2 + 0.1**2) + 0.84 * 2 * 0.1 * 0.9)


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
    """30 cases that do not differ pass a margin of 0.05 never, as the interval of no difference is wider."""
    law = observed_law(np.zeros(30))
    assert law.chances[law.sizes > 0].sum() == pytest.approx(0.25 / 30.5)
    assert chance_to_pass(law, "noninferiority", 0.05, 30) < 0.2
    # within 0.1 a pass fails only if a case gets worse: (1 − 1/244)³⁰ = 0.884 have none, and a few others gain one, too
    assert chance_to_pass(law, "noninferiority", 0.1, 30) == pytest.approx(0.89, abs=0.015)


@pytest.mark.parametrize("kind", ["noninferiority", "superiority", "equivalence"])
def test_the_smallest_margin_and_the_cases_needed_have_the_power(kind: Kind) -> None:
    law = DifferenceLaw(np.array([0.0, 1.0]), np.array([0.8, 0.2]))
    margin = smallest_margin(law, kind, 150)
    assert chance_to_pass(law, kind, margin, 150) == pytest.approx(0.8, abs=0.03)
    needed = cases_to_pass(law, kind, 0.08, 150)
    assert needed is not None
    assert chance_to_pass(law, kind, 0.08, needed) == pytest.approx(0.8, abs=0.03)
    assert chance_to_pass(law, kind, 0.08, needed // 2) < 0.8


def test_a_margin_that_no_number_of_cases_shows_has_none() -> None:
    law = DifferenceLaw(np.array([0.0, 1.0]), np.array([0.8, 0.2]))
    assert cases_to_pass(law, "noninferiority", 1e-5, 50) is None
    assert cases_to_pass(law, "noninferiority", 0.9, 500) == FEWEST_CASES
