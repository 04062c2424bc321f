"""The journal of a job: a JSON line for each reply of a model as it arrives and for all that comes of the replies.

Lines are written whole and synced, many together where many wait. A line that was cut off by a crash is not a line: it
is dropped at the next start. The record of a call stands once, in its reply line; a finished trial names it by its id.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
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
from core.case import Case
from core.errors import AnamnesisError
from core.events import CallRecord, Event, Graded, Parent, Speaker

PRIVATE = ("live", "fork", "bench")
"""Sources of runs that a visitor makes for themselves."""


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True)


class Fork(_Line):
    """Where a run of one trial takes up another conversation, of the run ``run_id``, and the messages that it keeps."""

    run_id: str
    parent: Parent
    kept: list[tuple[Speaker, str]]


class Edit(_Line):
    """The run whose arms are asked again with something edited, and the key of the case there that seeds come from."""

    run_id: str
    case_key: str


SCHEMA = 2
"""Of the lines of runs, trials and grades. In those of version 1, which do not say it, ``mcq_many`` is what is called
``mcq_answers`` by now."""


class RunHeader(_Line):
    """Who plays, under which rules, on which cases: the first line of a journal."""

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
    trials: int
    seed: int
    settings: dict[str, object] = Field(default_factory=dict)
    code_version: str
    source: Literal["local", "live", "release", "replay", "bench", "fork"] = "local"
    created_at: float
    many_choices: list[str] = Field(default_factory=list)
    """The choices of ``mcq_many``: all of the whole data set, also where only some of its cases run."""
    cases: list[Case] = Field(default_factory=list)
    """The cases themselves, so that a run can be resumed and read wherever its journal is."""
    fork: Fork | None = None
    edited: Edit | None = None
    schema_version: int = SCHEMA
    visitor: str = ""
    """Who began it on a server where people sign in; empty for whoever was at this machine."""
    data_set_hash: str = ""
    """Hash of the whole data set that the cases are all or a part of; empty if that was not recorded."""
    data_set_cases: int = 0
    """How many cases that data set has; 0 if that was not recorded."""

    @property
    def owner(self) -> str:
        """Whose it is: a consultation, a branch, a run of the debugger; empty for what is everybody's."""
        return self.visitor if self.source in PRIVATE else ""


class TrialLine(_Line):
    """One finished trial with all its events but the passing ones."""

    type: Literal["trial"] = "trial"
    run_id: str
    trial_id: str
    case_key: str
    trial: int
    seed: int
    events: list[Annotated[Event, Field(discriminator="kind")]]
    finished_at: float
    schema_version: int = SCHEMA
    paid: frozenset[str] = Field(default=frozenset(), exclude=True)
    """Ids of the calls whose records are reply lines of this journal: here they are written by their ids only.

    Where the reply lines were not read (``read_lines`` from a place behind them) their records are empty.
    """


class ReplyLine(_Line):
    """One call of a model, written as soon as its reply was there, or as it failed.

    ``trial_id`` is where the call is listed: a trial, or a job that is about none. ``unit`` is the piece of work that
    asked: played again, it is given what it was given before. ``key`` says what was asked (``core.asking.memory``),
    ``number`` how many times it had been asked in this unit before, and ``place`` how many calls the unit had made.
    """

    type: Literal["reply"] = "reply"
    run_id: str
    trial_id: str
    unit: str
    key: str
    number: int
    place: int
    call: CallRecord


class GradesLine(_Line):
    """New verdicts on answers of a stored trial (a re-grading)."""

    type: Literal["grades"] = "grades"
    run_id: str
    trial_id: str
    grades: list[Graded]
    unit: str = ""
    """The piece of work that this line ends: its replies are used up."""
    schema_version: int = SCHEMA


class DeletedLine(_Line):
    """A trial of this journal that is no longer wanted: it is taken out of the database, and nothing else is.

    What it cost was paid: its calls stay where the spending is counted.
    """

    type: Literal["deleted"] = "deleted"
    run_id: str
    trial_id: str


class RunDeletedLine(_Line):
    """As ``DeletedLine``, of the whole run of this journal with all that hangs on its trials."""

    type: Literal["run_deleted"] = "run_deleted"
    run_id: str


RowTable = Literal[
    "patient_judgements",
    "fact_judgements",
    "profiles",
    "completions",
    "variants",
    "prefix_answers",
    "run_labels",
    "history_items",
]


