"""Rank ranges by hand and coverage of true ranks in simulated studies."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from core.errors import UsageError
from core.stats.ranks import RankRange, pair_p_values, rank_ranges
from core.stats.smoothed import mean_interval


def ranges(scores: NDArray[np.float64]) -> list[RankRange]:
    return rank_ranges(scores, pair_p_values(scores))


def test_ranks_by_hand() -> None:
    # twelve cases: the first is right in all, the second in ten of them, the third in none
    scores = np.array([[1.0, float(case < 10), 0.0] for case in range(12)])
    p_values = pair_p_values(scores)
    # two-sided sign-flip tests of 12, 10 and 2 equal differences: 2/2¹², 2/2¹⁰, 2/2²; Holm: times 3, 2, 1
    assert p_values[0, 2] == pytest.approx(3 * 2 / 2**12)
    assert p_values[1, 2] == p_values[2, 1] == pytest.approx(2 * 2 / 2**10)
    assert p_values[0, 1] == pytest.approx(2 / 2**2)
    # the first two are tied, and both are better than the third
    assert ranges(scores) == [(1, 2), (1, 2), (3, 3)]
    assert [ranks.words for ranks in ranges(scores)] == ["1–2", "1–2", "3"]


def test_pairing_tells_apart_what_intervals_of_each_condition_do_not() -> None:
    right = np.arange(100) < 50
    scores = np.column_stack([right, np.arange(100) < 42]).astype(float)
    (low, _), (_, high) = mean_interval(scores[:, 0]), mean_interval(scores[:, 1])
    assert low < high  # the rule of leaderboards ties them
    assert ranges(scores) == [(1, 1), (2, 2)]  # eight cases differ, all in favour of the first


@pytest.mark.parametrize("scores", [[[1.0, 0.0, 0.0]], [[1.0, 1.0, 1.0]] * 30])
def test_one_case_or_equal_scores_tell_nothing_apart(scores: list[list[float]]) -> None:
    assert ranges(np.array(scores)) == [(1, 3)] * 3


def test_a_gap_in_the_scores_is_refused() -> None:
    with pytest.raises(UsageError):
        pair_p_values([[1.0, float("nan")]])


@pytest.mark.slow
@pytest.mark.parametrize("levels", [(0.0,) * 4, (0.0, 0.0, 1.2, 1.2)])
def test_the_ranges_contain_all_true_ranks(levels: tuple[float, ...]) -> None:
    """Cases and models have random difficulties; the true rank is that of the mean over the population of cases."""
    generator, studies = np.random.default_rng(5), 100
    level = np.array(levels)
    true = 1 + (level[None, :] > level[:, None]).sum(axis=1)
    hits, widths = 0, []
    for _ in range(studies):
        difficulty = generator.normal(0, 1.5, (60, 1)) + generator.normal(0, 1, (60, level.size))
        scores = generator.binomial(3, 1 / (1 + np.exp(-(level + difficulty)))) / 3
        of_study = ranges(scores)
        hits += all(best <= rank <= worst for (best, worst), rank in zip(of_study, true, strict=True))
        widths += [worst - best + 1 for best, worst in of_study]
    # 95 % are promised; four standard errors of a share of 100 studies below that are 86 %
    assert hits / studies > 0.86
    # not because they exclude nothing: two models of each level can be told apart from the other two
    assert np.mean(widths) > 3.9 if len(set(levels)) == 1 else np.mean(widths) < 3
