"""Weighted agreement of several judges on a scale: values of irrCAC 0.4.4, the definition, and simulation."""

from __future__ import annotations

import math
import statistics
from itertools import permutations, product

import numpy as np
import pytest
import scipy.stats
from numpy.typing import NDArray

from core.stats.agreement import many_judges_by_case, ordinal_weights

RATINGS = np.array(
    [(4, 4, 4, 4), (1, 1, 1, 1), (1, 1, 2, 1), (1, 1, 1, 1), (1, 2, 1, 2), (3, 3, 4, 4), (4, 3, 4, 3), (4, 3, 3, 3),
     (1, 1, 1, 1), (1, 1, 1, 1), (2, 2, 1, 2), (2, 2, 3, 3), (3, 3, 3, 3), (2, 2, 2, 2), (2, 2, 2, 2), (2, 2, 1, 1),
     (3, 3, 4, 4), (3, 4, 3, 3), (2, 1, 1, 1), (2, 1, 1, 2), (2, 2, 1, 2)]
)  # fmt: skip
"""21 items, four judges, four points."""


def counts(ratings: NDArray[np.int64], points: int = 4) -> NDArray[np.int64]:
    return np.stack([(ratings == point).sum(axis=1) for point in range(1, points + 1)], axis=1)


def test_ordinal_weights_of_four_points() -> None:
    # one apart: 1 − C(2, 2)/C(4, 2) = 1 − 1/6; two apart: 1 − 3/6; three apart: 1 − 6/6
    assert ordinal_weights(4)[0].tolist() == pytest.approx([1, 5 / 6, 1 / 2, 0])


def test_ac2_and_weighted_kappa_are_those_of_irrcac() -> None:
    on_scale = many_judges_by_case(counts(RATINGS), np.eye(21), ordered=True)
    assert on_scale["percent_agreement"].value == pytest.approx(0.93915, abs=5e-6)
    assert on_scale["gwet_ac"].value == pytest.approx(0.81885, abs=5e-6)
    assert on_scale["fleiss_kappa"].value == pytest.approx(0.78576, abs=5e-6)
    without_order = many_judges_by_case(counts(RATINGS), np.eye(21))
    assert without_order["gwet_ac"].value == pytest.approx(0.51868, abs=5e-6)
    assert without_order["fleiss_kappa"].value == pytest.approx(0.49609, abs=5e-6)


def ac2_by_pairs(ratings: list[list[int]], points: int) -> float:
    """Gwet's AC2 with ordinal weights, from the definition: a loop over items and over pairs of judges.

    Handbook of Inter-Rater Reliability, 4th edition, chapter 3: the agreement is the mean weight of two judges of an
    item, the agreement by chance T_w / (q (q − 1)) · Σ π (1 − π), with T_w the sum of all weights and π the share of a
    point, as the mean over items.
    """

    def weight(first: int, second: int) -> float:
        steps = abs(first - second)
        return 1 - math.comb(steps + 1, 2) / math.comb(points, 2) if steps else 1.0

    judged_twice = [item for item in ratings if len(item) >= 2]
    observed = statistics.fmean(
        statistics.fmean(weight(first, second) for first, second in permutations(item, 2)) for item in judged_twice
    )
    shares = [
        statistics.fmean(item.count(point) / len(item) for item in judged_twice) for point in range(1, points + 1)
    ]
    total = sum(weight(first, second) for first, second in product(range(points), repeat=2))
    by_chance = total / (points * (points - 1)) * sum(share * (1 - share) for share in shares)
    return (observed - by_chance) / (1 - by_chance)


def test_ac2_is_that_of_its_definition_also_with_missing_ratings(subtests: pytest.Subtests) -> None:
    rows: list[tuple[int, int, int]] = [(3, 4, 1), (4, 4, 2), (5, 2, 3), (4, 6, 4)]
    for points, judges, seed in rows:
        with subtests.test(points=points, judges=judges):
            rng = np.random.default_rng(seed)
            truth = rng.integers(1, points + 1, 25)
            ratings = [
                [int(np.clip(t + rng.integers(-1, 2), 1, points)) for _ in range(rng.integers(2, judges + 1))]
                for t in truth
            ]
            table = np.array([[item.count(point) for point in range(1, points + 1)] for item in ratings])
            ours = many_judges_by_case(table, np.eye(len(ratings)), ordered=True)["gwet_ac"]
            assert ours.value == pytest.approx(ac2_by_pairs(ratings, points), abs=1e-12)
            without = [ac2_by_pairs(ratings[:n] + ratings[n + 1 :], points) for n in range(len(ratings))]
            error = math.sqrt(
                (len(without) - 1) / len(without) * sum((x - statistics.fmean(without)) ** 2 for x in without)
            )
            # symmetric on the scale −log(1 − coefficient), with t of one degree of freedom fewer than items
            half = float(scipy.stats.t.ppf(0.975, len(without) - 1)) * error / (1 - ours.value)
            assert ours.interval.high == pytest.approx(1 - (1 - ours.value) * math.exp(-half), abs=1e-9)


def test_intervals_of_few_cases_stay_within_the_range_of_the_coefficients() -> None:
    three = np.array([[4, 4], [1, 2], [3, 1]])
    estimates = many_judges_by_case(counts(three), np.eye(3), ordered=True)
    for name, estimate in estimates.items():
        lowest = 0 if name == "percent_agreement" else -1
        assert lowest <= estimate.interval.low <= estimate.value <= estimate.interval.high <= 1


def rated(items: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw ratings of four judges: the item's true point, sometimes one off."""
    truth = rng.integers(1, 5, items)
    return np.clip(truth[:, None] + rng.choice([-1, 0, 0, 0, 1], size=(items, 4)), 1, 4)


@pytest.mark.slow
def test_intervals_of_ac2_cover() -> None:
    rng = np.random.default_rng(11)
    true = many_judges_by_case(counts(rated(100_000, rng)), np.eye(1).repeat(100_000, axis=1), ordered=True)
    covered = 0
    for _ in range(500):
        interval = many_judges_by_case(counts(rated(30, rng)), np.eye(30), ordered=True)["gwet_ac"].interval
        covered += interval.low <= true["gwet_ac"].value <= interval.high
    assert 0.93 <= covered / 500 <= 0.97
