"""Versions compared step by step, on scores written down by hand."""

from __future__ import annotations

import pytest

from core.events import Format, QuestionType
from core.measures.compare import recorrected, steps
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
    """Cases 0, 1, … of which so many of ``counted`` trials were right."""
    lost = {"provider_error": excluded} if excluded else {}
    return [
        CaseScore(model, format_, question_type, f"ours/{specialty}-{n}", "ours", specialty, c, counted, lost)
        for n, c in enumerate(correct)
    ]


def test_a_step_is_the_mean_of_the_differences_of_its_cases() -> None:
    found = steps([*scores("v1", [0, 1, 2, 0]), *scores("v2", [2, 2, 1, 0])], ["v1", "v2"])
    (step,) = found
    assert step.result.first_mean == pytest.approx((0 + 0.5 + 1 + 0) / 4)
    assert step.result.second_mean == pytest.approx((1 + 1 + 0.5 + 0) / 4)
    assert step.result.difference == pytest.approx(0.25)
    assert (step.result.improved, step.result.regressed, step.result.equal) == (2, 1, 1)


def test_twenty_cases_that_all_rose_are_a_rise_and_the_other_way_round_a_fall() -> None:
    low, high = scores("low", [0] * 18 + [1, 0]), scores("high", [2] * 18 + [1, 2])
    (up,) = steps([*low, *high], ["low", "high"])
    (down,) = steps([*low, *high], ["high", "low"])
    assert (up.verdict, down.verdict) == ("rose", "fell")
    assert down.result.difference == pytest.approx(-up.result.difference)


def test_one_case_more_in_twenty_is_no_clear_change() -> None:
    (step,) = steps([*scores("v1", [1] * 20), *scores("v2", [2] + [1] * 19)], ["v1", "v2"])
    assert step.result.difference == pytest.approx(0.025)
    assert step.verdict == "unclear"


def test_three_versions_make_two_steps_in_their_order() -> None:
    held = [*scores("a", [0, 1]), *scores("b", [1, 1]), *scores("c", [2, 1])]
    assert [(s.before, s.after) for s in steps(held, ["c", "a", "b"])] == [("c", "a"), ("a", "b")]


def test_an_arm_that_one_version_lacks_is_left_out() -> None:
    held = [*scores("v1", [1, 1]), *scores("v2", [1, 1]), *scores("v2", [1, 1], format_="summarized")]
    assert [(s.format, s.question_type) for s in steps(held, ["v1", "v2"])] == [("vignette", "mcq")]


def test_the_correction_is_over_every_step_and_specialty_shown() -> None:
    neurology = [*scores("v1", [0] * 12 + [2] * 4), *scores("v2", [2] * 9 + [0] * 3 + [2] * 4)]
    other = [*scores("v1", [1] * 16, specialty="Other"), *scores("v2", [1] * 16, specialty="Other")]
    (alone,) = steps(neurology, ["v1", "v2"], correction="holm")
    both = steps([*neurology, *other], ["v1", "v2"], by="specialty", correction="holm")
    first = next(s for s in both if s.group == "Neurology")
    assert [s.group for s in both] == ["Neurology", "Other"]
    # Holm multiplies the smaller of two p-values by 2; the other specialty, all equal, has p = 1
    assert first.adjusted_p == pytest.approx(min(1.0, 2 * alone.result.p))


def test_another_correction_gives_what_comparing_anew_would_give() -> None:
    held = [*scores("v1", [0, 1, 2, 0, 1, 0]), *scores("v2", [2, 2, 1, 0, 2, 2])]
    held += [*scores("v1", [0, 0, 1], format_="summarized"), *scores("v2", [0, 2, 2], format_="summarized")]
    assert recorrected(steps(held, ["v1", "v2"], correction="none"), "bh") == steps(held, ["v1", "v2"], correction="bh")


def test_answers_that_do_not_count_are_counted_beside_each_version() -> None:
    (step,) = steps([*scores("v1", [1, 1], excluded=2), *scores("v2", [1, 1])], ["v1", "v2"])
    assert (step.invalid_before, step.invalid_after) == (4, 0)
