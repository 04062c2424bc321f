"""An expert answers vignettes: one answer at a time, saved at once and final."""

from __future__ import annotations

from core.case import Case
from core.errors import UsageError
from core.measures.experts.baseline import baseline_cases, write_trials
from core.measures.experts.reviewing import ReviewState, state_of
from core.store.database import Store
from core.store.queries.reviews import Annotation, add_annotations


def next_question(state: ReviewState, item: str, annotator: str) -> str | None:
    """Return the question type of a vignette that the expert is to answer next, ``None`` where all are answered."""
    return next((q for q in state.questions if state.value(item, annotator, q) is None), None)


def vignette_of(store: Store, state: ReviewState, item: str, annotator: str) -> Case:
    """Return the case behind an item as the expert's run holds it."""
    cases = baseline_cases(store, state.review, annotator)
    if item not in cases:
        raise UsageError(f"This vignette is not among those of {annotator}.")
    return cases[item]


def answer_vignette(store: Store, review: str, number: int, annotator: str, question_type: str, response: str) -> None:
    """Save an expert's answer; once all questions of the vignette are answered, the trial is graded and stored.

    An answer is final: raises ``UsageError`` for a second one, an empty one, and one out of turn.
    """
    state = state_of(store, review)
    item = state.by_number.get(number)
    if item is None or annotator not in item.annotators:
        raise UsageError(f"{annotator} is not asked about vignette {number} of the review {state.review.name}.")
    if not response.strip():
        raise UsageError("The answer is empty: write a diagnosis, or choose one.")
    if next_question(state, item.item, annotator) != question_type:
        raise UsageError("This question was answered before, or is not the next one: an answer is final.")
    new = Annotation(item.item, annotator, question_type, response.strip(), review_id=state.review.review_id)
    with store.write() as connection:
        add_annotations(connection, [new])
    write_trials(store, state.review, annotator, {**state.said, (item.item, annotator, question_type): new})
