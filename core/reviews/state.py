"""A review as it is now: who has which questions about which items, the newest answers, ties, and what is missing.

Answers are tied if all annotators of an item have answered, the answers differ, and the rule of the form decides for
none of them. A tie is settled by a person who is not among the annotators, or by the annotators together: their agreed
answer is stored under their joint name, so that agreement is measured on what each of them answered alone.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile
from typing import NamedTuple

import duckdb

from core import access
from core.datasets.select import cases_of
from core.errors import UsageError
from core.judging.form import CANNOT_JUDGE, Form, FormQuestion
from core.judging.judgement import Judgement
from core.reviews.drawing import order_for
from core.store.database import Store
from core.store.queries import reviews as rows
from core.store.queries.judgements import judgement_history, judgements
from core.store.queries.trials import trial_origins
from core.store.review_records import Review, ReviewItem, parse_item
from core.store.selection import Selection

COMMENT, HIGHLIGHT = "comment", "highlight"
"""Questions of judgements by people that are not answers."""
TIED = "tied"
"""The reason why answers have no decision that another answer can give."""


def decided(form: Form, answers: Collection[str], settlement: str | None = None) -> tuple[str | None, str]:
    """Return what several answers to a question become and an empty reason, or ``None`` and the reason why nothing.

    ``settlement`` is the answer that settles a tie.
    """
    judged = [answer for answer in answers if answer != CANNOT_JUDGE]
    if not judged:
        return None, "cannot be judged" if answers else "unanswered"
    counts = Counter(judged).most_common()
    if len(counts) == 1 or (form.decision == "majority" and counts[0][1] > counts[1][1]):
        return counts[0][0], ""
    if form.decision != "mean" and settlement not in (None, CANNOT_JUDGE):
        return settlement, ""
    return None, TIED


def joint_name(annotators: Sequence[str]) -> str:
    """Return the name under which annotators save what they have agreed on."""
    return " and ".join(annotators)


@dataclass(frozen=True)
class AnnotatorProgress:
    """Progress of one annotator: ``done`` of ``items`` are complete; ``ties`` wait for this annotator's answer."""

    annotator: str
    items: int
    done: int
    ties: int


class About(NamedTuple):
    """What an item is about; of a trial that is not stored it has neither model nor data set.

    ``models`` are the conditions of its conversations, in the order in which annotators see them; empty for a case.
    """

    case: str
    models: tuple[str, ...] = ()
    dataset: str = ""
    specialty: str = ""

    @property
    def model(self) -> str:
        return " and ".join(sorted(self.models))


def about_items(
    cursor: duckdb.DuckDBPyConnection, items: Iterable[str], within: Selection | None = None
) -> dict[str, About]:
    """Return item → what it is about; with a selection, only items whose trials are all in it."""
    parsed = {item: parse_item(item) for item in items}
    origins = trial_origins(cursor, [trial for item in parsed.values() for trial in item.trials], within)
    about = {}
    for name, item in parsed.items():
        stored = [origins[trial] for trial in item.trials if trial in origins]
        if within is not None and len(stored) < len(item.trials):
            continue
        models = tuple(origin.model for origin in stored) or tuple(filter(None, [item.model]))
        case, dataset, specialty = item.case_key or name, "", ""
        if stored:
            case, dataset, specialty = stored[0].case_key, stored[0].dataset or "", stored[0].specialty or ""
        about[name] = About(case, models, dataset, specialty)
    return about


@dataclass(frozen=True)
class ItemAnswers:
    """The answers of people to one question about an item: annotator → value; ``settled`` is that which settles a tie.

    ``models`` are as in ``About``.
    """

    form: Form
    question: str
    item: str
    case: str
    models: tuple[str, ...]
    answers: Mapping[str, str]
    settled: str | None = None

    @property
    def model(self) -> str:
        return self.models[0] if self.models else "unknown"

    @property
    def judged(self) -> tuple[str, ...]:
        """The answers of the item's annotators, without those who could not judge."""
        return tuple(value for value in self.answers.values() if value != CANNOT_JUDGE)

    @property
    def decided(self) -> tuple[str | None, str]:
        """The answer and an empty reason, or ``None`` and the reason why there is none."""
        return decided(self.form, self.answers.values(), self.settled)

    @property
    def answer(self) -> str | None:
        return self.decided[0]

    @property
    def mean(self) -> float | None:
        """The mean of the annotators on a scale; ``None`` if nobody judged."""
        return statistics.fmean(map(float, self.judged)) if self.judged else None


