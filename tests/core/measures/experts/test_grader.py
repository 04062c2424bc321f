"""Graders against experts, by hand-made examples worked out on paper."""

from __future__ import annotations

import math

import pytest

from core.errors import AnamnesisError
from core.measures.base import Row
from core.measures.experts.adjudication import (
    CONFUSION,
    JudgedAnswer,
    case_counts,
    confusion,
    corrected,
    count_agreement,
)
from core.measures.experts.workbooks import GradedCase, counts_by_case, read_grader_file
from core.measures.graders.agreement import flip_rates
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.releases import ReleasedCase, ReleasedRun
from tests.core.store.builders import graded, grades, write_journal
from tests.support.intervals import beta_bounds


def judged(both: int, grader_only: int, expert_only: int, neither: int) -> list[JudgedAnswer]:
    kinds = [(True, True)] * both + [(False, True)] * grader_only + [(True, False)] * expert_only
    kinds += [(False, False)] * neither
    return [JudgedAnswer(f"i{n}", "m", f"c{n // 5}", "g", *kind) for n, kind in enumerate(kinds)]


def by_figure(rows: list[Row]) -> dict[str, Row]:
    assert {row.label["grader"] for row in rows} == {"g"}
    return {row.label["figure"]: row for row in rows}


def test_the_two_by_two_of_grader_and_experts() -> None:
    figures = by_figure(confusion("g", judged(8, 1, 2, 9)))
    assert [(figures[name].estimate, figures[name].n) for name in CONFUSION] == [(8, 20), (1, 20), (2, 20), (9, 20)]
    shares = {name: figures[name].estimate for name in ("agreement", "sensitivity", "specificity")}
    assert shares == pytest.approx({"agreement": 17 / 20, "sensitivity": 8 / 10, "specificity": 9 / 10})
    assert figures["sensitivity"].n == 10
    assert figures["agreement"].low < 17 / 20 < figures["agreement"].high
    assert by_figure(confusion("g", []))["sensitivity"].estimate is None


def test_the_papers_rule_for_counts() -> None:
    # five trials a case; experts 5, 3, 0, 2 and the grader 5, 2, 2, 2 of them: differences 0, 1, 2, 0
    counts = [(5, 5, 5), (3, 2, 5), (0, 2, 5), (2, 2, 5)]
    figures = by_figure(count_agreement("g", counts))
    assert figures["agreement of counts"].estimate == pytest.approx(1 - (0 + 1 / 5 + 2 / 5 + 0) / 4)  # 0.85
    assert figures["same count"].estimate == 2 / 4
    # ranks 4, 3, 1, 2 and 4, 2, 2, 2: covariance 3, variances 5 and 3
    assert figures["Spearman of counts"].estimate == pytest.approx(3 / math.sqrt(5 * 3))
    assert {row.n for row in figures.values()} == {4}
    assert by_figure(count_agreement("g", []))["agreement of counts"].estimate is None
    for n in (1, 2):  # of two cases it is always 1 or -1
        assert by_figure(count_agreement("g", counts[:n]))["Spearman of counts"].estimate is None


def test_counts_are_made_of_single_answers() -> None:
    # items 0–4 are case c0: four right by both and one by the grader alone; 5–9 case c1: two by experts alone
    assert case_counts(judged(4, 1, 2, 3)) == {("m", "c0"): (4, 5, 5), ("m", "c1"): (2, 0, 5)}


def test_the_graders_intervals_resample_cases_not_answers() -> None:
    # 20 cases with five answers each, which the experts call right; of five cases the grader calls all five wrong
    items = [JudgedAnswer(f"i{n}", "m", f"c{n // 5}", "g", True, n >= 25) for n in range(100)]
    whole = by_figure(confusion("g", items))["sensitivity"]
    # of 20 cases that are wholly one or the other, not of 100 answers (half of that interval would be 0.085)
    assert (whole.high - whole.low) / 2 == pytest.approx(2.093 * math.sqrt(0.75 * 0.25 / 19), rel=0.15)
    # one answer to each case
    alone = by_figure(confusion("g", items[::5]))["sensitivity"]
    assert (alone.low, alone.high) == pytest.approx(beta_bounds(15, 20))
    right = [JudgedAnswer(f"i{n}", "m", f"c{n // 5}", "g", True, True) for n in range(100)]
    every = by_figure(confusion("g", right))["sensitivity"]
    assert (every.low, every.high) == pytest.approx(beta_bounds(20, 20))


def of_cases(*scores: float) -> dict[str, float]:
    return {f"c{number}": score for number, score in enumerate(scores)}


