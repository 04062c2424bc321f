"""Items of a review with the answers of people to a question, and how several answers become one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import duckdb

from core.errors import UsageError
from core.judging.form import CANNOT_JUDGE, Form
from core.reviews.state import ReviewState, decided, state_of, states
from core.store.database import Store
from core.store.queries.trials import trial_origins
from core.store.review_records import parse_item


@dataclass(frozen=True)
class JudgedItem:
    """An item with the answers to one question: annotator → value; ``third`` is the answer that settles a tie.

    ``models`` are those of its conversations, in the order in which annotators see them; empty for a case.
    """

    item: str
    case: str
    models: tuple[str, ...]
    answers: Mapping[str, str]
    third: str | None = None

    @property
    def judged(self) -> tuple[str, ...]:
        """The answers of the item's annotators, without those who could not judge."""
        return tuple(value for value in self.answers.values() if value != CANNOT_JUDGE)

    def decided(self, form: Form) -> tuple[str | None, str]:
        """Return the answer and an empty reason, or ``None`` and the reason why there is none."""
        return decided(form, self.answers.values(), self.third)


def judged_items(store: Store, state: ReviewState, question: str) -> list[JudgedItem]:
    """Return the items of a review with the answers to a question; an item whose trial is not stored has no model."""
    with store.read() as cursor:
        about = cases_and_models(cursor, [item.item for item in state.items])
    listed = []
    for item in state.items:
        if state.question(item, question) is not None:
            answers = {name: state.value(item.item, name, question) for name in item.annotators}
            given = {name: value for name, value in answers.items() if value is not None}
            settlement = state.settlement(item, question)
            listed.append(JudgedItem(item.item, *about[item.item], given, settlement.value if settlement else None))
    return listed


def cases_and_models(cursor: duckdb.DuckDBPyConnection, items: Sequence[str]) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return item → its case, and the conditions of its conversations in their order (see ``JudgedItem.models``)."""
    parsed = {item: parse_item(item) for item in items}
    origins = trial_origins(cursor, [trial for about in parsed.values() for trial in about.trials])
    described = {}
    for item, about in parsed.items():
        stored = [origins[trial] for trial in about.trials if trial in origins]
        case = about.case_key or next((origin.case_key for origin in stored), item)
        described[item] = case, tuple(origin.model for origin in stored)
    return described


def read_review(store: Store, review: str | None) -> ReviewState:
    """Return an unblinded review, by name or the newest; raises ``UsageError`` if it is blinded or not there."""
    if review is None:
        unblinded = [state for state in states(store) if not state.blinded and not state.form.final]
        if not unblinded:
            raise UsageError("No review is unblinded yet: finish one and unblind it on Judges, under Experts.")
        return unblinded[0]
    state = state_of(store, review)
    if state.blinded:
        raise UsageError(f"The review {state.review.name} is blinded: unblind it to see figures.")
    return state
