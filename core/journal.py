"""The journal of a job: a JSON line for each model reply when it arrives, and for everything that results from them.

Lines are written completely and synced, several together if several wait. A line that a crash cut off is not valid and
is dropped at the next start. The record of a call is stored once, in its reply line; a finished trial refers to its id.
A call is stored without the messages that an earlier call of its unit has (``core.short_calls``), so that a journal
grows with the text of a conversation.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import mmap
import os
import queue
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, Literal

import orjson
from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from core import access, paths
from core.bounds import BigInt, Int, Moment, Row, Trials
from core.case import Case
from core.errors import AnamnesisError
from core.events import Answered, Called, CallRecord, Event, Graded, Parent, Purpose, RoleName, Speaker
from core.short_calls import NewestCalls, followed, whole_call
from core.words import fault_of

PRIVATE = ("live", "fork", "bench")
"""Sources of private runs, which belong to a visitor."""
IMPORTED = ("imported", "replay")
"""Sources of runs from logs; ``replay`` is a conversation that somebody watched or branched, which no figure counts."""
PLAYED_ELSEWHERE = ("release", *IMPORTED)
"""Sources of runs that other programs or databases played: their calls are not here, and they cannot be resumed."""


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True)


class FirstRequest(_Line):
    """The request with which a branch begins: of a role for a purpose the ``number``-th, from 0.

    It is sent with ``messages``, which are as ``CallRecord.request`` stores them; without any it is not edited.
    ``title`` names the step.
    """

    role: RoleName
    purpose: Purpose
    number: int = 0
    title: str
    messages: list[dict[str, Any]] = Field(default_factory=list)


class BranchOrigin(_Line):
    """Where a branch leaves its parent, a conversation of the run ``run_id``: the messages ``kept`` from it."""

    run_id: str
    parent: Parent
    kept: list[tuple[Speaker, str]]
    request: FirstRequest | None = None


class Edit(_Line):
    """The run whose arms are run again with an edited case, and the key of the original case, which seeds depend on."""

    run_id: str
    case_key: str


SCHEMA = 2
"""Schema version of the lines of runs, trials and grades. Lines of version 1 do not have the field; their ``mcq_many``
is now called ``mcq_answers``."""


RUBRIC_SCORES = "rubric_scores"
"""The primary outcome that is no arm: the score by the rubric of the cases."""
USUAL_MARGIN = 0.05


class StatedJudge(_Line):
    """Whose judgements give the score by a rubric.

    ``form`` and ``version`` are the rubric, as ``rubric:NAME``, and the hash of its criteria; ``name`` and
    ``prompt_hash`` are the judge's (``core.judging.judgement.Judge``).
    """

    form: str
    version: str
    name: str
    prompt_hash: str

    def __str__(self) -> str:
        return f"{self.name} (prompts {self.prompt_hash[:6]}, {self.form} in version {self.version[:8]})"


class Hypothesis(_Line):
    """What a run is to show, stated before its first call.

    ``primary`` is the outcome: accuracy in an arm ("format:question_type"), or ``RUBRIC_SCORES``, whose ``judge`` is
    ``None`` in runs of earlier versions. ``margin`` is the accepted loss against a reference, 0 to 1; ``against`` is
    the reference run, if it is stated. The journal is a file of the user: it proves nothing to others.
    """

    text: str = Field(min_length=1)
    primary: str = Field(min_length=1)
    margin: float = Field(gt=0, lt=1)
    against: str = ""
    judge: StatedJudge | None = None

    @property
    def outcome(self) -> str:
        return f"{self.primary}, judged by {self.judge}" if self.judge else self.primary

    def __str__(self) -> str:
        return f"“{self.text}” (primary outcome {self.outcome}, margin {self.margin:g})"


class RunHeader(_Line):
    """The first line of a run's journal: cast, settings and cases."""

    type: Literal["run"] = "run"
    run_id: str
    fingerprint: str
    protocol: str
    doctor: str
    patient: str
    grader: str
    summariser: str
    prompt_pack: str
    prompt_hash: str
    case_set: str
    case_set_hash: str
    arms: list[tuple[str, str]]
    trials: Trials
    seed: BigInt
    settings: dict[str, object] = Field(default_factory=dict)
    code_version: str
    source: Literal["local", "live", "release", "imported", "replay", "bench", "fork"] = "local"
    created_at: Moment
    many_choices: list[str] = Field(default_factory=list)
    """The choices of ``mcq_many``: those of the complete data set, even if only some of its cases are run."""
    cases: list[Case] = Field(default_factory=list)
    """The cases themselves, so that a run can be resumed and read wherever its journal is."""
    fork: BranchOrigin | None = None
    """The origin of a branch; stored under the name that branches had in version 0.1."""
    edited: Edit | None = None
    schema_version: int = SCHEMA
    visitor: str = ""
    """The person who started the run on a server with a login; empty without a login."""
    data_set_hash: str = ""
    """Hash of the complete data set of the cases; empty if it was not recorded."""
    data_set_cases: BigInt = 0
    """Number of cases of the data set; 0 if it was not recorded."""
    hypothesis: Hypothesis | None = None

    @property
    def first_request(self) -> FirstRequest | None:
        """The request with which the trials of this run begin, if it is a branch from a request."""
        return self.fork.request if self.fork else None

    @property
    def first_trial(self) -> int:
        """The number of the first trial of each case: 0, unless the run extends another (``core.jobs.extending``)."""
        return int(str(self.settings.get("first_trial", 0)))

    @property
    def owner(self) -> str:
        """Owner of a private run (consultation, branch, debugger); empty for public runs."""
        return self.visitor if self.source in PRIVATE else ""


