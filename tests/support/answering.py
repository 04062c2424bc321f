"""Answers of annotators, saved together: ``core.reviews.answering.record`` opens the database for each of them."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace

from core.judging.judgement import Judge, Judgement, Quotation
from core.reviews.state import state_of
from core.store.database import Store
from core.store.queries.judgements import add_judgements


def an_answer(
    item: str,
    annotator: str,
    question: str,
    value: str | None,
    comment: str = "",
    *,
    at: float | None = None,
    review_id: str = "",
    quotations: tuple[Quotation, ...] = (),
    seconds: float | None = None,
) -> Judgement:
    return Judgement(
        subject=item,
        form="conversations",
        question=question,
        judge=Judge(annotator),
        value=value,
        at=time.time() if at is None else at,
        comment=comment,
        review_id=review_id,
        quotations=quotations,
        seconds=seconds,
    )


def record_all(
    store: Store, review: str, answers: Iterable[tuple[int, str, str, str]], seconds: float | None = None
) -> None:
    """Save answers as (number of the item, annotator, question, value), each the first to its question."""
    state = state_of(store, review)
    new = []
    for number, annotator, name, value in answers:
        item, question = state.by_number[number], state.form.question(name)
        assert question is not None
        assert name in state.questions_for(item, annotator)
        review_id = state.review.review_id
        answer = an_answer(item.item, annotator, name, question.check(value), review_id=review_id, seconds=seconds)
        new.append(replace(answer, form=state.form.name, against=question.hash))
    with store.write() as connection:
        add_judgements(connection, new)
