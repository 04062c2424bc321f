"""Stores conversations from elsewhere as runs with the source "imported", one run for each label of version or arm.

They are stored as the conversations of an Inspect log are (``core.interchange.inspect_import``), under a condition that
no played conversation has. They come without vignette and right answer: a case is attached by its id afterwards.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from core.case import Case, case_set_hash
from core.datasets.archive import ArchiveLimits
from core.datasets.conversations.conversation import NO_CASE, WITHOUT_CASE, ForeignConversation, Message
from core.datasets.conversations.personal import masked
from core.errors import AnamnesisError, UsageError
from core.events import Ended, Event, Finished, Started, Utterance
from core.interchange.inspect_import import BY, NOT_RECORDED, ImportedLog, LogReader, closing_answer, slug, store_log
from core.interchange.inspect_reading import LogEval, LogHeader, LogMessage, LogSample, LogScore, open_log
from core.journal import GradesLine, RunHeader, TrialLine, append_shared, journal_path, seed_of, trial_id
from core.store.database import Store
from core.store.fold import fold
from core.store.inserts import ATTACHED
from core.store.queries.run_cases import run_cases
from core.store.queries.runs import Run, header_of, run_records
from core.store.queries.trials import conversations
from core.store.queries.utterances import utterances_of
from core.store.selection import Selection

PROTOCOL = "conversations"
"""Stored as the framework of these conversations; also the usual name of the set of their cases."""
WITHOUT = "without_case"
"""Setting of a run: the number of its conversations without a case."""


@dataclass(frozen=True)
class ConversationImport:
    """How conversations are stored.

    ``label`` names their version or arm; conversations with a version of their own have it after the label. Ids of
    cases belong to ``case_set``: two imports with one set are about the same cases. ``masking`` replaces what may
    identify a person.
    """

    file: str
    label: str
    case_set: str = PROTOCOL
    masking: bool = False


def import_conversations(
    store: Store, read: Sequence[ForeignConversation], how: ConversationImport
) -> list[ImportedLog]:
    """Store conversations, a run for each label; a run that is stored already is left alone.

    Each run is stored completely or not at all. Raises ``UsageError`` for a conversation without a label, or a set of
    cases whose name cannot be part of an id.
    """
    if slug(how.case_set) != how.case_set or not how.case_set:
        raise UsageError(f"{how.case_set!r} cannot name cases: use small letters, digits, - and _.")
    by_label: dict[str, list[ForeignConversation]] = {}
    for conversation in read:
        if how.masking:
            messages = tuple(Message(message.seat, masked(message.text)) for message in conversation.messages)
            conversation = replace(conversation, messages=messages)
        by_label.setdefault(f"{how.label} {conversation.version}".strip(), []).append(conversation)
    if "" in by_label:
        raise UsageError("Name the version or arm of these conversations (--label), or a column that has it.")
    readers = [_ConversationReader(how, label, of_label) for label, of_label in by_label.items()]
    return [store_log(store, reader, reader.samples()) for reader in readers]


def is_log(path: Path) -> bool:
    """Return whether a file is a log of Inspect."""
    try:
        with open_log(path, ArchiveLimits()):
            return True
    except AnamnesisError:
        return False


def cases_by_id(cases: Iterable[Case]) -> dict[str, Case]:
    """Return cases by what a file may call them: the whole key, and the part after the data set."""
    return {name: case for case in cases for name in (case.case_key, case.case_key.partition("/")[2])}


def runs_without_cases(store: Store) -> list[Run]:
    """Return the runs of imported conversations some of which have no case."""
    with store.read() as cursor:
        return [run for run in run_records(cursor) if run.protocol == PROTOCOL and run.settings.get(WITHOUT)]


def attach_cases(store: Store, run_id: str, cases: Mapping[str, Case]) -> int:
    """Attach cases (id → case) to the conversations of a run that name them and have none; return their number.

    Judgements stay. The last message of the doctor becomes an answer, which a grader may judge. Raises ``UsageError``
    for a run of another kind.
    """
    by_name = {_name(case_id): case for case_id, case in cases.items()}
    with store.read() as cursor:
        header = header_of(cursor, run_id)
        if header is None or header.protocol != PROTOCOL:
            raise UsageError(f"{run_id} is no run of imported conversations.")
        stored = run_cases(cursor, run_id)
        attached = {  # nobody was offered choices
            case.case_key: by_name[name].model_copy(
                update={"case_key": case.case_key, "dataset": case.dataset, "choices": ()}
            )
            for case in stored
            if case.vignette in WITHOUT_CASE and (name := case.case_key.partition("/")[2]) in by_name
        }
        trials = [
            (
                trial.trial_id,
                attached[trial.case_key],
                [message for message in utterances_of(cursor, trial.trial_id) if message.role == "doctor"],
            )
            for trial in conversations(cursor, Selection(runs=[run_id]), limit=None)
            if trial.case_key in attached
        ]
    if not attached:
        return 0
    now = [attached.get(case.case_key, case) for case in stored]
    without = int(str(header.settings.get(WITHOUT, 0))) - len(trials)
    settings = {**header.settings, WITHOUT: without, ATTACHED: time.time()}
    later = [
        GradesLine(run_id=run_id, trial_id=trial, grades=[], answers=[closing_answer(case, of_doctor)])
        for trial, case, of_doctor in trials
    ]
    again = header.model_copy(update={"cases": now, "settings": settings})
    append_shared(journal_path(run_id, store.journals), [again, *later])
    fold(store)
    return len(trials)


def _name(case_id: str) -> str:
    """Return an id of a file as the part of a key after the set; ids that differ have different names."""
    name = slug(case_id)[:60]
    return name if name == case_id else f"{name}-{hashlib.sha256(case_id.encode()).hexdigest()[:6]}".lstrip("-")


class _ConversationReader(LogReader):
    """Turns the conversations of one label into trials: each case of the file once, its conversations by number."""

    def __init__(self, how: ConversationImport, label: str, read: Sequence[ForeignConversation]) -> None:
        content = json.dumps([label, how.case_set, [list(vars(conversation).values()) for conversation in read]])
        self._fingerprint = hashlib.sha256(content.encode()).hexdigest()
        about = LogEval(created=datetime.fromtimestamp(time.time(), UTC).isoformat(), task=PROTOCOL, model=BY + label)
        super().__init__(LogHeader(status="success", eval=about), how.file, f"{PROTOCOL}-{self._fingerprint[:12]}")
        self._how, self._label, self._read = how, label, read
        self._trials: Counter[str] = Counter()

    def samples(self) -> Iterator[LogSample]:
        for conversation in self._read:
            # a conversation that names no case is alone with its case, also among the labels
            name = _name(conversation.case or f"{self._label} {conversation.id}")
            self._trials[name] += 1
            yield LogSample(
                id=name,
                epoch=self._trials[name],
                messages=[
                    LogMessage(role="user", content=message.text, metadata={"seat": message.seat})
                    for message in conversation.messages
                ],
                scores={"outcome": LogScore(value=conversation.outcome)} if conversation.outcome else None,
                metadata={"id": conversation.id},
                completed_at=conversation.ended_at and datetime.fromtimestamp(conversation.ended_at, UTC).isoformat(),
            )

    def seat(self, message: LogMessage) -> str:
        return str((message.metadata or {})["seat"])

    def header(self) -> RunHeader:
        cases = list(self.cases.values())
        return RunHeader(
            run_id=self.run_id,
            fingerprint=self._fingerprint,
            protocol=PROTOCOL,
            doctor=self.log.eval.model,
            patient=NOT_RECORDED,
            grader="",
            summariser="",
            prompt_pack=PROTOCOL,
            prompt_hash=PROTOCOL,
            case_set=self._how.case_set,
            case_set_hash=case_set_hash(cases),
            arms=[],
            trials=max(self._trials.values()),
            seed=0,
            settings={"log": self._how.file, WITHOUT: self._trials.total(), "masked": self._how.masking},
            code_version=PROTOCOL,
            source="imported",
            created_at=self._created,
            cases=cases,
        )

    def trial(self, sample: LogSample) -> TrialLine:
        case_key = f"{self._how.case_set}/{sample.id}"
        self.cases.setdefault(
            case_key,
            Case(
                case_key=case_key,
                dataset=self._how.case_set,
                specialty="Other",
                vignette=NO_CASE,
                question=NO_CASE,
                answer=NO_CASE,
                source=self._how.file,
            ),
        )
        number, ended_at = sample.epoch - 1, self.finished_at(sample)
        place = {"case_key": case_key, "trial": number, "seed": seed_of(0, case_key, number)}
        trial = trial_id(self.run_id, case_key, number)
        dialogue = list(self.messages(trial, sample.messages))
        events: list[Event] = [
            Started(trial_id=trial, at=self._created, **place),
            *dialogue,
            Ended(
                reason="not_recorded",
                doctor_turns=sum(isinstance(e, Utterance) and e.role == "doctor" and e.turn > 0 for e in dialogue),
                detail=f"conversation {sample.metadata['id']}",
            ),
            *self.foreign_scores(sample.scores or {}),
            Finished(at=ended_at),
        ]
        return TrialLine(run_id=self.run_id, trial_id=trial, events=events, finished_at=ended_at, **place)
