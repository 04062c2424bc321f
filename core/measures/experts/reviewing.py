"""A review under way: whose turn what is, what was said, ties for a third, and when the models' names may be shown.

Every answer is a row of its own, saved at once; a changed one says why. Until a review is unblinded nobody is told
whose items they are, and afterwards no answer can be changed.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import duckdb

from core.errors import UsageError
from core.measures.experts.baseline import baseline_pool, begin_baseline
from core.measures.experts.drawing import draw, own_order
from core.store.database import Store
from core.store.queries import reviews as rows
from core.store.queries.reviews import Annotation, Span, add_annotations, annotations_of
from core.store.review_records import ANSWERS, Question, Review, ReviewItem, ReviewPlan, Unblinding

COMMENT, HIGHLIGHT = "comment", "highlight"
"""What an annotation is about that answers no question."""


@dataclass(frozen=True)
class Progress:
    """How far one annotator is: ``done`` of ``items`` answered whole, ``ties`` that wait for a third's word."""

    annotator: str
    items: int
    done: int
    ties: int


@dataclass(frozen=True)
class ReviewState:
    """A review with all that was said so far; ``said`` maps (item, annotator, question) to the newest annotation."""

    review: Review
    items: Sequence[ReviewItem]
    said: Mapping[tuple[str, str, str], Annotation] = field(default_factory=dict)

    @cached_property
    def by_number(self) -> dict[int, ReviewItem]:
        """Number of an item → the item."""
        return {one.number: one for one in self.items}

    @property
    def questions(self) -> tuple[str, ...]:
        """What is asked about each item: questions, or the question types of a baseline."""
        return self.review.plan.questions or self.review.plan.question_types

    def value(self, item: str, annotator: str, question: str) -> str | None:
        """Return what an annotator said, ``None`` where nothing yet."""
        held = self.said.get((item, annotator, question))
        return held.value if held else None

    def own_items(self, annotator: str) -> list[ReviewItem]:
        """Return what an annotator is to judge, in the order of this annotator."""
        return own_order(self.items, annotator, self.review.plan.seed)

    def questions_for(self, item: ReviewItem, annotator: str) -> tuple[str, ...]:
        """Return what an annotator is asked of an item: everything, or of somebody else's item what is tied."""
        if annotator in item.annotators:
            return self.questions
        return tuple(q for q in self.questions if self._tied(item, q) and self._third(item, q) in (None, annotator))

    def ties_for(self, annotator: str) -> list[ReviewItem]:
        """Return the items on which two others differ and that wait for, or have, this annotator's word."""
        return [
            one for one in self.items if annotator not in one.annotators and self.questions_for(one, annotator)
        ]  # fmt: skip

    def open_ties(self) -> list[ReviewItem]:
        """Return the items with a tie that nobody has broken."""
        return [
            one for one in self.items
            if any(self._tied(one, q) and self._third(one, q) is None for q in self.questions)
        ]  # fmt: skip

    def complete(self, item: ReviewItem, annotator: str) -> bool:
        """Say whether an annotator has answered everything asked of an item."""
        return all(self.value(item.item, annotator, q) is not None for q in self.questions_for(item, annotator))

    @property
    def progress(self) -> list[Progress]:
        """How far each annotator of the plan is, and whoever else broke ties."""
        names = dict.fromkeys([*self.review.plan.annotators, *(who for _, who, _ in self.said)])
        return [self.progress_of(name) for name in names]

    def progress_of(self, annotator: str) -> Progress:
        """Return how far one annotator is."""
        mine = self.own_items(annotator)
        done = sum(self.complete(one, annotator) for one in mine)
        waiting = [one for one in self.ties_for(annotator) if not self.complete(one, annotator)]
        return Progress(annotator, len(mine), done, len(waiting))

    @property
    def missing(self) -> int:
        """How many answers are still to come, those of thirds among them."""
        asked = (
            self.value(one.item, who, q) is None for one in self.items for who in one.annotators for q in self.questions
        )
        ties = sum(self._tied(one, q) and self._third(one, q) is None for one in self.items for q in self.questions)
        return sum(asked) + ties

    def _tied(self, item: ReviewItem, question: str) -> bool:
        values = [self.value(item.item, who, question) for who in item.annotators]
        return self.review.plan.kind != "baseline" and None not in values and len(set(values)) > 1

    def _third(self, item: ReviewItem, question: str) -> str | None:
        """Return who broke a tie first."""
        held = [
            one for (name, who, asked), one in self.said.items()
            if name == item.item and asked == question and who not in item.annotators and one.value is not None
        ]  # fmt: skip
        return min(held, key=lambda one: one.annotated_at).annotator if held else None


