"""Fields of cases filled from the decided answers of a review, such as whether one diagnosis is the likeliest.

The questions of a form say which field they fill (``FormQuestion.fills``). A choice counts as the form decides between
annotators; an accepted answer in words counts if more than half of the item's annotators named it. What is filled are
labels (``core.store.queries.case_labels``): journaled, with the review as their origin.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from core.case import Case
from core.datasets.select import cases_of
from core.errors import UsageError
from core.judging.form import FormQuestion, forms
from core.reviews.state import ReviewState, state_of
from core.store.database import Store
from core.store.queries.case_labels import LABEL_FIELDS, LabelField, add_labels, filled_value, label_of, lines_of
from core.store.tables import CaseLabelRow


@dataclass(frozen=True)
class Filling:
    """The labels that a review gives cases, and reason → number of answers that fill nothing.

    ``minority`` is case → accepted answers that at most half of its annotators named: a person may add these.
    """

    labels: tuple[CaseLabelRow, ...]
    left_out: Mapping[str, int] = field(default_factory=dict)
    minority: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def count(self, field_name: str) -> int:
        return sum(label.field == field_name for label in self.labels)


def filling_of(store: Store, review: str) -> Filling:
    """Return what a review of cases can fill in; raises ``UsageError`` if its form fills nothing or it is open."""
    state = state_of(store, review)
    questions = filling_questions(state)
    if not questions:
        raise UsageError(f"The form of the review {state.review.name} fills no field of a case.")
    if state.review.unblinded is None:
        raise UsageError(f"The review {state.review.name} is open: unblind it first, so that its answers stay.")
    cases = {case.case_key: case for case in cases_of(state.review.plan.case_set)}
    by_item = {item.item: item for item in state.items}
    labels: list[CaseLabelRow] = []
    left_out: Counter[str] = Counter()
    minority: dict[str, tuple[str, ...]] = {}
    for question, field_name in questions:
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
                of_item = by_item[item.item]
                finished = sum(state.complete(of_item, name) for name in of_item.annotators)
                names, others = _named(case, item.answers, finished)
                value = "\n".join(names)
                if others:
                    minority[item.case] = others
                if not value:
                    continue
            people = ", ".join(sorted(item.answers))
            labels.append(label_of(case, field_name, value, "review", state.review.name, people))
    return Filling(tuple(labels), dict(left_out), minority)


def fill(store: Store, review: str) -> tuple[Filling, int]:
    """Store what a review fills in; return it, and the number of labels that are new or differ."""
    filling = filling_of(store, review)
    return filling, add_labels(store, filling.labels)


def filling_questions(state: ReviewState) -> list[tuple[FormQuestion, LabelField]]:
    """Return the questions of the form that fill a field; a review that stored none asks the program's form."""
    now = forms().get(state.form.name)
    filling: list[tuple[FormQuestion, LabelField]] = []
    for question in state.form.questions if state.form.about == "case" else ():
        same = now.question(question.id) if now else None
        name = question.fills or (same.fills if same else "")
        filling += [(question, field_name) for field_name in LABEL_FIELDS if field_name == name]
    return filling


def _named(case: Case, answers: Mapping[str, str], annotators: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the accepted answers that more than half of the annotators named, and the others; not the right answer."""
    spelt, votes = dict[str, str](), Counter[str]()
    for text in answers.values():
        for name in lines_of(text):
            spelt.setdefault(name.casefold(), name)
            votes[name.casefold()] += 1
    votes.pop(case.answer.casefold(), None)
    majority = tuple(spelt[name] for name, number in votes.items() if number * 2 > annotators)
    return majority, tuple(spelt[name] for name in votes if spelt[name] not in majority)
