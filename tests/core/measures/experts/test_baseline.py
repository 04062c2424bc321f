"""Experts answer vignettes: stored as runs of their own, graded as a model's, resumable."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import UsageError
from core.jobs.plan import campaign_of
from core.journal import read_header
from core.measures.experts.reviewing import (
    answer_vignette,
    baseline_cases,
    baseline_run,
    next_question,
    plan_review,
    state_of,
    vignette_of,
    write_trials,
)
from core.store.database import Store
from core.store.queries.accuracy import case_scores
from core.store.queries.reviews import Annotation, add_annotations
from core.store.review_records import Review
from core.store.runs import run
from tests.core.measures.experts.reviews import a_plan


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "anamnesis.duckdb")


@pytest.fixture
def review(store: Store) -> Review:
    plan = a_plan(kind="baseline", number=3, shared=1, specialties=("Neurology",))
    return plan_review(store, "Vignettes", plan)


def test_an_expert_becomes_a_doctor_beside_the_models(store: Store, review: Review) -> None:
    state = state_of(store, "Vignettes")
    for place, item in enumerate(state.own_items("Ada")):
        case = vignette_of(store, state, item.item, "Ada")
        wrong = next(choice for choice in case.choices if choice != case.answer)
        answer_vignette(store, "Vignettes", item.number, "Ada", "mcq", case.answer if place else wrong)
        answer_vignette(store, "Vignettes", item.number, "Ada", "frq", f"{case.answer}.")
    with store.read() as cursor:
        held = run(cursor, baseline_run(review, "Ada"))
        scores = case_scores(cursor, mcq_rule="mcq_strict")
    assert held is not None
    assert (held.doctor, held.source, held.protocol, held.state) == ("human/Ada", "local", "craftmd", "complete")
    right = {(one.format, one.question_type): 0 for one in scores}
    for one in scores:
        assert one.model == "human/Ada"
        right[one.format, one.question_type] += one.correct
    assert right == {("vignette", "mcq"): 2, ("vignette", "frq"): 3}


def test_answers_are_saved_one_by_one_and_are_final(store: Store, review: Review) -> None:
    item = state_of(store, "Vignettes").own_items("Ada")[0]
    with pytest.raises(UsageError, match="not the next one"):
        answer_vignette(store, "Vignettes", item.number, "Ada", "frq", "Migraine")
    with pytest.raises(UsageError, match="The answer is empty"):
        answer_vignette(store, "Vignettes", item.number, "Ada", "mcq", "  ")
    answer_vignette(store, "Vignettes", item.number, "Ada", "mcq", "Migraine")
    state = state_of(store, "Vignettes")
    assert next_question(state, item.item, "Ada") == "frq"
    with pytest.raises(UsageError, match="an answer is final"):
        answer_vignette(store, "Vignettes", item.number, "Ada", "mcq", "Stroke")
    with pytest.raises(UsageError, match="Cyd is not asked"):
        answer_vignette(store, "Vignettes", item.number, "Cyd", "mcq", "Stroke")
    with store.read() as cursor:
        held = run(cursor, baseline_run(review, "Ada"))
    assert held is not None
    assert (held.done, held.state) == (0, "partial")


def test_what_was_answered_before_a_crash_is_graded_with_the_next_answer(store: Store, review: Review) -> None:
    first, second = state_of(store, "Vignettes").own_items("Ada")[:2]
    answers = [
        Annotation(first.item, "Ada", question, "Migraine", review_id=review.review_id) for question in ("mcq", "frq")
    ]
    with store.write() as connection:
        add_annotations(connection, answers)
    answer_vignette(store, "Vignettes", second.number, "Ada", "mcq", "Migraine")
    with store.read() as cursor:
        held = run(cursor, baseline_run(review, "Ada"))
    assert held is not None
    assert held.done == 1
    assert write_trials(store, review, "Ada", state_of(store, "Vignettes").said) == 0


def test_the_run_holds_the_cases_as_they_were(store: Store, review: Review) -> None:
    cases = baseline_cases(store, review, "Ben")
    assert list(cases) == [one.item for one in state_of(store, "Vignettes").own_items("Ben")]
    assert {case.specialty for case in cases.values()} == {"Neurology"}
    with pytest.raises(UsageError, match="Cyd has no part"):
        baseline_run(review, "Cyd")


def test_nobody_but_the_expert_goes_on_with_a_baseline(store: Store, review: Review) -> None:
    item = state_of(store, "Vignettes").own_items("Ada")[0]
    answer_vignette(store, "Vignettes", item.number, "Ada", "mcq", "Migraine")
    header = read_header(store.journals / baseline_run(review, "Ada") / "journal.jsonl")
    with pytest.raises(UsageError, match="is a human baseline: go on with it on the page Judges, under Experts"):
        campaign_of(header)