class TrialLine(_Line):
    """One finished trial with all its events, except passing ones."""

    type: Literal["trial"] = "trial"
    run_id: str
    trial_id: str
    case_key: str
    trial: Trials
    seed: BigInt
    events: list[Annotated[Event, Field(discriminator="kind")]]
    finished_at: Moment
    schema_version: int = SCHEMA
    paid: frozenset[str] = Field(default=frozenset(), exclude=True)
    """Ids of calls with a reply line in this journal; the trial line has only their ids.

    If ``read_lines`` starts after these reply lines, the records of the calls are empty.
    """


class ReplyLine(_Line):
    """One call of a model, written as soon as it succeeded or failed.

    ``trial_id`` is the trial of the call, or its job. ``unit`` is the piece of work that made the call: if it is run
    again, it gets the same replies. ``key`` identifies the request (``core.asking.memory``), ``number`` counts earlier
    equal requests of the unit, and ``place`` counts earlier calls of the unit. The call may be short
    (``core.short_calls``): it follows a call of the same unit in an earlier line of the same journal.
    """

    type: Literal["reply"] = "reply"
    run_id: str
    trial_id: str
    unit: str
    key: str
    number: Int
    place: Int
    call: CallRecord


class SpokenLine(_Line):
    """A message of a person in a live consultation, written before the others reply to it.

    A resumed consultation enters these messages again, in their order.
    """

    type: Literal["spoken"] = "spoken"
    run_id: str
    trial_id: str
    role: Speaker
    text: str
    at: Moment
    """Seconds since 1970 (UTC)."""


class GradesLine(_Line):
    """New verdicts on answers of a stored trial (a re-grading), and answers read in its conversation later."""

    type: Literal["grades"] = "grades"
    run_id: str
    trial_id: str
    grades: list[Graded]
    answers: list[Answered] = Field(default_factory=list)
    unit: str = ""
    """The piece of work that this line completes: its replies are used up."""
    schema_version: int = SCHEMA


class DeletedLine(_Line):
    """Deletes a trial of this journal from the database.

    Its calls stay, because their cost was paid.
    """

    type: Literal["deleted"] = "deleted"
    run_id: str
    trial_id: str


class RunDeletedLine(_Line):
    """Deletes the run of this journal with all its trials from the database, except calls."""

    type: Literal["run_deleted"] = "run_deleted"
    run_id: str


class RowLine(_Line):
    """A result of a job other than a trial or verdict: a row of ``table`` (``core.store.tables``).

    Such jobs have separate journals without the header of a run.
    """

    type: Literal["row"] = "row"
    table: str
    row: Row
    unit: str = ""
    """The piece of work that this line completes: its replies are used up."""


class DoneLine(_Line):
    """A piece of work without a result: its replies are used up, and another attempt makes new calls."""

    type: Literal["done"] = "done"
    run_id: str
    unit: str


