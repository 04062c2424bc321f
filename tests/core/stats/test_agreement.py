"""Agreement coefficients compared with published examples."""

from __future__ import annotations

import math

import krippendorff
import numpy as np
import pytest
from statsmodels.stats.inter_rater import cohens_kappa, fleiss_kappa

from core.stats.agreement import Coefficient, agreement_by_case, many_judges_by_case
from core.stats.differences import PairedCounts

YES_NO = ("y", "n")


def pairs(both: int, first: int, second: int, neither: int) -> list[list[str]]:
    return [["y", "y"]] * both + [["y", "n"]] * first + [["n", "y"]] * second + [["n", "n"]] * neither


def by_case(items: list[list[str]], cases: list[int] | None = None) -> dict[str, Coefficient]:
    """Return the coefficients with intervals; ``cases`` gives the case of each item, by default a case per item."""
    cases = list(range(len(items))) if cases is None else cases
    table = np.zeros((max(cases, default=0) + 1, 2, 2))
    for (first, second), case in zip(items, cases, strict=True):
        table[case, YES_NO.index(first), YES_NO.index(second)] += 1
    return agreement_by_case(table)


def test_cohens_kappa_of_a_two_by_two_table() -> None:
    # 50 items, 20 yes-yes, 5 yes-no, 10 no-yes, 15 no-no: observed 0.7, by chance 0.5·0.6 + 0.5·0.4 = 0.5
    estimates = by_case(pairs(20, 5, 10, 15))
    assert estimates["percent_agreement"].value == pytest.approx(0.7, abs=1e-12)
    assert estimates["cohen_kappa"].value == pytest.approx(0.4, abs=1e-12)
    table = PairedCounts(20, 5, 10, 15)
    assert (table.agreement, table.kappa) == (0.7, pytest.approx(0.4, abs=1e-12))


def test_the_kappa_paradox_of_gwet_2002() -> None:
    # 125 items with 118, 5, 2 and 0: agreement 118/125 though kappa is below zero; AC1 is 0.9408
    estimates = by_case(pairs(118, 5, 2, 0))
    assert estimates["percent_agreement"].value == pytest.approx(118 / 125, abs=1e-12)
    # by chance: (123·120 + 2·5)/125² = 0.9453; kappa = (0.944 − 0.94528)/(1 − 0.94528)
    kappa = (0.944 - 14_770 / 15_625) / (1 - 14_770 / 15_625)
    assert estimates["cohen_kappa"].value == pytest.approx(kappa, abs=1e-12)
    assert PairedCounts(118, 5, 2, 0).kappa == pytest.approx(kappa, abs=1e-12)
    # AC1: π(yes) = (123 + 120)/250 = 0.972, chance 2·0.972·0.028
    chance = 2 * 0.972 * 0.028
    assert estimates["gwet_ac"].value == pytest.approx((0.944 - chance) / (1 - chance), abs=1e-12)


def test_fleiss_kappa_of_fourteen_psychiatrists() -> None:
    # the table of ten subjects and five categories that Wikipedia's article on Fleiss' kappa works out: 0.210
    table = [
        (0, 0, 0, 0, 14),
        (0, 2, 6, 4, 2),
        (0, 0, 3, 5, 6),
        (0, 3, 9, 2, 0),
        (2, 2, 8, 1, 1),
        (7, 7, 0, 0, 0),
        (3, 2, 6, 3, 0),
        (2, 5, 3, 2, 2),
        (6, 5, 2, 1, 0),
        (0, 2, 2, 3, 7),
    ]
    # P̄ = 0.37802198, P̄e = 0.2127551 (from the column sums 20, 28, 39, 21, 32 of 140)
    expected = sum((n / 140) ** 2 for n in (20, 28, 39, 21, 32))
    observed = sum((sum(n * n for n in row) - 14) / (14 * 13) for row in table) / 10
    estimates = many_judges_by_case(table, np.eye(len(table)))
    assert estimates["fleiss_kappa"].value == pytest.approx((observed - expected) / (1 - expected), abs=1e-12)
    assert estimates["fleiss_kappa"].value == pytest.approx(0.210, abs=5e-4)


