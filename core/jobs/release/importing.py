"""Imports a copy of a release: reads what is new of it and stores that in one transaction, whole or not at all.

A framework's ``Release`` knows the authors' folders and files; here its files become runs like any other (source
"release"). Faulty files are set aside by name.
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
from core.callbacks import Progress, Stop
from core.case import Case, case_set_hash
from core.datasets import imported
from core.datasets.archive import Limits, opened
from core.errors import AnamnesisError
from core.frameworks.release import BadFileError, Layout, ModelFolder, Release
from core.jobs.release.reading import Files, FolderReading, ModelReport, Parcel, Tables, contents, leads_out
from core.journal import RunHeader
from core.processes import read_by
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.releases import ReleaseBatch, ReleaseFile, ReleaseRun, documents, known_files, write_release

_TOGETHER = 100
"""Cases whose files are read between two looks at whether to stop."""
_FEW = 2_000
"""Up to so many new files, starting processes takes longer than reading them here."""
_FAULTS = 20
"""Files set aside that a report names one by one."""
_SHOWN = "with"
"""What a run's setting ``images`` says where its doctor was shown pictures."""


@dataclass(frozen=True)
class ImportReport:
    """What an import did.

    ``quarantined``: files of which nothing was taken, with their reason. ``rejected_cases``: (line, reason) of the
    data set's file. ``documents``: files that are kept as they are. ``saved_cases``: the cases are now a data set of
    their own; ``saved_own_cases`` counts those that the files brought themselves and that are now another.
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
        """Whether any conversation came in."""
        return any(model.taken for model in self.models)


def report_lines(report: ImportReport, release: Release) -> list[str]:
    """Return what an import did in sentences: a line for each model, with what is remarkable of it, then the rest."""
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
            found = ", ".join(f"{hash_} ({count:,})" for hash_, count in model.prompts.most_common())
            lines.append(f"  Its conversations were held under {len(model.prompts)} different prompts: {found}.")
        elif model.prompts:
            lines.append(f"  Doctor's prompt: {next(iter(model.prompts))}.")
    for line, reason in report.rejected_cases:
        lines.append(f"The data set's file, line {line}, was left out: {reason}.")
    if report.quarantined:
        lines.append(f"Set aside, nothing of them was taken ({len(report.quarantined):,} files):")
        lines += [f"  {file.path}: {file.fault}." for file in report.quarantined[:_FAULTS]]
    rest = Counter(file.path.rpartition("/")[0] for file in report.quarantined[_FAULTS:])
    lines += [f"  and {number:,} more in {folder_name}." for folder_name, number in rest.items()]
    if report.documents:
        lines.append(f"Kept as they are: {', '.join(report.documents)}.")
    return lines


def import_copy(
    store: Store,
    release: Release,
    path: Path,
    name: str,
    models: Sequence[str] | None = None,
    limits: Limits | None = None,
    *,
    progress: Progress = lambda done, planned: None,
    stop: Stop = lambda: False,
) -> ImportReport:
    """Import a release from a folder or archive that the user calls ``name``: of the named models, or of all.

    Stopped, nothing is stored. Raises ``UsageError`` for a path or model that is not there, and ``AnamnesisError`` for
    an archive that cannot be unpacked safely, and as ``import_release`` does.
    """
    done = itertools.count(1)

    def wanted(member: PurePosixPath) -> bool:
        go_on()
        return release.wanted(member)

    def go_on() -> None:
        if stop():
            raise AnamnesisError("It was stopped: nothing was imported.")

    with opened(path, wanted, limits) as folder:
        layout = release.find(folder, name)
        picked = layout.chosen(models)
        files = sum(len(model.case_ids) for model in picked)

        def on_file() -> None:
            go_on()
            progress(next(done), files)

        return import_release(store, layout, picked, on_file)


def import_release(
    store: Store, layout: Layout, models: Sequence[ModelFolder], on_file: Callable[[], None] = lambda: None
) -> ImportReport:
    """Import the case files of ``models``; ``on_file`` is called for each file.

    Importing the same files again changes nothing; a changed file replaces its trials; earlier files that this copy
    lacks stay. Raises ``AnamnesisError`` where the data set's file cannot be read or none of the case files can be
    used; then nothing was stored.
    """
    fold(store)  # re-gradings of this release that only the journals hold have to be there before its own grades
    release, cases = layout.release, layout.release.cases(layout)
    with store.read() as cursor:
        known, kept = known_files(cursor), documents(cursor)
    now = time.time()
    indexed = {c.case_key.partition("/")[2]: (c, c.content_hash, n) for n, c in enumerate(cases.cases)}
    readings = _read(layout, models, indexed, known, now, on_file)
    faults = [f for reading in readings for f in (*reading.files, *reading.old_faults) if f.fault]
    if faults and not any(r.report.taken or r.report.unchanged for r in readings):
        raise AnamnesisError(
            f"None of the {len(faults):,} case files can be used ({faults[0].path}: {faults[0].fault}): "
            "nothing was imported."
        )
    new_documents = {name: held for name, held in _documents(layout) if kept.get(name) != held[0]}
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
    """Describe a model's results as a run; its prompts are described once they are stored."""
    model, own, release = reading.model, reading.own, layout.release
    shown = {"images": _SHOWN} if any(brought.with_picture for brought in (own or {}).values()) else {}
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
        settings={**model.model.settings, "folder": model.name, **shown},
        code_version=__version__,
        source="release",
        created_at=now,
    )


