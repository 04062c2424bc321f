"""Stored consultations, to be read or played again, and those that broke off."""

from __future__ import annotations

from core.case import Case
from core.events import Event
from core.journal import RunHeader, journal_path, read_header
from core.journal import trial_id as trial_id_of
from core.store.database import Store
from core.store.fold import fold_if_free
from core.store.queries.cases import case
from core.store.queries.transcripts import StoredTrial, stored_trial, trial_events


def load_trial(trial_id: str) -> tuple[Case | None, list[Event], StoredTrial] | None:
    """Return a stored trial's case as the run held it, its events, and under what it was held, or ``None``."""
    store = Store()
    fold_if_free(store)
    with store.read() as cursor:
        held, events = stored_trial(cursor, trial_id), trial_events(cursor, trial_id)
        return (case(cursor, held.case_key, held.content_hash), events, held) if held and events else None


def unfinished(trial_id: str) -> RunHeader | None:
    """Return the run of a watched consultation that broke off after a model had replied; ``None`` where none did."""
    store = Store()
    fold_if_free(store)
    with store.read() as cursor:
        begun = cursor.execute(_BEGUN).fetchall()
    run_id = next((run_id for run_id, case_key in begun if trial_id_of(run_id, case_key, 0) == trial_id), None)
    path = journal_path(run_id) if run_id else None
    return read_header(path) if path is not None and path.exists() else None


_BEGUN = """
    SELECT run_id, case_key FROM run_cases JOIN runs USING (run_id) ANTI JOIN trials USING (run_id)
    WHERE source IN ('live', 'fork')"""