@dataclass(frozen=True)
class ReviewState:
    """A review with its answers.

    ``newest`` is (item, annotator, question) → newest answer; ``about`` is item → what it is about.
    """

    review: Review
    newest: Mapping[tuple[str, str, str], Judgement] = field(default_factory=dict)
    about: Mapping[str, About] = field(default_factory=dict)

    @property
    def items(self) -> tuple[ReviewItem, ...]:
        return self.review.items

    @cached_property
    def by_number(self) -> dict[int, ReviewItem]:
        return {item.number: item for item in self.items}

    @cached_property
    def _answers(self) -> dict[tuple[str, str], list[Judgement]]:
        """(item, question) → the newest answers, the first of them first."""
        places: dict[tuple[str, str], list[Judgement]] = {}
        for answer in sorted(self.newest.values(), key=lambda answer: answer.at):
            if answer.value is not None:
                places.setdefault((answer.subject, answer.question), []).append(answer)
        return places

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
        answer = self.newest.get((item, annotator, question))
        return answer.value if answer else None

    def _about(self, item: ReviewItem) -> About:
        return self.about.get(item.item, About(item.item))

    def asked(self, item: ReviewItem) -> tuple[FormQuestion, ...]:
        """Return the questions of the form about an item."""
        about = self._about(item)
        asked = self.form.questions_for(about.case, about.specialty)
        return tuple(question for question in asked if not item.questions or question.id in item.questions)

    def question(self, item: ReviewItem, question_id: str) -> FormQuestion | None:
        return next((question for question in self.asked(item) if question.id == question_id), None)

    def judged(self, question: FormQuestion) -> list[ItemAnswers]:
        """Return the items about which a question of the form is asked, with its answers."""
        listed = []
        for item in self.items:
            if question in self.asked(item):  # ids are unique for a case only
                about = self._about(item)
                answers = {name: self.value(item.item, name, question.id) for name in item.annotators}
                given = {name: value for name, value in answers.items() if value is not None}
                settlement = self.settlement(item, question.id)
                settled = settlement.value if settlement else None
                listed.append(ItemAnswers(self.form, question.id, item.item, about.case, about.models, given, settled))
        return listed

    def items_for(self, annotator: str) -> list[ReviewItem]:
        """Return the items that are assigned to an annotator, in the annotator's order."""
        return order_for(self.items, annotator, self.review.plan.seed)

    def queue(self, annotator: str) -> list[ReviewItem]:
        """Return every item of which an annotator has a question, once: the assigned ones, then the ties of others."""
        return [*self.items_for(annotator), *self.ties_for(annotator)]

    def is_open(self, item: ReviewItem, annotator: str) -> bool:
        """Return whether an item of an annotator's queue waits for an answer, also one that settles a tie."""
        own_tie = annotator in item.annotators and any(self.unsettled(item, q.id) for q in self.asked(item))
        return own_tie or not self.complete(item, annotator)

    def questions_for(self, item: ReviewItem, annotator: str) -> tuple[str, ...]:
        """Return an annotator's questions about an item: all, or for an item of other annotators the tied questions."""
        asked = tuple(question.id for question in self.asked(item))
        if annotator in item.annotators:
            own = self.review.plan.asked_of(annotator)
            return own if self.form.final else asked
        if self.form.decision != "third":
            return ()
        settled = {q: answer.judge.name for q in asked if (answer := self.settlement(item, q))}
        return tuple(q for q in asked if self.tied(item, q) and settled.get(q, annotator) == annotator)

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
        return [item for item in self.items if any(self.unsettled(item, q.id) for q in self.asked(item))]

    def complete(self, item: ReviewItem, annotator: str) -> bool:
        """Return whether an annotator has answered all questions about an item that are not optional."""
        return not self._unanswered(item, annotator)

    def _unanswered(self, item: ReviewItem, annotator: str) -> int:
        required = (q for q in self.questions_for(item, annotator) if q in self.form.required)
        return sum(self.value(item.item, annotator, question) is None for question in required)

    @property
    def progress(self) -> list[AnnotatorProgress]:
        """Progress of each annotator of the plan, and of others who settled ties."""
        joint = {joint_name(item.annotators) for item in self.items if len(item.annotators) > 1}
        others = [annotator for _, annotator, _ in self.newest if annotator not in joint]
        return [self.progress_of(name) for name in dict.fromkeys([*self.review.plan.annotators, *others])]

    def progress_of(self, annotator: str) -> AnnotatorProgress:
        items = self.items_for(annotator)
        done = [item for item in items if self.complete(item, annotator)]
        ties = [item for item in (*done, *self.ties_for(annotator)) if self.is_open(item, annotator)]
        return AnnotatorProgress(annotator, len(items), len(done), len(ties))

    @property
    def missing(self) -> int:
        """The number of required answers that are not there, and of ties that a third person has to settle."""
        missing = sum(self._unanswered(item, annotator) for item in self.items for annotator in item.annotators)
        if self.form.decision == "third":
            missing += sum(self.unsettled(item, question.id) for item in self.items for question in self.asked(item))
        return missing

    def tied(self, item: ReviewItem, question: str) -> bool:
        """Return whether the answers of an item's annotators are tied, settled or not."""
        asked = self.question(item, question)
        if asked is None or not asked.values or self.form.decision == "mean":
            return False
        if asked.kind == "scale" and self.form.decision == "majority":  # its figure is the mean
            return False
        values = [self.value(item.item, annotator, question) for annotator in item.annotators]
        given = [value for value in values if value is not None]
        return len(given) == len(values) and decided(self.form, given)[1] == TIED

    def unsettled(self, item: ReviewItem, question: str) -> bool:
        return self.settlement(item, question) is None and self.tied(item, question)

    def settlement(self, item: ReviewItem, question: str) -> Judgement | None:
        """Return the answer that settles a tie: the first by a person not among the annotators, or by all together."""
        answers = self._answers.get((item.item, question), ())
        return next((answer for answer in answers if answer.judge.name not in item.annotators), None)


