"""Experts judge the same criteria as a judge: agreement, status, scores of both; answers survive the database."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import UsageError
from core.judging.calibration import Trust
from core.judging.rubric import rubric_of
from core.measures import agreement, calibration
from core.measures.base import MetricRequest, Row
from core.measures.rubrics.report import report_scores
from core.reviews.reviewing import plan_review, unblind
from core.reviews.rubrics import statements_for
from core.reviews.state import state_of
from core.store.database import Store
from core.store.fold import fold
from core.store.review_records import Review, parse_item, planned
from tests.support.answering import record_all
from tests.support.judged_rubric import COUGH, FEVER, RUBRIC, store_judged
from tests.support.stores import copy_of


@pytest.fixture
def judged(tmp_path: Path) -> Store:
    return copy_of(store_judged, tmp_path / "judged")


@pytest.fixture
def reviewed(tmp_path: Path) -> Store:
    """The same with the verdicts of experts on all 20 criteria."""
    return copy_of(store_reviewed, tmp_path / "reviewed")


def store_reviewed(store: Store) -> None:
    store_judged(store)
    answer(store, review(store))


def review(store: Store, number: int = 20, **changes: object) -> Review:
    rubric = rubric_of(dict(RUBRIC), "here")
    plan = planned(
        **{
            "kind": "criteria",
            "number": number,
            "annotators": ("Ada", "Ben"),
            "shared": 1.0,
            "runs": ("run",),
            "rubric": "demo",
            "statements": statements_for(rubric),
            "sampling": "conversation",
            **changes,
        }
    )
    return plan_review(store, "Criteria", plan)


def answer(store: Store, stored: Review) -> None:
    """Both experts judge rightly, but Ben is wrong on the fever of case 7, where Cyd decides."""
    state = state_of(store, stored.review_id)
    hashes = {text: key for key, text in stored.plan.statements.items()}
    fever = hashes.get("The doctor asks about fever")
    verdicts, decided = [], []
    for item in state.items:
        about = parse_item(item.item)
        number = int(about.trial_id.rpartition("/")[2])
        met = number in (FEVER if about.criterion == fever else COUGH)
        right, wrong = ("met", "not met") if met else ("not met", "met")
        tied = number == 7 and about.criterion == fever
        verdicts.append((item.number, "Ada", "verdict", right))
        verdicts.append((item.number, "Ben", "verdict", wrong if tied else right))
        if tied:
            decided.append((item.number, "Cyd", "verdict", right))
    record_all(store, stored.review_id, verdicts)
    record_all(store, stored.review_id, decided)
    unblind(store, stored.review_id, "Ada", "done")


def rows(store: Store, **options: object) -> list[Row]:
    return list(calibration.report.rows(MetricRequest(store), "rubric:demo", **options))


def status(store: Store, by: str = "axis", **options: object) -> list[Row]:
    listed = agreement.report.rows(MetricRequest(store), "rubric:demo", part="status", by=by, **options)
    return [row for row in listed if isinstance(row, Row)]


@pytest.mark.slow
def test_the_judge_agrees_in_19_of_20_and_the_figures_of_both_are_those_of_the_experts(reviewed: Store) -> None:
    by_axis = {row["axis"]: row for row in status(reviewed)}
    assert by_axis["all"].estimate == pytest.approx(19 / 20)
    assert by_axis["safety"].estimate == pytest.approx(9 / 10)
    assert by_axis["safety"]["sensitivity"] == pytest.approx(3 / 4)
    assert by_axis["safety"]["specificity"] == 1
    assert by_axis["all"]["status"] == "not calibrated"
    assert status(reviewed, least_items=20)[0]["status"] == "calibrated"
    assert status(reviewed, least_items=20, least_agreement=0.96)[0]["status"] == "not calibrated"
    scores = {row["figure"]: row for row in rows(reviewed)}
    # points: fever 7 × 3, cough 4 × 1 (the judge: 3 × 1) of 10 × 4
    assert scores["experts alone"].estimate == pytest.approx(25 / 40)
    assert scores["judge alone"].estimate == pytest.approx(24 / 40)
    assert scores["judge and experts (PPI++)"].estimate == pytest.approx(25 / 40)
    # sensitivity 10/11 and specificity 1 on all 20: each yes counts 11/10
    assert scores["corrected (Rogan and Gladen)"].estimate == pytest.approx(24 / 40 * 1.1)
    by_criterion = {row["question"]: row.estimate for row in status(reviewed, "question")}
    assert by_criterion == {"fever": 1.0, "cough": pytest.approx(0.9)}


@pytest.mark.slow
def test_a_part_of_the_items_is_enough_and_more_would_narrow_the_interval(judged: Store) -> None:
    stored = review(judged, number=12)
    answer(judged, stored)
    state = state_of(judged, stored.review_id)
    trials = [parse_item(item.item).trial_id for item in state.items_for("Ada")]
    assert len(dict.fromkeys(trials)) == sum(a != b for a, b in zip(["", *trials], trials, strict=False))
    scores = {row["figure"]: row for row in rows(judged)}
    assert scores["experts alone"].n == 12
    assert scores["judge and experts (PPI++)"].n == 20
    widths = {row["more_cases"]: row.estimate for row in rows(judged, part="plan")}
    assert widths[max(widths)] <= widths[0]
    assert {row["feature"] for row in rows(judged, part="audit")} >= {"judge's verdict", "points"}


@pytest.mark.slow
def test_scores_say_how_far_their_judge_is_calibrated(judged: Store, reviewed: Store) -> None:
    before, after = MetricRequest(judged), MetricRequest(reviewed)
    list(report_scores.rows(before, rubric="demo"))
    assert next(note.severity for note in before.notes if note.kind == "judge") == "high"
    list(report_scores.rows(after, rubric="demo"))
    assert any("n = 20, 95% equal" in note.text for note in after.notes)


@pytest.mark.slow
def test_verdicts_of_experts_survive_the_loss_of_the_database(reviewed: Store) -> None:
    before = [(row.label, row.estimate, row.low, row.high) for row in rows(reviewed)]
    for file in reviewed.path.parent.glob("anamnesis.duckdb*"):
        file.unlink()
    again = Store(reviewed.path)
    fold(again)
    assert [(row.label, row.estimate, row.low, row.high) for row in rows(again)] == before


@pytest.mark.slow
def test_only_judged_criteria_of_a_rubric_are_drawn(judged: Store) -> None:
    with pytest.raises(UsageError, match="only 20 items"):
        review(judged, number=21)
    with pytest.raises(UsageError, match="rubric with criteria"):
        review(judged, statements={})


@pytest.mark.slow
def test_scores_can_leave_out_what_the_judge_is_not_calibrated_on(
    reviewed: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    # fever (data gathering): 10 of 10 verdicts are equal; cough (safety): 9 of 10
    monkeypatch.setattr("core.measures.rubrics.reading.Trust", lambda: Trust(least_items=10, least_agreement=0.95))
    for by in ("axis", "criterion"):
        request = MetricRequest(reviewed)
        (row,) = report_scores.rows(request, rubric="demo", calibrated=by)
        assert isinstance(row, Row)
        # 7 of 10 conversations meet the only criterion that is left
        assert (row["score"], row["n_criteria"], row["n_unjudged"]) == (0.7, 10, 10)
        assert any("judge not calibrated 10" in note.text for note in request.notes)


@pytest.mark.slow
def test_without_enough_labels_nothing_is_left(reviewed: Store) -> None:
    (row,) = report_scores.rows(MetricRequest(reviewed), rubric="demo", calibrated="axis")
    assert isinstance(row, Row)
    assert row.estimate is None
    assert row["n_unjudged"] == 20
