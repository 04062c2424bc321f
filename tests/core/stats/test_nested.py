"""Components of variance of nested repeats: by hand, by the analysis of variance, and known ones by simulation."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
import scipy  # type: ignore[import-untyped]

from core.errors import UsageError
from core.stats.nested import CaseScores, NoiseEstimate, Source, estimate_noise
from core.stats.power import PairedComponents
from core.stats.trials import variance_components


def by_source(estimate: NoiseEstimate) -> dict[str, float]:
    return {" + ".join(component.sources): component.estimate for component in estimate.components}


def test_three_cases_by_hand() -> None:
    cases = [
        [[[1, 1], [1, 0]], [[0, 0], [0, 0]]],
        [[[1, 1], [1, 1]], [[1, 1], [0, 1]]],
        [[[0, 0], [0, 0]], [[0, 0], [0, 0]]],
    ]
    # half squared differences of two gradings: case 1: 1/2 in 1 of 4 answers, case 2: the same, case 3: none
    gradings = (1 / 8 + 1 / 8 + 0) / 3
    # of two answers: mean score of the squares minus product of the means, in each trial
    answers = (((3 / 4 - 1 * 1 / 2) + 0) / 2 + (0 + (3 / 4 - 1 * 1 / 2)) / 2 + 0) / 3
    # of two trials: case 1 has means 3/4 and 0, case 2 has 1 and 3/4
    conversations = ((3 / 8 - 0) + (7 / 8 - 3 / 4) + 0) / 3
    # of two cases: means 3/8, 7/8 and 0, whose only product that is not 0 is 21/64, of three pairs
    everything = (3 / 8 + 7 / 8 + 0) / 3 - 21 / 64 / 3
    assert by_source(estimate_noise(cases)) == pytest.approx(
        {
            "cases": everything - conversations,
            "conversations": conversations - answers,
            "answers": answers - gradings,
            "gradings": gradings,
        }
    )


def test_equal_numbers_of_trials_give_the_analysis_of_variance() -> None:
    right = np.random.default_rng(3).binomial(4, np.random.default_rng(4).random(25))
    cases: list[CaseScores] = [[[[1.0]]] * int(n) + [[[0.0]]] * int(4 - n) for n in right]
    anova = variance_components(right, np.full(25, 4))
    assert by_source(estimate_noise(cases)) == pytest.approx(
        {"cases": anova.between, "conversations + answers + gradings": anova.within}
    )


def test_a_source_without_pairs_is_joined_with_the_next_outer_one() -> None:
    rng = np.random.default_rng(1)
    graded_twice = [[[[float(x) for x in rng.integers(0, 2, 2)]]] for _ in range(9)]
    assert list(by_source(estimate_noise(graded_twice))) == ["cases + conversations + answers", "gradings"]
    answered_twice = [[[[float(x)] for x in rng.integers(0, 2, 2)]] for _ in range(9)]
    assert list(by_source(estimate_noise(answered_twice))) == ["cases + conversations", "answers + gradings"]
    once = [[[[float(x)]]] for x in rng.integers(0, 2, 9)]
    assert list(by_source(estimate_noise(once))) == ["cases + conversations + answers + gradings"]


def test_empty_answers_and_too_few_cases() -> None:
    estimate = estimate_noise([[[[1.0], []], []], [], [[[]]], [[[0.0]]]])
    assert (estimate.n_cases, estimate.mean, estimate.components) == (2, 0.5, ())
    assert math.isnan(estimate_noise([]).mean)
    with pytest.raises(UsageError):
        estimate_noise([[[[2.0]]]])


def test_scores_that_never_differ_have_no_variance_and_an_upper_bound() -> None:
    estimate = estimate_noise([[[[1.0, 1.0]]]] * 20)
    gradings = estimate.components[-1]
    assert (gradings.estimate, gradings.interval.low) == (0, 0)
    assert 0 < gradings.interval.high < 0.1


def test_the_variance_of_a_mean_is_that_of_the_power_calculation() -> None:
    estimate = estimate_noise(sampled(np.random.default_rng(2), 40, (3, 1, 1), 4.0, 0.1))
    between, within = (component.estimate for component in estimate.components)
    assert math.sqrt(estimate.variance_of_mean(50, 3)) == pytest.approx(
        PairedComponents(between, within).standard_error(50, 3)
    )
    assert estimate.variance_of_mean(50, 3, same_cases=True) == pytest.approx(within / 150)


def test_the_planned_number_of_cases_is_the_smallest() -> None:
    estimate = estimate_noise(sampled(np.random.default_rng(2), 40, (3, 2, 2), 4.0, 0.1))
    cases = estimate.cases_needed(0.1, 3)
    assert cases is not None

    def half_width(n: int) -> float:
        return float(scipy.stats.t.ppf(0.975, n - 1)) * math.sqrt(estimate.variance_of_mean(n, 3))

    assert half_width(cases) <= 0.1 < half_width(cases - 1)
    for more in ((10,), (3, 1, 3)):
        needed = estimate.cases_needed(0.1, *more)
        assert needed is not None
        assert needed < cases
    with pytest.raises(UsageError):
        estimate.cases_needed(0.0)


def sampled(
    rng: np.random.Generator, n_cases: int, repeats: tuple[int, int, int], spread: float, flipped: float
) -> list[CaseScores]:
    """Draw cases: a chance of each case, one of each conversation (``spread`` infinite: that of its case), a right or
    wrong answer, and a grader that errs in ``flipped`` of its gradings."""
    trials, answers, gradings = repeats
    cases: list[CaseScores] = []
    for chance in rng.random(n_cases):
        case = []
        for _ in range(trials):
            of_talk = chance if math.isinf(spread) else rng.beta(chance * spread, (1 - chance) * spread)
            right = rng.random(answers) < of_talk
            flips = rng.random((answers, gradings)) < flipped
            case.append([[float(r != f) for f in row] for r, row in zip(right, flips, strict=True)])
        cases.append(case)
    return cases


def truth(spread: float, flipped: float) -> dict[Source, float]:
    """Return the components of ``sampled``: a uniform chance p has variance 1/12 and mean p (1 − p) of 1/6."""
    attenuation, talks = (1 - 2 * flipped) ** 2, 0.0 if math.isinf(spread) else 1 / (spread + 1)
    return {
        "cases": attenuation / 12,
        "conversations": attenuation / 6 * talks,
        "answers": attenuation / 6 * (1 - talks),
        "gradings": flipped * (1 - flipped),
    }


@pytest.mark.parametrize(
    ("n_cases", "repeats", "spread", "flipped"),
    [(50, (2, 2, 2), 4.0, 0.1), (60, (3, 2, 2), 4.0, 0.02), (50, (2, 2, 2), math.inf, 0.1)],
)
def test_known_components_lie_in_their_intervals(
    n_cases: int, repeats: tuple[int, int, int], spread: float, flipped: float
) -> None:
    """Of 500 intervals 93 to 97 % contain the component. One of exactly 0 is contained more often: 0 is the bound."""
    rng, simulations, truths = np.random.default_rng(20), 500, truth(spread, flipped)
    covered, sums = Counter[str](), Counter[str]()
    for _ in range(simulations):
        for component in estimate_noise(sampled(rng, n_cases, repeats, spread, flipped)).components:
            (source,) = component.sources
            covered[source] += component.interval.low - 1e-12 <= truths[source] <= component.interval.high
            sums[source] += component.estimate  # type: ignore[assignment]
    for source, value in truths.items():
        assert 0.93 <= covered[source] / simulations <= (0.97 if value else 1.0), source
        assert sums[source] / simulations == pytest.approx(value, abs=0.004), source
