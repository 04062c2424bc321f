"""What the Transcripts page reads: found conversations page by page, and one of them in full."""

from dataclasses import dataclass

import streamlit as st

from core.case import Case
from core.events import Event, Graded
from core.store.database import Store
from core.store.fold import fold_if_free
from core.store.queries.cases import case
from core.store.queries.conversations import (
    Conversation,
    Offer,
    conversation_ids,
    conversations,
    counted_page,
    first_matches,
    offer,
)
from core.store.queries.transcripts import latest_grades, stored_trial, trial_events
from core.store.selection import Selection

PAGE = 50
"""Conversations on one page of the list."""
_MOST_TRIALS = 300
"""Trials of one case that are listed beside one another."""


@dataclass(frozen=True)
class Found:
    """One page of what a filter leaves: the conversations, how many there are in all, and where the words occur.

    Behind the last page there is nothing, and the number is 0.
    """

    total: int
    page: list[Conversation]
    said: dict[str, str]


@dataclass(frozen=True)
class Reading:
    """One conversation in full; ``grades`` are those that count, of every rule."""

    talk: Conversation
    case: Case | None
    events: list[Event]
    grades: list[Graded]


def on_offer() -> Offer:
    """Return what the filters offer, with what the journals hold by now."""
    store = Store()
    fold_if_free(store)
    return _offer(*_key())


def found(wanted: Selection, page: int) -> Found:
    """Return a page (from 0) of the conversations that a filter leaves."""
    return _found(*_key(), wanted, page)


def found_ids(wanted: Selection) -> dict[str, int]:
    """Return the trials that a filter leaves → their place, from 0, in order."""
    return _found_ids(*_key(), wanted)


def reading(trial_id: str) -> Reading | None:
    """Return a conversation in full, or ``None`` where it is not stored."""
    return _reading(*_key(), trial_id)


def trials_of_case(case_key: str) -> list[Conversation]:
    """Return all trials of a case, of every model and run."""
    return _trials_of_case(*_key(), case_key)


def every_conversation(wanted: Selection) -> list[Conversation]:
    """Return all that a filter leaves, for a download."""
    with Store().read() as cursor:
        return conversations(cursor, wanted, limit=None)


def _key() -> tuple[str, str]:
    store = Store()
    return str(store.path), store.version


@st.cache_resource(max_entries=4, show_spinner=False)
def _offer(path: str, version: str) -> Offer:
    with Store().read() as cursor:
        return offer(cursor)


@st.cache_resource(max_entries=64, show_spinner=False)
def _found(path: str, version: str, wanted: Selection, page: int) -> Found:
    with Store().read() as cursor:
        count, rows = counted_page(cursor, wanted, limit=PAGE, offset=page * PAGE)
        ids = [row.trial_id for row in rows]
        said = first_matches(cursor, ids, wanted.text, wanted.speaker) if wanted.text and ids else {}
    return Found(count, rows, said)


@st.cache_resource(max_entries=8, show_spinner=False)
def _found_ids(path: str, version: str, wanted: Selection) -> dict[str, int]:
    with Store().read() as cursor:
        return {trial_id: place for place, trial_id in enumerate(conversation_ids(cursor, wanted))}


@st.cache_resource(max_entries=64, show_spinner=False)
def _reading(path: str, version: str, trial_id: str) -> Reading | None:
    with Store().read() as cursor:
        held = conversations(cursor, Selection(trials=(trial_id,)))
        if not held:
            return None
        stored = stored_trial(cursor, trial_id)
        about = case(cursor, held[0].case_key, stored.content_hash if stored else None)
        return Reading(held[0], about, trial_events(cursor, trial_id), latest_grades(cursor, trial_id))


@st.cache_resource(max_entries=64, show_spinner=False)
def _trials_of_case(path: str, version: str, case_key: str) -> list[Conversation]:
    with Store().read() as cursor:
        found = conversations(cursor, Selection(cases=(case_key,)), limit=_MOST_TRIALS)
    return sorted(found, key=lambda talk: (talk.doctor, talk.run_id, talk.trial))
