"""Agreement coefficients against examples of the literature, whose values are printed there."""

from __future__ import annotations

import math

import numpy as np
import pytest

from core.errors import UsageError
from core.stats.agreement import (
    cohen_kappa,
    fleiss_kappa,
    gwet_ac,
    krippendorff_alpha,
    percent_agreement,
    weight_matrix,
)
from core.stats.agreement_resampled import Estimate, agreement_by_case

YES_NO = ("y", "n")


def pairs(both: int, first: int, second: int, neither: int) -> list[list[str | None]]:
    return [["y", "y"]] * both + [["y", "n"]] * first + [["n", "y"]] * second + [["n", "n"]] * neither


def test_cohens_kappa_of_a_two_by_two_table() -> None:
    # 50 items, 20 yes-yes, 5 yes-no, 10 no-yes, 15 no-no: observed 0.7, by chance 0.5·0.6 + 0.5·0.4 = 0.5
    said = pairs(20, 5, 10, 15)
    assert percent_agreement(said, YES_NO) == pytest.approx(0.7, abs=1e-12)
    assert cohen_kappa(said, YES_NO) == pytest.approx(0.4, abs=1e-12)


def test_the_kappa_paradox_of_gwet_2002() -> None:
    # 125 items with 118, 5, 2 and 0: agreement 118/125 though kappa is below zero; AC1 is 0.9408
    said = pairs(118, 5, 2, 0)
    assert percent_agreement(said, YES_NO) == pytest.approx(118 / 125, abs=1e-12)
    # by chance: (123·120 + 2·5)/125² = 0.9453; kappa = (0.944 − 0.94528)/(1 − 0.94528)
    assert cohen_kappa(said, YES_NO) == pytest.approx((0.944 - 14_770 / 15_625) / (1 - 14_770 / 15_625), abs=1e-12)
    # AC1: π(yes) = (123 + 120)/250 = 0.972, chance 2·0.972·0.028
    chance = 2 * 0.972 * 0.028
    assert gwet_ac(said, YES_NO) == pytest.approx((0.944 - chance) / (1 - chance), abs=1e-12)


def test_fleiss_kappa_of_fourteen_psychiatrists() -> None:
    # the table of ten subjects and five categories that Wikipedia's article on Fleiss' kappa works out: 0.210
    table = [
        (0, 0, 0, 0, 14), (0, 2, 6, 4, 2), (0, 0, 3, 5, 6), (0, 3, 9, 2, 0), (2, 2, 8, 1, 1), (7, 7, 0, 0, 0),
        (3, 2, 6, 3, 0), (2, 5, 3, 2, 2), (6, 5, 2, 1, 0), (0, 2, 2, 3, 7),
    ]  # fmt: skip
    said: list[list[str | None]] = [[str(k) for k, count in enumerate(row) for _ in range(count)] for row in table]
    # P̄ = 0.37802198, P̄e = 0.2127551 (from the column sums 20, 28, 39, 21, 32 of 140)
    expected = sum((n / 140) ** 2 for n in (20, 28, 39, 21, 32))
    observed = sum((sum(n * n for n in row) - 14) / (14 * 13) for row in table) / 10
    assert fleiss_kappa(said, "01234") == pytest.approx((observed - expected) / (1 - expected), abs=1e-12)
    assert fleiss_kappa(said, "01234") == pytest.approx(0.210, abs=5e-4)


KRIPPENDORFF = [
    "1 2 3 3 2 1 4 1 2 . . .", "1 2 3 3 2 2 4 1 2 5 . 3", ". 3 3 3 2 3 4 2 2 5 1 .", "1 2 3 3 2 4 4 1 2 5 1 .",
]  # fmt: skip
"""Four observers, twelve units, gaps: the example of Krippendorff's "Computing Krippendorff's Alpha-Reliability"."""


def krippendorffs() -> list[list[str | None]]:
    return [[None if one == "." else one for one in unit] for unit in zip(*map(str.split, KRIPPENDORFF), strict=True)]


def test_krippendorffs_own_example_with_gaps() -> None:
    assert krippendorff_alpha(krippendorffs(), "12345") == pytest.approx(0.743, abs=5e-4)
    assert krippendorff_alpha(krippendorffs(), "12345", "ordinal") == pytest.approx(0.815, abs=5e-4)


@pytest.mark.parametrize(
    ("weights", "gwet", "fleiss"),
    [
        ("identity", 0.775444068, 0.761169275),
        ("ordinal", 0.898939770, 0.850206189),
        ("quadratic", 0.914000724, 0.864935065),
        ("linear", 0.858739136, 0.817944767),
    ],
)
def test_the_same_example_as_the_library_irrcac_0_4_4_computes_it(weights: str, gwet: float, fleiss: float) -> None:
    assert gwet_ac(krippendorffs(), "12345", weights) == pytest.approx(gwet, abs=1e-8)  # type: ignore[arg-type]
    assert fleiss_kappa(krippendorffs(), "12345", weights) == pytest.approx(fleiss, abs=1e-8)  # type: ignore[arg-type]


