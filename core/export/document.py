"""What is taken away: stored or running conversations with everything that tells how they came about.

A document holds what was stored (events, grades that count, run, case) and nothing derived; ``core.export.reading``
derives from it what readers are shown. It never holds keys; addresses come without user name, password and query.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

import duckdb

from core import __version__
from core.case import Case
from core.errors import UsageError
from core.events import PASSING, Called, Event, Graded, Parent, Started
from core.frameworks.settings import without_credentials
from core.journal import RunHeader
from core.measures.provenance import UNKNOWN
from core.store.database import Store
from core.store.fold import fold_if_free
from core.store.queries.cases import case as stored_case
from core.store.queries.grades import latest_grades
from core.store.queries.runs import Run
from core.store.queries.trials import StoredTrial, stored_trials, trial_events

MOST = 4
"""Conversations that fit beside one another."""


@dataclass(frozen=True)
class Talk:
    """One conversation. ``trial`` counts from 0; ``cast`` is its run, ``None`` where it belongs to none yet.

    ``grades`` are those that count: the newest of each arm and rule.
    """

    trial_id: str
    case_key: str
    trial: int
    seed: int
    events: tuple[Event, ...]
    grades: tuple[Graded, ...] = ()
    case: Case | None = None
    cast: Run | None = None
    parent: Parent | None = None

    @property
    def doctor(self) -> str:
        """The name of the doctor under test; without a run, the model that was called as doctor."""
        if self.cast:
            return self.cast.doctor
        called = (e.call.model for e in self.events if isinstance(e, Called) and e.call.role == "doctor")
        return next(called, UNKNOWN)


@dataclass(frozen=True)
class Document:
    """One conversation, or up to four beside one another; ``made_at`` is in seconds since 1970 (UTC)."""

    talks: tuple[Talk, ...]
    made_at: float = field(default_factory=time.time)
    code_version: str = __version__

    @property
    def title(self) -> str:
        """What the document is about, on one line."""
        names = [talk.case_key.partition("/")[2] or talk.case_key for talk in self.talks]
        about, doctors = _listed(names), _listed([talk.doctor for talk in self.talks if talk.doctor != UNKNOWN])
        if len(self.talks) == 1:
            return f"{about}, {doctors or 'doctor not recorded'}, trial {self.talks[0].trial + 1}"
        return f"{about}: {len(self.talks)} conversations{f' of {doctors}' if doctors else ''}"


def document_of(trial_ids: Sequence[str], store: Store | None = None) -> Document:
    """Return the document of one stored conversation, or of two to four beside one another.

    Raises ``UsageError`` where one is not stored, is named twice, or where there are none or too many.
    """
    if not 1 <= len(trial_ids) <= MOST:
        raise UsageError(f"{len(trial_ids)} conversations were named: take one, or two to {MOST} beside one another.")
    if len(set(trial_ids)) < len(trial_ids):
        raise UsageError("The same conversation was named twice: name each once.")
    store = store or Store()
    fold_if_free(store)
    with store.read() as cursor:
        held = stored_trials(cursor, trial_ids)
        for trial_id in trial_ids:
            if trial_id not in held:
                raise UsageError(f"There is no conversation {trial_id!r} in this database: check its id.")
        return Document(tuple(_stored(cursor, held[trial_id]) for trial_id in trial_ids))


def document_of_events(case: Case | None, events: Sequence[Event], header: RunHeader | None = None) -> Document:
    """Return the document of a conversation that is under way or not stored, from its events so far."""
    kept = tuple(event for event in events if not isinstance(event, PASSING))
    newest = {(e.format, e.question_type, e.rule): e for e in kept if isinstance(e, Graded)}
    talk = _begun(kept, case.case_key if case else "unknown case")
    cast = cast_of(header) if header else None
    return Document((replace(talk, grades=tuple(newest.values()), case=case, cast=cast),))


def cast_of(played: Run | RunHeader) -> Run:
    """Return a run's cast and settings, without credentials and without where its prompts lie on this machine."""
    shareable = {
        k: without_credentials(v) if k == "base_url" and isinstance(v, str) else v for k, v in played.settings.items()
    }
    name = Path(played.prompt_pack).name if Path(played.prompt_pack).is_absolute() else played.prompt_pack
    return Run(
        **{f.name: getattr(played, f.name) for f in fields(Run)}
        | {
            "cases": len(played.cases) if isinstance(played, RunHeader) else played.cases,
            "arms": tuple((format_, question_type) for format_, question_type in played.arms),
            "settings": shareable,
            "prompt_pack": name,
        }
    )


def _stored(cursor: duckdb.DuckDBPyConnection, held: StoredTrial) -> Talk:
    begun = _begun(tuple(trial_events(cursor, held.trial_id)), held.case_key)
    return replace(
        begun,
        trial_id=held.trial_id,
        case_key=held.case_key,
        grades=tuple(latest_grades(cursor, held.trial_id)),
        # a case that was changed since is still stored as the run held it
        case=stored_case(cursor, held.case_key, held.content_hash),
        cast=cast_of(held.run),
    )


def _begun(events: tuple[Event, ...], case_key: str) -> Talk:
    started = next((event for event in events if isinstance(event, Started)), None)
    if started is None:
        return Talk("not begun", case_key, 0, 0, events)
    return Talk(started.trial_id, started.case_key, started.trial, started.seed, events, parent=started.parent)


def _listed(names: Sequence[str]) -> str:
    *first, last = dict.fromkeys(names) or [""]
    return f"{', '.join(first)} and {last}" if first else last