class RowLine(_Line):
    """What a job came to beside trials and verdicts: a row of the ``table`` that keeps it.

    Such jobs have journals of their own, without a run's header.
    """

    type: Literal["row"] = "row"
    table: RowTable
    row: dict[str, Any]
    unit: str = ""
    """The piece of work that this line ends: its replies are used up."""


class DoneLine(_Line):
    """A piece of work that came to nothing: its replies are used up, and the next one to do it asks anew."""

    type: Literal["done"] = "done"
    run_id: str
    unit: str


class WrittenLine(_Line):
    """What a person wrote: a row of the database and, for kinds that have them, its parts (a review and its items).

    ``kind`` names the tables that keep it (``core.store.written``), ``what`` is the row by its columns. ``by`` is the
    name of the writer, empty for whoever was at this machine; ``at`` is in seconds since 1970 (UTC). A line is never
    changed: a newer line replaces it, and a ``WithdrawnLine`` takes it back.
    """

    type: Literal["written"] = "written"
    line_id: str
    kind: str
    at: float
    by: str = ""
    what: dict[str, Any]


class WithdrawnLine(_Line):
    """Takes back what a person wrote, or deletes rows of a job that people can edit; ``lines`` are the ids of both."""

    type: Literal["withdrawn"] = "withdrawn"
    line_id: str
    at: float
    by: str = ""
    reason: str = ""
    lines: list[str]


Line = (
    RunHeader
    | TrialLine
    | ReplyLine
    | GradesLine
    | DeletedLine
    | RunDeletedLine
    | RowLine
    | DoneLine
    | WrittenLine
    | WithdrawnLine
)
_LINE: TypeAdapter[Line] = TypeAdapter(Annotated[Line, Field(discriminator="type")])


def trial_id(run_id: str, case_key: str, number: int) -> str:
    """Return the id of a trial: the same for the same run, case and number."""
    return hashlib.sha256(f"{run_id}\n{case_key}\n{number}".encode()).hexdigest()[:20]


def seed_of(seed: int, case_key: str, number: int) -> int:
    """Return the seed of a trial, which does not depend on the order in which trials run."""
    return int.from_bytes(hashlib.sha256(f"{seed}\n{case_key}\n{number}".encode()).digest()[:4], "big") >> 1


def journal_path(run_id: str, folder: Path | None = None) -> Path:
    """Return where the journal of a run or job lies, by default under the folder of all journals."""
    return (folder or paths.journals_folder()) / run_id / "journal.jsonl"


