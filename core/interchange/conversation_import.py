"""Stores conversations from elsewhere as runs with the source "imported", one run for each label of version or arm.

They are stored as the conversations of an Inspect log are (``core.interchange.inspect_import``), under a condition that
no played conversation has. They come without vignette and right answer, so that no case is stored for them: one is
attached by its id afterwards.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path

from core.case import Case
from core.datasets.archive import ArchiveLimits
from core.datasets.conversations.conversation import ForeignConversation
from core.datasets.conversations.personal import masked
from core.errors import AnamnesisError, UsageError
from core.events import EndReason
from core.interchange.inspect_import import BY, ForeignReader, ImportedLog, closing_answer, name_of, slug, store_log
from core.interchange.inspect_reading import LogEval, LogHeader, LogMessage, LogSample, LogScore, open_log
from core.journal import GradesLine, RunHeader, append_shared, journal_path
from core.store.database import Store
from core.store.fold import fold
from core.store.inserts import ATTACHED
from core.store.queries.case_labels import add_labels, labels_in_force
from core.store.queries.runs import header_of, run_records
from core.store.queries.trials import conversations
from core.store.queries.utterances import utterances_of
from core.store.selection import Selection
from core.store.tables import CaseLabelRow

PROTOCOL = "conversations"
"""Stored as the framework of these conversations; also the usual name of the set of their cases."""


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

    def by_label(self, read: Iterable[ForeignConversation]) -> dict[str, list[ForeignConversation]]:
        """Return label with version → its conversations; the label is empty if there is neither."""
        labels: dict[str, list[ForeignConversation]] = {}
        for conversation in read:
            labels.setdefault(f"{self.label} {conversation.version}".strip(), []).append(conversation)
        return labels

    def known(self, store: Store, read: Iterable[ForeignConversation]) -> str:
        """Return a sentence about the labels that have conversations already; empty if none has."""
        with store.read() as cursor:
            doctors = {run.doctor for run in run_records(cursor, sources=["imported"])}
        known = ", ".join(label for label in self.by_label(read) if BY + label in doctors)
        return known and f"Conversations of {known} are stored: those of another file are a condition of their own."


def import_conversations(
    store: Store, read: Sequence[ForeignConversation], how: ConversationImport
) -> list[ImportedLog]:
    """Store conversations, a run for each label; a run that is stored already is left alone.

    Each run is stored completely or not at all. Raises ``UsageError`` for a conversation without a label, or a set of
    cases whose name cannot be part of an id.
    """
    if slug(how.case_set) != how.case_set or not how.case_set:
        raise UsageError(f"{how.case_set!r} cannot name cases: use small letters, digits, - and _.")
    by_label = how.by_label(read)
    if "" in by_label:
        raise UsageError("Name the version or arm of these conversations (--label), or a column that has it.")
    readers = [_ConversationReader(how, label, of_label) for label, of_label in by_label.items()]
    return [store_log(store, reader, reader.samples()) for reader in readers]


def is_log(path: Path) -> bool:
    """Return whether a file is a log of Inspect, or should be one by its name."""
    with suppress(AnamnesisError), open_log(path, ArchiveLimits()):
        return True
    return path.suffix == ".eval"


def cases_by_id(cases: Iterable[Case]) -> dict[str, Case]:
    """Return cases by what a file may call them: the whole key, and the part after the data set."""
    return {name: case for case in cases for name in (case.case_key, case.case_key.partition("/")[2])}


def attach_cases(store: Store, run_id: str, cases: Mapping[str, Case]) -> int:
    """Attach cases (id → case) to the conversations of a run that name them and have none; return their number.

    Judgements stay. The last message of the doctor becomes an answer, which a grader may judge. Labels of the cases
    come along; those that were given later, if the same cases are attached again. Raises ``UsageError`` for a run that
    was not imported.
    """
    by_name = {name_of(case_id): case for case_id, case in cases.items()}
    attached: dict[str, Case] = {}
    answers: list[GradesLine] = []
    labels: dict[str, list[CaseLabelRow]] = {}
    with store.read() as cursor:
        of_cases = labels_in_force(cursor, [case.case_key for case in cases.values()])
        header = header_of(cursor, run_id)
        if header is None or header.source != "imported":
            raise UsageError(f"{run_id} is no run of imported conversations.")
        for trial in conversations(cursor, Selection(runs=[run_id]), limit=None):
            data_set, _, name = trial.case_key.partition("/")
            if (case := by_name.get(name)) is None:
                continue
            of_case = of_cases.get((case.case_key, case.text_hash), {}).values()
            labels[trial.case_key] = [replace(label, case_key=trial.case_key) for label in of_case]
            if trial.answer is None:
                # nobody was offered choices
                changes = {"case_key": trial.case_key, "dataset": data_set, "choices": ()}
                attached[trial.case_key] = case = case.model_copy(update=changes)
                said = [message for message in utterances_of(cursor, trial.trial_id) if message.role == "doctor"]
                answer = closing_answer(case, said)
                answers.append(GradesLine(run_id=run_id, trial_id=trial.trial_id, grades=[], answers=[answer]))
    if attached:
        settings = {**header.settings, ATTACHED: time.time()}
        again = header.model_copy(update={"cases": list(attached.values()), "settings": settings})
        append_shared(journal_path(run_id, store.journals), [again, *answers])
        fold(store)
    add_labels(store, chain.from_iterable(labels.values()))
    return len(answers)


class _ConversationReader(ForeignReader):
    """Turns the conversations of one label into trials, as if a log had them, without input and target."""

    def __init__(self, how: ConversationImport, label: str, read: Sequence[ForeignConversation]) -> None:
        now = datetime.fromtimestamp(time.time(), UTC).isoformat()
        about = LogEval(created=now, task=PROTOCOL, model=BY + label)
        super().__init__(LogHeader(status="success", eval=about), how.file)
        digest = hashlib.sha256(repr((label, how.case_set, how.masking)).encode())
        for conversation in read:
            digest.update(repr(conversation).encode())
        self._fingerprint = digest.hexdigest()
        self.run_id, self.case_set = f"{PROTOCOL}-{self._fingerprint[:12]}", how.case_set
        self._how, self._label, self._read = how, label, read

    def samples(self) -> Iterator[LogSample]:
        trials: Counter[str] = Counter()
        written: Callable[[str], str] = masked if self._how.masking else str
        for conversation in self._read:
            name = conversation.case
            if not name:  # it is alone with its case, also among other files of its label
                differs = hashlib.sha256((self._fingerprint + conversation.id).encode()).hexdigest()[:6]
                name = f"{slug(f'{self._label} {conversation.id}')[:53]}-{differs}"
            trials[name] += 1
            yield LogSample(
                id=name,
                epoch=trials[name],
                messages=[
                    LogMessage(role="user", content=written(message.text), metadata={"seat": message.seat})
                    for message in conversation.messages
                ],
                scores={"outcome": LogScore(value=conversation.outcome)} if conversation.outcome else None,
                metadata={"id": conversation.id},
                completed_at=conversation.ended_at and datetime.fromtimestamp(conversation.ended_at, UTC).isoformat(),
            )

    def seat(self, message: LogMessage) -> str:
        return str((message.metadata or {})["seat"])

    def end(self, sample: LogSample) -> tuple[EndReason, str]:
        return "not_recorded", f"conversation {sample.metadata['id']}"

    def header(self) -> RunHeader:
        settings = {"log": self._how.file, "masked": self._how.masking}
        changes = {"protocol": PROTOCOL, "prompt_hash": PROTOCOL, "code_version": PROTOCOL, "settings": settings}
        return super().header().model_copy(update=changes)
