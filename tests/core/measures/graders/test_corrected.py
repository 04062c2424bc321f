"""Accuracy corrected for the error of each grader, and of the panel, against an expert."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.events import Verdict
from core.measures.base import MetricRequest, Row
from core.measures.experts.report import report
from core.measures.graders.agreement import PANEL, corrected_by_judge
from core.reviews.reviewing import unblind
from core.reviews.state import state_of
from core.store.database import Store
from core.store.fold import fold
from core.store.review_records import Review
from tests.core.measures.experts.reviews import MODELS, a_review, answer_all, store_conversations
from tests.core.store.builders import graded, grades, write_journal
from tests.support.stores import copy_of

OWN, OTHER = "openai/g", "openai/h"


def fill(store: Store) -> None:
    """Two models' answers to ten cases. The own grader calls all of the first model right, the other grader six."""
    store_conversations(store, cases=10)
    for model in range(2):
        for case in range(10):
            verdict: Verdict = "correct" if model == 0 and 2 <= case <= 7 else "incorrect"
            new = graded(verdict, grader=OTHER, at=20.0)
            write_journal(store.journals, f"run{model}", grades(f"t{model}{case}", new, run_id=f"run{model}"))
    fold(store)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return copy_of(fill, tmp_path)


def reviewed(store: Store, **changes: object) -> Review:
    """Store a review in which an expert calls the first model's answers to cases 0 to 5 right, and no others."""
    review = a_review(store, kind="answers", annotators=("Ada",), shared=0, **{"number": 20, **changes})
    items = state_of(store, review.review_id).items
    wrong = {item.number: "no" for item in items if item.item.split(":")[1] not in {f"t0{case}" for case in range(6)}}
    answer_all(store, review, "Ada", but=wrong)
    return review


def test_each_grader_is_corrected_by_its_own_error(store: Store) -> None:
    reviewed(store)
    assert corrected_by_judge(store, [OWN]) == []  # blinded: no figures yet
    unblind(store, "First", "Ada")
    rows = {(row["judge"], row["model"]): row for row in corrected_by_judge(store, [OWN, OTHER], [OWN, OTHER])}
    assert {row["review"] for row in rows.values()} == {"First"}
    # the other grader calls 4 of 6 right answers right, and 12 of 14 wrong answers wrong
    other, sensitivity, specificity = rows[OTHER, MODELS[0]], 4 / 6, 12 / 14
    assert other["apparent"] == pytest.approx(0.6)
    assert other.estimate == pytest.approx((0.6 + specificity - 1) / (sensitivity + specificity - 1))
    assert (other.n, other["clipped"]) == (20, True)  # an end of its interval is above 1
    # the own grader calls all right answers right, and 4 of 14 wrong answers right
    assert (rows[OWN, MODELS[0]]["apparent"], rows[OWN, MODELS[0]].estimate) == (1.0, pytest.approx(1.0))
    assert (rows[OWN, MODELS[1]].estimate, rows[OWN, MODELS[1]]["clipped"]) == (0.0, True)
    # the expert judged all answers of each model, so grader and expert together say what the expert says
    for grader in (OWN, OTHER):
        for model, share in zip(MODELS, (0.6, 0.0), strict=True):
            together = rows[grader, model]["with_experts"]
            assert (together.estimate, together.items, together.labelled) == (pytest.approx(share), 10, 10)
    # the two graders tie on four answers: the panel has the other sixteen
    panel = rows[PANEL, MODELS[0]]
    assert (panel.n, panel["n_cases"], panel["apparent"]) == (16, 6, 1.0)


def test_the_experts_report_corrects_the_accuracy_by_the_named_grader(store: Store) -> None:
    reviewed(store)
    unblind(store, "First", "Ada")
    rows = list(report.rows(MetricRequest(store), part="grader", review="First"))
    by_grader = {
        grader: [row for row in rows if isinstance(row, Row) and row.label["grader"] == grader]
        for grader in (OWN, OTHER)
    }
    sensitivity, specificity = 4 / 6, 12 / 14
    right = {OWN: (1.0, 1.0), OTHER: (0.6, (0.6 + specificity - 1) / (sensitivity + specificity - 1))}
    for grader, (apparent, estimate) in right.items():
        place = next(n for n, row in enumerate(by_grader[grader]) if row.label["figure"] == f"accuracy of {MODELS[0]}")
        assert by_grader[grader][place].estimate == pytest.approx(apparent), grader
        assert by_grader[grader][place + 1].estimate == pytest.approx(estimate), grader


def test_versions_of_prompts_are_separate_graders(store: Store) -> None:
    # the other grader's second prompts call every answer wrong: its first verdicts still have their own error
    for case in range(10):
        new = graded("incorrect", grader=OTHER, at=30.0, prompt_hash="second")
        write_journal(store.journals, "run0", grades(f"t0{case}", new, run_id="run0"))
    fold(store)
    reviewed(store)
    unblind(store, "First", "Ada")
    rows = [row for row in report.rows(MetricRequest(store), part="grader", review="First") if isinstance(row, Row)]
    figures = {(row.label["grader"], row.label["figure"]): row.estimate for row in rows}
    second = f"{OTHER} · prompts second"
    (first,) = {grader for grader, _ in figures} - {OWN, second}
    assert figures[first, "sensitivity"] == pytest.approx(4 / 6)
    assert figures[second, "sensitivity"] == 0
    assert figures[second, f"accuracy of {MODELS[0]}"] == 0


@pytest.mark.slow
def test_items_drawn_for_disagreement_correct_nothing(store: Store) -> None:
    reviewed(store, number=10, sampling="disagreement")
    unblind(store, "First", "Ada")
    assert corrected_by_judge(store, [OWN, OTHER]) == []
