"""Reads the case files of a release into columns: what is new or has changed; faulty files are set aside by name."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from core.case import Case
from core.errors import AnamnesisError
from core.frameworks.craftmd.release.case_file import (
    BadFileError,
    ReleaseTrial,
    read_case_file,
    read_trials,
    stored_object,
)
from core.frameworks.craftmd.release.layout import MODELS, ModelFolder, number_of
from core.frameworks.craftmd.release.own_cases import SAMPLE, OwnCase, bring_own_cases, own_case
from core.jobs.release.columns import Columns
from core.jobs.release.report import ModelReport
from core.store.queries.release import ReleaseFile

LARGEST_FILE = 64_000_000
"""Bytes of a case file; the release's have some ten thousand."""
_READER = "2"
"""Raised when files come to be read differently, so that they are read again."""

Known = Mapping[tuple[str, str], ReleaseFile]
OnFile = Callable[[], None]


@dataclass
class ModelReading:
    """What a model's folder holds: ``files`` new, changed or newly faulty, ``old_faults`` faulty as before.

    ``cases`` are those of the new files, with their position in the data set's file. ``own`` holds, by case id, the
    cases that the files bring themselves, ``None`` where they are about the data set's.
    """

    model: ModelFolder
    report: ModelReport
    files: list[ReleaseFile] = field(default_factory=list)
    cases: list[tuple[Case, int]] = field(default_factory=list)
    old_faults: list[ReleaseFile] = field(default_factory=list)
    own: dict[str, OwnCase] | None = None


