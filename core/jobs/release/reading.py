"""Reads the files of a release, in this or in a worker process, without a database and with few imports.

Arguments and results are pickled: a case is sent once for the files of all models, and not returned.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from core.case import Case
from core.frameworks.release import BadFileError, Layout, ModelFolder, OwnCase
from core.jobs.release.columns import TrialColumns
from core.store.queries.releases import ReleaseFile

Tables = dict[str, pa.Table]
LARGEST_FILE = 64_000_000
"""Maximum bytes of a case file; usual ones have about ten thousand."""
_SAMPLE = 5
"""Files of an unknown folder that are read to determine whether they contain their own cases."""


@dataclass
class ModelReport:
    """The import of one model: files taken (``replaced`` ones had an earlier version) or unchanged, and exclusions.

    ``folder`` is the folder of its files in the release. ``kept`` counts earlier files that are missing in this copy;
    their trials stay. ``prompts`` counts the new conversations by the hash of the doctor's prompt, ``excluded`` the
    excluded new answers by reason. ``remarks`` are sentences about single files, such as a broken picture.
    ``own_cases`` counts the cases in the files themselves.
    """

    folder: str
    label: str
    taken: int = 0
    replaced: int = 0
    unchanged: int = 0
    kept: int = 0
    trials: int = 0
    prompts: Counter[str] = field(default_factory=Counter)
    excluded: Counter[str] = field(default_factory=Counter)
    remarks: list[str] = field(default_factory=list)
    own_cases: int = 0


@dataclass
class FolderReading:
    """The contents of a model's folder: ``files`` new, changed or newly faulty, ``old_faults`` faulty as before.

    ``taken`` are the case ids of the new files, ``tables`` the rows of their trials. ``own`` maps a case id to the case
    in the file itself; ``None`` if the files are about cases of the data set. ``templates`` maps a hash to a prompt.
    """

    model: ModelFolder
    report: ModelReport
    files: list[ReleaseFile] = field(default_factory=list)
    taken: list[str] = field(default_factory=list)
    tables: list[Tables] = field(default_factory=list)
    old_faults: list[ReleaseFile] = field(default_factory=list)
    own: dict[str, OwnCase] | None = None
    templates: dict[str, str] = field(default_factory=dict)

    def add(self, part: FolderReading) -> None:
        self.files += part.files
        self.taken += part.taken
        self.tables += part.tables
        self.old_faults += part.old_faults
        self.templates |= part.templates
        total, addition = self.report, part.report
        total.taken, total.replaced = total.taken + addition.taken, total.replaced + addition.replaced
        total.unchanged, total.trials = total.unchanged + addition.unchanged, total.trials + addition.trials
        total.prompts.update(addition.prompts)
        total.excluded.update(addition.excluded)


@dataclass(frozen=True)
class Files:
    """Files of a model's folder, to be read in any process; ``recorded`` are those with a row in the database.

    ``cases`` maps the id of a case in the data set to (case, hash, position); ``own`` are the cases of other folders.
    """

    layout: Layout
    model: ModelFolder
    case_ids: tuple[str, ...]
    cases: Mapping[str, tuple[Case, str, int]]
    recorded: Mapping[tuple[str, str], ReleaseFile]
    now: float
    own: dict[str, Case]

    @functools.cached_property
    def place(self) -> str:
        return self.layout.name_of(self.model.path)

    def name(self, case_id: str) -> str:
        return f"{self.place}/{case_id}.json"

    def part(self, start: int, end: int) -> Files:
        """Return a slice of the files with their own cases and records only, which keeps the pickle small."""
        ids = self.case_ids[start:end]
        keys = [(self.model.run_id, self.name(case_id)) for case_id in ids]
        cases = {case_id: self.cases[case_id] for case_id in ids if case_id in self.cases}
        return replace(
            self, case_ids=ids, cases=cases, recorded={k: self.recorded[k] for k in keys if k in self.recorded}, own={}
        )

    def read(self) -> FolderReading:
        reading = FolderReading(self.model, ModelReport(self.place, self.model.model.label))
        self.read_into(reading)
        return reading

    def read_into(self, reading: FolderReading) -> None:
        """Add the new contents of the files, with the rows of their trials."""
        columns, report = TrialColumns(self.layout.release, self.now), reading.report
        for case_id in self.case_ids:
            self._take(reading, case_id, columns)
        report.own_cases, report.trials, report.excluded = len(reading.own or ()), len(columns), columns.excluded()
        reading.templates = columns.templates
        reading.tables += [columns.tables()] if len(columns) else []

    def brings_own_cases(self) -> bool:
        """Return whether the files contain their own cases; if the model does not say so, read some of them."""
        own_cases = self.model.model.own_cases
        return self.layout.release.brings_own_cases(self._sample()) if own_cases is None else own_cases

    def _sample(self) -> Iterator[tuple[bytes, str, Case | None]]:
        for case_id in self.case_ids[:_SAMPLE]:
            with contextlib.suppress(BadFileError):  # reported when the file itself is read
                yield self._contents(case_id), case_id, self.cases.get(case_id, (None,))[0]

    def _contents(self, case_id: str) -> bytes:
        return contents(self.model.path / f"{case_id}.json", self.layout.root)

    def _take(self, reading: FolderReading, case_id: str, columns: TrialColumns) -> None:
        name = f"{reading.report.folder}/{case_id}.json"
        before = self.recorded.get((reading.model.run_id, name))
        file = self._read_file(reading, case_id, name, before, columns)
        if file is before:
            reading.report.unchanged += file.fault is None
            reading.old_faults += [file] if file.fault else []
            return
        reading.files.append(file)
        if file.fault is None:
            reading.taken.append(case_id)
            reading.report.prompts.update(file.prompts)
            reading.report.taken += 1
            reading.report.replaced += before is not None and before.fault is None

    def _read_file(
        self, reading: FolderReading, case_id: str, name: str, before: ReleaseFile | None, columns: TrialColumns
    ) -> ReleaseFile:
        """Read a new file into the columns; return ``before`` itself for an unchanged file."""
        run_id, release = reading.model.run_id, self.layout.release
        key, digest = case_id, ""
        try:
            data = self._contents(case_id)
            if reading.own is None:
                case, content_hash, position = self.cases.get(case_id, (None, "", -1))
                salt = f"{content_hash} {position}"
            else:
                case, salt = self._own_case(reading, reading.own, name, case_id, data), "own"
                content_hash = case.content_hash
            key = case.case_key if case else case_id
            hashed = hashlib.sha256(f"{release.version} {run_id} {case_id} {salt}\n".encode())
            hashed.update(data)
            digest = hashed.hexdigest()[:32]
            if before is not None and before.digest == digest:
                return before
            trials = release.read(data, case_id, case, reading.model.model)
            return ReleaseFile(run_id, name, key, digest, columns.add(run_id, key, content_hash, digest, trials))
        except BadFileError as error:
            fault = ReleaseFile(run_id, name, key, digest, fault=str(error))
            return before if before == fault and before is not None else fault

    def _own_case(self, reading: FolderReading, own: dict[str, OwnCase], name: str, case_id: str, data: bytes) -> Case:
        """Return the case in a file; its picture is stored again even if the file is unchanged."""
        own_case = self.layout.release.own_case(data, case_id)
        other = self.own.get(case_id)  # the same case in another folder, which may have the picture
        shared = (
            other is not None
            and not own_case.with_picture
            and other.model_copy(update={"images": ()}) == own_case.case.model_copy(update={"images": ()})
        )
        case = self.own[case_id] = other if other is not None and shared else own_case.case
        own[case_id] = own_case._replace(case=case)
        reading.report.remarks += [f"{name}: {fault}" for fault in own_case.faults]
        return case


class FileParcel(tuple[Files, ...]):
    """Files about the same cases, for a process to read."""

    def read(self) -> list[FolderReading]:
        return [files.read() for files in self]


def contents(path: Path, root: Path) -> bytes:
    """Return a file's contents; raise ``BadFileError`` if it is outside the release, unreadable or too large."""
    if leads_out(path, root):
        raise BadFileError("it is a link that leads out of the release's folder")
    try:
        with open(path, "rb") as file:
            size = min(os.fstat(file.fileno()).st_size, LARGEST_FILE)
            data = file.read(size + 1)
    except OSError as error:
        raise BadFileError(f"it cannot be read ({error.strerror})") from error
    if len(data) > LARGEST_FILE:
        raise BadFileError(f"it has more than {LARGEST_FILE // 1_000_000} MB")
    return data


def leads_out(path: Path, root: Path) -> bool:
    """Return whether a path is a link to a place outside the release at ``root``."""
    return path.is_symlink() and not path.resolve().is_relative_to(root.resolve())