def states(store: Store) -> list[ReviewState]:
    with store.read() as cursor:
        return read_states(cursor)


def read_states(cursor: duckdb.DuckDBPyConnection) -> list[ReviewState]:
    """Return all reviews, the newest first."""
    return [_with_answers(cursor, review) for review in rows.reviews(cursor)]


def in_progress(cursor: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """Return id → name of the reviews whose answers enter no figure and no export (see ``ReviewState.blinded``)."""
    return {state.review.review_id: state.review.name for state in read_states(cursor) if state.blinded}


def readable_history(cursor: duckdb.DuckDBPyConnection) -> tuple[list[Judgement], Counter[str]]:
    """Return every answer of people that the visitor may read, the oldest first, and review → number withheld.

    Of a review in progress a person who has signed in reads only their own answers; without a login, nobody's.
    """
    unfinished = in_progress(cursor)
    readable: list[Judgement] = []
    withheld: Counter[str] = Counter()
    for row in judgement_history(cursor):
        if row.review_id in unfinished and not access.signed_in_as(row.judge.name):
            withheld[unfinished[row.review_id]] += 1
        else:
            readable.append(row)
    return readable, withheld


def withheld_in_words(withheld: Mapping[str, int]) -> str:
    """Return what is withheld of which review, empty if nothing is."""
    counts = ", ".join(f"{count:,} of {review}" for review, count in withheld.items() if count)
    return counts and f"Withheld are answers in reviews in progress, until these are unblinded: {counts}."


def state_of(store: Store, review: str) -> ReviewState:
    """Return a review by its id or name; raise ``UsageError`` if there is none."""
    with store.read() as cursor:
        return read_state(cursor, review)


def read_state(cursor: duckdb.DuckDBPyConnection, review: str) -> ReviewState:
    stored = next((r for r in rows.reviews(cursor) if review in (r.review_id, r.name)), None)
    if stored is None:
        raise UsageError(f"There is no review {review!r}; `python -m core experts list` lists them.")
    return _with_answers(cursor, stored)


def read_review(store: Store, review: str | None) -> ReviewState:
    """Return an unblinded review, by name or the newest; raises ``UsageError`` if it is blinded or not there."""
    if review is None:
        unblinded = [state for state in states(store) if not state.blinded and not state.form.final]
        if not unblinded:
            raise UsageError("No review is unblinded yet: finish one and unblind it on Trust, under Experts.")
        return unblinded[0]
    state = state_of(store, review)
    if state.blinded:
        raise UsageError(f"The review {state.review.name} is blinded: unblind it to see figures.")
    return state


def _with_answers(cursor: duckdb.DuckDBPyConnection, review: Review) -> ReviewState:
    answers = judgements(cursor, kinds=("person",), review_id=review.review_id)
    ordered = sorted(answers, key=lambda answer: (answer.subject, answer.question, answer.judge.name))
    newest = {(answer.subject, answer.judge.name, answer.question): answer for answer in ordered}
    about = about_items(cursor, [item.item for item in review.items])
    if any(question.specialties for question in review.plan.asks.questions):
        of_case = {case.case_key: case.specialty for case in cases_of(review.plan.case_set)}
        about = {
            item: each._replace(specialty=each.specialty or of_case.get(each.case, "")) for item, each in about.items()
        }
    return ReviewState(review, newest, about)