class ReleaseReader:
    """Reads models of one copy of the release; ``known`` is what the database has seen of it before."""

    def __init__(self, root: Path, cases: Sequence[Case], known: Known, now: float, on_file: OnFile) -> None:
        self.columns = Columns(now)
        self._root, self._known, self._on_file = root.resolve(), known, on_file
        self._own: dict[str, Case] = {}
        self._cases = {c.case_key.partition("/")[2]: (c, c.content_hash, n) for n, c in enumerate(cases)}

    def read(self, model: ModelFolder) -> ModelReading:
        """Read what is new of a model; its trials go into ``columns``."""
        reading = ModelReading(model, ModelReport(model.name, model.model.label))
        first = len(self.columns)
        if self._leads_out(model.path):
            raise AnamnesisError(f"results/{model.name} is a link that leads out of the release's folder.")
        reading.own = {} if self._brings_own(model) else None
        for case_id in model.case_ids:
            self._on_file()
            self._take(reading, case_id)
        reading.report.own_cases = len(reading.own or ())
        reading.report.trials = len(self.columns) - first
        reading.report.excluded = self.columns.excluded(first)
        here = {_name(model, case_id) for case_id in model.case_ids}
        taken = [path for (run_id, path), f in self._known.items() if run_id == model.run_id and f.fault is None]
        reading.report.kept = sum(path not in here for path in taken)
        return reading

    def _brings_own(self, model: ModelFolder) -> bool:
        """Say whether a model's files bring their own cases; of an unknown folder, the first files tell."""
        if model.name in MODELS:
            return model.model.own_cases
        return bring_own_cases(self._sample(model))

    def _sample(self, model: ModelFolder) -> Iterator[tuple[bytes, str, Case | None]]:
        for case_id in model.case_ids[:SAMPLE]:
            with contextlib.suppress(BadFileError):  # told when the file itself is read
                yield self.contents(model.path / f"{case_id}.json"), case_id, self._cases.get(case_id, (None,))[0]

    def _take(self, reading: ModelReading, case_id: str) -> None:
        before = self._known.get((reading.model.run_id, _name(reading.model, case_id)))
        file = self._read_file(reading, case_id, before)
        if file is before:
            reading.report.unchanged += file.fault is None
            reading.old_faults += [file] if file.fault else []
            return
        reading.files.append(file)
        if file.fault is None:
            reading.cases.append(self._case_of(reading, case_id))
            reading.report.prompts.update(file.prompts)
            reading.report.taken += 1
            reading.report.replaced += before is not None and before.fault is None

    def _read_file(self, reading: ModelReading, case_id: str, before: ReleaseFile | None) -> ReleaseFile:
        """Read one file into the columns; returns ``before`` itself where nothing has changed."""
        run_id, name = reading.model.run_id, _name(reading.model, case_id)
        key, digest = case_id, ""
        try:
            data = self.contents(reading.model.path / f"{case_id}.json")
            read = self._of_own_case if reading.own is not None else self._of_known_case
            opened = read(reading, case_id, data)
            key, digest = opened.key, opened.digest
            if before is not None and before.digest == digest:
                return before
            prompts = self.columns.add(run_id, key, opened.content_hash, digest, opened.trials())
            return ReleaseFile(run_id, name, key, digest, prompts)
        except BadFileError as error:
            fault = ReleaseFile(run_id, name, key, digest, fault=str(error))
            return before if before == fault and before is not None else fault

    def _of_known_case(self, reading: ModelReading, case_id: str, data: bytes) -> _Opened:
        """Open a file about a case of the data set; it is only read where it is new."""
        case, content_hash, position = self._cases.get(case_id, (None, "", -1))
        digest = _digest(f"{_READER} {reading.model.run_id} {case_id} {content_hash} {position}", data)
        cap = reading.model.model.max_messages
        key = case.case_key if case else case_id
        return _Opened(key, content_hash, digest, lambda: read_case_file(data, case_id, case, cap))

    def _of_own_case(self, reading: ModelReading, case_id: str, data: bytes) -> _Opened:
        """Open a file that brings its case; its picture is kept again even where the file is as it was."""
        stored = stored_object(data, case_id)
        brought = own_case(stored, case_id)
        known = self._own.get(case_id)  # of another folder: what was shown there belongs to the case all the same
        shared = known is not None and not brought.shown and _same_but_pictures(known, brought.case)
        case = self._own[case_id] = known if known is not None and shared else brought.case
        if reading.own is not None:
            reading.own[case_id] = brought._replace(case=case)
        reading.report.remarks += [f"{_name(reading.model, case_id)}: {fault}" for fault in brought.faults]
        digest = _digest(f"{_READER} {reading.model.run_id} {case_id} own", data)
        cap = reading.model.model.max_messages
        return _Opened(case.case_key, case.content_hash, digest, lambda: read_trials(stored, case, cap))

    def _case_of(self, reading: ModelReading, case_id: str) -> tuple[Case, int]:
        """Return the case of a file that was read, and its position."""
        if reading.own is not None:
            return reading.own[case_id].case, number_of(case_id)
        case, _, position = self._cases[case_id]
        return case, position

    def contents(self, path: Path) -> bytes:
        """Return a file's contents; what lies outside the release or is far too large is not read."""
        if self._leads_out(path):
            raise BadFileError("it is a link that leads out of the release's folder")
        try:
            with open(path, "rb") as file:
                data = file.read(LARGEST_FILE + 1)
        except OSError as error:
            raise BadFileError(f"it cannot be read ({error.strerror})") from error
        if len(data) > LARGEST_FILE:
            raise BadFileError(f"it has more than {LARGEST_FILE // 1_000_000} MB")
        return data

    def _leads_out(self, path: Path) -> bool:
        return path.is_symlink() and not path.resolve().is_relative_to(self._root)


class _Opened(NamedTuple):
    """A file whose case is known; ``trials`` reads them, which takes longer."""

    key: str
    content_hash: str
    digest: str
    trials: Callable[[], list[ReleaseTrial]]


def _digest(salt: str, data: bytes) -> str:
    hashed = hashlib.sha256(f"{salt}\n".encode())
    hashed.update(data)
    return hashed.hexdigest()[:32]


def _same_but_pictures(case: Case, other: Case) -> bool:
    return case.model_copy(update={"images": ()}) == other.model_copy(update={"images": ()})


def _name(model: ModelFolder, case_id: str) -> str:
    return f"results/{model.name}/{case_id}.json"
