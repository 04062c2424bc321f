"""What pages of figures read of single runs, cases and trials; once for each state of the database."""

from collections.abc import Sequence

import streamlit as st

from core.case import Case
from core.events import Event
from core.store.database import Store
from core.store.queries.cases import case
from core.store.queries.conversations import Conversation, conversations
from core.store.queries.transcripts import trial_events
from core.store.runs import CAMPAIGNS, Run, run_records
from core.store.selection import Selection


def run_casts() -> list[Run]:
    """Return cast and settings of every campaign and release, the newest first."""
    store = Store()
    return _casts(str(store.path), store.version)


def case_conversations(runs: Sequence[str], case_key: str) -> list[Conversation]:
    """Return the trials of one case in these runs."""
    store = Store()
    return _conversations(str(store.path), store.version, tuple(runs), case_key)


def stored_case(case_key: str) -> Case | None:
    """Return a case as it came in last."""
    store = Store()
    return _case(str(store.path), store.version, case_key)


def events_of(trial_id: str) -> list[Event]:
    """Return what happened in a trial."""
    store = Store()
    return _events(str(store.path), store.version, trial_id)


@st.cache_resource(max_entries=4, show_spinner=False)
def _casts(path: str, version: str) -> list[Run]:
    with Store().read() as cursor:
        return run_records(cursor, sources=CAMPAIGNS)


@st.cache_resource(max_entries=64, show_spinner=False)
def _conversations(path: str, version: str, runs: tuple[str, ...], case_key: str) -> list[Conversation]:
    wanted = Selection(runs=runs, cases=[case_key], sources=CAMPAIGNS)
    with Store().read() as cursor:
        found = conversations(cursor, wanted, limit=200)
    return sorted(found, key=lambda talk: (talk.run_id, talk.trial))


@st.cache_resource(max_entries=64, show_spinner=False)
def _case(path: str, version: str, case_key: str) -> Case | None:
    with Store().read() as cursor:
        return case(cursor, case_key)


@st.cache_resource(max_entries=64, show_spinner=False)
def _events(path: str, version: str, trial_id: str) -> list[Event]:
    with Store().read() as cursor:
        return trial_events(cursor, trial_id)
