"""Reads the case files of a release into columns: what is new or has changed; faulty files are set aside by name."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from core.case import Case
from core.datasets.craftmd_release.case_file import BadFileError, read_case_file
from core.datasets.craftmd_release.columns import Columns
from core.datasets.craftmd_release.layout import ModelFolder
from core.datasets.craftmd_release.report import ModelReport
from core.errors import AnamnesisError
from core.store.release import ReleaseFile

LARGEST_FILE = 64_000_000
"""Bytes of a case file; the release's have some ten thousand."""
_READER = "2"
"""Raised when files come to be read differently, so that they are read again."""

Known = Mapping[tuple[str, str], ReleaseFile]
OnFile = Callable[[], None]


@dataclass
class ModelReading:
    """What a model's folder holds: ``files`` new, changed or newly faulty, ``old_faults`` faulty as before.

    ``cases`` are those of the new files, with their position in the data set's file.
    """

    model: ModelFolder
    report: ModelReport
    files: list[ReleaseFile] = field(default_factory=list)
    cases: list[tuple[Case, int]] = field(default_factory=list)
    old_faults: list[ReleaseFile] = field(default_factory=list)


class ReleaseReader:
    """Reads models of one copy of the release; ``known`` is what the database has seen of it before."""

    def __init__(self, root: Path, cases: Sequence[Case], known: Known, now: float, on_file: OnFile) -> None:
        self.columns = Columns(now)
        self._root, self._known, self._on_file = root.resolve(), known, on_file
        self._cases = {c.case_key.partition("/")[2]: (c, c.content_hash, n) for n, c in enumerate(cases)}

    def read(self, model: ModelFolder) -> ModelReading:
        """Read what is new of a model; its trials go into ``columns``."""
        reading = ModelReading(model, ModelReport(model.name, model.model.label))
        first = len(self.columns)
        if self._leads_out(model.path):
            raise AnamnesisError(f"results/{model.name} is a link that leads out of the release's folder.")
        for case_id in model.case_ids:
            self._on_file()
            self._take(reading, case_id)
        reading.report.trials = len(self.columns) - first
        reading.report.excluded = self.columns.excluded(first)
        here = {_name(model, case_id) for case_id in model.case_ids}
        taken = [path for (run_id, path), f in self._known.items() if run_id == model.run_id and f.fault is None]
        reading.report.kept = sum(path not in here for path in taken)
        return reading

    def _take(self, reading: ModelReading, case_id: str) -> None:
        before = self._known.get((reading.model.run_id, _name(reading.model, case_id)))
        file = self._read_file(reading.model, case_id, before)
        if file is before:
            reading.report.unchanged += file.fault is None
            reading.old_faults += [file] if file.fault else []
            return
        reading.files.append(file)
        if file.fault is None:
            case, _, position = self._cases[case_id]
            reading.cases.append((case, position))
            reading.report.prompts.update(file.prompts)
            reading.report.taken += 1
            reading.report.replaced += before is not None and before.fault is None

    def _read_file(self, model: ModelFolder, case_id: str, before: ReleaseFile | None) -> ReleaseFile:
        """Read one file into the columns; returns ``before`` itself where nothing has changed."""
        name, digest = _name(model, case_id), ""
        case, content_hash, position = self._cases.get(case_id, (None, "", -1))
        key = case.case_key if case else case_id
        try:
            data = self.contents(model.path / f"{case_id}.json")
            hashed = hashlib.sha256(f"{_READER} {model.run_id} {case_id} {content_hash} {position}\n".encode())
            hashed.update(data)
            digest = hashed.hexdigest()[:32]
            if before is not None and before.digest == digest:
                return before
            trials = read_case_file(data, case_id, case, model.model.max_messages)
            prompts = self.columns.add(model.run_id, key, content_hash, digest, trials)
            return ReleaseFile(model.run_id, name, key, digest, prompts)
        except BadFileError as error:
            fault = ReleaseFile(model.run_id, name, key, digest, fault=str(error))
            return before if before == fault and before is not None else fault

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


def _name(model: ModelFolder, case_id: str) -> str:
    return f"results/{model.name}/{case_id}.json"
