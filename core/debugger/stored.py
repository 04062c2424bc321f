"""Trials and bench runs from the store, for a link or a reload."""

from __future__ import annotations

from dataclasses import dataclass, field

import duckdb

from core import access
from core.case import RELEASE_SPECIALTIES, Case
from core.debugger.steps import TrialRecord
from core.errors import AnamnesisError
from core.events import Event
from core.journal import RunHeader, journal_path, read_header
from core.store.database import Store
from core.store.fold import fold_if_free
from core.store.queries.cases import case, contents
from core.store.queries.releases import release_prompts
from core.store.queries.run_cases import first_cases
from core.store.queries.runs import RunProgress, header_of, run_records, runs
from core.store.queries.trials import stored_trial, trial_events, trials_about

AS_RELEASED = {ours: theirs for theirs, ours in RELEASE_SPECIALTIES.items()}
"""Specialty → the name that the release has for it."""


@dataclass(frozen=True)
class StoredBench:
    """A run of one case as it is stored: trial number → events, and trial number → trial id."""

    header: RunHeader
    case: Case
    events: dict[int, list[Event]] = field(default_factory=dict)
    trial_ids: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class StoredSession:
    """A run of one case as it is listed; ``edited_from`` is the run whose arms it asks again with an edit, or empty."""

    run: RunProgress
    case: Case
    edited_from: str


def sessions(cursor: duckdb.DuckDBPyConnection) -> list[StoredSession]:
    """Return the stored runs of one case, the newest first."""
    ids = [held.run_id for held in run_records(cursor, sources=["bench"])]
    about = first_cases(cursor, ids)
    return [
        StoredSession(one, about[one.run_id], header.edited.run_id if header.edited else "")
        for one in runs(cursor, ids)
        if one.run_id in about and (header := _header(cursor, one.run_id)) is not None
    ]


def load_bench(run_id: str) -> StoredBench | None:
    """Return the trials of a stored run about its first case, or ``None`` where there are none."""
    store = Store()
    fold_if_free(store)
    with store.read() as cursor:
        places = trials_about(cursor, run_id)
        header = _header(cursor, run_id) if places else None
        found = case(cursor, places[0].case_key, places[0].content_hash) if places else None
        if header is None or found is None:
            return None
        events = {place.trial: trial_events(cursor, place.trial_id) for place in places}
    return StoredBench(header, found, events, {place.trial: place.trial_id for place in places})


def set_apart(pasted: Case) -> Case:
    """Return a pasted case under a title that no other content has: the title itself, or with a number."""
    store, found, number = Store(), pasted, 1
    if not store.path.exists():
        return pasted
    with access.acting(access.HERE), store.read() as cursor:  # beside the titles of what others pasted, too
        while (held := contents(cursor, found.case_key)) and found.content_hash not in held:
            number += 1
            found = pasted.model_copy(update={"case_key": f"{pasted.case_key} {number}"})
    return found


def load_record(trial_id: str) -> TrialRecord | None:
    """Return a stored trial of any source, or ``None`` where it or its case is not stored."""
    store = Store()
    fold_if_free(store)
    with store.read() as cursor:
        place = stored_trial(cursor, trial_id)
        header = _header(cursor, place.run_id) if place else None
        found = case(cursor, place.case_key, place.content_hash) if place else None
        if place is None or header is None or found is None:
            return None
        events = tuple(trial_events(cursor, trial_id))
        prompts = release_prompts(cursor, place.run_id, place.case_key) if header.source == "release" else None
        prompt = prompts.of_trial(place.trial) if prompts else None
        if prompt:  # its specialty is filled in under the name that the release has for it
            named = AS_RELEASED.get(found.specialty, found.specialty)
            other = prompt.replace(" specializing in {specialty}", "", 1)
            prompt = other if found.specialty == "Other" else prompt.replace("{specialty}", named, 1)
    return TrialRecord(trial_id, found, header, place.trial, place.seed, events, prompt)


def _header(cursor: duckdb.DuckDBPyConnection, run_id: str) -> RunHeader | None:
    """Return the header of a run: its journal's, or one made of what the database has of it."""
    try:
        return read_header(journal_path(run_id))
    except (AnamnesisError, OSError):
        return header_of(cursor, run_id)
