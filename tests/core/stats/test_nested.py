"""Components of variance of nested repeats: by hand, by the analysis of variance, and known ones by simulation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from core.errors import UsageError
from core.stats.nested import CaseScores, Source, components
from core.stats.trials import variance_components


def by_source(cases: Sequence[CaseScores]) -> dict[str, float]:
    return {" + ".join(component.sources): component.estimate for component in components(cases)}


def test_three_cases_by_hand() -> None:
    cases = [[[1, 1], [1, 0]], [[0, 0], [1, 1]], [[0, 0], [0, 0]]]
    # half squared differences of two gradings: 1/2 in one of the four trials of the first two cases
    gradings = (1 / 4 + 0 + 0) / 3
    # of two trials: mean score of the squares minus product of the means 1 and 1/2; 0 and 1; 0 and 0
    trials = ((3 / 4 - 1 / 2) + (1 / 2 - 0) + 0) / 3
    # of two cases: means 3/4, 1/2 and 0, whose only product that is not 0 is 3/8, of three pairs
    everything = (3 / 4 + 1 / 2 + 0) / 3 - 3 / 8 / 3
    assert by_source(cases) == pytest.approx(
        {"cases": everything - trials, "trials": trials - gradings, "gradings": gradings}
    )


def test_equal_numbers_of_trials_give_the_analysis_of_variance() -> None:
    right = np.random.default_rng(3).binomial(4, np.random.default_rng(4).random(25))
    cases: list[CaseScores] = [[[1.0]] * int(n) + [[0.0]] * int(4 - n) for n in right]
    anova = variance_components(right, np.full(25, 4))
    assert by_source(cases) == pytest.approx({"cases": anova.between, "trials + gradings": anova.within})


def test_a_source_without_pairs_is_joined_with_the_next_outer_one() -> None:
    rng = np.random.default_rng(1)
    graded_twice = [[[float(x) for x in rng.integers(0, 2, 2)]] for _ in range(9)]
    assert list(by_source(graded_twice)) == ["cases + trials", "gradings"]
    once = [[[float(x)]] for x in rng.integers(0, 2, 9)]
    assert list(by_source(once)) == ["cases + trials + gradings"]


def test_trials_without_a_score_are_left_out_and_two_cases_are_too_few() -> None:
    three = [[[1.0], []], [[0.0]], [[1.0]]]
    assert by_source([*three, [], [[]]]) == pytest.approx(by_source(three))
    assert components(three[:2]) == []
    with pytest.raises(UsageError):
        components([[[2.0]]])


def test_scores_that_never_differ_have_no_variance_and_an_upper_bound() -> None:
    gradings = components([[[1.0, 1.0]]] * 20)[-1]
    assert (gradings.estimate, gradings.interval.low) == (0, 0)
    assert 0 < gradings.interval.high < 0.1


def sampled(rng: np.random.Generator, n_cases: int, trials: int, gradings: int, flipped: float) -> list[CaseScores]:
    """Draw cases with a uniform chance, right or wrong trials, and a grader that errs in ``flipped`` gradings."""
    cases: list[CaseScores] = []
    for chance in rng.random(n_cases):
        right = rng.random(trials) < chance
        flips = rng.random((trials, gradings)) < flipped
        cases.append([[float(r != f) for f in row] for r, row in zip(right, flips, strict=True)])
    return cases


@pytest.mark.parametrize(
    ("n_cases", "trials", "gradings", "simulations"),
    [(50, 2, 2, 60), *(pytest.param(*study, marks=pytest.mark.slow) for study in ((50, 2, 2, 500), (60, 4, 3, 500)))],
)
def test_known_components_lie_in_their_intervals(n_cases: int, trials: int, gradings: int, simulations: int) -> None:
    """Of 500 intervals 93 to 97 % contain the component; a uniform chance p has variance 1/12, mean p (1 − p) 1/6.

    Of fewer intervals, their share may differ from 95 % by as much more as its standard error is larger.
    """
    flipped, wider = 0.1, (500 / simulations) ** 0.5
    attenuation = (1 - 2 * flipped) ** 2
    truths: dict[Source, float] = {
        "cases": attenuation / 12, "trials": attenuation / 6, "gradings": flipped * (1 - flipped)
    }  # fmt: skip
    rng = np.random.default_rng(20)
    covered, sums = Counter[str](), dict.fromkeys(truths, 0.0)
    for _ in range(simulations):
        for component in components(sampled(rng, n_cases, trials, gradings, flipped)):
            (source,) = component.sources
            covered[source] += component.interval.low <= truths[source] <= component.interval.high
            sums[source] += component.estimate
    for source, value in truths.items():
        assert abs(covered[source] - 0.95 * simulations) <= 0.02 * wider * simulations + 1e-9, source
        assert sums[source] / simulations == pytest.approx(value, abs=0.004 * wider), source
