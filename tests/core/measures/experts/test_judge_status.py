"""Graders and judges of conversations against people: agreement by hand, status, and shares that both give together."""

from __future__ import annotations

import json

import pytest

from core.journal import DoneLine, RowLine
from core.measures import agreement, calibration
from core.measures.base import MetricRequest, Row
from core.reviews.reviewing import unblind
from core.reviews.state import state_of
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.judgements import add_judgements
from core.store.review_records import Review
from tests.core.measures.experts.reviews import FIVE, MODELS, a_review, answer_all
from tests.core.store.builders import write_journal
from tests.support.answering import an_answer

TERMS, EQUIVALENT = "Patient used medical terms", "Same diagnosis"
"""The titles of the questions."""


def rows(store: Store, **options: object) -> list[Row]:
    listed = agreement.report.rows(MetricRequest(store), part="status", **options)
    return [row for row in listed if isinstance(row, Row)]


def figures(store: Store) -> list[Row]:
    return list(calibration.report.rows(MetricRequest(store)))


def judge_terms(store: Store) -> None:
    """A model finds a medical term in the first model's conversations 0 to 3, and in none of the second model's."""
    lines = []
    for model in range(2):
        for case in range(6):
            terms = json.dumps([{"turn": 1, "words": "itch", "start": 2, "end": 6}] if model == 0 and case < 4 else [])
            outcome = {"dropped": 0, "failure": "", "calls": "[]", "judged_at": 5.0, "terms": terms}
            row = {"trial_id": f"t{model}{case}", "model": "openai/judge", "prompt_hash": "abc", **outcome}
            lines.append(RowLine(table="patient_judgements", row=row))  # as version 0.5 wrote it
    write_journal(store.journals, "terms", *lines, DoneLine(run_id="terms", unit="all"))
    fold(store)


def reviewed(store: Store) -> Review:
    """An expert finds terms in the first model's conversations 0 to 2, and in none of the others."""
    review = a_review(store, number=12, annotators=("Ada",), shared=0)
    state = state_of(store, review.review_id)
    with_terms = {item.number for item in state.items if item.item in ("talk:t00", "talk:t01", "talk:t02")}
    answers = [
        an_answer(
            item.item, "Ada", question, "yes" if question != "medical_terms" or item.number in with_terms else "no",
            review_id=review.review_id,
        )
        for item in state.items
        for question in FIVE
    ]  # fmt: skip
    with store.write() as connection:
        add_judgements(connection, answers)
    return review


@pytest.mark.slow
def test_a_judge_of_terms_is_compared_with_people_on_the_same_conversations(store: Store) -> None:
    judge_terms(store)
    review = reviewed(store)
    assert rows(store) == []  # blinded: no figures yet
    unblind(store, review.review_id, "Ada")
    (row,) = rows(store)
    assert (row["judge"], row["prompts"], row["question"]) == ("openai/judge", "abc", TERMS)
    # of twelve conversations they differ on the fourth of the first model only
    assert (row.estimate, row.n) == (pytest.approx(11 / 12), 12)
    assert (row["sensitivity"], row["specificity"]) == (1.0, pytest.approx(8 / 9))
    assert row["status"] == "not calibrated"
    assert rows(store, least_items=12)[0]["status"] == "calibrated"
    shares = {(r["model"], r["figure"]): r.estimate for r in figures(store)}
    assert shares[MODELS[0], "judge alone"] == pytest.approx(4 / 6)
    # people judged all conversations, so both together say what they say
    assert shares[MODELS[0], "judge and experts (PPI++)"] == pytest.approx(3 / 6)
    assert shares[MODELS[1], "experts alone"] == 0


@pytest.mark.slow
def test_a_grader_is_compared_on_free_responses(store: Store) -> None:
    review = a_review(store, kind="answers", number=12, annotators=("Ada",), shared=0)
    answer_all(store, review, "Ada")  # the expert calls all right, the grader only the first model's
    unblind(store, review.review_id, "Ada")
    (row,) = rows(store)
    assert (row["question"], row.estimate, row.n) == (EQUIVALENT, 0.5, 12)


@pytest.mark.slow
def test_items_drawn_by_specialty_count_by_the_size_of_their_stratum(store: Store) -> None:
    judge_terms(store)
    # of each model two of three conversations in cardiology (odd numbers), and one of three in dermatology
    review = a_review(store, number=6, annotators=("Ada",), shared=0, sampling="specialty")
    items = state_of(store, review.review_id).items
    answers = [
        an_answer(item.item, "Ada", question, "yes" if int(item.item[-1]) % 2 else "no", review_id=review.review_id)
        for item in items
        for question in FIVE
    ]
    with store.write() as connection:
        add_judgements(connection, answers)
    unblind(store, review.review_id, "Ada")
    shares = {(r["model"], r["figure"]): r for r in figures(store)}
    alone = shares[MODELS[0], "experts alone"]
    assert (alone.estimate, alone.n) == (pytest.approx(1 / 2), 3)  # without weights 2 of 3
