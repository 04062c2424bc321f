"""Imports a copy of a release: reads its new files and stores all of them in one transaction.

A framework's ``Release`` describes the authors' folders and files; here they become runs (source "release"). Faulty
files are skipped and listed.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pyarrow as pa

from core import __version__
from core.callbacks import ProgressCallback, StopCallback
from core.case import Case, case_set_hash
from core.datasets import imported
from core.datasets.archive import ArchiveLimits, opened
from core.errors import AnamnesisError
from core.frameworks.release import BadFileError, Layout, ModelFolder, Release
from core.jobs.release.reading import FileParcel, Files, FolderReading, ModelReport, Tables, contents, leads_out
from core.journal import RunHeader
from core.processes import read_by
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.releases import ReleaseBatch, ReleaseFile, ReleaseRun, documents, known_files, write_release

_TOGETHER = 100
"""Cases whose files are read between two checks for a stop."""
_FEW = 2_000
"""Maximum of new files that are read in this process: for so few, starting processes takes longer."""
_FAULTS = 20
"""Faulty files that a report lists individually."""
_SHOWN = "with"
"""A run's setting ``images`` if its doctor saw pictures."""


@dataclass(frozen=True)
class ImportReport:
    """The result of an import.

    ``quarantined``: skipped files with their faults. ``rejected_cases``: (line, reason) of the data set's file.
    ``documents``: files that are stored unchanged. ``saved_cases``: the cases were saved as a new data set;
    ``saved_own_cases`` counts the cases in the results' files that were saved as another data set.
    """

    cases: int
    models: tuple[ModelReport, ...]
    quarantined: tuple[ReleaseFile, ...]
    rejected_cases: tuple[tuple[int, str], ...]
    documents: tuple[str, ...]
    saved_cases: bool
    saved_own_cases: int = 0

    @property
    def changed(self) -> bool:
        return any(model.taken for model in self.models)


def report_lines(report: ImportReport, release: Release) -> list[str]:
    """Return an import's result as lines of text: for each model its files and remarks, then faults and documents."""
    lines: list[str] = []
    for model in report.models:
        parts = [
            (model.taken - model.replaced, "files new"),
            (model.replaced, "changed (their trials were replaced)"),
            (model.unchanged, "as they were"),
            (model.kept, "from earlier imports not in this copy (kept)"),
        ]
        words = ", ".join(f"{count:,} {what}" for count, what in parts if count) or "no file could be used"
        trials = f"; {model.trials:,} trials came in" if model.trials else ""
        lines.append(f"{model.label} ({model.folder}): {words}{trials}.")
        if model.own_cases:
            lines.append(f"  Its files bring {model.own_cases:,} cases of their own: data set {release.own_cases}.")
        lines += [f"  {remark} The case goes without it." for remark in model.remarks]
        lines += [f"  {count:,} answers do not count: {reason}." for reason, count in model.excluded.most_common()]
        if len(model.prompts) > 1:
            counts = ", ".join(f"{hash_} ({count:,})" for hash_, count in model.prompts.most_common())
            lines.append(f"  Its conversations used {len(model.prompts)} different prompts: {counts}.")
        elif model.prompts:
            lines.append(f"  Doctor's prompt: {next(iter(model.prompts))}.")
    for line, reason in report.rejected_cases:
        lines.append(f"The data set's file, line {line}, was left out: {reason}.")
    if report.quarantined:
        lines.append(f"Set aside, nothing of them was taken ({len(report.quarantined):,} files):")
        lines += [f"  {file.path}: {file.fault}." for file in report.quarantined[:_FAULTS]]
    unlisted = Counter(file.path.rpartition("/")[0] for file in report.quarantined[_FAULTS:])
    lines += [f"  and {number:,} more in {folder_name}." for folder_name, number in unlisted.items()]
    if report.documents:
        lines.append(f"Kept as they are: {', '.join(report.documents)}.")
    return lines


