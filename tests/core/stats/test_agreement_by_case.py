"""Agreement on items clustered by case: the same estimates as for single items, wider intervals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from statsmodels.stats.inter_rater import cohens_kappa, fleiss_kappa

from core.stats.agreement import agreement_by_case, many_judges_by_case

KINDS = ("a", "b", "c")


def a_table(cases: int = 40, items: int = 5) -> np.ndarray:
    """Return cases × kind × kind counts of two judges who agree on three quarters of the cases."""
    table, generator = np.zeros((cases, 3, 3)), np.random.default_rng(1)
    for case in range(cases):
        differ = case % 4 == 0  # in every fourth case the judges never agree: items of a case are alike
        for _ in range(items):
            first = int(generator.integers(3))
            table[case, first, (first + 1) % 3 if differ else first] += 1
    return table


def as_items(table: np.ndarray) -> list[list[str]]:
    return [[KINDS[i], KINDS[j]] for case in table for i in range(3) for j in range(3) for _ in range(int(case[i, j]))]


def gwet_ac1(counts: list[list[int]]) -> float:
    """Gwet's AC1 (2008) of items as counts of judges a kind: chance is Σ π(1 − π) / (kinds − 1)."""
    items, kinds = len(counts), len(counts[0])
    agree = sum(n * (n - 1) / (sum(row) * (sum(row) - 1)) for row in counts for n in row) / items
    shares = [sum(row[kind] / sum(row) for row in counts) / items for kind in range(kinds)]
    chance = sum(share * (1 - share) for share in shares) / (kinds - 1)
    return (agree - chance) / (1 - chance)


def test_the_estimates_are_those_of_single_items() -> None:
    table = a_table()
    estimates = agreement_by_case(table)
    counts = [[pair.count(kind) for kind in KINDS] for pair in as_items(table)]
    assert estimates["percent_agreement"].value == 0.75
    assert estimates["cohen_kappa"].value == pytest.approx(cohens_kappa(table.sum(0), return_results=False))
    assert estimates["gwet_ac"].value == pytest.approx(gwet_ac1(counts))


def test_intervals_resample_whole_cases() -> None:
    table = a_table()
    estimates = agreement_by_case(table)
    low, high = estimates["percent_agreement"].interval
    # 40 cases that agree wholly or not at all: the interval of a share of 40, not of 200
    half = 1.96 * math.sqrt(0.75 * 0.25 / 40)
    assert (high - low) / 2 == pytest.approx(half, rel=0.15)
    kinds = np.eye(9)[[KINDS.index(first) * 3 + KINDS.index(second) for first, second in as_items(table)]]
    alone = agreement_by_case(kinds.reshape(-1, 3, 3))["percent_agreement"].interval  # each item a case
    assert high - low > 1.8 * (alone.high - alone.low)


def test_no_items_and_constant_answers() -> None:
    empty = agreement_by_case(np.zeros((3, 2, 2)))
    assert math.isnan(empty["cohen_kappa"].value)
    same = np.zeros((3, 2, 2))
    same[:, 0, 0] = 4
    estimates = agreement_by_case(same)
    assert estimates["percent_agreement"].value == 1
    assert math.isnan(estimates["cohen_kappa"].value)
    assert math.isnan(estimates["cohen_kappa"].interval.low)


def test_three_judges_equal_the_formulas_of_fleiss_and_gwet() -> None:
    # patterns: all say a; two a and one b; one a, one b, one c
    patterns = [[3, 0, 0], [2, 1, 0], [1, 1, 1]]
    counts_by_case = [[4, 1, 0], [2, 0, 1], [3, 2, 0]]
    estimates = many_judges_by_case(patterns, counts_by_case)
    items = [[3, 0, 0]] * 9 + [[2, 1, 0]] * 3 + [[1, 1, 1]]
    assert estimates["percent_agreement"].value == pytest.approx((9 + 3 / 3) / 13)
    assert estimates["fleiss_kappa"].value == pytest.approx(fleiss_kappa(np.array(items)))
    assert estimates["gwet_ac"].value == pytest.approx(gwet_ac1(items))
    assert estimates["gwet_ac"].interval.low <= estimates["gwet_ac"].value <= estimates["gwet_ac"].interval.high
