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
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

import pyarrow as pa

from core import __version__, access
from core.case import Case, case_set_hash
from core.datasets import imported
from core.datasets.archive import Limits, opened
from core.errors import AnamnesisError
from core.frameworks.release import BadFileError, Layout, ModelFolder, OwnCase, Release
from core.jobs.release.columns import Columns
from core.journal import RunHeader
from core.measures.missing import read_by
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.release import ReleaseBatch, ReleaseFile, ReleaseRun, documents, known_files, write_release
from core.work import Progress, Stop, Work, begin, work_at

_Tables = dict[str, pa.Table]
LARGEST_FILE = 64_000_000
"""Bytes of a case file; those of releases have some ten thousand."""
_SAMPLE = 5
"""Files of an unknown folder that are looked at to tell whether its results bring their own cases."""
_TOGETHER = 250
"""Files that are read between two looks at whether to stop."""
_FEW = 2_000
"""Up to so many new files, starting processes takes longer than reading them here."""
_FAULTS = 20
"""Files set aside that a report names one by one."""
_SHOWN = "with"
"""What a run's setting ``images`` says where its doctor was shown pictures."""


@dataclass
class ModelReport:
    """What was found of one model: files taken (some in place of earlier ones) or as they were, and what is excluded.

    ``folder`` is where in the release its files lie.
    ``kept`` counts earlier files that this copy does not have: their trials stay. ``prompts`` maps the hash of a
    doctor's prompt to the new conversations held under it, ``excluded`` why new answers do not count to how many.
    ``remarks`` are sentences about single files that were taken, such as a picture that is broken. ``own_cases``
    counts the cases that the files bring themselves.
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


def begin_import(
    store: Store, release: Release, lent: Callable[[], AbstractContextManager[Path]], name: str, limits: Limits
) -> Work[ImportReport]:
    """Start to import all of a release in the background, or return the import of it that is under way.

    ``lent`` lends the folder or archive while it is read.
    """
    access.require("edit", "import a release")

    def do(tell: Progress, stop: Stop) -> ImportReport:
        with lent() as path:
            return import_copy(store, release, path, name, limits=limits, progress=tell, stop=stop)

    return begin((store.path, release.name, "import"), do, f"Importing {release.about}")


def importing(store: Store, release: Release) -> Work[ImportReport] | None:
    """Return the import of a release that is under way or was the last, or ``None``."""
    return work_at((store.path, release.name, "import"))


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
    found = _read(layout, models, cases.cases, known, now, on_file)
    readings = [reading for reading, _ in found]
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
            runs=[ReleaseRun(_header(layout, r, set_hash, now), r.cases) for r in readings if r.cases],
            tables=_together([tables for _, of in found for tables in of]),
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


def _header(layout: Layout, reading: _Reading, set_hash: str, now: float) -> RunHeader:
    """Describe a model's results as a run; its prompts are described once they are stored."""
    model, own, release = reading.model, reading.own, layout.release
    shown = {"images": _SHOWN} if any(brought.shown for brought in (own or {}).values()) else {}
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


def _own_cases(readings: Sequence[_Reading]) -> list[Case]:
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


@dataclass
class _Reading:
    """What a model's folder holds: ``files`` new, changed or newly faulty, ``old_faults`` faulty as before.

    ``cases`` are those of the new files, with their position in the data set's file. ``own`` holds, by case id, the
    cases that the files bring themselves, ``None`` where they are about the data set's. ``templates`` are those of
    their prompts, by hash.
    """

    model: ModelFolder
    report: ModelReport
    files: list[ReleaseFile] = field(default_factory=list)
    cases: list[tuple[Case, int]] = field(default_factory=list)
    old_faults: list[ReleaseFile] = field(default_factory=list)
    own: dict[str, OwnCase] | None = None
    templates: dict[str, str] = field(default_factory=dict)

    def add(self, part: _Reading) -> None:
        """Add what other files of the folder hold."""
        self.files += part.files
        self.cases += part.cases
        self.old_faults += part.old_faults
        self.templates |= part.templates
        mine, its = self.report, part.report
        mine.taken, mine.replaced = mine.taken + its.taken, mine.replaced + its.replaced
        mine.unchanged, mine.trials = mine.unchanged + its.unchanged, mine.trials + its.trials
        mine.prompts.update(its.prompts)
        mine.excluded.update(its.excluded)