def plan_review(store: Store, name: str, plan: ReviewPlan) -> Review:
    """Draw the items of a plan and store the review; raise ``UsageError`` where it cannot be drawn."""
    title = " ".join(name.split())
    if not title:
        raise UsageError("The review has no name: give it one.")
    with store.read() as cursor:
        if any(held.name.lower() == title.lower() for held in rows.reviews(cursor)):
            raise UsageError(f"There is a review called {title!r} already: choose another name.")
        pool = baseline_pool(plan) if plan.kind == "baseline" else rows.candidates(cursor, plan)
    review = Review(title, plan)
    items = draw(pool, plan)
    with store.write() as connection:
        rows.add_review(connection, review, items)
    if plan.kind == "baseline":
        begin_baseline(store, review, items)
    return review


def states(store: Store) -> list[ReviewState]:
    """Return every review with what was said in it, the newest first."""
    with store.read() as cursor:
        said: dict[str, dict[tuple[str, str, str], Annotation]] = {}
        for one in annotations_of(cursor):
            said.setdefault(one.review_id, {})[one.item, one.annotator, one.question] = one
        return [
            ReviewState(held, rows.items_of(cursor, held.review_id), said.get(held.review_id, {}))
            for held in rows.reviews(cursor)
        ]  # fmt: skip


def state_of(store: Store, review: str) -> ReviewState:
    """Return a review by its id or name; raise ``UsageError`` where there is none."""
    with store.read() as cursor:
        return _state(cursor, review)


def _state(cursor: duckdb.DuckDBPyConnection, review: str) -> ReviewState:
    held = next((one for one in rows.reviews(cursor) if review in (one.review_id, one.name)), None)
    if held is None:
        raise UsageError(f"There is no review {review!r}; `python -m core experts list` lists them.")
    said = annotations_of(cursor, review_id=held.review_id)
    items = rows.items_of(cursor, held.review_id)
    return ReviewState(held, items, {(one.item, one.annotator, one.question): one for one in said})


def record(
    store: Store, review: str, number: int, annotator: str, question: Question, value: str, reason: str = ""
) -> None:
    """Save an answer to a question about item ``number``; raise ``UsageError`` where it is not this annotator's.

    An answer that differs from the one before needs a reason; the same one again changes nothing.
    """
    if value not in ANSWERS:
        raise UsageError(f"{value!r} is no answer: say yes or no.")
    with store.write() as connection:
        state = _state(connection, review)
        item = _asked(state, number, annotator, question)
        before = state.value(item.item, annotator, question)
        if before == value:
            return
        if before is not None and not reason.strip():
            raise UsageError("This question was answered before: say why the answer is changed.")
        _save(connection, state, Annotation(item.item, annotator, question, value, reason=reason.strip()))


def comment(store: Store, review: str, number: int, annotator: str, text: str) -> None:
    """Save a comment on an item; an earlier one stays as history."""
    with store.write() as connection:
        state = _state(connection, review)
        item = _asked(state, number, annotator)
        held = state.said.get((item.item, annotator, COMMENT))
        if text.strip() != (held.comment if held else ""):
            _save(connection, state, Annotation(item.item, annotator, COMMENT, None, comment=text.strip()))


def highlight(store: Store, review: str, number: int, annotator: str, spans: Iterable[Span]) -> None:
    """Save which words of an item's conversation an annotator has highlighted, all of them anew."""
    with store.write() as connection:
        state = _state(connection, review)
        item = _asked(state, number, annotator)
        _save(connection, state, Annotation(item.item, annotator, HIGHLIGHT, None, spans=tuple(spans)))


def span_of(turn: int, message: str, words: str) -> Span:
    """Return where words stand in a message, in any case of letters; raise ``UsageError`` where they do not."""
    wanted = words.strip()
    start = message.lower().find(wanted.lower()) if wanted else -1
    if start < 0:
        raise UsageError(f"Message {turn + 1} does not hold these words: copy them from it.")
    end = start + len(wanted)
    return Span(turn, start, end, message[start:end])


def unblind(store: Store, review: str, by: str, reason: str = "") -> None:
    """Let the models' names of a review be shown; before all is answered only with a reason, which is stored."""
    if not by.strip():
        raise UsageError("Say who unblinds the review.")
    with store.write() as connection:
        state = _state(connection, review)
        if state.review.unblinded:
            raise UsageError("This review is unblinded already.")
        if state.missing and not reason.strip():
            raise UsageError(f"{state.missing:,} answers are still missing: wait for them, or say why not.")
        why = reason.strip() if state.missing else ""
        rows.add_unblinding(connection, state.review.review_id, Unblinding(by.strip(), why, time.time()))


def _asked(state: ReviewState, number: int, annotator: str, question: str | None = None) -> ReviewItem:
    """Return the item, if the annotator is asked about it."""
    item = state.by_number.get(number)
    if item is None:
        raise UsageError(f"The review {state.review.name} has no item {number}.")
    if state.review.unblinded:
        raise UsageError("This review is unblinded: its answers can no longer be changed.")
    asked = state.questions_for(item, annotator)
    if not asked or (question is not None and question not in asked):
        raise UsageError(f"{annotator} is not asked this about item {number}.")
    return item


def _save(connection: duckdb.DuckDBPyConnection, state: ReviewState, new: Annotation) -> None:
    add_annotations(connection, [replace(new, review_id=state.review.review_id)])
