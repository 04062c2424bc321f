"""Answers of annotators, saved together: ``core.reviews.answering.record`` opens the database for each of them."""

from __future__ import annotations

from collections.abc import Iterable

from core.reviews.state import state_of
from core.store.database import Store
from core.store.queries.annotations import Annotation, add_annotations


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
        annotation = Annotation(
            item.item, annotator, name, question.check(value), review_id=state.review.review_id, seconds=seconds
        )
        new.append(annotation)
    with store.write() as connection:
        add_annotations(connection, new)
