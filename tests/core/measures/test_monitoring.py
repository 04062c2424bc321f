"""Versions compared step by step, on scores written down by hand."""

from __future__ import annotations

from typing import Any

import pytest

from core.events import Format, QuestionType
from core.measures.base import Comparison, Row
from core.measures.compare import difference_rows, steps
from core.measures.comparison import verdict
from core.stats.corrections import Correction
from core.store.queries.answers import CaseScore


def scores(
    model: str,
    correct: list[int],
    *,
    counted: int = 2,
    format_: Format = "vignette",
    question_type: QuestionType = "mcq",
    specialty: str = "Neurology",
    excluded: int = 0,
) -> list[CaseScore]:
    """Return scores of cases 0, 1, …; ``correct`` has the right answers of each case, out of ``counted`` trials."""
    exclusions = {"provider_error": excluded} if excluded else {}
    return [
        CaseScore(model, format_, question_type, f"ours/{specialty}-{n}", "ours", specialty, c, counted, exclusions)
        for n, c in enumerate(correct)
    ]


def stepped(
    case_scores: list[CaseScore], versions: list[str], correction: Correction = "holm", **more: Any
) -> list[Row]:
    return difference_rows(steps(case_scores, versions, **more), correction)


def result_of(row: Row) -> Comparison:
    assert row.comparison is not None
    return row.comparison


def test_a_step_is_the_mean_of_the_differences_of_its_cases() -> None:
    (step,) = stepped([*scores("v1", [0, 1, 2, 0]), *scores("v2", [2, 2, 1, 0])], ["v1", "v2"])
    assert result_of(step).first_mean == pytest.approx((0 + 0.5 + 1 + 0) / 4)
    assert result_of(step).second_mean == pytest.approx((1 + 1 + 0.5 + 0) / 4)
    assert result_of(step).difference == pytest.approx(0.25)
    assert (result_of(step).improved, result_of(step).regressed, result_of(step).equal) == (2, 1, 1)


def test_twenty_cases_that_all_rose_are_a_rise_and_the_other_way_round_a_fall() -> None:
    low, high = scores("low", [0] * 18 + [1, 0]), scores("high", [2] * 18 + [1, 2])
    (up,) = stepped([*low, *high], ["low", "high"])
    (down,) = stepped([*low, *high], ["high", "low"])
    assert (verdict(result_of(up)), verdict(result_of(down))) == ("rose", "fell")
    assert result_of(down).difference == pytest.approx(-result_of(up).difference)


def test_one_case_more_in_twenty_is_no_clear_change() -> None:
    (step,) = stepped([*scores("v1", [1] * 20), *scores("v2", [2] + [1] * 19)], ["v1", "v2"])
    assert result_of(step).difference == pytest.approx(0.025)
    assert verdict(result_of(step)) == "unclear"


def test_three_versions_make_two_steps_in_their_order() -> None:
    case_scores = [*scores("a", [0, 1]), *scores("b", [1, 1]), *scores("c", [2, 1])]
    assert [(s["first"], s["second"]) for s in stepped(case_scores, ["c", "a", "b"])] == [("c", "a"), ("a", "b")]


def test_an_arm_that_one_version_lacks_is_left_out() -> None:
    case_scores = [*scores("v1", [1, 1]), *scores("v2", [1, 1]), *scores("v2", [1, 1], format_="summarized")]
    assert [(s["format"], s["question_type"]) for s in stepped(case_scores, ["v1", "v2"])] == [("vignette", "mcq")]


def test_the_correction_is_over_every_step_and_specialty() -> None:
    neurology = [*scores("v1", [0] * 12 + [2] * 4), *scores("v2", [2] * 9 + [0] * 3 + [2] * 4)]
    other = [*scores("v1", [1] * 16, specialty="Other"), *scores("v2", [1] * 16, specialty="Other")]
    (without_other,) = stepped(neurology, ["v1", "v2"])
    steps_of_both = stepped([*neurology, *other], ["v1", "v2"], by="specialty")
    first = next(s for s in steps_of_both if s["specialty"] == "Neurology")
    assert [s["specialty"] for s in steps_of_both] == ["Neurology", "Other"]
    # Holm multiplies the smaller of two p-values by 2; the other specialty, all equal, has p = 1
    assert result_of(first).adjusted_p == pytest.approx(min(1.0, 2 * result_of(without_other).p))


def test_excluded_answers_are_counted_for_each_version() -> None:
    (step,) = stepped([*scores("v1", [1, 1], excluded=2), *scores("v2", [1, 1])], ["v1", "v2"])
    assert (step["invalid_first"], step["invalid_second"]) == (4, 0)
