"""Fields of cases filled from the decided answers of a review, such as whether one diagnosis is the likeliest.

The questions of a form say which field they fill (``FormQuestion.fills``). A choice counts as the form decides between
annotators; an accepted answer in words counts if more than half of the item's annotators named it. What is filled are
labels (``core.store.queries.case_labels``): journaled, with the review as their origin.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import get_args

from core.case import Case
from core.datasets.select import cases_of
from core.errors import UsageError
from core.judging.form import FormQuestion, forms
from core.reviews.state import ReviewState, state_of
from core.store.database import Store
from core.store.queries.case_labels import CaseLabel, LabelField, add_labels, filled_value, label_of, lines_of


@dataclass(frozen=True)
class Filling:
    """The labels that a review gives cases, and reason → number of answers that fill nothing.

    ``minority`` is case → accepted answers that at most half of its annotators named: a person may add these.
    """

    labels: tuple[CaseLabel, ...]
    left_out: Mapping[str, int] = field(default_factory=dict)
    minority: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def count(self, field_name: str) -> int:
        return sum(label.field == field_name for label in self.labels)


def filling_of(store: Store, state: ReviewState) -> Filling:
    """Return what a review of cases can fill in; raises ``UsageError`` if its form fills nothing or it is open."""
    questions = dict(_filling_questions(state))
    if not questions:
        raise UsageError(f"The form of the review {state.review.name} fills no field of a case.")
    if state.review.unblinded is None:
        raise UsageError(f"The review {state.review.name} is open: unblind it first, so that its answers stay.")
    cases = {case.case_key: case for case in cases_of(state.review.plan.case_set)}
    by_item = {item.item: item for item in state.items}
    labels: list[CaseLabel] = []
    left_out: Counter[str] = Counter()
    minority: dict[str, tuple[str, ...]] = {}
    for question, field_name in questions.items():
        for item in state.judged(question):
            case = cases.get(item.case)
            if case is None:
                left_out["the case is not in its data set any more"] += 1
                continue
            if question.values:
                value, reason = item.decided
                if value is None:
                    left_out[reason] += 1
                    continue
                value = filled_value(field_name, value, question.yes)
            else:
                # an answer in words is optional: whoever left it empty named nothing
                finished = sum(state.complete(by_item[item.item], name) for name in by_item[item.item].annotators)
                names, others = _named(case, item.answers, finished)
                value = "\n".join(names)
                if others:
                    minority[item.case] = others
                if not value:
                    continue
            labels.append(label_of(case, field_name, value, "review", state.review.name, _annotators(item.answers)))
    return Filling(tuple(labels), dict(left_out), minority)


def read_filling(store: Store, review: str) -> Filling:
    return filling_of(store, state_of(store, review))


def fill(store: Store, state: ReviewState) -> tuple[Filling, int]:
    """Store what a review fills in; return it, and the number of labels that are new or differ."""
    filling = filling_of(store, state)
    return filling, add_labels(store, filling.labels)


def can_fill(state: ReviewState) -> bool:
    return next(_filling_questions(state), None) is not None


def _filling_questions(state: ReviewState) -> Iterator[tuple[FormQuestion, LabelField]]:
    """Yield the questions of the form that fill a field; a review that stored none asks the program's form."""
    if state.form.about != "case":
        return
    now = forms().get(state.form.name)
    for question in state.form.questions:
        same = now.question(question.id) if now else None
        name = question.fills or (same.fills if same else "")
        if name in get_args(LabelField):
            yield question, name  # type: ignore[misc]


def _named(case: Case, answers: Mapping[str, str], annotators: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the accepted answers that more than half of the annotators named, and the others; not the right answer."""
    spelt: dict[str, str] = {}
    votes: dict[str, set[str]] = defaultdict(set)
    for annotator, text in answers.items():
        for name in lines_of(text):
            spelt.setdefault(name.casefold(), name)
            votes[name.casefold()].add(annotator)
    votes.pop(case.answer.casefold(), None)
    majority = tuple(spelt[name] for name, voters in votes.items() if len(voters) * 2 > annotators)
    return majority, tuple(spelt[name] for name in votes if spelt[name] not in majority)


def _annotators(answers: Mapping[str, str]) -> str:
    return ", ".join(sorted(answers))
