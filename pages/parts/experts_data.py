"""What the Experts page reads: reviews as they stand, their items, and figures once they may be shown."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import streamlit as st

from core.case import Case
from core.errors import AnamnesisError
from core.events import Answered, Event
from core.measures.experts.figures import (
    AgainstGrader,
    Agreement,
    Decision,
    Pair,
    Share,
    against_grader,
    agreement,
    decide,
    decisions_of,
    imported_judgements,
    pairs,
    shares,
)
from core.measures.experts.reviewing import ReviewState, blinded_dialogue, hidden, states
from core.measures.experts.workbooks import GraderOfRelease, grader_of_release, release_decisions
from core.store.database import Store
from core.store.fold import fold_if_free
from core.store.queries.graders import Flips, flips
from core.store.review_records import QUESTIONS, Question, parse_item
from pages.parts.transcripts_data import on_offer, reading

RELEASE, IMPORTED = "release", "imported"
"""What stands in place of a review: the experts of the imported release, and annotations from files."""
T = TypeVar("T")


@dataclass(frozen=True)
class Shown:
    """An item as annotators see it: the case, the dialogue and the response, without anything that names the model."""

    case: Case | None
    dialogue: list[Event]
    response: str | None


@dataclass(frozen=True)
class Figures:
    """All that follows from decisions alone."""

    decisions: list[Decision]
    questions: list[Question]
    shares: list[Share]
    pairs: list[Pair]
    agreement: list[Agreement]


def reviews() -> list[ReviewState]:
    """Return every review as it stands, the newest first."""
    fold_if_free(Store())
    return _states(*_key())


def review_at(review_id: str) -> ReviewState | None:
    """Return one review as it stands."""
    return next((state for state in _states(*_key()) if state.review.review_id == review_id), None)


def shown_item(item: str) -> Shown | None:
    """Return an item without its model's name, ``None`` where its trial is no longer stored."""
    return _shown(str(Store().path), item)


def figures_of(source: str) -> Figures:
    """Return the figures of an unblinded review by its id, of the release's experts, or of imported annotations."""
    return _figures(*_key(), source)


def beside_grader(review_id: str) -> AgainstGrader:
    """Return an unblinded review's free responses as experts and graders judged them."""
    return _beside(*_key(), review_id)


def grader_flips() -> list[Flips]:
    """Return how often graders contradicted themselves."""
    return _flips(*_key())


def release_grader() -> GraderOfRelease | None:
    """Return the release's grader against its experts, ``None`` where its file was not imported."""
    return _release_grader(*_key())


def release_is_here() -> bool:
    """Say whether the experts' workbooks of the release were imported."""
    return _tried(partial(figures_of, RELEASE)) is not None


def imported_are_here() -> bool:
    """Say whether annotations were imported from files."""
    return bool(figures_of(IMPORTED).decisions)


def _tried(read: Callable[[], T]) -> T | None:
    try:
        return read()
    except AnamnesisError:  # nothing was imported: the page says so in its own words
        return None


def _key() -> tuple[str, str]:
    store = Store()
    return str(store.path), store.version


@st.cache_resource(max_entries=4, show_spinner=False)
def _states(path: str, version: str) -> list[ReviewState]:
    return states(Store())


# what was said does not change with the answers, after each of which the page is drawn again
@st.cache_resource(max_entries=256, show_spinner=False, ttl="10m")
def _shown(path: str, item: str) -> Shown | None:
    parsed = parse_item(item)
    held = reading(parsed.trial_id)
    if held is None:
        return None
    models = on_offer().models  # one model may name another
    answers = [e for e in held.events if isinstance(e, Answered) and e.question_type == "frq"]
    response = next((e.response for e in answers if e.format == parsed.format), None)
    told = None if parsed.kind != "answer" or response is None else hidden(response, models)
    return Shown(held.case, blinded_dialogue(held.events, models), told)


@st.cache_resource(max_entries=16, show_spinner="Reading the judgements…")
def _figures(path: str, version: str, source: str) -> Figures:
    found = _decisions(path, version, source)
    questions = [q for q in QUESTIONS if any(one.question == q for one in found)]
    return Figures(list(found), questions, shares(found), pairs(found, questions), agreement(found, questions))


def _decisions(path: str, version: str, source: str) -> Sequence[Decision]:
    if source == RELEASE:
        return release_decisions(Store())
    if source == IMPORTED:
        return decide(imported_judgements(Store()), tie_breaker="")
    state = review_at(source)
    return decisions_of(Store(), state) if state else []


@st.cache_resource(max_entries=8, show_spinner="Reading the verdicts…")
def _beside(path: str, version: str, review_id: str) -> AgainstGrader:
    return against_grader(Store(), _decisions(path, version, review_id))


@st.cache_resource(max_entries=2, show_spinner="Looking for words that were judged twice…")
def _flips(path: str, version: str) -> list[Flips]:
    with Store().read() as cursor:
        return flips(cursor)


@st.cache_resource(max_entries=2, show_spinner=False)
def _release_grader(path: str, version: str) -> GraderOfRelease | None:
    return _tried(lambda: grader_of_release(Store()))
