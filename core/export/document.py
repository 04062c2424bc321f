"""The content of an exported document: stored or running conversations with everything that explains them.

A document contains stored data (events, grades that count, run, case) and nothing derived; ``core.export.reading``
derives what readers see. Documents never contain keys; addresses have no user name, password or query.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

import duckdb

from core import __version__
from core.case import Case
from core.datasets.licences import texts_may_leave
from core.errors import UsageError
from core.events import PASSING, Called, Event, Graded, Parent, Started
from core.export.withheld import PublicTexts, case_without_text, event_without_text, withheld_in_words
from core.frameworks.settings import without_credentials
from core.journal import RunHeader
from core.measures.provenance import UNKNOWN
from core.store.database import Store
from core.store.fold import fold_if_free
from core.store.queries.cases import case as stored_case
from core.store.queries.grades import latest_grades
from core.store.queries.runs import Run
from core.store.queries.trials import StoredTrial, stored_trials, trial_events

MAX_CONVERSATIONS = 4
"""Most conversations in a document: they are shown side by side."""


@dataclass(frozen=True)
class ExportedConversation:
    """One conversation. ``trial`` counts from 0; ``cast`` is its run, ``None`` if it has no run yet.

    ``grades`` has the grades that count: the newest of each arm and rule.
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
        """The doctor under test; without a run, the model that was called as doctor."""
        if self.cast:
            return self.cast.doctor
        called = (e.call.model for e in self.events if isinstance(e, Called) and e.call.role == "doctor")
        return next(called, UNKNOWN)


@dataclass(frozen=True)
class Document:
    """One to four conversations; ``made_at`` is in seconds since 1970 (UTC)."""

    conversations: tuple[ExportedConversation, ...]
    made_at: float = field(default_factory=time.time)
    code_version: str = __version__
    withheld: str = ""
    """What is withheld, as a sentence."""

    @property
    def title(self) -> str:
        names = [
            conversation.case_key.partition("/")[2] or conversation.case_key for conversation in self.conversations
        ]
        cases, doctors = (
            _in_words(names),
            _in_words([conversation.doctor for conversation in self.conversations if conversation.doctor != UNKNOWN]),
        )
        if len(self.conversations) == 1:
            return f"{cases}, {doctors or 'doctor not recorded'}, trial {self.conversations[0].trial + 1}"
        return f"{cases}: {len(self.conversations)} conversations{f' of {doctors}' if doctors else ''}"


def document_of(trial_ids: Sequence[str], store: Store | None = None, *, with_cases: bool = False) -> Document:
    """Return the document of one to four stored conversations.

    ``with_cases``: also with the texts of cases without an open licence.

    Raises ``UsageError`` if a conversation is not stored or occurs twice, or if there are none or too many.
    """
    if not 1 <= len(trial_ids) <= MAX_CONVERSATIONS:
        raise UsageError(f"A document has 1 to {MAX_CONVERSATIONS} conversations, not {len(trial_ids)}.")
    if len(set(trial_ids)) < len(trial_ids):
        raise UsageError("The same conversation was given twice: give each once.")
    store = store or Store()
    fold_if_free(store)
    with store.read() as cursor:
        trials = stored_trials(cursor, trial_ids)
        for trial_id in trial_ids:
            if trial_id not in trials:
                raise UsageError(f"There is no conversation {trial_id!r} in this database: check its id.")
        texts = PublicTexts(cursor, with_cases=with_cases)
        conversations = []
        for trial in (trials[trial_id] for trial_id in trial_ids):
            stored = _stored(cursor, trial)
            allowed = texts.may_leave(trial.case_key, trial.content_hash)
            conversations.append(stored if allowed else _without_texts(stored))
        return Document(tuple(conversations), withheld=texts.sentence)


def document_of_events(
    case: Case | None, events: Sequence[Event], header: RunHeader | None = None, *, with_cases: bool = False
) -> Document:
    """Return the document of a running or unsaved conversation from its events so far."""
    lasting = tuple(event for event in events if not isinstance(event, PASSING))
    newest = {(e.format, e.question_type, e.rule): e for e in lasting if isinstance(e, Graded)}
    conversation = _conversation_of(lasting, case.case_key if case else "unknown case")
    cast = cast_of(header) if header else None
    conversation = replace(conversation, grades=tuple(newest.values()), case=case, cast=cast)
    if with_cases or texts_may_leave(case):
        return Document((conversation,))
    return Document((_without_texts(conversation),), withheld=withheld_in_words(1))


def _without_texts(conversation: ExportedConversation) -> ExportedConversation:
    grades = [event_without_text(grade) for grade in conversation.grades]
    return replace(
        conversation,
        events=tuple(map(event_without_text, conversation.events)),
        grades=tuple(grade for grade in grades if isinstance(grade, Graded)),
        case=conversation.case and case_without_text(conversation.case),
        parent=conversation.parent and conversation.parent.model_copy(update={"changes": ()}),
    )


def cast_of(run: Run | RunHeader) -> Run:
    """Return a run with its cast and settings, without credentials and without the folder of its prompts."""
    shareable = {
        k: without_credentials(v) if k == "base_url" and isinstance(v, str) else v for k, v in run.settings.items()
    }
    name = Path(run.prompt_pack).name if Path(run.prompt_pack).is_absolute() else run.prompt_pack
    return Run(
        **{f.name: getattr(run, f.name) for f in fields(Run)}
        | {
            "cases": len(run.cases) if isinstance(run, RunHeader) else run.cases,
            "arms": tuple((format_, question_type) for format_, question_type in run.arms),
            "settings": shareable,
            "prompt_pack": name,
        }
    )


def _stored(cursor: duckdb.DuckDBPyConnection, trial: StoredTrial) -> ExportedConversation:
    return replace(
        _conversation_of(tuple(trial_events(cursor, trial.trial_id)), trial.case_key),
        trial_id=trial.trial_id,
        case_key=trial.case_key,
        grades=tuple(latest_grades(cursor, trial.trial_id)),
        # the case with the content that the run used: it may have changed since
        case=stored_case(cursor, trial.case_key, trial.content_hash),
        cast=cast_of(trial.run),
    )


def _conversation_of(events: tuple[Event, ...], case_key: str) -> ExportedConversation:
    started = next((event for event in events if isinstance(event, Started)), None)
    if started is None:
        return ExportedConversation("not begun", case_key, 0, 0, events)
    return ExportedConversation(
        started.trial_id, started.case_key, started.trial, started.seed, events, parent=started.parent
    )


def _in_words(names: Sequence[str]) -> str:
    *first, last = dict.fromkeys(names) or [""]
    return f"{', '.join(first)} and {last}" if first else last
