"""Stored consultations, to be read or played again."""

from __future__ import annotations

from core.case import Case
from core.events import Event
from core.store.cases import case
from core.store.database import Store
from core.store.fold import fold_if_free
from core.store.trials import trial_events


def load_trial(trial_id: str) -> tuple[Case | None, list[Event]] | None:
    """Return a stored trial's case and events, or ``None`` where it is not stored."""
    store = Store()
    fold_if_free(store)
    with store.read() as cursor:
        events = trial_events(cursor, trial_id)
        key = next((event.case_key for event in events if event.kind == "started"), None)
        return (case(cursor, key) if key else None, events) if events else None
