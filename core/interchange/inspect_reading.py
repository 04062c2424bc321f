"""Reads Inspect logs without the library ``inspect_ai``: its JSON files, and ``.eval`` archives with a file per sample.

Samples are read one at a time. Files may come from anybody: sizes are limited, and whatever is not a log raises
``AnamnesisError`` with one sentence.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, TextIO

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from core.datasets.archive import ArchiveLimits, opened
from core.errors import AnamnesisError
from core.words import fault_of

LARGEST_VALUE = 200_000_000
"""Most characters of one sample."""
_BLOCK = 1 << 20
_HEADER, _STARTED, _SAMPLES = "header.json", "_journal/start.json", "samples/"
"""Members of an archive: the log without its samples, the same of a log that was not finished, and the samples."""
_ATTACHMENTS = ("attachment://", "tc://")
_DECODER = json.JSONDecoder()
_Role = Literal["system", "user", "assistant", "tool"]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class LogMessage(_Part):
    """A message; ``content`` is a text or a list of parts: text, reasoning, images, files, uses of tools."""

    role: _Role
    content: str | list[dict[str, Any]] = ""
    tool_calls: list[dict[str, Any]] | None = None
    metadata: dict[str, Any] | None = None


class LogScore(_Part):
    """A score; NaN is Inspect's value of an unscored one."""

    value: Any = None
    answer: str | None = None
    explanation: str | None = None
    reason: str | None = None
    metadata: dict[str, Any] | None = None


class LogProblem(_Part):
    """The error, or the limit, that ended a sample."""

    message: str = ""
    type: str = ""


class LogSample(_Part):
    """A sample of a log: one case in one epoch (from 1)."""

    id: int | str
    epoch: Annotated[int, Field(ge=1)]
    input: str | list[LogMessage] = ""
    choices: list[str] | None = None
    target: str | list[str] = ""
    messages: list[LogMessage] = Field(default_factory=list)
    scores: dict[str, LogScore] | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    attachments: dict[str, str] = Field(default_factory=dict)
    completed_at: str | None = None
    uuid: str | None = None
    error: LogProblem | None = None
    limit: LogProblem | None = None


class LogDataset(_Part):
    """The data set of the samples."""

    name: str | None = None


class LogRole(_Part):
    """The model in a role, such as grader."""

    model: str


class LogEval(_Part):
    """The identity and the settings of an evaluation."""

    created: str
    task: str
    model: str
    eval_id: str = ""
    run_id: str = ""
    task_id: str = ""
    task_version: int | str = 0
    task_args: dict[str, Any] = Field(default_factory=dict)
    solver: str | None = None
    solver_args: dict[str, Any] | None = None
    dataset: LogDataset = LogDataset()
    model_generate_config: dict[str, Any] = Field(default_factory=dict)
    model_roles: dict[str, LogRole | list[LogRole]] | None = None
    packages: dict[str, str] = Field(default_factory=dict)
    metadata: dict[str, Any] | None = None


class LogHeader(_Part):
    """A log without its samples."""

    version: int = 2
    status: str = "started"
    eval: LogEval


@dataclass(frozen=True)
class OpenLog:
    """A log whose ``samples`` can be read once, while its file is open."""

    name: str
    header: LogHeader
    samples: Iterator[LogSample]


def log_files(path: Path) -> list[Path]:
    """Return the logs of a folder at any depth, or the file itself; links that lead out of the folder are left out."""
    if not path.is_dir():
        return [path]
    root = path.resolve()
    files = (file for ending in ("json", "eval") for file in path.rglob(f"*.{ending}"))
    return sorted(file for file in files if file.is_file() and file.resolve().is_relative_to(root))


@contextmanager
def open_log(path: Path, limits: ArchiveLimits) -> Iterator[OpenLog]:
    """Open a log. Raises ``AnamnesisError`` if it is none, is damaged, or is larger than the limits."""
    name = path.name
    try:
        if zipfile.is_zipfile(path):
            with opened(path, _is_wanted, limits) as folder:
                header = _header(_log_of_archive(folder, name), name)
                files = sorted((folder / _SAMPLES).rglob("*.json"))
                yield OpenLog(name, header, (_sample(_whole(file), name) for file in files))
            return
        if path.stat().st_size > limits.total_bytes:
            raise AnamnesisError(f"{name} has more than {limits.total_bytes / 1e9:g} GB. {limits.way_out}")
        with path.open(encoding="utf-8-sig") as file:
            reader = _JsonReader(file)
            fields = reader.fields_before("samples")
            header = _header(fields, name)
            yield OpenLog(name, header, (_sample(value, name) for value in reader.elements()))
    except (ValueError, TypeError, OverflowError, RecursionError, OSError) as error:
        raise AnamnesisError(
            f"{name} is not a log of Inspect that can be read: {fault_of(error, 'the log')}."
        ) from error


