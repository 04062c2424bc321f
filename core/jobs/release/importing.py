"""Imports a copy of the release: reads what is new of it and stores that in one transaction, whole or not at all."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence

from core import __version__
from core.case import Case, case_set_hash
from core.datasets import imported
from core.datasets.readers import read_cases
from core.datasets.reading import Reading
from core.errors import AnamnesisError
from core.frameworks.craftmd.release.case_file import TRIALS, BadFileError
from core.frameworks.craftmd.release.fields import ARMS
from core.frameworks.craftmd.release.layout import QC_FILE, Layout, ModelFolder
from core.frameworks.craftmd.release.own_cases import OWN_CASES
from core.frameworks.craftmd.release.quality_control import single_diagnosis
from core.jobs.release.columns import GRADER, Columns
from core.jobs.release.reader import ModelReading, ReleaseReader
from core.jobs.release.report import ImportReport
from core.journal import RunHeader
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.release import ReleaseBatch, ReleaseRun, documents, known_files, write_release

DATASET = "craftmd"
PATIENT, SUMMARISER = "gpt_4", "gpt_3_5"
"""Who played the patient and wrote the summaries of the release (Johri et al. 2025, Methods)."""
_SHOWN = "with"
"""``core.jobs.pictures.WITH``, which loads every model client."""

Documents = dict[str, tuple[str, bytes]]


def import_release(
    store: Store, layout: Layout, models: Sequence[ModelFolder], on_file: Callable[[], None] = lambda: None
) -> ImportReport:
    """Import the case files of ``models``; ``on_file`` is called before each file is read.

    Importing the same files again changes nothing; a changed file replaces its trials; earlier files that this copy
    lacks stay. Raises ``AnamnesisError`` where the data set's file cannot be read or none of the case files can be
    used; then nothing was stored.
    """
    fold(store)  # re-gradings of this release that only the journals hold have to be there before its own grades
    cases_read = read_cases(layout.cases_file, DATASET, "craftmd")
    cases = _with_quality_control(cases_read.cases, layout)
    with store.read() as cursor:
        known, kept = known_files(cursor), documents(cursor)
    now = time.time()
    reader = ReleaseReader(layout.root, cases, known, now, on_file)
    readings = [reader.read(model) for model in models]
    _refuse_if_useless(readings)
    new_documents = _new_documents(reader, layout, kept)
    if new_documents or any(reading.files for reading in readings):
        batch = _batch(readings, reader.columns, case_set_hash(cases), now, new_documents)
        with store.write() as connection:
            write_release(connection, batch)
    saved = _save_cases(DATASET, cases) > 0, _save_cases(OWN_CASES, _own_cases(readings))
    return _report(readings, cases_read, layout, *saved)


def _with_quality_control(cases: list[Case], layout: Layout) -> list[Case]:
    """Mark which cases allow one single diagnosis, as far as the release's annotators looked at them."""
    path = next((p for p in layout.annotations if p.name == QC_FILE and not p.is_symlink()), None)
    single = single_diagnosis(path.read_bytes()) if path else {}
    ids = [case.case_key.partition("/")[2] for case in cases]
    return [
        case.model_copy(update={"single_diagnosis": single[name]}) if name in single else case
        for case, name in zip(cases, ids, strict=True)
    ]


def _refuse_if_useless(readings: Sequence[ModelReading]) -> None:
    """Raise where no file of any model can be used."""
    faults = [f for reading in readings for f in (*reading.files, *reading.old_faults) if f.fault]
    if faults and not any(r.report.taken or r.report.unchanged for r in readings):
        raise AnamnesisError(
            f"None of the {len(faults):,} case files can be used ({faults[0].path}: {faults[0].fault}): "
            "nothing was imported."
        )


def _new_documents(reader: ReleaseReader, layout: Layout, kept: dict[str, str]) -> Documents:
    """Return the experts' files that are new, as they are, for whoever reads them later."""
    found: Documents = {}
    for path in layout.annotations:
        try:
            data = reader.contents(path)
        except BadFileError:
            continue
        name, digest = f"results/{path.parent.name}/{path.name}", hashlib.sha256(data).hexdigest()[:32]
        if kept.get(name) != digest:
            found[name] = (digest, data)
    return found


def _batch(
    readings: Sequence[ModelReading], columns: Columns, set_hash: str, now: float, new: Documents
) -> ReleaseBatch:  # fmt: skip
    return ReleaseBatch(
        runs=[ReleaseRun(_header(r, set_hash, now), r.cases) for r in readings if r.cases],
        tables=columns.tables() if len(columns) else {},
        files=[file for r in readings for file in r.files],
        templates=columns.templates,
        documents=new,
    )


def _header(reading: ModelReading, set_hash: str, now: float) -> RunHeader:
    """Describe a model's results as a run; its prompts are described once they are stored."""
    model, own = reading.model, reading.own
    shown = {"images": _SHOWN} if any(brought.shown for brought in (own or {}).values()) else {}
    return RunHeader(
        run_id=model.run_id,
        fingerprint=hashlib.sha256(model.run_id.encode()).hexdigest(),
        protocol="craftmd",
        doctor=model.model.label,
        patient=PATIENT,
        grader=GRADER,
        summariser=SUMMARISER,
        prompt_pack="as released",
        prompt_hash="",
        case_set=DATASET if own is None else OWN_CASES,
        case_set_hash=set_hash if own is None else case_set_hash(_own_cases([reading])),
        arms=list(ARMS),
        trials=TRIALS,
        seed=0,
        settings={"max_messages": model.model.max_messages, "folder": model.name, **shown},
        code_version=__version__,
        source="release",
        created_at=now,
    )


def _own_cases(readings: Sequence[ModelReading]) -> list[Case]:
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


def _report(readings: Sequence[ModelReading], cases: Reading, layout: Layout, saved: bool, own: int) -> ImportReport:
    faults = [f for r in readings for f in (*r.files, *r.old_faults) if f.fault]
    names = tuple(f"results/{p.parent.name}/{p.name}" for p in layout.annotations)
    models = tuple(r.report for r in readings)
    return ImportReport(len(cases.cases), models, tuple(faults), tuple(cases.rejected), names, saved, own)