def _read(
    layout: Layout,
    models: Sequence[ModelFolder],
    cases: Sequence[Case],
    known: Mapping[tuple[str, str], ReleaseFile],
    now: float,
    on_file: Callable[[], None],
) -> list[tuple[_Reading, list[_Tables]]]:
    """Read what is new of the models, many files in processes; ``known`` is what the database has seen of them."""
    indexed = {c.case_key.partition("/")[2]: (c, c.content_hash, n) for n, c in enumerate(cases)}
    own: dict[str, Case] = {}
    whole = [_Files(layout, model, model.case_ids, indexed, known, now, own) for model in models]
    found = [(_Reading(one.model, ModelReport(one.place, one.model.model.label)), list[_Tables]()) for one in whole]
    parts: list[tuple[int, _Files]] = []
    for number, (one, (reading, tables)) in enumerate(zip(whole, found, strict=True)):
        if one.leads_out(one.model.path):
            raise AnamnesisError(f"{one.place} is a link that leads out of the release's folder.")
        if one.brings_own_cases():  # which folders share, so that they are read one after the other
            reading.own = {}
            for _ in one.case_ids:
                on_file()
            tables.append(one.read_into(reading))
        else:
            starts = range(0, len(one.case_ids), _TOGETHER)
            parts += [(number, one.part(one.case_ids[start : start + _TOGETHER])) for start in starts]
    many = sum(len(part.case_ids) - len(part.known) for _, part in parts) > _FEW
    with contextlib.closing(read_by(min(4, os.cpu_count() or 1) if many else 0, [part for _, part in parts])) as read:
        for number, part in parts:
            for _ in part.case_ids:
                on_file()
            part_reading, part_tables = next(read)
            found[number][0].add(part_reading)
            found[number][1].append(part_tables)
    for one, (reading, _) in zip(whole, found, strict=True):
        here = {f"{one.place}/{case_id}.json" for case_id in one.case_ids}
        taken = [path for (run_id, path), f in known.items() if run_id == one.model.run_id and f.fault is None]
        reading.report.kept = sum(path not in here for path in taken)
    return found


def _together(parts: Sequence[_Tables]) -> _Tables:
    """Return the rows of all parts, table by table."""
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: pa.concat_tables([part[name] for part in parts if part]).combine_chunks() for name in names}


def _documents(layout: Layout) -> Iterator[tuple[str, tuple[str, bytes]]]:
    """Yield name → (digest, contents) of the files that are kept as they are, for whoever reads them later."""
    for path in layout.documents:
        with contextlib.suppress(BadFileError):
            data = _contents(path, layout.root.resolve())
            yield layout.name_of(path), (hashlib.sha256(data).hexdigest()[:32], data)