def test_coefficients_equal_those_of_libraries(subtests: pytest.Subtests) -> None:
    rows: list[tuple[int, int, int, int]] = [(12, 3, 2, 3), (9, 5, 2, 4), (1, 0, 0, 1), (0, 4, 6, 0)]
    for counts in rows:
        with subtests.test(counts=counts):
            items, (both, first, second, neither) = pairs(*counts), counts
            estimates = by_case(items)
            codes = [[YES_NO.index(answer) for answer in item] for item in items]
            kappa = cohens_kappa([[both, first], [second, neither]], return_results=False)
            assert estimates["cohen_kappa"].value == pytest.approx(kappa, abs=1e-12)
            assert PairedCounts(*counts).kappa == pytest.approx(kappa, abs=1e-12)
            counted = [[item.count(0), item.count(1)] for item in codes]
            assert estimates["fleiss_kappa"].value == pytest.approx(fleiss_kappa(counted), abs=1e-12)
            alpha = krippendorff.alpha(reliability_data=np.transpose(codes), level_of_measurement="nominal")
            assert estimates["krippendorff_alpha"].value == pytest.approx(alpha, abs=1e-12)


def test_undefined_coefficients_are_nan() -> None:
    always = by_case([["y", "y"]] * 5)
    assert math.isnan(always["cohen_kappa"].value)
    assert math.isnan(PairedCounts(5, 0, 0, 0).kappa)
    assert math.isnan(always["krippendorff_alpha"].value)
    assert always["gwet_ac"].value == 1  # Gwet's chance of two judges who always say yes is 0
    assert math.isnan(by_case([])["percent_agreement"].value)
    assert math.isnan(PairedCounts(0, 0, 0, 0).agreement)
    assert math.isnan(PairedCounts(0, 0, 0, 0).kappa)


def test_the_interval_narrows_with_more_cases_and_not_with_more_items_of_a_case() -> None:
    few = by_case(pairs(12, 3, 2, 3), list(range(20)))["gwet_ac"].interval
    many = by_case(pairs(120, 30, 20, 30), list(range(200)))["gwet_ac"].interval
    assert (many.high - many.low) == pytest.approx((few.high - few.low) / math.sqrt(10), rel=0.25)
    # the same 200 items, ten equal ones in each of twenty cases
    alike = by_case(pairs(120, 30, 20, 30), [item // 10 for item in range(200)])["gwet_ac"].interval
    assert alike == pytest.approx(few, abs=1e-9)
    assert math.isnan(by_case([], [])["gwet_ac"].interval.low)
    assert math.isnan(by_case([["y", "y"]] * 5, [0, 1, 2, 3, 4])["cohen_kappa"].interval.low)


def test_full_agreement_still_has_an_interval() -> None:
    # four items to each of three cases, yes in two and no in one: Wilson's lower bound of 3 of 3 is 3/6.8415 = 0.4385
    estimates = by_case([["y", "y"]] * 8 + [["n", "n"]] * 4, [item // 4 for item in range(12)])
    # the share has the interval of shares, that of the beta distribution (3.5, 0.5) for three cases
    assert estimates["percent_agreement"].interval == (pytest.approx(0.403173, abs=1e-6), 1.0)
    # by chance they agree on (2/3)² + (1/3)² = 5/9 by Cohen, on 2 · 2/3 · 1/3 = 4/9 by Gwet
    assert estimates["cohen_kappa"].interval == (pytest.approx((0.438503 - 5 / 9) / (4 / 9), abs=1e-5), 1.0)
    assert estimates["gwet_ac"].interval == (pytest.approx((0.438503 - 4 / 9) / (5 / 9), abs=1e-5), 1.0)
    never = by_case([["y", "n"]] * 12, [item // 4 for item in range(12)])["percent_agreement"]
    assert never == (0.0, (0.0, pytest.approx(1 - 0.403173, abs=1e-6)))
