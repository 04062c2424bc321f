"""Imported cases of the user: one JSONL file per data set, next to the database and never in the repository.

``NAME.info.json`` next to ``NAME.jsonl`` has the record of the import. ``core.images`` stores each picture once for all
data sets; it is deleted with the last data set that refers to it, even if stored runs do.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import orjson
from filelock import FileLock
from pydantic import BaseModel, ConfigDict, ValidationError

from core import access, images, paths
from core.case import Case
from core.datasets.reading import PositionUnit, Remark
from core.errors import AnamnesisError, UsageError

MAX_STORED_REASONS = 1000
"""Rows with a stored reason per data set; further rows are only counted."""
_MAX_NAME_LENGTH = 41
_NO_PICTURES: Mapping[str, Path] = MappingProxyType({})
_HASH = re.compile(rb'"sha256":"([0-9a-f]{64})"')
_NAME = re.compile(rf"[a-z0-9][a-z0-9_-]{{0,{_MAX_NAME_LENGTH - 1}}}")


class Deleted(NamedTuple):
    """Numbers of cases and pictures that were deleted with a data set."""

    cases: int
    pictures: int


class DatasetInfo(BaseModel):
    """The record of an import.

    ``format`` is the name of the format, ``title`` its title; ``imported_at`` is in seconds since 1970. ``rejected``
    has (line or record, reason) of the first rows that could not be used, ``rejected_count`` is the number of all;
    ``left_out`` is reason → number of valid rows that the format leaves out by design; ``remarks`` are decisions about
    rows that were read (position 0: the complete file). ``findings`` is the number of the linter's findings on import.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str
    format: str
    title: str
    source: str
    licence: str
    file_name: str
    imported_at: float
    cases: int
    unit: PositionUnit = "line"
    rejected: tuple[Remark, ...] = ()
    rejected_count: int = 0
    left_out: dict[str, int] = {}
    remarks: tuple[Remark, ...] = ()
    remarks_count: int = 0
    findings: int = 0
    severe_findings: int = 0

    @property
    def left_out_count(self) -> int:
        return sum(self.left_out.values())


def folder() -> Path:
    return paths.local_folder() / "cases"


def check_name(name: str) -> None:
    if name == "library":
        raise UsageError("A data set cannot be called 'library', as this project's own cases are: choose another name.")
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"A data set cannot be called {name[:60]!r}: use lower-case letters, digits, - and _, at most "
            f"{_MAX_NAME_LENGTH}."
        )


def save(
    name: str, cases: list[Case], info: DatasetInfo | None = None, pictures: Mapping[str, Path] = _NO_PICTURES
) -> Path:
    """Write a data set atomically: an error leaves the earlier data set in place.

    Without ``info`` the record of an earlier import is deleted, because it is about other cases. ``pictures`` is hash →
    file of the pictures of cases that are not stored yet.
    """
    access.require("run")
    check_name(name)
    path = folder() / f"{name}.jsonl"
    try:
        with _locked(), _stored_pictures(path, cases, pictures):
            info_path = _info_path(path.stem)
            _write_half(path, (orjson.dumps(case.model_dump(mode="json")) + b"\n" for case in cases))
            info_path.unlink(missing_ok=True)
            os.replace(_half(path), path)
            if info is not None:
                _write_half(info_path, [info.model_dump_json(indent=1).encode()])
                os.replace(_half(info_path), info_path)
    except OSError as error:
        raise AnamnesisError(
            f"The data set {name} cannot be saved in {folder()}: {error.strerror or error}."
        ) from error
    return path


@contextlib.contextmanager
def _locked() -> Iterator[None]:
    """Prevent other processes and threads from writing or deleting data sets."""
    folder().mkdir(parents=True, exist_ok=True)
    with FileLock(folder().parent / "cases.lock"):
        yield


def names() -> list[str]:
    return sorted(path.stem for path in folder().glob("*.jsonl")) if folder().is_dir() else []


def load(name: str) -> list[Case]:
    """Read an imported data set; raises ``AnamnesisError`` with the number of a damaged line."""
    path = folder() / f"{name}.jsonl"
    cases = []
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        try:
            cases.append(Case.model_validate(orjson.loads(line)))
        except (orjson.JSONDecodeError, ValidationError) as error:
            raise AnamnesisError(f"{path}, line {number} is damaged: import the data set {name} again.") from error
    return cases


def info(name: str) -> DatasetInfo | None:
    """Return the record of an import, ``None`` if there is none (a data set of a release)."""
    path = _info_path(name)
    if not path.is_file():
        return None
    try:
        return DatasetInfo.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise AnamnesisError(f"{path} is damaged: import the data set {name} again.") from error


def delete(name: str) -> Deleted:
    """Delete an imported data set and the pictures that no other data set uses; stored runs keep their cases.

    Raises ``UsageError`` for the library and for an unknown name.
    """
    access.require("local")
    if name == "library":
        raise UsageError("The library belongs to Anamnesis and cannot be deleted.")
    if name not in names():
        raise UsageError(f"There is no imported data set {name!r}: `python -m core data list` shows them.")
    path = folder() / f"{name}.jsonl"
    try:
        with _locked():
            with path.open("rb") as file:
                count = sum(1 for line in file if line.strip())
            hashes = _hashes_in(path)
            path.unlink()
            _info_path(name).unlink(missing_ok=True)
            pictures = _delete_unused(folder(), hashes)
    except OSError as error:
        raise AnamnesisError(f"The data set {name} cannot be deleted: {error.strerror or error}.") from error
    return Deleted(count, pictures)


def _info_path(name: str) -> Path:
    return folder() / f"{name}.info.json"


def _half(path: Path) -> Path:
    return path.with_name(f"{path.name}.half")


def _write_half(path: Path, pieces: Iterable[bytes]) -> None:
    """Write the replacement of a file; if that fails, delete it."""
    try:
        with _half(path).open("wb") as file:
            file.writelines(pieces)
    except OSError:
        _half(path).unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def _stored_pictures(file: Path, cases: Iterable[Case], pictures: Mapping[str, Path]) -> Iterator[None]:
    """Store the pictures of the cases of ``file``; at the end delete pictures that no data set uses.

    ``pictures`` is hash → file. Raises ``AnamnesisError`` if a file has changed since it was read.
    """
    hashes = {image.sha256 for case in cases for image in case.images if image.sha256 in pictures}
    before = _hashes_in(file)
    try:
        for sha256 in sorted(hashes):
            if images.keep(pictures[sha256]).sha256 != sha256:
                raise AnamnesisError(f"The picture {pictures[sha256].name} changed while it was imported: try again.")
        yield
    finally:
        _delete_unused(file.parent, before | hashes)


def _hashes_in(file: Path) -> set[str]:
    """Return the hashes of the pictures of a data set; empty if the file does not exist."""
    if not file.is_file():
        return set()
    return {sha256.decode() for sha256 in _HASH.findall(file.read_bytes())}


def _delete_unused(folder: Path, candidates: set[str]) -> int:
    """Delete the pictures among ``candidates`` that no data set in ``folder`` uses; return the number of files."""
    if not candidates:
        return 0
    unused = candidates.difference(*map(_hashes_in, folder.glob("*.jsonl")))
    files = [file for sha256 in unused for file in images.folder().glob(f"{sha256}.*")]
    for file in files:
        file.unlink(missing_ok=True)
    return len(files)
