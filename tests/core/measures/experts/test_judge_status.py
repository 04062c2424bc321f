"""Graders and judges of conversations against people: agreement by hand, status, and shares that both give together."""

from __future__ import annotations

import pytest

from core.journal import DoneLine, RowLine
from core.measures.base import MetricRequest, Row
from core.measures.experts.judge_status import EQUIVALENT, TERMS, report
from core.reviews.reviewing import unblind
from core.reviews.state import state_of
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.judgements import add_judgements
from core.store.queries.patient_judgements import JudgedTerm, patient_judgement_row
from core.store.review_records import Review
from tests.core.measures.experts.reviews import FIVE, MODELS, a_review, answer_all
from tests.core.store.builders import write_journal
from tests.support.answering import an_answer


def rows(store: Store, **options: object) -> list[Row]:
    return list(report.rows(MetricRequest(store), **options))


def judge_terms(store: Store) -> None:
    """A model finds a medical term in the first model's conversations 0 to 3, and in none of the second model's."""
    lines = []
    for model in range(2):
        for case in range(6):
            terms = (JudgedTerm(1, "itch", 2, 6),) if model == 0 and case < 4 else ()
            outcome = {
                "trial_id": f"t{model}{case}", "dropped": 0, "failure": "", "calls": "[]", "tokens": 1, "cost_usd": 0.0,
                "judged_at": 5.0,
            }  # fmt: skip
            row = patient_judgement_row("openai/judge", "abc", terms, outcome)
            lines.append(RowLine(table="patient_judgements", row=row))
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
    assert (row["judge"], row["prompts"], row["about"]) == ("openai/judge", "abc", TERMS)
    # of twelve conversations they differ on the fourth of the first model only
    assert (row.estimate, row.n) == (pytest.approx(11 / 12), 12)
    assert (row["sensitivity"], row["specificity"]) == (1.0, pytest.approx(8 / 9))
    assert row["status"] == "not calibrated"
    assert rows(store, least_items=12)[0]["status"] == "calibrated"
    shares = {(r["model"], r["figure"]): r.estimate for r in rows(store, part="figures")}
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
    assert (row["about"], row.estimate, row.n) == (EQUIVALENT, 0.5, 12)


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
    shares = {(r["model"], r["figure"]): r for r in rows(store, part="figures")}
    alone = shares[MODELS[0], "experts alone"]
    assert (alone.estimate, alone.n) == (pytest.approx(1 / 2), 3)  # without weights 2 of 3
