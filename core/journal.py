"""The journal of a run: one JSON line for each finished trial, written whole and synced, so that nothing is lost.

A line that was cut off by a crash is not a line: it is dropped at the next start, and its trial is run again.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from core import paths
from core.case import Case
from core.errors import AnamnesisError
from core.events import CallRecord, Event, Graded


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


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
    """The choices of ``mcq_many``: every answer of the whole data set, also where only some of its cases run."""
    cases: list[Case] = Field(default_factory=list)
    """The cases themselves, so that a run can be resumed and read wherever its journal is."""


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


class GradesLine(_Line):
    """New verdicts on answers of a stored trial (a re-grading), with the calls that led to them."""

    type: Literal["grades"] = "grades"
    run_id: str
    trial_id: str
    grades: list[Graded]
    calls: list[CallRecord] = Field(default_factory=list)


class DeletedLine(_Line):
    """A trial of this journal that is no longer wanted: it is taken out of the database, and nothing else is."""

    type: Literal["deleted"] = "deleted"
    run_id: str
    trial_id: str


JudgedTable = Literal["patient_judgements", "fact_judgements"]


class JudgedLine(_Line):
    """What a model's judging of a stored conversation came to: a row of the ``table`` that keeps it.

    Judgings span runs: each has a journal of its own, without a run's header.
    """

    type: Literal["judged"] = "judged"
    table: JudgedTable
    row: dict[str, Any]


Line = RunHeader | TrialLine | GradesLine | DeletedLine | JudgedLine
_LINE: TypeAdapter[Line] = TypeAdapter(Annotated[Line, Field(discriminator="type")])


def trial_id(run_id: str, case_key: str, number: int) -> str:
    """Return the id of a trial: the same for the same run, case and number."""
    return hashlib.sha256(f"{run_id}\n{case_key}\n{number}".encode()).hexdigest()[:20]


def seed_of(seed: int, case_key: str, number: int) -> int:
    """Return the seed of a trial, which does not depend on the order in which trials run."""
    return int.from_bytes(hashlib.sha256(f"{seed}\n{case_key}\n{number}".encode()).digest()[:4], "big") >> 1


def journal_path(run_id: str) -> Path:
    """Return where the journal of a run lies."""
    return paths.journals_folder() / run_id / "journal.jsonl"


class JournalWriter:
    """Appends lines; each is on disk when ``append`` returns."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        _drop_torn_line(path)
        self._path = path
        self._file = path.open("ab", buffering=0)

    def append(self, line: Line) -> None:
        """Write one line whole and sync it; what could not be written whole is taken back."""
        self.append_all([line])

    def append_all(self, lines: Sequence[Line]) -> None:
        """Write lines and sync them together; what could not be written whole is taken back, all of it."""
        data = memoryview(b"".join(orjson.dumps(line.model_dump(mode="json")) + b"\n" for line in lines))
        end = self._file.seek(0, os.SEEK_END)
        try:
            while data:  # a full disk takes the beginning of a line before it complains
                data = data[self._file.write(data) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            self._file.truncate(end)
            raise AnamnesisError(
                f"The journal {self._path} cannot be written ({error.strerror}): make room, then resume the run."
            ) from error

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> JournalWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


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


def read_lines(path: Path, start: int = 0) -> Iterator[tuple[int, Line]]:
    """Yield (offset after the line, line) for every whole line from byte ``start`` on.

    A torn last line is left alone; a broken line in the middle raises ``AnamnesisError`` naming its place.
    """
    with path.open("rb") as file:
        file.seek(start)
        offset = start
        for raw in file:
            if not raw.endswith(b"\n"):
                return
            offset += len(raw)
            try:
                yield offset, _LINE.validate_python(orjson.loads(raw))
            except (orjson.JSONDecodeError, ValidationError) as error:
                raise AnamnesisError(
                    f"The journal {path} is damaged in the line that ends at byte {offset}: restore it from a backup, "
                    f"or take this line out and resume the run ({str(error).splitlines()[0]})."
                ) from error


def read_header(path: Path) -> RunHeader:
    """Return the first line of a journal."""
    for _, line in read_lines(path):
        if isinstance(line, RunHeader):
            return line
        break
    raise AnamnesisError(f"{path} does not begin with the description of a run.")


def done_trials(path: Path) -> set[str]:
    """Return the ids of the trials that the journal holds."""
    return {line.trial_id for _, line in read_lines(path) if isinstance(line, TrialLine)}