def import_copy(
    store: Store,
    release: Release,
    path: Path,
    name: str,
    models: Sequence[str] | None = None,
    limits: ArchiveLimits | None = None,
    *,
    progress: ProgressCallback = lambda done, planned: None,
    stop: StopCallback = lambda: False,
) -> ImportReport:
    """Import these models of a release, or all, from a folder or archive that the user calls ``name``.

    A stop stores nothing. Raises ``UsageError`` for a missing path or model, and ``AnamnesisError`` for an archive
    that cannot be unpacked safely, and as ``import_release`` does.
    """
    done = itertools.count(1)

    def is_needed(member: PurePosixPath) -> bool:
        check_stop()
        return release.wanted(member)

    def check_stop() -> None:
        if stop():
            raise AnamnesisError("It was stopped: nothing was imported.")

    with opened(path, is_needed, limits) as folder:
        layout = release.find(folder, name)
        selected = layout.chosen(models)
        files = sum(len(model.case_ids) for model in selected)

        def on_file() -> None:
            check_stop()
            progress(next(done), files)

        return import_release(store, layout, selected, on_file)


def import_release(
    store: Store, layout: Layout, models: Sequence[ModelFolder], on_file: Callable[[], None] = lambda: None
) -> ImportReport:
    """Import the case files of ``models``; ``on_file`` is called for each file.

    A second import of the same files changes nothing; a changed file replaces its trials; earlier files that are
    missing in this copy stay. Raises ``AnamnesisError`` and stores nothing if the data set's file cannot be read or
    all case files are faulty.
    """
    fold(store)  # verdicts of re-gradings must be in the database before the release's own grades
    release, cases = layout.release, layout.release.cases(layout)
    with store.read() as cursor:
        files_seen, stored_documents = known_files(cursor), documents(cursor)
    now = time.time()
    indexed = {c.case_key.partition("/")[2]: (c, c.content_hash, n) for n, c in enumerate(cases.cases)}
    readings = _read_folders(layout, models, indexed, files_seen, now, on_file)
    faults = [f for reading in readings for f in (*reading.files, *reading.old_faults) if f.fault]
    if faults and not any(r.report.taken or r.report.unchanged for r in readings):
        raise AnamnesisError(
            f"None of the {len(faults):,} case files can be used ({faults[0].path}: {faults[0].fault}): "
            "nothing was imported."
        )
    new_documents = {
        name: (digest, data) for name, (digest, data) in _documents(layout) if stored_documents.get(name) != digest
    }
    if new_documents or any(reading.files for reading in readings):
        set_hash = case_set_hash(cases.cases)
        batch = ReleaseBatch(
            runs=[
                ReleaseRun(
                    _header(layout, r, set_hash, now),
                    [indexed[name][::2] if r.own is None else r.own[name][:2] for name in r.taken],
                )
                for r in readings
                if r.taken
            ],
            tables=_together(readings),
            files=[file for r in readings for file in r.files],
            templates={hash_: text for r in readings for hash_, text in r.templates.items()},
            documents=new_documents,
        )
        with store.write() as connection:
            write_release(connection, batch)
    return ImportReport(
        len(cases.cases),
        tuple(r.report for r in readings),
        tuple(faults),
        tuple(cases.rejected),
        tuple(map(layout.name_of, layout.documents)),
        _save_cases(release.name, cases.cases) > 0,
        _save_cases(release.own_cases, _own_cases(readings)),
    )


def _header(layout: Layout, reading: FolderReading, set_hash: str, now: float) -> RunHeader:
    """Return the header of a model's results as a run; its prompts are added when they are stored."""
    model, own, release = reading.model, reading.own, layout.release
    images = {"images": _SHOWN} if any(own_case.with_picture for own_case in (own or {}).values()) else {}
    return RunHeader(
        run_id=model.run_id,
        fingerprint=hashlib.sha256(model.run_id.encode()).hexdigest(),
        protocol=release.name,
        doctor=model.model.label,
        patient=release.cast["patient"],
        grader=release.cast["grader"],
        summariser=release.cast["summariser"],
        prompt_pack="as released",
        prompt_hash="",
        case_set=release.name if own is None else release.own_cases,
        case_set_hash=set_hash if own is None else case_set_hash(_own_cases([reading])),
        arms=list(release.arms),
        trials=release.trials,
        seed=0,
        settings={**model.model.settings, "folder": model.name, **images},
        code_version=__version__,
        source="release",
        created_at=now,
    )


