"""Stored consultations, to be read or played again."""

from __future__ import annotations

from core.case import Case
from core.events import Event
from core.store.database import Store
from core.store.fold import fold_if_free
from core.store.queries.cases import case
from core.store.queries.transcripts import StoredTrial, stored_trial, trial_events


def load_trial(trial_id: str) -> tuple[Case | None, list[Event]] | None:
    """Return a stored trial's case, as the run held it, and events, or ``None`` where it is not stored."""
    store = Store()
    fold_if_free(store)
    with store.read() as cursor:
        events = trial_events(cursor, trial_id)
        held = stored_trial(cursor, trial_id)
        return (case(cursor, held.case_key, held.content_hash) if held else None, events) if events else None


def load_setup(trial_id: str) -> StoredTrial | None:
    """Return under what a stored trial was held: its cast, prompts and settings; ``None`` where it is not stored."""
    with Store().read() as cursor:
        return stored_trial(cursor, trial_id)