def test_a_corrected_accuracy_has_an_interval_and_says_when_it_is_clipped() -> None:
    items = judged(45, 10, 5, 40)  # sensitivity .9, specificity .8
    result = corrected("m", of_cases(*[0.48] * 50), items)
    assert result.estimate == pytest.approx(0.4)  # .9·.4 + .2·.6 = .48 of all are called right
    assert result.low < 0.4 < result.high
    assert (result.more["apparent"], result.more["n_cases"], result.n) == (pytest.approx(0.48), 50, 100)
    low = corrected("m", of_cases(*[0.1] * 50), items)  # (.1 + .8 − 1) / .7 is below 0
    assert (low.estimate, low.more["clipped"]) == (0.0, True)
    useless = corrected("m", of_cases(*[0.5] * 50), judged(5, 5, 5, 5))
    assert (useless.estimate, useless.low, useless.high, useless.more["clipped"]) == (None, None, None, False)


def test_the_error_of_a_correction_comes_from_cases_not_from_items() -> None:
    # 40 cases, half of them right; the grader errs on every tenth, on one item of each or on all five alike
    def items(each: int) -> list[JudgedAnswer]:
        return [
            JudgedAnswer(f"{case} {number}", "m", f"c{case}", "g", case % 2 == 0, (case % 2 == 0) != (case % 10 < 2))
            for case in range(40)
            for number in range(each)
        ]

    scores = of_cases(*[0.5] * 40)
    single, five = (corrected("m", scores, items(each)) for each in (1, 5))
    assert (single.estimate, five.estimate) == (pytest.approx(0.5), pytest.approx(0.5))
    # four more copies of each item tell nothing new
    assert (five.low, five.high) == pytest.approx((single.low, single.high), abs=1e-9)


def test_a_perfect_grader_changes_nothing() -> None:
    result = corrected("m", of_cases(*[0.0, 1.0] * 20), judged(50, 0, 0, 50))
    assert result.estimate == 0.5
    # the interval is that of 40 cases alone, expanded for the 20 that were judged: 0.5 ± t(0.975, 19) · 0.5 / √40
    half = 2.093 * 0.5 / math.sqrt(40)
    assert (result.high - result.low) / 2 == pytest.approx(half, rel=0.1)
    # 20 of 20 right, by a grader without error on the same 20 cases: Wilson's bound
    right = corrected("m", of_cases(*[1.0] * 20), judged(50, 0, 0, 50))
    assert right.estimate == 1
    assert (right.low, right.high) == (pytest.approx(0.838875, abs=1e-6), 1.0)


def test_a_grader_contradicts_itself_on_the_same_words(store: Store) -> None:
    write_journal(store.journals, "run0", grades("t01", graded("incorrect", at=20.0), run_id="run0"))
    fold(store)
    result = {
        (row["model"], row["judged_again"].removeprefix("the same ")): (row.n, row["both_ways"], row["verdicts"])
        for row in flip_rates(store)
    }
    # the answer is the same in all cases: "Eczema 0" of the first doctor was judged 7 times, both ways; "Eczema 1" of
    # the second 6 times, one way; what was read out of each of them is one diagnosis
    assert result == {
        ("openai/secret-one", "response"): (1, 1, 7),
        ("openai/secret-two", "response"): (1, 0, 6),
        ("openai/secret-one", "diagnosis"): (1, 1, 7),
        ("openai/secret-two", "diagnosis"): (1, 0, 6),
        ("openai/secret-one", "answer"): (1, 1, 2),
    }


GRADER_FILE = """Question: how many?,,,
,,,
,case_0,case_1,case_200
trial_0,lupus,gout,acne
trial_1,lupus,none,acne
correct_ans,Lupus,Gout,Rosacea
dermatologist_accuracy,2,,0
"""


def test_the_graders_file_of_the_release() -> None:
    cases = read_grader_file(GRADER_FILE.encode())
    assert cases == [GradedCase(0, 2, 2), GradedCase(1, 2, None), GradedCase(200, 2, 0)]
    with pytest.raises(AnamnesisError, match="has no rows case_"):
        read_grader_file(b"a,b\n1,2\n")
    with pytest.raises(AnamnesisError, match="column case_0: 'two' is not a number"):
        read_grader_file(GRADER_FILE.replace("accuracy,2", "accuracy,two").encode())


def test_the_columns_behind_the_200th_are_medqa_dermatology_in_order() -> None:
    cases = [
        ReleasedCase("craftmd/case_0", 0, "dermatology_public", "Dermatology", None),
        ReleasedCase("craftmd/case_700", 3, "MedQA_USMLE", "Cardiology", None),
        ReleasedCase("craftmd/case_900", 9, "MedQA_USMLE", "Dermatology", None),
        ReleasedCase("craftmd/case_800", 5, "MedQA_USMLE", "Dermatology", None),
    ]
    arm = ("vignette", "frq")
    counts = {(arm, case.case_key): (n, 5) for n, case in enumerate(cases)}
    run = ReleasedRun("r", "gpt_4", cases, counts)  # type: ignore[arg-type]
    result = counts_by_case(
        [GradedCase(0, 5, 1), GradedCase(200, 5, 4), GradedCase(201, 5, 2), GradedCase(202, 5, 3)], run
    )
    assert result == {"craftmd/case_0": (1, 0, 5), "craftmd/case_800": (4, 3, 5), "craftmd/case_900": (2, 2, 5)}
