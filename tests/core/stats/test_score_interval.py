"""Intervals of scores that are neither right nor wrong, worked out by hand and simulated."""

from __future__ import annotations

import math

import numpy as np
import pytest

from core.stats.bootstrap import column_intervals
from core.stats.differences import paired_difference
from core.stats.intervals import t_interval
from core.stats.scores import right_or_wrong, score_interval
from core.stats.smoothed import mean_interval


def test_scores_near_a_limit_are_not_drawn_to_the_middle() -> None:
    # mean .05, deviation .02/19 · √(20 · 21/12); error of the log odds .006228 · √(1.1/20) / (.05 · .95) = .030746
    half = 2.093024 * 0.030746
    expected = [1 / (1 + math.exp(-x)) for x in (-2.944439 - half, -2.944439 + half)]  # the log odds of .05
    assert expected == pytest.approx([0.04703, 0.05315], abs=1e-5)
    values = np.linspace(0.04, 0.06, 20)
    assert tuple(score_interval(values)) == pytest.approx(expected, abs=1e-6)
    low, high = score_interval(1 - values)
    assert (1 - high, 1 - low) == pytest.approx(expected, abs=1e-6)  # the same at the other end
    assert tuple(score_interval(1 + 4 * values, low=1, high=5)) == pytest.approx(
        [1 + 4 * x for x in expected], abs=1e-5
    )


def test_scores_that_are_right_or_wrong_in_each_trial_are_smoothed() -> None:
    rows = (
        ([1.0] * 15 + [0.0] * 5, 1, True),
        ([1 / 3, 2 / 3, 1.0, 0.0], 3, True),
        ([1 / 3, 0.5, 0.75], [3, 2, 4], True),
        ([0.5, 1.0], 1, False),
        ([0.31, 0.62, 0.4], [3, 2, 4], False),
        ([0.2], 1, False),  # a single score has no deviation: smoothed all the same
    )
    for values, trials, expected in rows:
        assert right_or_wrong(values, trials) is expected, values
        smoothed = score_interval(values, trials=trials) == mean_interval(values)
        assert smoothed is (expected or len(values) == 1), values
    assert score_interval([0.3, 0.3, 0.3]) == mean_interval([0.3, 0.3, 0.3])  # the next case may differ
    assert all(math.isnan(bound) for bound in score_interval([]))


def test_coverage_and_width_of_skewed_scores() -> None:
    rng = np.random.default_rng(3)
    for shape in (1, 2, 8):
        samples = rng.gamma(shape, 0.05 / shape, (2_000, 20))
        intervals, plain = [score_interval(s) for s in samples], [t_interval(s) for s in samples]
        covered = np.mean([low <= 0.05 <= high for low, high in intervals])
        width = sum(high - low for low, high in intervals) / sum(high - low for low, high in plain)
        assert 0.93 <= covered <= 0.97, shape
        assert width <= 1.3, shape


def test_differences_and_columns_of_scores() -> None:
    first, second = np.linspace(0.04, 0.06, 20), np.linspace(0.04, 0.06, 20)[::-1] / 2
    low, high = paired_difference(first, second, scores=True).interval
    assert (low, high) == pytest.approx(tuple(t_interval(first - second)))
    lengths = paired_difference(100 + first, 100 + second, most=None).interval
    assert tuple(lengths) == pytest.approx((low, high))
    shares = [1.0, 0.5, 0.5, 0.0]
    right = paired_difference([1.0, 1.0, 1.0, 0.0], [0.0, 1.0, 0.0, 0.0])
    assert paired_difference([1.0, 1.0, 1.0, 0.0], [0.0, 1.0, 0.0, 0.0], scores=True) == right
    matrix = np.column_stack([shares, shares])
    smoothed, plain = column_intervals(matrix, shares=[True, True], trials=np.column_stack([[2.0] * 4, [1.0] * 4]))
    assert (smoothed, plain) == (mean_interval(shares), score_interval(shares))
    assert smoothed != plain