class WrittenLine(_Line):
    """A row that a person wrote, with its parts for some kinds (a review and its items).

    ``kind`` determines the tables (``core.store.written``), ``what`` is column → value. ``by`` is the name of the
    author, empty without a login; ``at`` is in seconds since 1970 (UTC). A line never changes: a newer line replaces
    it, and a ``WithdrawnLine`` withdraws it.
    """

    type: Literal["written"] = "written"
    line_id: str
    kind: str
    at: Moment
    by: str = ""
    what: Row


class WithdrawnLine(_Line):
    """Withdraws lines of people, or deletes rows of jobs that people can edit; ``lines`` are their ids."""

    type: Literal["withdrawn"] = "withdrawn"
    line_id: str
    at: Moment
    by: str = ""
    reason: str = ""
    lines: list[str]


JournalLine = (
    RunHeader
    | TrialLine
    | ReplyLine
    | SpokenLine
    | GradesLine
    | DeletedLine
    | RunDeletedLine
    | RowLine
    | DoneLine
    | WrittenLine
    | WithdrawnLine
)
_LINE: TypeAdapter[JournalLine] = TypeAdapter(Annotated[JournalLine, Field(discriminator="type")])


def trial_id(run_id: str, case_key: str, number: int) -> str:
    """Return the id of a trial: the same for the same run, case and number."""
    return hashlib.sha256(f"{run_id}\n{case_key}\n{number}".encode()).hexdigest()[:20]


def seed_of(seed: int, case_key: str, number: int) -> int:
    """Return the seed of a trial, which does not depend on the order in which trials run."""
    return int.from_bytes(hashlib.sha256(f"{seed}\n{case_key}\n{number}".encode()).digest()[:4], "big") >> 1


OF_JOBS = (
    "people", "questions", "variants", "batches", "checking", "completions", "items", "judging", "openings", "profiles",
    "rating", "rubrics", "solving", "specialties", "urgency",
)  # fmt: skip
"""Names of journals of jobs and people, and what their names begin with before a dash."""


def is_reserved(run_id: str) -> bool:
    """Return whether the id of a run would be the name of a journal of jobs or people."""
    return run_id.partition("-")[0].casefold() in OF_JOBS


def journal_path(run_id: str, folder: Path | None = None) -> Path:
    """Return the path of the journal of a run or job, by default in the folder of all journals."""
    return (folder or paths.journals_folder()) / run_id / "journal.jsonl"


