"""Stores the conversations of Inspect logs as runs with the source "imported", whose doctor is the model of the log.

A log that ``core.interchange.inspect_log`` wrote brings its cases, answers and grades back. Any other log brings its
conversations, its cases with the target as answer, and the model's last message as an answer that no grader of this
program has judged. Scores of other programs are stored as remarks on a conversation and are never verdicts.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field

from core.case import NO_INPUT, NO_TARGET, Case, case_set_hash
from core.datasets.archive import ArchiveLimits
from core.errors import AnamnesisError, UsageError
from core.events import (
    EVENTS,
    IMPORTED_SCORE,
    Answered,
    Assessed,
    Called,
    CallRecord,
    Ended,
    EndReason,
    Event,
    Failed,
    Finished,
    Format,
    Graded,
    QuestionType,
    Started,
    Summarised,
    Utterance,
)
from core.interchange.inspect_log import NAME, OF_CASE, VERSION, score_value
from core.interchange.inspect_reading import LogEval, LogHeader, LogMessage, LogSample, LogScore, open_log
from core.journal import JournalWriter, RunHeader, TrialLine, is_reserved, journal_path, seed_of, trial_id
from core.store.database import Store
from core.store.fold import check_journal, fold
from core.store.queries.runs import WATCHED, run_ids
from core.store.queries.trials import stored_trials

PROTOCOL = "inspect"
"""Stored as the framework of conversations that none of the frameworks here played."""
QUESTION = "What the task of the log asks for."
NOT_RECORDED = "not recorded"
BY = "imported/"
"""Before the label of version or arm in the name of a doctor: no model here has this name."""
_SEATS = {"user": "patient", "assistant": "doctor", "system": "system", "tool": "tool"}
"""Role of a message → the seat that speaks; system messages and tools are shown, and are nobody's words."""
_LIMITS_OF_MESSAGES = ("message", "turn")
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
"""A run's id is the name of a folder."""
_TRIAL_ID = re.compile(r"[\w.:/ -]{1,100}")
_UNSAFE = re.compile(r"[^a-z0-9_-]+")
_TOGETHER = 200
"""Trials that are written and synced together."""


class _OwnTrial(BaseModel):
    """What this program writes in the metadata of a sample."""

    seed: int
    status: Literal["finished", "failed"]
    case: dict[str, Any] | None = None
    events: list[dict[str, Any]] = Field(default_factory=list)
    failure: dict[str, Any] | None = None


class _OwnScore(BaseModel):
    """What this program writes in the metadata of a score."""

    format: Format
    question_type: QuestionType
    verdict: str
    answer: dict[str, Any] | None = None
    grades: list[dict[str, Any]] = Field(default_factory=list)

    @property
    def arm(self) -> dict[str, Any]:
        return {"format": self.format, "question_type": self.question_type}


@dataclass(frozen=True)
class ImportedLog:
    """An imported log: its run, and whether this program wrote it; ``new`` is false if the run was stored before."""

    name: str
    run_id: str
    doctor: str
    conversations: int = 0
    scores: int = 0
    own: bool = False
    new: bool = True
    status: str = "success"


def import_log(store: Store, path: Path, limits: ArchiveLimits, label: str = "") -> ImportedLog:
    """Import a log completely or not at all; a log whose run is stored already is left alone.

    A ``label`` of version or arm stands for the model of a log that this program did not write.

    Raises ``AnamnesisError`` as ``open_log`` does, and if samples contradict each other or stored trials.
    """
    with open_log(path, limits) as log:
        return store_log(store, _reader(log.header, log.name, label), log.samples)