def _own_cases(readings: Sequence[FolderReading]) -> list[Case]:
    """Return the distinct cases in the results' files, with a picture if one of the models has it."""
    cases: dict[str, Case] = {}
    for case in (own_case.case for reading in readings for own_case in (reading.own or {}).values()):
        if case.images or case.case_key not in cases:
            cases[case.case_key] = case
    return list(cases.values())


def _save_cases(name: str, cases: list[Case]) -> int:
    """Save the cases as a data set unless it exists; return the number of saved cases."""
    if not cases or name in imported.names():
        return 0
    imported.save(name, cases)
    return len(cases)


def _read_folders(
    layout: Layout,
    models: Sequence[ModelFolder],
    cases: Mapping[str, tuple[Case, str, int]],
    files_seen: Mapping[tuple[str, str], ReleaseFile],
    now: float,
    on_file: Callable[[], None],
) -> list[FolderReading]:
    """Read the new files of the models, in several processes if there are many.

    ``files_seen`` are the files that the database has seen, by run and path.
    """
    own: dict[str, Case] = {}
    folders = [Files(layout, model, model.case_ids, cases, files_seen, now, own) for model in models]
    readings = [FolderReading(folder.model, ModelReport(folder.place, folder.model.model.label)) for folder in folders]
    shared: list[tuple[Files, FolderReading]] = []
    for folder, reading in zip(folders, readings, strict=True):
        if leads_out(folder.model.path, layout.root):
            raise AnamnesisError(f"{folder.place} is a link that leads out of the release's folder.")
        if folder.brings_own_cases():  # folders share these cases, so they are read one after another in this process
            reading.own = {}
            for _ in folder.case_ids:
                on_file()
            folder.read_into(reading)
        else:
            shared.append((folder, reading))
    starts = range(0, max((len(folder.case_ids) for folder, _ in shared), default=0), _TOGETHER)
    parcels = [FileParcel([folder.part(start, start + _TOGETHER) for folder, _ in shared]) for start in starts]
    many = sum(len(part.case_ids) - len(part.recorded) for parcel in parcels for part in parcel) > _FEW
    processes = min(4, os.cpu_count() or 1) if many else 0
    with contextlib.closing(read_by(processes, parcels)) as read:
        for parcel in parcels:
            for _ in itertools.chain.from_iterable(part.case_ids for part in parcel):
                on_file()
            for (_, reading), part_read in zip(shared, next(read), strict=True):
                reading.add(part_read)
    for folder, reading in zip(folders, readings, strict=True):
        in_copy = set(map(folder.name, folder.case_ids))
        taken = [path for (run_id, path), f in files_seen.items() if run_id == folder.model.run_id and f.fault is None]
        reading.report.kept = sum(path not in in_copy for path in taken)
    return readings


def _together(readings: Sequence[FolderReading]) -> Tables:
    """Remove the tables from the readings and return them concatenated by name."""
    parts = [tables for reading in readings for tables in reading.tables]
    for reading in readings:
        reading.tables = []
    return {name: pa.concat_tables([part[name] for part in parts]) for name in (parts[0] if parts else ())}


def _documents(layout: Layout) -> Iterator[tuple[str, tuple[str, bytes]]]:
    """Yield (name, (digest, contents)) of the files that are stored unchanged."""
    for path in layout.documents:
        with contextlib.suppress(BadFileError):
            data = contents(path, layout.root)
            yield layout.name_of(path), (hashlib.sha256(data).hexdigest()[:32], data)
