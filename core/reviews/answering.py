"""Answers, comments and marked words of annotators; each is a separate judgement, saved at once.

A changed choice needs a reason. The answers of a form about vignettes are final, and when all vignettes
are answered by everybody, the trials are written. After a review is unblinded, no answer can be changed.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from core import access
from core.errors import UsageError
from core.judging.judgement import Judge, Judgement, Quotation
from core.reviews.baseline import write_trials
from core.reviews.state import COMMENT, HIGHLIGHT, ReviewState, joint_name, read_state, state_of
from core.store.database import Store
from core.store.queries.judgements import add_judgements


def record(
    store: Store,
    review: str,
    number: int,
    annotator: str,
    question: str,
    value: str = "",
    reason: str = "",
    seconds: float | None = None,
    words: Iterable[Quotation] | None = None,
) -> None:
    """Save what ``answer_in`` returns about item ``number``; what is stored already changes nothing."""
    check_annotator(annotator)
    with store.write() as connection:
        state = read_state(connection, review)
        if (new := answer_in(state, number, annotator, question, value, reason, seconds, words=words)) is None:
            return
        add_judgements(connection, [new])
    if state.form.final:
        write_trials(store, state_of(store, state.review.review_id))


def answer_in(
    state: ReviewState,
    number: int,
    annotator: str,
    question: str,
    value: str,
    reason: str = "",
    seconds: float | None = None,
    comment: str = "",
    words: Iterable[Quotation] | None = None,
) -> Judgement | None:
    """Return an annotator's answer to a question about item ``number``; ``None`` if it equals the stored one.

    A choice that differs from the previous one needs a reason. The answer of an annotator to a question on which the
    annotators are tied is what they have agreed on. ``seconds`` is the time since the annotator opened the item. The
    question ``COMMENT`` has a comment as its value. ``words`` are all words that are marked for a question, or as
    highlights (``HIGHLIGHT``); they replace the previous ones. Raises ``UsageError`` if it is not this annotator's
    question, or no answer to it.
    """
    item = state.by_number.get(number)
    if item is None:
        raise UsageError(f"The review {state.review.name} has no item {number}.")
    if state.review.unblinded:
        raise UsageError("This review is unblinded: its answers can no longer be changed.")
    due, asked = state.due(item, annotator), state.question(item, question)
    if not due or question not in (*due, COMMENT, HIGHLIGHT):
        raise UsageError(f"{annotator} has no such question about item {number}, or must answer another one first.")

    def given(judge: str, value: str | None, **more: Any) -> Judgement:
        return Judgement(
            subject=item.item,
            form=state.form.name,
            question=question,
            judge=Judge(judge),
            value=value,
            at=time.time(),
            against=asked.hash if asked else "",
            review_id=state.review.review_id,
            **more,
        )

    if question == COMMENT:
        before, text = state.newest.get((item.item, annotator, COMMENT)), value.strip()
        return given(annotator, None, comment=text) if text != (before.comment if before else "") else None
    if words is not None:
        marked = tuple(words)
        joined = " | ".join(quoted.words for quoted in marked) if question != HIGHLIGHT else ""
        return given(annotator, joined or None, quotations=marked)
    if asked is None:
        raise UsageError(f"{question} is no question: mark words on the page of the review.")
    answer, judge, why = asked.check(value), annotator, reason.strip()
    if annotator in item.annotators and state.tied(item, question):
        judge = joint_name(item.annotators)
        why = why or "agreed"
        if (settled := state.settlement(item, question)) and settled.judge.name != judge:
            raise UsageError(f"{settled.judge.name} has settled this tie already.")
    earlier = state.value(item.item, judge, question)
    if earlier == answer:
        return None
    if earlier is not None and state.form.final:
        raise UsageError("This question is already answered, and its answer is final.")
    if earlier is not None and asked.values and not reason.strip():
        raise UsageError("This question was answered before: give a reason for the change.")
    seconds = seconds if earlier is None else None
    return given(judge, answer, reason=why, comment=comment.strip(), seconds=seconds)


def quotation_of(message: int, text: str, words: str, comment: str = "") -> Quotation:
    """Return words of a message with their place, ignoring case; raise ``UsageError`` if the message lacks them."""
    stripped = words.strip()
    start = text.lower().find(stripped.lower()) if stripped else -1
    if start < 0:
        raise UsageError(f"Message {message + 1} does not contain these words: copy them from it.")
    end = start + len(stripped)
    return Quotation(message, text[start:end], start=start, end=end, comment=comment.strip())


def check_annotator(annotator: str) -> None:
    access.require("look")
    access.require_name(annotator)