def store_log(store: Store, reader: LogReader, samples: Iterable[LogSample]) -> ImportedLog:
    """Store the trials that a reader makes of samples as one run, completely or not at all.

    Raises ``AnamnesisError`` if there is no sample, or if a trial cannot be stored or is stored already.
    """
    fold(store)
    run_id, name = _free_id(store, reader.run_id), reader.name
    if run_id is None:
        return ImportedLog(name, reader.run_id, reader.log.eval.model, own=reader.own, new=False)
    reader.run_id = run_id
    folder = journal_path(run_id, store.journals).parent
    folder.mkdir(parents=True, exist_ok=True)
    head, body = folder / "imported.head", folder / "imported.body"
    try:
        with JournalWriter(body, "import the log again") as journal:
            for lines in _batches(reader.trials(samples)):
                journal.append_all(lines)
        if not reader.trial_ids:
            raise AnamnesisError(f"{name} has no sample.")
        _check_ids(store, reader.trial_ids, name)
        with JournalWriter(head, "import the log again") as journal:
            journal.append(reader.header())
        with head.open("ab") as whole, body.open("rb") as trials:
            shutil.copyfileobj(trials, whole)
        check_journal(head, name)
        os.replace(head, folder / "journal.jsonl")
    finally:
        for half in (head, body):
            half.unlink(missing_ok=True)
        with suppress(OSError):  # not empty: the journal is there
            folder.rmdir()
    fold(store)
    return ImportedLog(
        name, run_id, reader.log.eval.model, len(reader.trial_ids), reader.scores, reader.own, True,
        reader.log.status,
    )  # fmt: skip


def _batches(lines: Iterable[TrialLine]) -> Iterator[list[TrialLine]]:
    batch: list[TrialLine] = []
    for line in lines:
        batch.append(line)
        if len(batch) == _TOGETHER:
            yield batch
            batch = []
    yield batch


def _free_id(store: Store, run_id: str) -> str | None:
    """Return the id for a new run: another one if the run was deleted; ``None`` if the run is stored."""
    with store.read() as cursor:
        stored = set(run_ids(cursor))
    if run_id in stored:
        return None
    candidates = (run_id if number == 1 else f"{run_id}-{number}" for number in count(1))
    return next(name for name in candidates if not journal_path(name, store.journals).exists())


def _check_ids(store: Store, ids: set[str], name: str) -> None:
    with store.read() as cursor:
        stored = stored_trials(cursor, sorted(ids))
    if stored:
        first = next(iter(stored.values()))
        raise AnamnesisError(f"{name}: {len(stored):,} of its trials are stored already, in run {first.run_id}.")


def _reader(header: LogHeader, name: str, label: str) -> LogReader:
    own = (header.eval.metadata or {}).get(NAME)
    if not isinstance(own, dict) or not isinstance(own.get("run"), dict):
        about = header.eval.model_copy(update={"model": BY + label}) if label else header.eval
        return ForeignReader(header.model_copy(update={"eval": about}), name)
    if label:
        raise UsageError(f"{name} was written by this program and names its doctor: leave the label out.")
    if own.get("version") != VERSION:
        raise AnamnesisError(f"{name} was written by a newer version of this program: update, then import it.")
    return _OwnReader(header, name, own["run"])


class LogReader(ABC):
    """Turns the samples of a log into trials; ``cases`` and ``trial_ids`` are those so far."""

    own = False

    def __init__(self, header: LogHeader, name: str, run_id: str) -> None:
        self.log, self.name, self.run_id = header, name, run_id
        self.cases: dict[str, Case] = {}
        self.trial_ids: set[str] = set()
        self.scores = 0
        """Scores that are not verdicts."""
        self._created = seconds_of(header.eval.created)

    @abstractmethod
    def header(self) -> RunHeader:
        """Return the header of the run, when all samples have been read."""

    @abstractmethod
    def trial(self, sample: LogSample) -> TrialLine: ...

    def trials(self, samples: Iterable[LogSample]) -> Iterator[TrialLine]:
        for sample in samples:
            line = self.trial(sample)
            if line.trial_id in self.trial_ids:
                raise AnamnesisError(f"{self.name}: epoch {sample.epoch} of sample {sample.id} occurs twice.")
            self.trial_ids.add(line.trial_id)
            yield line

    def add_case(self, case: Case) -> None:
        if self.cases.setdefault(case.case_key, case) != case:
            raise AnamnesisError(f"{self.name}: the epochs of sample {case.case_key} are about different cases.")

    def foreign_scores(self, scores: Mapping[str, LogScore]) -> Iterator[Assessed]:
        """Yield scores as remarks on the conversation: a score with several values has one for each."""
        for name, score in scores.items():
            values = score.value if isinstance(score.value, dict) else {"": score.value}
            for part, value in values.items():
                self.scores += 1
                yield Assessed(
                    name=IMPORTED_SCORE,
                    values=(f"{name}.{part}" if part else name, _value_in_words(value)),
                    words=score.explanation or score.answer or "",
                )

    def messages(self, trial: str, messages: Iterable[LogMessage]) -> Iterator[Event]:
        """Yield the dialogue; the reasoning behind a message is a call without request, tokens and cost."""
        for turn, message in enumerate(messages):
            seat = self.seat(message)
            call_id = None
            if thoughts := "\n\n".join(_reasoning(message)):
                call_id = f"{trial}-{turn}"
                yield Called(
                    call=CallRecord(
                        call_id=call_id,
                        role=seat,
                        purpose="dialogue",
                        model=self.log.eval.model,
                        request={"messages": []},
                        reasoning=thoughts,
                        attempts=0,
                        cost_usd=0.0,
                        price_source="imported log",
                    )
                )
            yield Utterance(turn=turn, role=seat, text=_text(message), call_id=call_id)

    def seat(self, message: LogMessage) -> str:
        return _SEATS[message.role]

    def finished_at(self, sample: LogSample) -> float:
        return seconds_of(sample.completed_at) if sample.completed_at else self._created


