"""Answers, comments and marked words of annotators; each is a separate row, saved at once.

A changed choice needs a reason. The answers of a form about vignettes are final, and when all vignettes
are answered by everybody, the trials are written. After a review is unblinded, no answer can be changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import duckdb

from core import access
from core.errors import UsageError
from core.reviews.baseline import write_trials
from core.reviews.state import COMMENT, HIGHLIGHT, ReviewState, read_state, state_of
from core.store.database import Store
from core.store.queries.annotations import Annotation, Span, add_annotations


def record(
    store: Store,
    review: str,
    number: int,
    annotator: str,
    question: str,
    value: str,
    reason: str = "",
    seconds: float | None = None,
) -> None:
    """Save an answer to a question about item ``number``; raise ``UsageError`` if it is not this annotator's question.

    A choice that differs from the previous one needs a reason; an equal answer changes nothing. ``seconds`` is the time
    since the annotator opened the item.
    """
    check_annotator(annotator, review)
    with _open_for_answer(store, review, number, annotator, question) as (connection, state, item):
        asked = state.form.question(question)
        assert asked is not None, "the annotators of a review are asked the questions of its form"
        answer = asked.check(value)
        before = state.value(item, annotator, question)
        if before == answer:
            return
        if before is not None and state.form.final:
            raise UsageError("This question is already answered, and its answer is final.")
        if before is not None and asked.values and not reason.strip():
            raise UsageError("This question was answered before: give a reason for the change.")
        new = Annotation(
            item,
            annotator,
            question,
            answer,
            review_id=state.review.review_id,
            reason=reason.strip(),
            seconds=seconds if before is None else None,
        )
        add_annotations(connection, [new])
    if state.form.final:
        write_trials(store, state_of(store, state.review.review_id))


def comment(store: Store, review: str, number: int, annotator: str, text: str) -> None:
    """Save a comment on an item; earlier comments stay in the history."""
    check_annotator(annotator, review)
    with _open_for_answer(store, review, number, annotator) as (connection, state, item):
        before = state.newest.get((item, annotator, COMMENT))
        if text.strip() != (before.comment if before else ""):
            new = Annotation(item, annotator, COMMENT, None, text.strip(), review_id=state.review.review_id)
            add_annotations(connection, [new])


def highlight(
    store: Store, review: str, number: int, annotator: str, spans: Iterable[Span], question: str = HIGHLIGHT
) -> None:
    """Save the words that an annotator marked in an item's conversation; they replace the previous ones.

    ``question`` is a question of the form that asks for words; without one the words are highlights.
    """
    check_annotator(annotator, review)
    asked = None if question == HIGHLIGHT else question
    with _open_for_answer(store, review, number, annotator, asked) as (connection, state, item):
        marked = tuple(spans)
        words = " | ".join(span.text for span in marked) if asked and marked else None
        new = Annotation(item, annotator, question, words, review_id=state.review.review_id, spans=marked)
        add_annotations(connection, [new])


def span_of(turn: int, message: str, words: str, comment: str = "") -> Span:
    """Return the place of words in a message, ignoring case; raise ``UsageError`` if the message lacks them."""
    stripped = words.strip()
    start = message.lower().find(stripped.lower()) if stripped else -1
    if start < 0:
        raise UsageError(f"Message {turn + 1} does not contain these words: copy them from it.")
    end = start + len(stripped)
    return Span(turn, start, end, message[start:end], comment.strip())


def check_annotator(annotator: str, review: str) -> None:
    access.require("look")
    access.require_name(annotator)


@contextmanager
def _open_for_answer(
    store: Store, review: str, number: int, annotator: str, question: str | None = None
) -> Iterator[tuple[duckdb.DuckDBPyConnection, ReviewState, str]]:
    """Open the database to write about an item; yield connection, review and item.

    Raises ``UsageError`` if the annotator may not answer (this question) about the item.
    """
    with store.write() as connection:
        state = read_state(connection, review)
        item = state.by_number.get(number)
        if item is None:
            raise UsageError(f"The review {state.review.name} has no item {number}.")
        if state.review.unblinded:
            raise UsageError("This review is unblinded: its answers can no longer be changed.")
        questions = state.due(item, annotator)
        if not questions or (question is not None and question not in questions):
            raise UsageError(f"{annotator} has no such question about item {number}, or must answer another one first.")
        yield connection, state, item.item