_SET_ASIDE = 4_000_000
"""Bytes that a job keeps free beside its journal for the replies in the air when the disk becomes full."""
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What the system says where a disk is full, or as full as one may make it."""


def no_room(error: OSError, place: Path) -> str:
    """Return why nothing more can be written at a place, and how much is free on its disk."""
    while not place.exists() and place != place.parent:
        place = place.parent
    with suppress(OSError):
        return f"{error.strerror}; {shutil.disk_usage(place).free / 1e6:,.1f} MB are free there"
    return error.strerror or str(error)


@contextmanager
def writable(place: Path) -> Iterator[None]:
    """Raise ``AnamnesisError`` where the block meets a file system or folder that lets nothing be written."""
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
            f"{place} cannot be written ({error.strerror}): what is here can be read, and nothing run, graded or "
            "changed. Set ANAMNESIS_DB to a file in a folder of yours to work there."
        ) from error


class JournalWriter(AbstractContextManager["JournalWriter"]):
    """Appends lines; each is on disk when ``append`` returns.

    ``then`` says in errors what to do once the journal can be written again.
    """

    def __init__(self, path: Path, then: str = "resume the run") -> None:
        self._path, self._then = path, then
        with writable(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
            _drop_torn_line(path)
            self._file = path.open("a+b", buffering=0)

    def append(self, line: Line) -> None:
        """Write one line whole and sync it; what could not be written whole is taken back."""
        self.append_all([line])

    def append_all(self, lines: Sequence[Line]) -> str:
        """Write lines and sync them together; what could not be written whole is taken back, all of it, and raised.

        Return why no more ought to come though these are there, else nothing: the room that was set aside had to be
        used, or somebody took the journal away, which was put back from the file that is open.
        """
        data = b"".join(_written(line) for line in lines)
        try:
            self._append(data)
        except OSError as error:
            full = error.errno in NO_ROOM
            reason = no_room(error, self._path) if full else error.strerror
            what_to_do = "make room" if full else f"see that {self._path.parent} can be written"
            why = f"The journal {self._path} cannot be written ({reason}): {what_to_do}, then {self._then}."
            aside = self._path.with_name("room")
            if error.errno not in NO_ROOM or not aside.exists():
                raise AnamnesisError(why) from error
            aside.unlink()
            try:
                self._append(data)
            except OSError:
                raise AnamnesisError(why) from error
            return why
        if os.fstat(self._file.fileno()).st_nlink:
            return ""
        gone = self._file
        gone.seek(0)
        why = f"The journal {self._path} was deleted while the run went on"
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with gone, self._path.open("xb") as back:
                shutil.copyfileobj(gone, back)
                os.fsync(back.fileno())
            self._file = self._path.open("a+b", buffering=0)
        except OSError as error:
            raise AnamnesisError(f"{why}, and cannot be put back ({error.strerror}): restore a backup.") from error
        return f"{why}. It is back, with all that was paid for: see that its folder stays, then resume the run."

    def _append(self, data: bytes) -> None:
        end, left = self._file.seek(0, os.SEEK_END), memoryview(data)
        try:
            while left:  # a full disk takes the beginning of a line before it complains
                left = left[self._file.write(left) :]
            os.fsync(self._file.fileno())
        except OSError:
            with suppress(OSError):  # else the beginning is dropped at the next start
                self._file.truncate(end)
            raise

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __exit__(self, *_: object) -> None:
        self.close()


def _written(line: Line) -> bytes:
    fields = line.model_dump(mode="json")
    if isinstance(line, TrialLine):
        for event in fields["events"]:
            if event["kind"] == "called" and event["call"]["call_id"] in line.paid:
                event["call_id"] = event.pop("call")["call_id"]
    return orjson.dumps(fields) + b"\n"


_Waiting = tuple[Sequence[Line], "asyncio.Future[None]"]


class Journal:
    """A journal that many tasks of one event loop write to at once: what waits while the disk is busy shares a sync.

    Nothing is made on disk before the first line; a journal that is new begins with ``header``. ``shared``: others
    write to it now and then, of this process or another (``append_shared``). ``broken`` is told why where no more lines
    ought to come, for nothing more to be paid for; room for what is in the air then is set aside meanwhile.
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

    async def append(self, *lines: Line) -> None:
        """Write lines; they are on disk when this returns, and written also where whoever waits is cancelled.

        Raises ``AnamnesisError`` where they cannot be written.
        """
        loop = asyncio.get_running_loop()
        written = loop.create_future()
        if self._thread is None:  # a thread of its own: it writes while rules that never wait hold the loop
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
        """Write what waits and close the file."""
        if self._thread is not None:
            self._waiting.put(None)
            await asyncio.to_thread(self._thread.join)
            self._thread = None
        self._path.with_name("room").unlink(missing_ok=True)

    async def __aenter__(self) -> Journal:
        if self._broken is not None and self._path.parent.exists() and hasattr(os, "posix_fallocate"):
            with writable(self._path.parent), self._path.with_name("room").open("wb") as room:
                os.posix_fallocate(room.fileno(), 0, _SET_ASIDE)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _write(self, loop: asyncio.AbstractEventLoop) -> None:
        writer: JournalWriter | None = None
        over = False
        while not over:
            batch = [self._waiting.get()]
            while not self._waiting.empty():
                batch.append(self._waiting.get())
            over = None in batch
            found = [one for one in batch if one is not None]
            error: Exception | None = None
            lines = [line for new, _ in found for line in new]
            try:
                if self._shared and lines:
                    append_shared(self._path, lines)
                elif writer is None and lines:
                    writer = JournalWriter(self._path)
                    if self._header is not None and self._path.stat().st_size == 0:
                        lines = [self._header, *lines]
                if writer is not None and lines and (why := writer.append_all(lines)) and self._broken is not None:
                    loop.call_soon_threadsafe(self._broken, why)
            except Exception as problem:
                error = problem
            loop.call_soon_threadsafe(_tell, [written for _, written in found], error)
            del batch, found, lines  # else they would be held until the next ones come
        if writer is not None:
            writer.close()


def _tell(waiting: Sequence[asyncio.Future[None]], error: Exception | None) -> None:
    for written in waiting:
        if written.done():
            continue
        if error is None:
            written.set_result(None)
        else:
            written.set_exception(error)
            written.exception()  # whoever was cancelled does not ask