class _OwnReader(LogReader):
    """Reads a log that this program wrote: nothing is inferred."""

    own = True

    def __init__(self, header: LogHeader, name: str, run: Mapping[str, Any]) -> None:
        super().__init__(header, name, _checked_id(_RUN_ID, run.get("run_id"), name))
        self._run = dict(run)
        self.header()  # raises for settings that cannot be read, before any sample is read

    def header(self) -> RunHeader:
        settings = {name: value for name, value in self._run.get("settings", {}).items() if name != "study"}
        source = "replay" if self._run.get("source") in (*WATCHED, "replay") else "imported"
        changed = {"run_id": self.run_id, "settings": settings | {"log": self.name}, "source": source}
        return RunHeader.model_validate({**self._run, **changed, "visitor": "", "cases": list(self.cases.values())})

    def seat(self, message: LogMessage) -> str:
        seat = (message.metadata or {}).get("seat")
        return seat if isinstance(seat, str) and _RUN_ID.fullmatch(seat) else super().seat(message)

    def trial(self, sample: LogSample) -> TrialLine:
        own = _OwnTrial.model_validate(sample.metadata.get(NAME))
        case_key, number = str(sample.id), sample.epoch - 1
        if own.case:
            of_sample = dict(zip(OF_CASE, (sample.input, sample.choices or (), sample.target), strict=True))
            self.add_case(Case.model_validate({**own.case, **of_sample}))
        started = {"case_key": case_key, "trial": number, "seed": own.seed}
        trial = _checked_id(_TRIAL_ID, sample.uuid or trial_id(self.run_id, case_key, number), self.name)
        ended_at = self.finished_at(sample)
        events = [
            *self._started(own, trial, started, ended_at),
            *self.messages(trial, sample.messages),
            *self._ended(sample.metadata),
            *self._others(own),
            *self._answers(sample),
            *([Finished(at=ended_at)] if own.status == "finished" else []),
        ]
        return TrialLine(run_id=self.run_id, trial_id=trial, events=events, finished_at=ended_at, **started)

    def _started(self, own: _OwnTrial, trial: str, place: Mapping[str, Any], ended_at: float) -> Iterator[Event]:
        stored: dict[str, Any] = next((event for event in own.events if event.get("kind") == "started"), {})
        yield Started.model_validate({"at": ended_at, **stored, "trial_id": trial, **place})

    def _ended(self, metadata: Mapping[str, Any]) -> Iterator[Event]:
        if reason := metadata.get("end_reason"):
            detail = metadata.get("end_detail") or ""
            yield Ended(reason=reason, doctor_turns=metadata.get("doctor_turns") or 0, detail=detail)
        if (summary := metadata.get("summary")) is not None:
            yield Summarised(text=summary)

    def _others(self, own: _OwnTrial) -> list[Event]:
        """Return the other events of the trial; a failure of a release stands apart, because it was no event."""
        others = [event for event in own.events if event.get("kind") != "started"]
        if own.failure and not any(event.get("kind") == "failed" for event in others):
            others.append({**own.failure, "kind": "failed"})
        return EVENTS.validate_python(others)

    def _answers(self, sample: LogSample) -> Iterator[Event]:
        """Yield answers and grades, and as remarks the scores that another program added or changed."""
        foreign: dict[str, LogScore] = {}
        for name, score in (sample.scores or {}).items():
            if NAME not in (score.metadata or {}):
                foreign[name] = score
                continue
            own = _OwnScore.model_validate((score.metadata or {})[NAME])
            if own.answer:
                yield Answered.model_validate({**own.answer, **own.arm})
            for grade in own.grades:
                yield Graded.model_validate({**grade, **own.arm})
            if _value_in_words(score.value) != _value_in_words(score_value(own.verdict)):
                foreign[f"{name} (changed)"] = score
        yield from self.foreign_scores(foreign)