def _own_cases(readings: Sequence[FolderReading]) -> list[Case]:
    """Return the cases that files bring themselves, each once: with its picture where one of the models has it."""
    found: dict[str, Case] = {}
    for case in (brought.case for reading in readings for brought in (reading.own or {}).values()):
        if case.images or case.case_key not in found:
            found[case.case_key] = case
    return list(found.values())


def _save_cases(name: str, cases: list[Case]) -> int:
    """Make the cases a data set to run on, unless there is one of this name; returns how many it now has."""
    if not cases or name in imported.names():
        return 0
    imported.save(name, cases)
    return len(cases)


def _read(
    layout: Layout,
    models: Sequence[ModelFolder],
    cases: Mapping[str, tuple[Case, str, int]],
    known: Mapping[tuple[str, str], ReleaseFile],
    now: float,
    on_file: Callable[[], None],
) -> list[FolderReading]:
    """Read what is new of the models, many files in processes; ``known`` is what the database has seen of them."""
    own: dict[str, Case] = {}
    whole = [Files(layout, model, model.case_ids, cases, known, now, own) for model in models]
    readings = [FolderReading(one.model, ModelReport(one.place, one.model.model.label)) for one in whole]
    shared: list[tuple[Files, FolderReading]] = []
    for one, reading in zip(whole, readings, strict=True):
        if leads_out(one.model.path, layout.root):
            raise AnamnesisError(f"{one.place} is a link that leads out of the release's folder.")
        if one.brings_own_cases():  # which folders share, so that they are read one after the other
            reading.own = {}
            for _ in one.case_ids:
                on_file()
            one.read_into(reading)
        else:
            shared.append((one, reading))
    starts = range(0, max((len(one.case_ids) for one, _ in shared), default=0), _TOGETHER)
    parcels = [Parcel([one.part(start, start + _TOGETHER) for one, _ in shared]) for start in starts]
    many = sum(len(part.case_ids) - len(part.known) for parcel in parcels for part in parcel) > _FEW
    processes = min(4, os.cpu_count() or 1) if many else 0
    with contextlib.closing(read_by(processes, parcels)) as read:
        for parcel in parcels:
            for _ in itertools.chain.from_iterable(part.case_ids for part in parcel):
                on_file()
            for (_, reading), found in zip(shared, next(read), strict=True):
                reading.add(found)
    for one, reading in zip(whole, readings, strict=True):
        here = set(map(one.name, one.case_ids))
        taken = [path for (run_id, path), f in known.items() if run_id == one.model.run_id and f.fault is None]
        reading.report.kept = sum(path not in here for path in taken)
    return readings


def _together(readings: Sequence[FolderReading]) -> Tables:
    """Take the rows of all trials out of what was read, table by table."""
    parts = [tables for reading in readings for tables in reading.tables]
    for reading in readings:
        reading.tables = []
    return {name: pa.concat_tables([part[name] for part in parts]) for name in (parts[0] if parts else ())}


def _documents(layout: Layout) -> Iterator[tuple[str, tuple[str, bytes]]]:
    """Yield name → (digest, contents) of the files that are kept as they are, for whoever reads them later."""
    for path in layout.documents:
        with contextlib.suppress(BadFileError):
            data = contents(path, layout.root)
            yield layout.name_of(path), (hashlib.sha256(data).hexdigest()[:32], data)