@dataclass(frozen=True)
class _Files:
    """Files of a model's folder, to be read in whichever process; ``known`` is what the database has seen of them.

    ``cases`` are those of the data set by id, with hash and position; ``own`` those that other folders brought.
    """

    layout: Layout
    model: ModelFolder
    case_ids: tuple[str, ...]
    cases: Mapping[str, tuple[Case, str, int]]
    known: Mapping[tuple[str, str], ReleaseFile]
    now: float
    own: dict[str, Case]

    @property
    def place(self) -> str:
        """Where in the release the folder lies."""
        return self.layout.name_of(self.model.path)

    def part(self, case_ids: tuple[str, ...]) -> _Files:
        """Return some of the files, with what belongs to them alone."""
        names = [(self.model.run_id, f"{self.place}/{case_id}.json") for case_id in case_ids]
        cases = {case_id: self.cases[case_id] for case_id in case_ids if case_id in self.cases}
        return replace(
            self, case_ids=case_ids, cases=cases, known={n: self.known[n] for n in names if n in self.known}, own={}
        )

    def read(self) -> tuple[_Reading, _Tables]:
        """Return what the files hold that is new."""
        reading = _Reading(self.model, ModelReport(self.place, self.model.model.label))
        return reading, self.read_into(reading)

    def read_into(self, reading: _Reading) -> _Tables:
        """Note what the files hold that is new, and return the rows of their trials."""
        columns, report = Columns(self.layout.release, self.now), reading.report
        for case_id in self.case_ids:
            self._take(reading, case_id, columns)
        report.own_cases, report.trials, report.excluded = len(reading.own or ()), len(columns), columns.excluded()
        reading.templates = columns.templates
        return columns.tables() if len(columns) else {}

    def brings_own_cases(self) -> bool:
        """Say whether the files are about cases of their own; where that is not known, by looking at some."""
        known = self.model.model.own_cases
        return self.layout.release.brings_own_cases(self._sample(self.model)) if known is None else known

    def _sample(self, model: ModelFolder) -> Iterator[tuple[bytes, str, Case | None]]:
        for case_id in model.case_ids[:_SAMPLE]:
            with contextlib.suppress(BadFileError):  # said when the file itself is read
                yield (
                    _contents(_path(model, case_id), self.layout.root.resolve()),
                    case_id,
                    self.cases.get(case_id, (None,))[0],
                )

    def _take(self, reading: _Reading, case_id: str, columns: Columns) -> None:
        name = f"{reading.report.folder}/{case_id}.json"
        before = self.known.get((reading.model.run_id, name))
        file = self._read_file(reading, case_id, name, before, columns)
        if file is before:
            reading.report.unchanged += file.fault is None
            reading.old_faults += [file] if file.fault else []
            return
        reading.files.append(file)
        if file.fault is None:
            case, position = reading.own[case_id][:2] if reading.own is not None else self.cases[case_id][::2]
            reading.cases.append((case, position))
            reading.report.prompts.update(file.prompts)
            reading.report.taken += 1
            reading.report.replaced += before is not None and before.fault is None

    def _read_file(
        self, reading: _Reading, case_id: str, name: str, before: ReleaseFile | None, columns: Columns
    ) -> ReleaseFile:
        """Read one file into the columns where it is new; returns ``before`` itself where nothing has changed."""
        run_id, release = reading.model.run_id, self.layout.release
        key, digest = case_id, ""
        try:
            data = _contents(_path(reading.model, case_id), self.layout.root.resolve())
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

    def _own_case(self, reading: _Reading, own: dict[str, OwnCase], name: str, case_id: str, data: bytes) -> Case:
        """Return the case that a file brings; its picture is kept again even where the file is as it was."""
        brought = self.layout.release.own_case(data, case_id)
        known = self.own.get(case_id)  # of another folder: what was shown there belongs to the case all the same
        shared = (
            known is not None
            and not brought.shown
            and known.model_copy(update={"images": ()}) == brought.case.model_copy(update={"images": ()})
        )
        case = self.own[case_id] = known if known is not None and shared else brought.case
        own[case_id] = brought._replace(case=case)
        reading.report.remarks += [f"{name}: {fault}" for fault in brought.faults]
        return case

    def leads_out(self, path: Path) -> bool:
        """Say whether a path is a link to somewhere outside the release."""
        return _leads_out(path, self.layout.root.resolve())


def _contents(path: Path, root: Path) -> bytes:
    """Return a file's contents; what lies outside the release or is far too large is not read."""
    if _leads_out(path, root):
        raise BadFileError("it is a link that leads out of the release's folder")
    try:
        with open(path, "rb") as file:
            data = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise BadFileError(f"it cannot be read ({error.strerror})") from error
    if len(data) > LARGEST_FILE:
        raise BadFileError(f"it has more than {LARGEST_FILE // 1_000_000} MB")
    return data


def _leads_out(path: Path, root: Path) -> bool:
    return path.is_symlink() and not path.resolve().is_relative_to(root)


def _path(model: ModelFolder, case_id: str) -> Path:
    return model.path / f"{case_id}.json"