class ForeignReader(LogReader):
    """Reads a log of another program: users are patients, the model is the doctor, its last message is the answer."""

    def __init__(self, header: LogHeader, name: str) -> None:
        about = header.eval
        identity = "\n".join((about.eval_id, about.run_id, about.task_id, about.created, about.task, about.model))
        self._fingerprint = hashlib.sha256(identity.encode()).hexdigest()
        super().__init__(header, name, f"{PROTOCOL}-{self._fingerprint[:12]}")
        self.case_set = f"{PROTOCOL}-{slug(about.dataset.name or about.task)}"[:41].rstrip("-")
        self._arms: dict[tuple[str, str], None] = {}
        self._epochs = 1

    def header(self) -> RunHeader:
        about, cases = self.log.eval, list(self.cases.values())
        roles = {role: model for role, model in (about.model_roles or {}).items() if not isinstance(model, list)}
        patient = next((roles[role].model for role in ("patient", "user") if role in roles), NOT_RECORDED)
        names = {"temperature": "temperature", "max_tokens": "max_tokens", "seed": "model_seed"}
        sampling = {ours: about.model_generate_config.get(theirs) for theirs, ours in names.items()}
        return RunHeader(
            run_id=self.run_id,
            fingerprint=self._fingerprint,
            protocol=PROTOCOL,
            doctor=about.model,
            patient=patient,
            grader="",
            summariser="",
            prompt_pack=about.task,
            prompt_hash=_hash_of_task(about),
            case_set=self.case_set,
            case_set_hash=case_set_hash(cases),
            arms=list(self._arms),
            trials=self._epochs,
            seed=0,
            settings={"task": about.task, "log": self.name, **{k: v for k, v in sampling.items() if v is not None}},
            code_version=" ".join(("inspect_ai", about.packages.get("inspect_ai", ""))).strip(),
            source="imported",
            created_at=self._created,
            cases=cases,
        )

    def trial(self, sample: LogSample) -> TrialLine:
        case, has_target = self._case(sample)
        self.add_case(case)
        self._epochs = max(self._epochs, sample.epoch)
        number = sample.epoch - 1
        place = {"case_key": case.case_key, "trial": number, "seed": seed_of(0, case.case_key, number)}
        trial = trial_id(self.run_id, case.case_key, number)
        dialogue = list(self.messages(trial, sample.messages))
        spoken = [event for event in dialogue if isinstance(event, Utterance) and event.role == "doctor"]
        ended_at = self.finished_at(sample)
        events: list[Event] = [Started(trial_id=trial, at=self._created, **place), *dialogue]
        if sample.messages:
            reason, detail = self.end(sample)
            events.append(Ended(reason=reason, doctor_turns=sum(m.turn > 0 for m in spoken), detail=detail))
        if has_target:
            self._arms["closing", "mcq" if case.choices else "frq"] = None
        if sample.error:
            events.append(Failed(where="log", failure="error", message=sample.error.message[:1000] or "not recorded"))
        elif has_target:
            events.append(closing_answer(case, spoken))
        events += self.foreign_scores(sample.scores or {})
        events += [] if sample.error else [Finished(at=ended_at)]
        return TrialLine(run_id=self.run_id, trial_id=trial, events=events, finished_at=ended_at, **place)

    def end(self, sample: LogSample) -> tuple[EndReason, str]:
        """Return why the conversation ended, and the details."""
        limit = sample.limit.type if sample.limit else ""
        reason: EndReason = "turn_cap" if limit in _LIMITS_OF_MESSAGES else "not_recorded"
        return reason, f"limit of the log: {limit}" if limit else ""

    def _case(self, sample: LogSample) -> tuple[Case, bool]:
        """Return the case of a sample, and whether it has a target."""
        targets = [sample.target] if isinstance(sample.target, str) else sample.target
        targets = [text.strip() for text in targets if text.strip()]
        choices = tuple(sample.choices or ())
        if choices and len(targets) == 1 and len(targets[0]) == 1 and 0 <= ord(targets[0].upper()) - 65 < len(choices):
            targets = [choices[ord(targets[0].upper()) - 65]]
        specialty = sample.metadata.get("specialty")
        text = sample.input if isinstance(sample.input, str) else "\n\n".join(map(_text, sample.input))
        case = Case(
            case_key=f"{self.case_set}/{name_of(str(sample.id))}",
            dataset=self.case_set,
            specialty=specialty if isinstance(specialty, str) and specialty.strip() else "Other",
            vignette=text.strip() or NO_INPUT,
            question=QUESTION,
            choices=choices,
            answer=targets[0] if targets else NO_TARGET,
            synonyms=tuple(targets[1:]),
            source=f"Inspect log of {self.log.eval.task}",
        )
        return case, bool(targets)


