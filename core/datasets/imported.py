"""Cases that the user has imported: one JSONL file a data set, beside the database and never in the repository.

Beside ``NAME.jsonl`` lies ``NAME.info.json`` with the record of its import. Pictures of cases are kept by
``core.images``, each once for all data sets that name it, and go with the last of them; stored runs do not count.
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
from core.datasets.reading import Remark, Unit
from core.errors import AnamnesisError, UsageError

KEPT_REASONS = 1000
"""Rows whose reasons are kept with a data set; the others are only counted."""
_LONGEST_NAME = 41
_NO_PICTURES: Mapping[str, Path] = MappingProxyType({})
_HASH = re.compile(rb'"sha256":"([0-9a-f]{64})"')
_NAME = re.compile(rf"[a-z0-9][a-z0-9_-]{{0,{_LONGEST_NAME - 1}}}")


class Deleted(NamedTuple):
    """How many cases a deleted data set had, and how many pictures went with it."""

    cases: int
    pictures: int


class DatasetInfo(BaseModel):
    """The record of an import.

    ``format`` is the format's name, ``title`` what it is called; ``imported_at`` seconds since 1970. ``rejected`` are
    (line or record, reason) of the first rows that could not be used, ``rejected_count`` counts all; ``left_out`` is
    reason → number of sound rows that the format leaves out by its nature; ``remarks`` say what was decided about rows
    that were read (position 0: the whole file). ``findings`` counts what the linter said on import.
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
    unit: Unit = "line"
    rejected: tuple[Remark, ...] = ()
    rejected_count: int = 0
    left_out: dict[str, int] = {}
    remarks: tuple[Remark, ...] = ()
    remarks_count: int = 0
    findings: int = 0
    severe_findings: int = 0

    @property
    def left_out_count(self) -> int:
        """Number of sound rows that were left out."""
        return sum(self.left_out.values())


def folder() -> Path:
    """Return where imported case files lie."""
    return paths.local_folder() / "cases"


def check_name(name: str) -> None:
    """Raise ``UsageError`` where a data set cannot have this name."""
    if name == "library":
        raise UsageError("A data set cannot be called 'library', as this project's own cases are: choose another name.")
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"A data set cannot be called {name[:60]!r}: use lower-case letters, digits, - and _, {_LONGEST_NAME} at "
            "most."
        )


def save(
    name: str, cases: list[Case], info: DatasetInfo | None = None, pictures: Mapping[str, Path] = _NO_PICTURES
) -> Path:
    """Write a data set in one go: either the whole of it is there afterwards or what was there before.

    Without ``info`` the record of an earlier import is taken away, for it would speak of other cases. ``pictures`` are
    the files of the cases' pictures by their hash, where they are not kept yet.
    """
    access.require("edit", f"data set {name}")
    check_name(name)
    path = folder() / f"{name}.jsonl"
    try:
        with _alone(), _kept_pictures(path, cases, pictures):
            about = _info_path(path.stem)
            _write_half(path, (orjson.dumps(case.model_dump(mode="json")) + b"\n" for case in cases))
            about.unlink(missing_ok=True)
            os.replace(_half(path), path)
            if info is not None:
                _write_half(about, [info.model_dump_json(indent=1).encode()])
                os.replace(_half(about), about)
    except OSError as error:
        raise AnamnesisError(f"The data set {name} cannot be kept in {folder()}: {error.strerror or error}.") from error
    return path


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Keep other processes and threads from writing or deleting data sets meanwhile."""
    folder().mkdir(parents=True, exist_ok=True)
    with FileLock(folder().parent / "cases.lock"):
        yield


def names() -> list[str]:
    """Return the names of the imported data sets."""
    return sorted(path.stem for path in folder().glob("*.jsonl")) if folder().is_dir() else []


def load(name: str) -> list[Case]:
    """Read an imported data set; a damaged line is named."""
    path = folder() / f"{name}.jsonl"
    cases = []
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        try:
            cases.append(Case.model_validate(orjson.loads(line)))
        except (orjson.JSONDecodeError, ValidationError) as error:
            raise AnamnesisError(f"{path}, line {number} is damaged: import the data set {name} again.") from error
    return cases


def info(name: str) -> DatasetInfo | None:
    """Return the record of an import, ``None`` where a data set has none (it came with a release)."""
    path = _info_path(name)
    if not path.is_file():
        return None
    try:
        return DatasetInfo.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise AnamnesisError(f"{path} is damaged: import the data set {name} again.") from error


def delete(name: str) -> Deleted:
    """Delete an imported data set with the pictures that no other names; stored runs keep their cases without them.

    Raises ``UsageError`` for the library and for a name that is none.
    """
    access.require("manage", f"delete data set {name}")
    if name == "library":
        raise UsageError("The library belongs to Anamnesis and cannot be deleted.")
    if name not in names():
        raise UsageError(f"There is no imported data set {name!r}: `python -m core data list` shows them.")
    path = folder() / f"{name}.jsonl"
    try:
        with _alone():
            with path.open("rb") as file:
                count = sum(1 for line in file if line.strip())
            held = _hashes_in(path)
            path.unlink()
            _info_path(name).unlink(missing_ok=True)
            pictures = _sweep(folder(), held)
    except OSError as error:
        raise AnamnesisError(f"The data set {name} cannot be deleted: {error.strerror or error}.") from error
    return Deleted(count, pictures)


def _info_path(name: str) -> Path:
    return folder() / f"{name}.info.json"


def _half(path: Path) -> Path:
    return path.with_name(f"{path.name}.half")


def _write_half(path: Path, pieces: Iterable[bytes]) -> None:
    """Write what is to take a file's place; where that fails, nothing of it stays."""
    try:
        with _half(path).open("wb") as file:
            file.writelines(pieces)
    except OSError:
        _half(path).unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def _kept_pictures(file: Path, cases: Iterable[Case], pictures: Mapping[str, Path]) -> Iterator[None]:
    """Keep the pictures of the cases that are to stand in ``file``; afterwards drop what no data set names.

    ``pictures`` are their files by hash. Raises ``AnamnesisError`` where one is no longer what was read.
    """
    wanted = {image.sha256 for case in cases for image in case.images if image.sha256 in pictures}
    before = _hashes_in(file)
    try:
        for sha256 in sorted(wanted):
            if images.keep(pictures[sha256]).sha256 != sha256:
                raise AnamnesisError(f"The picture {pictures[sha256].name} changed while it was imported: try again.")
        yield
    finally:
        _sweep(file.parent, before | wanted)


def _hashes_in(file: Path) -> set[str]:
    """Return the hashes of the pictures that a data set names; none where there is no such file."""
    if not file.is_file():
        return set()
    return {found.decode() for found in _HASH.findall(file.read_bytes())}


def _sweep(folder: Path, candidates: set[str]) -> int:
    """Delete those of some pictures that no data set in ``folder`` names, and return how many there were."""
    if not candidates:
        return 0
    unnamed = candidates.difference(*map(_hashes_in, folder.glob("*.jsonl")))
    gone = [file for sha256 in unnamed for file in images.folder().glob(f"{sha256}.*")]
    for file in gone:
        file.unlink(missing_ok=True)
    return len(gone)