def append_shared(path: Path, lines: Sequence[Line], then: str = "resume the run") -> None:
    """Write lines to a journal that several processes write to now and then, one after the other."""
    with writable(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.parent / "running.lock"), JournalWriter(path, then) as journal:
            journal.append_all(lines)


def in_use(path: Path) -> bool:
    """Say whether some process holds the lock of the run or job whose journal this is."""
    lock = FileLock(path.parent / "running.lock")
    if not Path(lock.lock_file).exists():
        return False
    try:
        with lock.acquire(timeout=0):
            return False
    except Timeout:
        return True
    except OSError:  # where nothing can be written, nothing runs
        return False


def _drop_torn_line(path: Path) -> None:
    """Cut what follows the last line break: the beginning of a line that a crash cut off."""
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


def read_lines(path: Path, start: int = 0, about: Sequence[str] = ()) -> Iterator[tuple[int, Line]]:
    """Yield (offset after the line, line) for every whole line from byte ``start`` on; only those with words ``about``.

    A torn last line is left alone; a broken line in the middle raises ``AnamnesisError`` naming its place, and so does
    a line as versions before 0.4 wrote them. A trial is given the calls that it names from the reply lines before it,
    as far as they lie behind ``start``.
    """
    paid: dict[str, Any] = {}
    wanted, offset = [words.encode() for words in about], start
    with path.open("rb") as file:
        file.seek(start)
        for raw in file:
            if not raw.endswith(b"\n"):
                return
            offset += len(raw)
            if wanted and not any(words in raw for words in wanted):
                continue
            try:
                fields = orjson.loads(raw)
                if isinstance(fields, dict) and (fields.get("type") == "judged" or fields.get("calls")):
                    raise AnamnesisError(
                        f"The journal {path} was written by an Anamnesis before 0.4, which this one does not read: "
                        "take it into a database with version 0.5, then open that database with this version."
                    )
                if isinstance(fields, dict) and fields.get("type") in ("run", "trial", "grades"):
                    fields = _up_to_date(fields)
                if isinstance(fields, dict) and fields.get("type") == "trial":
                    fields = _with_calls(fields, paid)
                line = _LINE.validate_python(fields)
            except (ValueError, KeyError, TypeError) as error:
                raise AnamnesisError(
                    f"The journal {path} is damaged in the line that ends at byte {offset}: restore it from a backup, "
                    f"or take this line out and resume the run ({str(error).splitlines()[0]})."
                ) from error
            if isinstance(line, ReplyLine) and line.unit == line.trial_id:  # no other is named again
                paid[line.call.call_id] = line.call
            yield offset, line


def _up_to_date(line: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a line as the present schema has them."""
    if line.get("schema_version", 1) >= SCHEMA:
        return line

    def renamed(held: dict[str, Any]) -> dict[str, Any]:
        return {**held, "question_type": "mcq_answers"} if held.get("question_type") == "mcq_many" else held

    line = {**line, "schema_version": SCHEMA}
    if "arms" in line:
        line["arms"] = [[f, "mcq_answers" if q == "mcq_many" else q] for f, q in line["arms"]]
    return line | {name: list(map(renamed, line[name])) for name in ("events", "grades") if name in line}


def _with_calls(trial: dict[str, Any], paid: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a trial's line with the calls that it names by their ids, which no other line names."""
    named = [event["call_id"] for event in trial["events"] if event["kind"] == "called" and "call" not in event]
    calls = {
        one: paid.pop(one, None) or CallRecord(call_id=one, role="doctor", purpose="dialogue", model="")
        for one in named
    }
    events = [
        {"kind": "called", "call": calls[event["call_id"]]}
        if event["kind"] == "called" and "call" not in event
        else event
        for event in trial["events"]
    ]
    return {**trial, "events": events, "paid": frozenset(named)}


def read_header(path: Path) -> RunHeader:
    """Return the first line of a journal; raise ``NotAllowedError`` where it is somebody else's."""
    _, line = next(read_lines(path), (0, None))
    if not isinstance(line, RunHeader):
        raise AnamnesisError(f"{path} does not begin with the description of a run.")
    access.require_own(line.owner, f"The run {line.run_id}")
    return line


def done_trials(path: Path) -> set[str]:
    """Return the ids of the trials that the journal holds."""
    return {line.trial_id for _, line in read_lines(path) if isinstance(line, TrialLine)}
