"""What the Runs page asks core for, read once for each version of the database."""

import streamlit as st

from core.frameworks.base import frameworks
from core.jobs.engine import is_running
from core.measures.accuracy import AccuracyRow, accuracy
from core.store.database import Store
from core.store.fold import fold_if_free
from core.store.queries.care import RULES, failures, trial_rows
from core.store.queries.conversations import Conversation, conversations
from core.store.runs import WATCHED, RunProgress, runs
from core.store.selection import McqRule, Selection
from pages.parts.care_words import FAILURE

PAGE = 50
"""Conversations on one page of the list."""
_RECENT = 8


CARED_FOR = frozenset(one.name for one in frameworks().values() if one.measure == "care")
"""The frameworks that are reported under CARE, by name; how a history was taken is measured of the others."""


def all_runs() -> list[RunProgress]:
    """Return the runs with what the journals hold by now."""
    store = Store()
    fold_if_free(store)
    return _runs(str(store.path), store.version)


def campaigns() -> list[RunProgress]:
    """Return the runs that are campaigns, without single consultations, the bench's runs and branches."""
    return [run for run in all_runs() if run.source not in WATCHED]


def recent_consultations() -> list[Conversation]:
    """Return the newest consultations that were watched live."""
    store = Store()
    fold_if_free(store)
    return _recent(str(store.path), store.version)


def accuracy_rows(run: RunProgress) -> list[AccuracyRow]:
    """Return the accuracy of every arm of a run; choices by the rule that its protocol counts by."""
    store = Store()
    return _accuracy(str(store.path), store.version, run.run_id, rule_of(run.protocol))


def rule_of(protocol: str) -> McqRule:
    """Return the rule by which a framework counts answers with choices; the paper's where it is not here any more."""
    known = frameworks().get(protocol)
    return known.mcq_rule if known else "mcq_loose"


def tagged_failures(run_id: str) -> dict[str, str]:
    """Return trial → what failed in it by CARE's rules, for the trials of a run in which anything did."""
    store = Store()
    return _failures(str(store.path), store.version, run_id)


def run_conversations(run: RunProgress, page: int) -> list[Conversation]:
    """Return one page of a run's conversations."""
    store = Store()
    return _conversations(str(store.path), store.version, run.run_id, rule_of(run.protocol), page)


def state_of(run: RunProgress) -> str:
    """Return ``running``, ``complete`` or ``stopped``."""
    if is_running(run.run_id):
        return "running"
    return "complete" if run.state == "complete" else "stopped"


@st.cache_data(max_entries=4, show_spinner=False)
def _runs(path: str, version: str) -> list[RunProgress]:
    with Store().read() as cursor:
        return runs(cursor)


@st.cache_data(max_entries=32, show_spinner=False)
def _accuracy(path: str, version: str, run_id: str, rule: McqRule) -> list[AccuracyRow]:
    rows = accuracy(Store(), selection=Selection(runs=[run_id]), mcq_rule=rule)
    # who judged only a part of the run comes after who judged it whole, and has a bar of its own on Accuracy
    return [row for row in rows if row.model == rows[0].model]


@st.cache_data(max_entries=32, show_spinner=False)
def _failures(path: str, version: str, run_id: str) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    with Store().read() as cursor:
        for question_type in RULES:
            trials = trial_rows(cursor, Selection(runs=[run_id]), question_type)
            for failure in failures(cursor, trials):
                found.setdefault(failure.trial_id, []).append(FAILURE[failure.kind])
    return {trial_id: ", ".join(dict.fromkeys(kinds)) for trial_id, kinds in found.items()}


@st.cache_data(max_entries=32, show_spinner=False)
def _conversations(path: str, version: str, run_id: str, rule: McqRule, page: int) -> list[Conversation]:
    wanted = Selection(runs=[run_id], mcq_rule=rule)
    with Store().read() as cursor:
        return conversations(cursor, wanted, limit=PAGE, offset=page * PAGE)


@st.cache_data(max_entries=4, show_spinner=False)
def _recent(path: str, version: str) -> list[Conversation]:
    with Store().read() as cursor:
        return conversations(cursor, Selection(sources=["live"]), limit=_RECENT)