def name_of(sample_id: str) -> str:
    """Return an id as the part of a key after the data set: ids that differ, in whatever letters, have other names."""
    name = slug(sample_id)[:60]
    return name if name == sample_id else f"{name}-{hashlib.sha256(sample_id.encode()).hexdigest()[:6]}".lstrip("-")


def _hash_of_task(about: LogEval) -> str:
    """Return a hash of all that a log says of its task: runs of tasks that differ are different conditions."""
    roles = {role: str(model) for role, model in (about.model_roles or {}).items()}
    task = [about.task, about.task_version, about.task_args, about.solver, about.solver_args, roles]
    return hashlib.sha256(json.dumps(task, sort_keys=True).encode()).hexdigest()[:16]


def closing_answer(case: Case, spoken: list[Utterance]) -> Answered:
    """Return the model's last message as its answer, which counts in no accuracy until a grader judges it."""
    arm: dict[str, Any] = {"format": "closing", "question_type": "mcq" if case.choices else "frq"}
    if spoken:
        return Answered(response=spoken[-1].text, **arm)
    return Answered(response=None, status="invalid", reason="ungradable", detail="the log has no reply", **arm)


def _text(message: LogMessage) -> str:
    """Return the words of a message; a part that is no text is named in brackets."""
    if isinstance(message.content, str):
        parts = [message.content]
    else:
        parts = [
            str(part.get("text", "")) if part.get("type") == "text" else f"[{part.get('type', 'part')}]"
            for part in message.content
            if part.get("type") != "reasoning"
        ]
    for call in message.tool_calls or ():
        parts.append(f"[{call.get('function', 'tool')}({json.dumps(call.get('arguments', {}), ensure_ascii=False)})]")
    return "\n".join(part for part in parts if part or len(parts) == 1)


def _reasoning(message: LogMessage) -> Iterator[str]:
    if not isinstance(message.content, str):
        for part in message.content:
            if part.get("type") == "reasoning":
                yield str((part.get("summary") if part.get("redacted") else part.get("reasoning")) or "")


def _value_in_words(value: Any) -> str:
    if isinstance(value, float) and math.isnan(value):
        return "unscored"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def slug(text: str) -> str:
    return _UNSAFE.sub("-", text.lower()).strip("-")


def _checked_id(pattern: re.Pattern[str], text: object, name: str) -> str:
    if not isinstance(text, str) or not pattern.fullmatch(text) or (pattern is _RUN_ID and is_reserved(text)):
        raise AnamnesisError(f"{name}: {str(text)[:60]!r} is no id of this program.")
    return text


def seconds_of(moment: str) -> float:
    """Return seconds since 1970 (UTC) of a time in ISO 8601; raises ``ValueError`` for another text."""
    parsed = datetime.fromisoformat(moment)
    seconds = (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()
    return min(seconds, time.time())
