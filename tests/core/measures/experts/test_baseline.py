"""Experts answer vignettes: stored as runs of their own, graded as a model's, resumable."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from core.errors import UsageError
from core.jobs.plan import campaign_of
from core.journal import read_header
from core.measures.base import MetricRequest
from core.measures.experts.report import report
from core.reviews.answering import record
from core.reviews.baseline import baseline_cases, baseline_run, begin_baseline, write_trials
from core.reviews.drawing import case_pool, draw
from core.reviews.reviewing import plan_review, unblind
from core.reviews.state import state_of
from core.store.database import Store
from core.store.queries.answers import case_scores
from core.store.queries.judgements import add_judgements
from core.store.queries.reviews import add_review
from core.store.queries.runs import run
from core.store.review_records import Review, ReviewPlan, stored_plan
from core.store.selection import Selection
from tests.core.measures.experts.reviews import a_plan
from tests.support.answering import an_answer


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "anamnesis.duckdb")


@pytest.fixture
def review(store: Store) -> Review:
    plan = a_plan(kind="baseline", number=3, shared=1, specialties=("Neurology",))
    return plan_review(store, "Vignettes", plan)


@pytest.mark.slow
def test_an_expert_becomes_a_doctor_beside_the_models(store: Store, review: Review) -> None:
    state = state_of(store, "Vignettes")
    for place, item in enumerate(state.items_for("Ada")):
        case = baseline_cases(store, state.review, "Ada")[item.item]
        wrong = next(choice for choice in case.choices if choice != case.answer)
        record(store, "Vignettes", item.number, "Ada", "frq", f"{case.answer}.")
        record(store, "Vignettes", item.number, "Ada", "mcq", case.answer if place else wrong)
    with store.read() as cursor:
        assert case_scores(cursor, mcq_rule="mcq_strict") == [], "Ben has not answered"
    answer_right(store, "Vignettes", "Ben", ("frq", "mcq"))
    with store.read() as cursor:
        stored = run(cursor, baseline_run(review, "Ada"))
        scores = case_scores(cursor, mcq_rule="mcq_strict")
    assert stored is not None
    assert (stored.doctor, stored.source, stored.protocol, stored.state) == (
        "human/Ada",
        "local",
        "craftmd",
        "complete",
    )
    right = {(entry.format, entry.question_type): 0 for entry in scores}
    for entry in (entry for entry in scores if entry.model.startswith("human/Ada")):
        assert entry.model == "human/Ada · own words first"
        right[entry.format, entry.question_type] += entry.correct
    assert right == {("vignette", "mcq"): 2, ("vignette", "frq"): 3}


@pytest.mark.slow
def test_answers_are_saved_one_by_one_and_are_final(store: Store, review: Review) -> None:
    item = state_of(store, "Vignettes").items_for("Ada")[0]
    with pytest.raises(UsageError, match="must answer another one first"):
        record(store, "Vignettes", item.number, "Ada", "mcq", "Migraine")
    with pytest.raises(UsageError, match="is not an answer"):
        record(store, "Vignettes", item.number, "Ada", "frq", "  ")
    record(store, "Vignettes", item.number, "Ada", "frq", "Migraine")
    state = state_of(store, "Vignettes")
    assert state.due(item, "Ada")[-1] == "mcq"
    with pytest.raises(UsageError, match="its answer is final"):
        record(store, "Vignettes", item.number, "Ada", "frq", "Stroke")
    with pytest.raises(UsageError, match="Cyd has no such question"):
        record(store, "Vignettes", item.number, "Cyd", "mcq", "Stroke")
    with store.read() as cursor:
        stored = run(cursor, baseline_run(review, "Ada"))
    assert stored is not None
    assert (stored.done, stored.state) == (0, "partial")


@pytest.mark.slow
def test_what_was_answered_before_a_crash_is_graded_when_the_review_ends(store: Store, review: Review) -> None:
    first, second = state_of(store, "Vignettes").items_for("Ada")[:2]
    answers = [
        an_answer(first.item, "Ada", question, "Migraine", review_id=review.review_id) for question in ("mcq", "frq")
    ]
    with store.write() as connection:
        add_judgements(connection, answers)
    record(store, "Vignettes", second.number, "Ada", "frq", "Migraine")
    unblind(store, "Vignettes", "Cyd", "The study was ended.")
    with store.read() as cursor:
        stored = run(cursor, baseline_run(review, "Ada"))
    assert stored is not None
    assert stored.done == 1
    assert write_trials(store, state_of(store, "Vignettes")) == 0


def test_the_run_holds_the_cases_as_they_were(store: Store, review: Review) -> None:
    cases = baseline_cases(store, review, "Ben")
    assert list(cases) == [entry.item for entry in state_of(store, "Vignettes").items_for("Ben")]
    assert {case.specialty for case in cases.values()} == {"Neurology"}
    with pytest.raises(UsageError, match="Cyd is not an annotator"):
        baseline_run(review, "Cyd")


@pytest.mark.slow
def test_nobody_but_the_expert_goes_on_with_a_baseline(store: Store, review: Review) -> None:
    item = state_of(store, "Vignettes").items_for("Ada")[0]
    record(store, "Vignettes", item.number, "Ada", "frq", "Migraine")
    header = read_header(store.journals / baseline_run(review, "Ada") / "journal.jsonl")
    with pytest.raises(UsageError, match="is a human baseline: go on with it on the page Trust, under Experts"):
        campaign_of(header)


def as_0_4_planned(store: Store, name: str, monkeypatch: pytest.MonkeyPatch, **changes: object) -> Review:
    """Store a baseline as version 0.4 did: neither its plan nor its runs note an order."""
    whole = a_plan(kind="baseline", number=2, shared=0, annotators=("Ada",), specialties=("Neurology",), **changes)
    plan = whole.model_copy(update={"order": "choices first", "question_types": ("mcq", "frq")})
    review = Review(name, plan, tuple(draw(case_pool(plan), plan)))
    with monkeypatch.context() as patched:
        patched.setattr(ReviewPlan, "order_in_words", "")
        begin_baseline(store, review)
    with store.write() as connection:
        add_review(connection, review)
        fields = {key: value for key, value in plan.model_dump(mode="json").items() if key != "order"}
        connection.execute("UPDATE reviews SET plan = ? WHERE review_id = ?", [json.dumps(fields), review.review_id])
    return review


def answer_right(store: Store, review: str, annotator: str, question_types: tuple[str, ...]) -> None:
    state = state_of(store, review)
    for item in state.items_for(annotator):
        case = baseline_cases(store, state.review, annotator)[item.item]
        for question_type in question_types:
            record(store, review, item.number, annotator, question_type, case.answer)


@pytest.mark.slow
def test_a_review_of_0_4_is_finished_as_it_was_begun_and_stays_apart(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_0_4_planned(store, "Old", monkeypatch)
    state = state_of(store, "Old")
    assert state.review.plan.order == "choices first"
    assert state.due(state.items_for("Ada")[0], "Ada")[-1] == "mcq"
    answer_right(store, "Old", "Ada", ("mcq", "frq"))
    plan = a_plan(kind="baseline", number=3, shared=0, annotators=("Ada",), specialties=("Neurology",))
    plan_review(store, "New", plan)
    answer_right(store, "New", "Ada", ("frq", "mcq"))
    for pooled in (False, True):
        with store.read() as cursor:
            scores = case_scores(cursor, Selection(pooled=pooled), "mcq_strict")
        counts = Counter(
            (score.model.removeprefix("human/Ada · ").split(" · ")[0], score.question_type) for score in scores
        )
        assert counts == {
            ("choices first", "mcq"): 2, ("choices first", "frq"): 2,
            ("own words first", "mcq"): 3, ("own words first", "frq"): 3,
        }  # fmt: skip
    rows = list(report.rows(MetricRequest(store), part="baseline"))
    assert {(row["expert"], row["asked"], row["n"]) for row in rows} == {
        ("Ada", "choices first", 2), ("Ada", "own words first", 3)
    }  # fmt: skip
    assert {row["asked"] for row in report.rows(MetricRequest(store), part="baseline", review="Old")} == {
        "choices first"
    }


def test_a_review_of_0_4_that_asked_own_words_first_is_called_so() -> None:
    fields = a_plan(kind="baseline", shared=0).model_dump(exclude={"order"})
    assert stored_plan({**fields, "question_types": ["frq", "mcq"]}).order == "own words first"
    assert stored_plan({**fields, "question_types": ["mcq", "frq"]}).order == "choices first"


def test_nobody_plans_choices_first_any_more(store: Store) -> None:
    with pytest.raises(UsageError, match="give the answer away"):
        plan_review(store, "New", a_plan(kind="baseline", number=2, order="choices first"))


@pytest.mark.slow
def test_different_people_write_own_words_and_choose(store: Store) -> None:
    plan = a_plan(
        kind="baseline", number=4, shared=0, order="different people", annotators=("Ada", "Ben", "Cyd"),
        specialties=("Neurology",),
    )  # fmt: skip
    review = plan_review(store, "Apart", plan)
    state = state_of(store, "Apart")
    assert {name: plan.asked_of(name) for name in plan.annotators} == {
        "Ada": ("frq",), "Ben": ("mcq",), "Cyd": ("frq",)
    }  # fmt: skip
    for item in state.items:
        assert "Ben" in item.annotators
        assert len(item.annotators) == 2
    assert state.missing == 8
    first = state.items_for("Ben")[0]
    with pytest.raises(UsageError, match="Ben has no such question"):
        record(store, "Apart", first.number, "Ben", "frq", "Migraine")
    answer_right(store, "Apart", "Ben", ("mcq",))
    assert state_of(store, "Apart").missing == 4
    for name in ("Ada", "Cyd"):
        answer_right(store, "Apart", name, ("frq",))
    with store.read() as cursor:
        stored = run(cursor, baseline_run(review, "Ben"))
    assert stored is not None
    assert (stored.done, stored.state, stored.arms) == (4, "complete", (("vignette", "mcq"),))
    with pytest.raises(UsageError, match="second annotator"):
        a_plan(kind="baseline", order="different people", annotators=("Ada",), shared=0)
