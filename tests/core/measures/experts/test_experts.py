"""Experts' judgements: reading workbooks, breaking ties, shares, paired tests; and the figures of the release."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from core.datasets.published import rows
from core.errors import AnamnesisError
from core.judging.form import form_named
from core.measures.agreement import agreement_rows
from core.measures.experts.adjudication import decisions_of, pairs, review_of, shares
from core.measures.experts.workbooks import FILES, read_rows, release_review
from core.measures.opinions import opinions_of
from core.reviews.state import About, ItemAnswers, ReviewState
from core.store.review_records import yes_no_questions
from tests.support.answering import an_answer
from tests.support.intervals import beta_bounds

RELEASE = os.environ.get("ANAMNESIS_CRAFTMD_RELEASE")
HEADER = ["case_id", "case_vignette", "Q1: likeliest", "Q2", "Q3"]


def workbook(rows: list[list[Any]], title: str = "GPT-4") -> bytes:
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = title
    for row in [["How to fill this in"], [], HEADER, *rows]:
        sheet.append(row)
    content = io.BytesIO()
    book.save(content)
    return content.getvalue()


Answer = tuple[str, str, str, str, str]
"""Model, case, annotator, answer, and a number if there are several items of a model on a case."""


def judged(model: str, case: str, number: str = "", **said: str) -> list[Answer]:
    return [(model, case, annotator, answer, number) for annotator, answer in said.items()]


def reviewed(answers: list[Answer]) -> ReviewState:
    about = {f"{model} {case} {number}": About(case, (model,)) for model, case, _, _, number in answers}
    given = [
        an_answer(f"{model} {case} {number}", annotator, "single_diagnosis", answer)
        for model, case, annotator, answer, number in answers
    ]
    return review_of(form_named("conversations"), given, about)


def decide(answers: list[Answer]) -> list[ItemAnswers]:
    return decisions_of(reviewed(answers))


def test_a_workbook_gives_one_judgement_for_each_cell_that_is_filled() -> None:
    content = workbook([["case_7.json", "…", "Yes", "no", None], ["case_8.json", "…", " NO ", "Yes", "Yes"]])
    result = read_rows(content, "d1")
    assert [(row.case, *answer) for row in result for answer in row.answers.items()] == [
        ("case_7", "single_diagnosis", "yes"),
        ("case_7", "complete_history", "no"),
        ("case_8", "single_diagnosis", "no"),
        ("case_8", "complete_history", "yes"),
        ("case_8", "medical_terms", "yes"),
    ]
    assert {row.model for row in result} == {"gpt_4"}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (workbook([], "Notes"), "has a sheet 'Notes'; sheets are called GPT-4"),
        (b"not a workbook", "is not an Excel file"),
    ],
)
def test_what_cannot_be_read_is_named(content: bytes, says: str) -> None:
    with pytest.raises(AnamnesisError, match=says):
        read_rows(content, "d1")


def test_a_sheet_without_its_header_is_named() -> None:
    book = openpyxl.Workbook()
    book.active.title = "GPT-4"
    content = io.BytesIO()
    book.save(content)
    with pytest.raises(AnamnesisError, match="sheet GPT-4 of annotator d2 has no header"):
        read_rows(content.getvalue(), "d2")


def test_ties_go_to_the_third_and_stay_open_without_one() -> None:
    judgements = [
        *judged("a", "1", d1="yes"),
        *judged("a", "2", d1="no", d2="no", d3="yes"),
        *judged("a", "3", d1="yes", d2="no", d3="no"),
        *judged("a", "4", d1="yes", d2="no"),
    ]
    assert [(d.case, d.answer, len(d.answers)) for d in decide(judgements)] == [
        ("1", "yes", 1),
        ("2", "no", 2),
        ("3", "no", 2),
        ("4", None, 2),
    ]


def test_an_open_tie_is_in_no_share_and_in_no_paired_test() -> None:
    judgements = [j for case in "123456" for j in judged("a", case, d1="yes")]
    judgements += [j for case in "123456" for j in judged("b", case, d1="no")]
    judgements += [*judged("a", "7", d1="yes", d2="no"), *judged("b", "7", d1="no")]
    decisions = decide(judgements)
    a, b = shares(decisions)
    assert (a["model"], a["yes"], a.n, a.excluded["tied"]) == ("a", 6, 6, 1)
    assert (b["model"], b["yes"], b.n, b.excluded["tied"]) == ("b", 0, 7, 0)
    (pair,) = pairs(decisions, ["single_diagnosis"])
    assert (pair["first_only"], pair["second_only"], pair["n"]) == (6, 0, 6)
    assert pair["p"] == pytest.approx(2 / 2**6, abs=1e-12)  # six heads of six, two-sided


def test_agreement_is_that_of_the_two_who_did_not_know_of_the_tie() -> None:
    judgements = [j for case in range(8) for j in judged("a", str(case), d1="yes", d2="yes")]
    judgements += [*judged("a", "8", d1="yes", d2="no", d3="yes"), *judged("a", "9", d1="no", d2="no")]
    (opinions,) = opinions_of(reviewed(judgements))
    result = {row["measure"]: row for row in agreement_rows({}, opinions)}
    assert result["percent agreement"].estimate == pytest.approx(0.9, abs=1e-12)
    assert result["percent agreement"].n == 10
    # by chance 0.9·0.8 + 0.1·0.2 = 0.74
    assert result["Cohen's kappa"].estimate == pytest.approx((0.9 - 0.74) / (1 - 0.74), abs=1e-12)


def test_intervals_of_shares_and_agreement_resample_cases() -> None:
    # 20 cases of five conversations: yes in every second case; the two annotators differ on all of every fourth
    judgements = [
        entry
        for case in range(20)
        for trial in range(5)
        for entry in judged(
            "a", str(case), str(trial), d1="no" if case % 2 else "yes", d2="no" if case % 2 or not case % 4 else "yes"
        )
    ]
    decisions = decide(judgements)
    (opinions,) = opinions_of(reviewed(judgements))
    (measure,) = (row for row in agreement_rows({}, opinions) if row["measure"] == "percent agreement")
    assert (measure.estimate, measure.n) == (0.75, 100)
    assert (measure.low, measure.high) == pytest.approx(beta_bounds(15, 20)), "of 20 cases, not of 100 items"
    (share,) = shares([entry for entry in decisions if entry.answer is not None])
    assert (share["yes"], share.n) == (25, 75)
    half = 1.96 * (1 / 3 * 2 / 3 / 15) ** 0.5  # 15 cases have an answer
    assert (share.high - share.low) / 2 == pytest.approx(half, rel=0.15)
    each = [entry for case in range(20) for entry in judged("a", str(case), d1="yes" if case < 5 else "no")]
    (one_each,) = shares(decide(each))
    assert (one_each.low, one_each.high) == pytest.approx(beta_bounds(5, 20))


@pytest.fixture(scope="module")
def of_the_release() -> list[ItemAnswers]:
    if not RELEASE:
        pytest.skip("needs the CRAFT-MD authors' release: set ANAMNESIS_CRAFTMD_RELEASE to its folder")
    folder = Path(RELEASE)
    rows = [row for name, path in FILES.items() for row in read_rows((folder / path).read_bytes(), name)]
    return decisions_of(release_review(rows))


def test_the_release_gives_the_papers_counts(of_the_release: list[ItemAnswers]) -> None:
    counted = {(row["question"], row["model"]): (row["yes"], row.n) for row in shares(of_the_release)}
    for question, yes in (("single_diagnosis", (24, 14, 5, 16)), ("complete_history", (32, 14, 4, 23))):
        for model, count in zip(("gpt_4", "gpt_3_5", "mistral_v2_7b", "llama_2_7b"), yes, strict=True):
            assert counted[yes_no_questions()[question], model] == (count, 45)  # type: ignore[index]
    terms = [counts for (question, _), counts in counted.items() if question == yes_no_questions()["medical_terms"]]
    assert (sum(yes for yes, _ in terms), sum(n for _, n in terms)) == (13, 180)


def test_the_release_gives_table_18_by_exact_mcnemar(of_the_release: list[ItemAnswers]) -> None:
    tested = {
        (line["question"], frozenset((line["first"], line["second"]))): line["p"]
        for line in pairs(of_the_release, ["single_diagnosis", "complete_history"])
    }
    printed = {
        "stopped_when_single_most_likely_diagnosis_mcnemar_p": "single_diagnosis",
        "elicited_relevant_medical_history_mcnemar_p": "complete_history",
    }
    checked = 0
    for row in rows("craftmd_expert"):
        question = printed.get(row["metric"])
        if question:
            p = tested[yes_no_questions()[question], frozenset(row["model"].split("_vs_"))]  # type: ignore[index]
            if row["value"].startswith("<"):
                assert p < float(row["value"][1:])
            else:
                assert int(p * 10_000) / 10_000 == float(row["value"]), row  # printed truncated
            checked += 1
    assert checked == 12