def _is_wanted(member: PurePosixPath) -> bool:
    return str(member) in (_HEADER, _STARTED) or str(member).startswith(_SAMPLES)


def _log_of_archive(folder: Path, name: str) -> Any:
    for member in (_HEADER, _STARTED):
        if (folder / member).is_file():
            return _whole(folder / member)
    raise AnamnesisError(f"{name} is not a log of Inspect: it has no {_HEADER}.")


def _whole(path: Path) -> Any:
    if path.stat().st_size > LARGEST_VALUE:
        raise ValueError(f"{path.name} has more than {LARGEST_VALUE // 1_000_000} MB")
    return json.loads(path.read_text(encoding="utf-8-sig"))


def _header(fields: Any, name: str) -> LogHeader:
    try:
        header = LogHeader.model_validate(fields)
    except ValidationError as error:
        raise AnamnesisError(f"{name} is not a log of Inspect: {fault_of(error, 'the log')}.") from error
    if header.version != 2:
        raise AnamnesisError(
            f"{name} is a log of version {header.version}, and only version 2 is read: convert it with "
            "`inspect log convert`."
        )
    return header


def _sample(fields: Any, name: str) -> LogSample:
    attachments = fields.get("attachments") if isinstance(fields, dict) else None
    try:
        if isinstance(fields, dict) and isinstance(attachments, dict) and attachments:
            read = {part: fields[part] for part in LogSample.model_fields if part in fields and part != "attachments"}
            fields = _with_attachments(read, attachments)
        return LogSample.model_validate(fields)
    except ValidationError as error:
        place = f" (sample {fields.get('id')}, epoch {fields.get('epoch')})" if isinstance(fields, dict) else ""
        raise AnamnesisError(f"{name}: a sample cannot be read{place}: {fault_of(error, 'the sample')}.") from error


def _with_attachments(value: Any, attachments: Mapping[str, Any]) -> Any:
    """Return a value with the texts that a log stores once, and refers to by their hash."""
    if isinstance(value, str):
        if not value.startswith(_ATTACHMENTS):
            return value
        text = attachments.get(value.partition("://")[2])
        return text if isinstance(text, str) else value
    if isinstance(value, list):
        return [_with_attachments(item, attachments) for item in value]
    if isinstance(value, dict):
        return {name: _with_attachments(item, attachments) for name, item in value.items()}
    return value


class _JsonReader:
    """Reads an object of JSON, and then the array in one of its fields, value by value."""

    def __init__(self, file: TextIO) -> None:
        self._file, self._text, self._at = file, "", 0

    def fields_before(self, name: str) -> dict[str, Any]:
        """Return the fields up to the array ``name``, which ``elements`` reads next; raises ``ValueError``."""
        fields: dict[str, Any] = {}
        self._take("{")
        while self._next() != "}":
            key = self._value()
            self._take(":")
            if key == name and self._next() == "[":
                return fields
            fields[str(key)] = self._value()
            if self._next() == ",":
                self._take(",")
        return fields

    def elements(self) -> Iterator[Any]:
        """Yield the elements of the array; none if there is no array."""
        if self._next() != "[":
            return
        self._take("[")
        while self._next() != "]":
            yield self._value()
            if self._next() == ",":
                self._take(",")

    def _value(self) -> Any:
        self._next()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError:
                if not self._more():
                    raise
                continue
            if end == len(self._text) and self._more():  # a number may go on in the next block
                continue
            self._at = end
            return value

    def _take(self, character: str) -> None:
        if self._next() != character:
            raise ValueError(f"a {character} is missing")
        self._at += 1

    def _next(self) -> str:
        """Return the next character that is no white space; raises ``ValueError`` at the end of the file."""
        while True:
            while self._at < len(self._text):
                character = self._text[self._at]
                if character not in " \t\r\n":
                    return character
                self._at += 1
            if not self._more():
                raise ValueError("it ends early")

    def _more(self) -> bool:
        """Read a block, as long as the unread rest: then decoding the rest again takes linear time."""
        rest = self._text[self._at :]
        if len(rest) > LARGEST_VALUE:
            raise ValueError(f"one of its values has more than {LARGEST_VALUE // 1_000_000} million characters")
        block = self._file.read(max(_BLOCK, len(rest)))
        self._text, self._at = rest + block, 0
        return bool(block)
