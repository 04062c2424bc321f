"""Error rates and power of tests with a margin, exact for one trial a case: sums over all numbers of changed cases."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
import pytest
import scipy  # type: ignore[import-untyped]

from core.stats.intervals import Interval, t_interval
from core.stats.margin_power import DifferenceLaw, cases_to_pass, chance_to_pass, observed_law, smallest_margin
from core.stats.margins import FEWEST_CASES, decide, margin_interval
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
        if decide(bounds(cases, up, down), margin) == decision
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "studies",
    [
        [(FEWEST_CASES, 0.2, 0.15), (30, 0.116, 0.1)],
        pytest.param([(60, 0.1, 0.1), (100, 0.06, 0.05), (200, 0.15, 0.05)], marks=pytest.mark.slow),
    ],
    ids=["few cases", "many cases"],
)
def test_wrong_passes_and_false_alarms_are_at_most_the_level_and_power_is_as_stated(
    studies: list[tuple[int, float, float]], subtests: pytest.Subtests
) -> None:
    """A study: its cases, the share of them that change, and the margin."""
    for cases, changed, margin in studies:
        with subtests.test(cases=cases, changed=changed):
            assert chance_of("pass", cases, changed, -margin, margin) <= 0.05 + 0.02
            assert chance_of("fail", cases, changed, -margin, margin) <= 0.05 + 0.02
            assert chance_of("fail", cases, changed, 0.0, margin) <= 0.01
            law = DifferenceLaw(np.array([0.0, 1.0]), np.array([1 - changed, changed]))
            stated = chance_to_pass(law, margin, cases)
            assert stated == pytest.approx(chance_of("pass", cases, changed, 0.0, margin), abs=0.015)


@pytest.mark.parametrize(("cases", "share", "margin"), [(FEWEST_CASES, 0.2, 0.15), (30, 0.116, 0.1), (40, 0.05, 0.1)])
def test_the_mean_of_the_stated_power_is_the_power_if_few_cases_differ(cases: int, share: float, margin: float) -> None:
    """The number of cases that differ is binomial; the stated power depends on nothing else."""
    differing = range(cases + 1)
    chances = scipy.stats.binom.pmf(differing, cases, share)
    stated = sum(
        p * chance_to_pass(observed_law(sample(cases, n, 0)), margin, cases)
        for n, p in zip(differing, chances, strict=True)
        if p > 1e-4
    )
    assert stated == pytest.approx(chance_of("pass", cases, share, 0.0, margin), abs=0.02)


@pytest.mark.slow
def test_the_power_of_several_trials_is_that_of_random_samples() -> None:
    """Cases differ by 0.2 to 1 in five trials."""
    sizes = np.array([0.0, 0.2, 0.4, 1.0])
    chances = np.array([0.4, 0.3, 0.2, 0.1])
    rng, margin = np.random.default_rng(4), 0.1
    passes = []
    for _ in range(600):
        drawn = rng.choice(sizes, 50, p=chances) * np.where(rng.random(50) < 0.5, 1, -1)
        passes.append(decide(margin_interval(drawn), margin) == "pass")
    stated = chance_to_pass(DifferenceLaw(sizes, chances), margin, 50)
    assert stated == pytest.approx(float(np.mean(passes)), abs=0.06)  # three standard errors


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


def test_a_decision_needs_the_whole_interval_on_one_side(subtests: pytest.Subtests) -> None:
    rows: list[tuple[float, float, str]] = [
        (-0.04, 0.02, "pass"),
        (-0.04, -0.01, "pass"),  # worse, but by less than the margin
        (-0.09, -0.02, "unclear"),
        (-0.09, -0.06, "fail"),
    ]
    for low, high, decision in rows:
        with subtests.test(low=low, high=high):
            assert decide(Interval(low, high), 0.05) == decision


def test_cases_that_do_not_differ_promise_no_power_of_one() -> None:
    """30 cases that do not differ pass a margin of 0.05 never, as the interval of no difference is wider."""
    law = observed_law(np.zeros(30))
    assert law.chances[law.sizes > 0].sum() == pytest.approx(0.25 / 30.5)
    assert chance_to_pass(law, 0.05, 30) < 0.2
    # within 0.1 a pass fails only if a case gets worse: (1 − 1/244)³⁰ = 0.884 have none, and a few others gain one, too
    assert chance_to_pass(law, 0.1, 30) == pytest.approx(0.89, abs=0.015)


def test_the_smallest_margin_and_the_cases_needed_have_the_power() -> None:
    law = DifferenceLaw(np.array([0.0, 1.0]), np.array([0.8, 0.2]))
    margin = smallest_margin(law, 150)
    assert chance_to_pass(law, margin, 150) == pytest.approx(0.8, abs=0.03)
    needed = cases_to_pass(law, 0.08, 150)
    assert needed is not None
    assert chance_to_pass(law, 0.08, needed) == pytest.approx(0.8, abs=0.03)
    assert chance_to_pass(law, 0.08, needed // 2) < 0.8


def test_a_margin_that_no_number_of_cases_shows_has_none() -> None:
    law = DifferenceLaw(np.array([0.0, 1.0]), np.array([0.8, 0.2]))
    assert cases_to_pass(law, 1e-5, 50) is None
    assert cases_to_pass(law, 0.9, 500) == FEWEST_CASES
