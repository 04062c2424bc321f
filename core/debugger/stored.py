"""Reads trials and bench runs from the store, for links and reloads."""

from __future__ import annotations

from dataclasses import dataclass, field

import duckdb

from core import access
from core.case import RELEASE_SPECIALTIES, Case
from core.debugger.steps import TrialRecord
from core.errors import AnamnesisError
from core.events import Event
from core.frameworks.base import framework_of_stored
from core.journal import RunHeader, journal_path, read_header
from core.store.database import Store
from core.store.fold import fold_if_free
from core.store.queries.cases import case, content_hashes
from core.store.queries.releases import release_prompts
from core.store.queries.run_cases import first_cases
from core.store.queries.runs import RunProgress, header_of, run_records, runs
from core.store.queries.trials import stored_trial, trial_events, trials_about

AS_RELEASED = {specialty: release_name for release_name, specialty in RELEASE_SPECIALTIES.items()}
"""Specialty → the name that the release has for it."""


@dataclass(frozen=True)
class StoredBench:
    """A stored run of one case: trial number → events, and trial number → trial id."""

    header: RunHeader
    case: Case
    events: dict[int, list[Event]] = field(default_factory=dict)
    trial_ids: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class StoredSession:
    """A listed run of one case; ``edited_from`` is the run that it repeats with an edit, or empty."""

    run: RunProgress
    case: Case
    edited_from: str


def sessions(cursor: duckdb.DuckDBPyConnection) -> list[StoredSession]:
    ids = [run.run_id for run in run_records(cursor, sources=["bench"])]
    about = first_cases(cursor, ids)
    return [
        StoredSession(run, about[run.run_id], header.edited.run_id if header.edited else "")
        for run in runs(cursor, ids)
        if run.run_id in about and (header := _header(cursor, run.run_id)) is not None
    ]


def load_bench(run_id: str) -> StoredBench | None:
    """Return the trials of a stored run about its first case, or ``None`` if the run or the case is not stored.

    Raises ``UsageError`` if no framework that is installed here played the run.
    """
    store = Store()
    fold_if_free(store)
    with store.read() as cursor:
        places = trials_about(cursor, run_id)
        header = _header(cursor, run_id) if places else None
        stored_case = case(cursor, places[0].case_key, places[0].content_hash) if places else None
        if header is None:
            return None
        framework_of_stored(header.protocol)
        if stored_case is None:
            return None
        events = {place.trial: trial_events(cursor, place.trial_id) for place in places}
    return StoredBench(header, stored_case, events, {place.trial: place.trial_id for place in places})


def set_apart(pasted: Case) -> Case:
    """Return a pasted case under a title that no other content has: its title, if necessary with a number."""
    store, unique, number = Store(), pasted, 1
    if not store.path.exists():
        return pasted
    with access.acting(access.HERE), store.read() as cursor:  # also titles of cases that other users pasted
        while (hashes := content_hashes(cursor, unique.case_key)) and unique.content_hash not in hashes:
            number += 1
            unique = pasted.model_copy(update={"case_key": f"{pasted.case_key} {number}"})
    return unique


def load_record(trial_id: str) -> TrialRecord | None:
    """Return a stored trial of any source, or ``None`` if the trial or its case is not stored.

    Raises ``UsageError`` if no framework that is installed here played it.
    """
    store = Store()
    fold_if_free(store)
    with store.read() as cursor:
        place = stored_trial(cursor, trial_id)
        header = _header(cursor, place.run_id) if place else None
        stored_case = case(cursor, place.case_key, place.content_hash) if place else None
        if place is None or header is None:
            return None
        framework_of_stored(header.protocol)
        if stored_case is None:
            return None
        events = tuple(trial_events(cursor, trial_id))
        prompts = release_prompts(cursor, place.run_id, place.case_key) if header.source == "release" else None
        prompt = prompts.of_trial(place.trial) if prompts else None
        if prompt:  # fill in the specialty under the release's name for it
            specialty = AS_RELEASED.get(stored_case.specialty, stored_case.specialty)
            without_specialty = prompt.replace(" specializing in {specialty}", "", 1)
            prompt = (
                without_specialty if stored_case.specialty == "Other" else prompt.replace("{specialty}", specialty, 1)
            )
    return TrialRecord(trial_id, stored_case, header, place.trial, place.seed, events, prompt)


def _header(cursor: duckdb.DuckDBPyConnection, run_id: str) -> RunHeader | None:
    """Return the header of a run from its journal, or else from the database."""
    try:
        return read_header(journal_path(run_id))
    except (AnamnesisError, OSError):
        return header_of(cursor, run_id)