_RESERVED = 4_000_000
"""Bytes that a job reserves next to its journal for replies that are in flight when the disk becomes full."""
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Error numbers of a full disk or an exceeded quota."""


def no_room(error: OSError, place: Path) -> str:
    """Return why nothing more can be written at a path, and the free space of its disk."""
    while not place.exists() and place != place.parent:
        place = place.parent
    with suppress(OSError):
        return f"{error.strerror}; {shutil.disk_usage(place).free / 1e6:,.1f} MB are free there"
    return error.strerror or str(error)


@contextmanager
def writable(place: Path) -> Iterator[None]:
    """Raise ``AnamnesisError`` if the block fails because a disk is full or a folder is read-only."""
    try:
        yield
    except OSError as error:
        if error.errno in NO_ROOM:
            raise AnamnesisError(
                f"{place} cannot be written ({no_room(error, place)}): make room, then try again."
            ) from error
        if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise
        raise AnamnesisError(
            f"{place} cannot be written ({error.strerror}): existing data can be read, but nothing "
            "can be run, graded or changed. Set ANAMNESIS_DB to a file in a folder of yours to work there."
        ) from error


class JournalWriter(AbstractContextManager["JournalWriter"]):
    """Appends lines; each is on disk when ``append`` returns.

    ``then`` is the advice in error messages for the time when the journal can be written again.
    """

    def __init__(self, path: Path, then: str = "resume the run") -> None:
        self._path, self._then = path, then
        with writable(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
            _drop_torn_line(path)
            self._file = path.open("a+b", buffering=0)

    def append(self, line: JournalLine) -> None:
        """Write and sync one line; an incomplete line is removed."""
        self.append_all([line])

    def append_all(self, lines: Sequence[JournalLine]) -> str:
        """Write lines and sync them together; if that fails, all of them are removed and the error is raised.

        Returns a reason to stop although the lines are written, else an empty string: the reserved space had to be
        used, or the journal was deleted and has been restored from the open file.
        """
        data = b"".join(line_bytes(line) for line in lines)
        try:
            self._append(data)
        except OSError as error:
            full = error.errno in NO_ROOM
            reason = no_room(error, self._path) if full else error.strerror
            advice = "make room" if full else f"see that {self._path.parent} can be written"
            message = f"The journal {self._path} cannot be written ({reason}): {advice}, then {self._then}."
            reserved = self._path.with_name("room")
            if error.errno not in NO_ROOM or not reserved.exists():
                raise AnamnesisError(message) from error
            reserved.unlink()
            try:
                self._append(data)
            except OSError:
                raise AnamnesisError(message) from error
            return message
        if os.fstat(self._file.fileno()).st_nlink:
            return ""
        deleted = self._file
        deleted.seek(0)
        message = f"The journal {self._path} was deleted while the run went on"
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with deleted, self._path.open("xb") as restored:
                shutil.copyfileobj(deleted, restored)
                os.fsync(restored.fileno())
            self._file = self._path.open("a+b", buffering=0)
        except OSError as error:
            raise AnamnesisError(f"{message}, and cannot be restored ({error.strerror}): use a backup.") from error
        return f"{message}. It is restored completely: see that its folder stays, then resume the run."

    def _append(self, data: bytes) -> None:
        end, remaining = self._file.seek(0, os.SEEK_END), memoryview(data)
        try:
            while remaining:  # a full disk writes the beginning of a line before it raises
                remaining = remaining[self._file.write(remaining) :]
            os.fsync(self._file.fileno())
        except OSError:
            with suppress(OSError):  # otherwise the next start drops the incomplete line
                self._file.truncate(end)
            raise

    def close(self) -> None:
        self._file.close()

    def __exit__(self, *_: object) -> None:
        self.close()


def line_bytes(line: JournalLine) -> bytes:
    if not isinstance(line, TrialLine):
        return orjson.dumps(line.model_dump(mode="json")) + b"\n"
    events = [
        {"kind": "called", "call_id": event.call.call_id}
        if isinstance(event, Called) and event.call.call_id in line.paid
        else event.model_dump(mode="json")
        for event in line.events
    ]
    return orjson.dumps({**line.model_dump(mode="json", exclude={"events"}), "events": events}) + b"\n"


_Waiting = tuple[Sequence[JournalLine], "asyncio.Future[None]"]


class Journal:
    """A journal for many tasks of one event loop; lines that wait for the disk share a sync.

    The file is created with the first line; a new journal begins with ``header``. ``shared``: other writers, also of
    other processes, append to it occasionally (``append_shared``). ``broken`` is called with the reason if writing
    should stop, so that no further calls are paid for; space for replies in flight is reserved.
    """

    def __init__(
        self,
        path: Path,
        header: RunHeader | None = None,
        *,
        shared: bool = False,
        broken: Callable[[str], object] | None = None,
    ) -> None:
        self._path, self._header, self._shared, self._broken = path, header, shared, broken
        self._waiting: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    async def append(self, *lines: JournalLine) -> None:
        """Write lines; they are on disk when this returns, and are written even if the caller is cancelled.

        Raises ``AnamnesisError`` if they cannot be written.
        """
        loop = asyncio.get_running_loop()
        written = loop.create_future()
        if self._thread is None:  # a thread writes even while rule-based agents block the event loop
            self._thread = threading.Thread(target=self._write, args=(loop,), name="journal", daemon=True)
            self._thread.start()
        self._waiting.put((lines, written))
        try:
            await asyncio.shield(written)
        except AnamnesisError as error:
            if self._broken is not None:
                self._broken(str(error))
            raise

    async def close(self) -> None:
        if self._thread is not None:
            self._waiting.put(None)
            await asyncio.to_thread(self._thread.join)
            self._thread = None
        self._path.with_name("room").unlink(missing_ok=True)

    async def __aenter__(self) -> Journal:
        if self._broken is not None and self._path.parent.exists() and hasattr(os, "posix_fallocate"):
            with writable(self._path.parent), self._path.with_name("room").open("wb") as room:
                os.posix_fallocate(room.fileno(), 0, _RESERVED)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _write(self, loop: asyncio.AbstractEventLoop) -> None:
        writer: JournalWriter | None = None
        closing = False
        while not closing:
            batch = [self._waiting.get()]
            while not self._waiting.empty():
                batch.append(self._waiting.get())
            closing = None in batch
            entries = [entry for entry in batch if entry is not None]
            error: Exception | None = None
            lines = [line for new, _ in entries for line in new]
            try:
                if self._shared and lines:
                    append_shared(self._path, lines)
                elif writer is None and lines:
                    writer = JournalWriter(self._path)
                    if self._header is not None and self._path.stat().st_size == 0:
                        lines = [self._header, *lines]
                if writer is not None and lines and (reason := writer.append_all(lines)) and self._broken is not None:
                    loop.call_soon_threadsafe(self._broken, reason)
            except Exception as problem:
                error = problem
            loop.call_soon_threadsafe(_resolve, [written for _, written in entries], error)
            del batch, entries, lines  # otherwise they stay in memory until the next lines
        if writer is not None:
            writer.close()


def _resolve(waiting: Sequence[asyncio.Future[None]], error: Exception | None) -> None:
    for written in waiting:
        if written.done():
            continue
        if error is None:
            written.set_result(None)
        else:
            written.set_exception(error)
            written.exception()  # marks it as retrieved: the caller may have been cancelled


def append_shared(path: Path, lines: Sequence[JournalLine], then: str = "resume the run") -> None:
    """Append lines to a journal that several processes write to occasionally, under a lock."""
    with writable(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.parent / "running.lock"), JournalWriter(path, then) as journal:
            journal.append_all(lines)


def in_use(path: Path) -> bool:
    """Return whether a process has the lock of the run or job of this journal."""
    lock = FileLock(path.parent / "running.lock")
    if not Path(lock.lock_file).exists():
        return False
    try:
        with lock.acquire(timeout=0):
            return False
    except Timeout:
        return True
    except OSError:  # in a read-only folder nothing runs
        return False


def _drop_torn_line(path: Path) -> None:
    if not path.exists():
        return
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        position = size
        while position > 0:
            step = min(65_536, position)
            file.seek(position - step)
            block = file.read(step)
            newline = block.rfind(b"\n")
            if newline >= 0:
                file.truncate(position - step + newline + 1)
                return
            position -= step
        file.truncate(0)


def read_lines(
    path: Path, start: int = 0, about: Sequence[str] = (), *, whole: bool = True
) -> Iterator[tuple[int, JournalLine]]:
    """Yield (offset after the line, line) for every complete line from byte ``start``.

    ``about`` selects lines that contain one of these texts. An incomplete last line is ignored; a damaged line, or one
    of a version before 0.4, raises ``AnamnesisError`` with its position. A trial gets its calls from the reply lines
    before it, if they are after ``start``. With ``whole``, short calls get their messages from the earlier lines, also
    from those before ``start`` and those not selected.
    """
    paid: dict[str, CallRecord] = {}
    newest: dict[str, NewestCalls] = {}
    patterns, offset = [text.encode() for text in about], start
    with path.open("rb") as file:
        file.seek(start)
        for raw in file:
            if not raw.endswith(b"\n"):
                return
            offset += len(raw)
            if patterns and not any(pattern in raw for pattern in patterns):
                continue
            try:
                fields = orjson.loads(raw)
                if isinstance(fields, dict) and (fields.get("type") == "judged" or fields.get("calls")):
                    raise AnamnesisError(
                        f"The journal {path} was written by an Anamnesis before 0.4, which this one does not read: "
                        "take it into a database with version 0.5, then open that database with this version."
                    )
                if isinstance(fields, dict) and fields.get("type") in ("run", "trial", "grades"):
                    fields = _migrated(fields)
                if isinstance(fields, dict) and fields.get("type") == "trial":
                    fields = _with_calls(fields, paid)
                line = _LINE.validate_python(fields)
                if isinstance(line, ReplyLine) and whole:
                    of_unit = newest.setdefault(line.unit, NewestCalls())
                    if earlier := followed(line.call.request):
                        call = of_unit.find(earlier) or _call_before(path, earlier, offset - len(raw))
                        line = line.model_copy(update={"call": whole_call(line.call, call)})
                    of_unit.add(line.call)
            except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
                raise damaged(path, offset, error) from error
            if isinstance(line, ReplyLine) and line.unit == line.trial_id:  # other calls are not referred to by trials
                paid[line.call.call_id] = line.call
            elif isinstance(line, (TrialLine, GradesLine, RowLine, DoneLine)):
                newest.pop(line.trial_id if isinstance(line, TrialLine) else line.unit, None)
            yield offset, line


def _call_before(path: Path, call_id: str, end: int) -> CallRecord | None:
    """Return a whole call from the lines of a journal before byte ``end``; ``None`` if it is not there."""
    calls: list[CallRecord] = []
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        while call_id:
            position = data.rfind(b'"call":{"call_id":%b,' % orjson.dumps(call_id), 0, end)
            if position < 0:
                break
            end = data.rfind(b"\n", 0, position) + 1
            calls.append(CallRecord.model_validate(orjson.loads(data[end : data.find(b"\n", position)])["call"]))
            call_id = followed(calls[-1].request)
    whole: CallRecord | None = None
    for call in reversed(calls):
        whole = whole_call(call, whole) if followed(call.request) else call
    return whole


def with_whole_call(path: Path, reply: dict[str, Any], start: int) -> bytes:
    """Return the reply line at byte ``start`` with its whole call, for a journal without the line that it follows."""
    line = ReplyLine.model_validate(reply)
    call = whole_call(line.call, _call_before(path, followed(line.call.request), start))
    return line_bytes(line.model_copy(update={"call": call}))


def damaged(path: Path, end: int, error: Exception) -> AnamnesisError:
    """Return the error about a line of a journal that cannot be read; ``end`` is the byte at which the line ends."""
    return AnamnesisError(
        f"The journal {path} is damaged in the line that ends at byte {end}: restore it from a backup, or take this "
        f"line out and resume the run ({fault_of(error, 'the line')}); its lines from there on are left out, and "
        "`python -m core verify` compares the others with the database."
    )


def _migrated(line: dict[str, Any]) -> dict[str, Any]:
    if line.get("schema_version", 1) >= SCHEMA:
        return line

    def renamed(item: dict[str, Any]) -> dict[str, Any]:
        return {**item, "question_type": "mcq_answers"} if item.get("question_type") == "mcq_many" else item

    line = {**line, "schema_version": SCHEMA}
    if "arms" in line:
        line["arms"] = [[f, "mcq_answers" if q == "mcq_many" else q] for f, q in line["arms"]]
    return line | {name: list(map(renamed, line[name])) for name in ("events", "grades") if name in line}


def _with_calls(trial: dict[str, Any], paid: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a trial line with its calls instead of their ids; no other line refers to these calls."""
    ids = [event["call_id"] for event in trial["events"] if event["kind"] == "called" and "call" not in event]
    calls = {
        call_id: paid.pop(call_id, None) or CallRecord(call_id=call_id, role="doctor", purpose="dialogue", model="")
        for call_id in ids
    }
    events = [
        {"kind": "called", "call": calls[event["call_id"]]}
        if event["kind"] == "called" and "call" not in event
        else event
        for event in trial["events"]
    ]
    return {**trial, "events": events, "paid": frozenset(ids)}


def read_header(path: Path) -> RunHeader:
    """Return the first line of a journal; raises ``NotAllowedError`` if the run belongs to another person."""
    _, line = next(read_lines(path), (0, None))
    if not isinstance(line, RunHeader):
        raise AnamnesisError(f"{path} does not begin with the description of a run.")
    access.require_own(line.owner, f"The run {line.run_id}")
    return line


def spoken_in(path: Path, trial_id: str) -> list[tuple[Speaker, str]]:
    """Return the messages of people in a trial, which may be unfinished."""
    lines = read_lines(path, about=('"type":"spoken"',)) if path.exists() else ()
    return [(line.role, line.text) for _, line in lines if isinstance(line, SpokenLine) and line.trial_id == trial_id]


def done_trials(path: Path) -> set[str]:
    return {line.trial_id for _, line in read_lines(path, whole=False) if isinstance(line, TrialLine)}