def test_weights_give_part_for_near_misses() -> None:
    assert weight_matrix("linear", 3).tolist() == [[1, 0.5, 0], [0.5, 1, 0.5], [0, 0.5, 1]]
    assert weight_matrix("quadratic", 3)[0].tolist() == [1, 0.75, 0]
    # Gwet's ordinal weights: 1 − C(d + 1, 2)/C(q, 2), here C(2, 2)/C(3, 2) = 1/3
    assert weight_matrix("ordinal", 3)[0].tolist() == pytest.approx([1, 2 / 3, 0])


def test_what_is_undefined_is_nan_and_what_is_wrong_is_said() -> None:
    always = [["y", "y"]] * 5
    assert math.isnan(cohen_kappa(always, YES_NO))
    assert math.isnan(krippendorff_alpha(always, YES_NO))
    assert gwet_ac(always, YES_NO) == 1  # Gwet's chance of two judges who always say yes is 0
    assert math.isnan(percent_agreement([["y", None]], YES_NO))
    with pytest.raises(UsageError, match="'maybe' is none of the categories y, n"):
        percent_agreement([["maybe", "y"]], YES_NO)
    with pytest.raises(UsageError, match="compares two judges"):
        cohen_kappa([["y", "y", "y"]], YES_NO)


MEASURES = (percent_agreement, cohen_kappa, fleiss_kappa, gwet_ac, krippendorff_alpha)


def by_case(said: list[list[str]], cases: list[int]) -> dict[str, Estimate]:
    """Return the coefficients of items with their intervals; ``cases`` says which case each item is of."""
    table = np.zeros((max(cases, default=0) + 1, 2, 2))
    for (first, second), case in zip(said, cases, strict=True):
        table[case, YES_NO.index(first), YES_NO.index(second)] += 1
    return agreement_by_case([table])[0]


def test_all_resamples_at_once_give_what_one_at_a_time_gives() -> None:
    said = pairs(12, 3, 2, 3)
    found = by_case(said, list(range(20)))
    # the first of the tables that the resamples stand for is drawn by hand: 9, 5, 2 and 4 of the four kinds
    drawn = by_case(pairs(9, 5, 2, 4), list(range(20)))
    for measure in MEASURES:
        assert found[measure.__name__].value == pytest.approx(measure(said, YES_NO), abs=1e-12)
        assert drawn[measure.__name__].value == pytest.approx(measure(pairs(9, 5, 2, 4), YES_NO), abs=1e-12)
        interval = found[measure.__name__].interval
        assert interval.low < measure(said, YES_NO) < interval.high


def test_the_interval_narrows_with_more_cases_and_not_with_more_items_of_a_case() -> None:
    few = by_case(pairs(12, 3, 2, 3), list(range(20)))["gwet_ac"].interval
    many = by_case(pairs(120, 30, 20, 30), list(range(200)))["gwet_ac"].interval
    assert (many.high - many.low) == pytest.approx((few.high - few.low) / math.sqrt(10), rel=0.25)
    # the same 200 items, ten alike to each of twenty cases
    alike = by_case(pairs(120, 30, 20, 30), [item // 10 for item in range(200)])["gwet_ac"].interval
    assert alike == pytest.approx(few, abs=1e-9)
    assert math.isnan(by_case([], [])["gwet_ac"].interval.low)
    assert math.isnan(by_case([["y", "y"]] * 5, [0, 1, 2, 3, 4])["cohen_kappa"].interval.low)


def test_judges_who_always_agree_may_yet_differ_on_another_case() -> None:
    # four items to each of three cases, yes in two and no in one: Wilson's lower bound of 3 of 3 is 3/6.8415 = 0.4385
    found = by_case([["y", "y"]] * 8 + [["n", "n"]] * 4, [item // 4 for item in range(12)])
    assert found["percent_agreement"].interval == (pytest.approx(0.438503, abs=1e-6), 1.0)
    # by chance they agree on (2/3)² + (1/3)² = 5/9 by Cohen, on 2 · 2/3 · 1/3 = 4/9 by Gwet
    assert found["cohen_kappa"].interval == (pytest.approx((0.438503 - 5 / 9) / (4 / 9), abs=1e-5), 1.0)
    assert found["gwet_ac"].interval == (pytest.approx((0.438503 - 4 / 9) / (5 / 9), abs=1e-5), 1.0)
    never = by_case([["y", "n"]] * 12, [item // 4 for item in range(12)])["percent_agreement"]
    assert never == (0.0, (0.0, pytest.approx(1 - 0.438503, abs=1e-6)))
