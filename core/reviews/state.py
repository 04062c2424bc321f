"""A review as it is now: who has which questions about which items, the newest answers, ties, and what is missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile

import duckdb

from core import access
from core.errors import UsageError
from core.judging.form import Form
from core.reviews.drawing import order_for
from core.store.database import Store
from core.store.queries import reviews as rows
from core.store.queries.annotations import Annotation, annotation_history, annotations_of
from core.store.review_records import Review, ReviewItem

COMMENT, HIGHLIGHT = "comment", "highlight"
"""Questions of annotations that are not answers."""


@dataclass(frozen=True)
class AnnotatorProgress:
    """Progress of one annotator: ``done`` of ``items`` are complete; ``ties`` wait for this annotator's answer."""

    annotator: str
    items: int
    done: int
    ties: int


@dataclass(frozen=True)
class ReviewState:
    """A review with its items and annotations; ``newest`` is (item, annotator, question) → newest annotation."""

    review: Review
    items: Sequence[ReviewItem]
    newest: Mapping[tuple[str, str, str], Annotation] = field(default_factory=dict)

    @cached_property
    def by_number(self) -> dict[int, ReviewItem]:
        return {item.number: item for item in self.items}

    @property
    def questions(self) -> tuple[str, ...]:
        return self.review.plan.questions

    @property
    def form(self) -> Form:
        return self.review.plan.asks

    @property
    def blinded(self) -> bool:
        """Whether the review is in progress: models are hidden, and each answer is readable by its author alone.

        A review with final answers has no models to show, so it also ends with its last answer.
        """
        return self.review.unblinded is None and not (self.form.final and self.missing == 0)

    def value(self, item: str, annotator: str, question: str) -> str | None:
        """Return the newest answer of an annotator, ``None`` if there is none."""
        annotation = self.newest.get((item, annotator, question))
        return annotation.value if annotation else None

    def items_for(self, annotator: str) -> list[ReviewItem]:
        """Return the items that are assigned to an annotator, in the annotator's order."""
        return order_for(self.items, annotator, self.review.plan.seed)

    def questions_for(self, item: ReviewItem, annotator: str) -> tuple[str, ...]:
        """Return an annotator's questions about an item: all, or for an item of other annotators the tied questions."""
        if annotator in item.annotators:
            return self.review.plan.asked_of(annotator)
        return tuple(q for q in self.questions if self._tied(item, q) and self._third(item, q) in (None, annotator))

    def due(self, item: ReviewItem, annotator: str) -> tuple[str, ...]:
        """Return the questions that an annotator may see now: of a form with final answers, none after an open one."""
        questions = self.questions_for(item, annotator)
        if not self.form.final:
            return questions
        done = tuple(takewhile(lambda question: self.value(item.item, annotator, question) is not None, questions))
        return questions[: len(done) + 1]

    def ties_for(self, annotator: str) -> list[ReviewItem]:
        """Return the items on which two others differ and that wait for, or have, this annotator's answer."""
        others = [item for item in self.items if annotator not in item.annotators]
        return [item for item in others if self.questions_for(item, annotator)]

    def open_ties(self) -> list[ReviewItem]:
        return [item for item in self.items if any(self._open(item, q) for q in self.questions)]

    def complete(self, item: ReviewItem, annotator: str) -> bool:
        """Return whether an annotator has answered all questions about an item that are not optional."""
        return all(self.value(item.item, annotator, q) is not None for q in self._required_for(item, annotator))

    def _required_for(self, item: ReviewItem, annotator: str) -> tuple[str, ...]:
        return tuple(q for q in self.questions_for(item, annotator) if q in self.form.required)

    @property
    def progress(self) -> list[AnnotatorProgress]:
        """Progress of each annotator of the plan, and of others who broke ties."""
        names = dict.fromkeys([*self.review.plan.annotators, *(annotator for _, annotator, _ in self.newest)])
        return [self.progress_of(name) for name in names]

    def progress_of(self, annotator: str) -> AnnotatorProgress:
        items = self.items_for(annotator)
        done = sum(self.complete(item, annotator) for item in items)
        waiting = [item for item in self.ties_for(annotator) if not self.complete(item, annotator)]
        return AnnotatorProgress(annotator, len(items), done, len(waiting))

    @property
    def missing(self) -> int:
        missing = 0
        for item in self.items:
            for annotator in item.annotators:
                questions = self._required_for(item, annotator)
                missing += sum(self.value(item.item, annotator, q) is None for q in questions)
            missing += sum(self._open(item, q) for q in self.questions)
        return missing

    def _tied(self, item: ReviewItem, question: str) -> bool:
        asked = self.form.question(question)
        if self.form.decision != "third" or asked is None or not asked.values:
            return False
        values = [self.value(item.item, annotator, question) for annotator in item.annotators]
        return None not in values and len(set(values)) > 1

    def _open(self, item: ReviewItem, question: str) -> bool:
        return self._tied(item, question) and self._third(item, question) is None

    def _third(self, item: ReviewItem, question: str) -> str | None:
        """Return the annotator who broke a tie first, ``None`` if it is open."""
        answers = [a for (name, _, q), a in self.newest.items() if (name, q) == (item.item, question)]
        by_others = [a for a in answers if a.annotator not in item.annotators and a.value is not None]
        return min(by_others, key=lambda a: a.annotated_at).annotator if by_others else None


def states(store: Store) -> list[ReviewState]:
    with store.read() as cursor:
        return read_states(cursor)


def read_states(cursor: duckdb.DuckDBPyConnection) -> list[ReviewState]:
    return [_with_answers(cursor, review) for review in rows.reviews(cursor)]


def in_progress(cursor: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """Return id → name of the reviews whose answers enter no figure and no export (see ``ReviewState.blinded``)."""
    return {state.review.review_id: state.review.name for state in read_states(cursor) if state.blinded}


def readable_history(cursor: duckdb.DuckDBPyConnection) -> tuple[list[Annotation], Counter[str]]:
    """Return every saved annotation that the visitor may read, the oldest first, and review → number withheld.

    Of a review in progress a person who has signed in reads only their own answers; without a login, nobody's.
    """
    unfinished = in_progress(cursor)
    readable: list[Annotation] = []
    withheld: Counter[str] = Counter()
    for row in annotation_history(cursor):
        if row.review_id in unfinished and not access.signed_in_as(row.annotator):
            withheld[unfinished[row.review_id]] += 1
        else:
            readable.append(row)
    return readable, withheld


def withheld_in_words(withheld: Mapping[str, int]) -> str:
    """Return what is withheld of which review, empty if nothing is."""
    counts = ", ".join(f"{count:,} of {review}" for review, count in withheld.items() if count)
    return counts and f"Withheld are annotations of reviews in progress, until these are unblinded: {counts}."


def state_of(store: Store, review: str) -> ReviewState:
    """Return a review by its id or name; raise ``UsageError`` if there is none."""
    with store.read() as cursor:
        return read_state(cursor, review)


def read_state(cursor: duckdb.DuckDBPyConnection, review: str) -> ReviewState:
    stored = next((r for r in rows.reviews(cursor) if review in (r.review_id, r.name)), None)
    if stored is None:
        raise UsageError(f"There is no review {review!r}; `python -m core experts list` lists them.")
    return _with_answers(cursor, stored)


def _with_answers(cursor: duckdb.DuckDBPyConnection, review: Review) -> ReviewState:
    newest = {(a.item, a.annotator, a.question): a for a in annotations_of(cursor, review.review_id)}
    return ReviewState(review, rows.items_of(cursor, review.review_id), newest)
