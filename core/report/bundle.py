"""A bundle: one zip with everything behind the figures of some runs, for an archive or for reviewers.

It contains the journals of the runs with their re-gradings, judgements and unblinded reviews, the cases, prompts and
settings, ``figures.csv``, and a manifest with the SHA-256 of every file. Equal contents give equal bytes. Where the
licence of a run's cases does not allow to pass them on, the texts of the cases and of every conversation about them are
withheld: journals then have verdicts, counts and costs, but no words.
"""

from __future__ import annotations

import csv
import hashlib
import math
import os
import platform
import shutil
import tempfile
import zipfile
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import orjson
from pydantic import BaseModel, ConfigDict, Field

from core import __version__
from core.callbacks import StepProgress
from core.case import Case
from core.datasets.licences import texts_may_leave
from core.errors import AnamnesisError, UsageError
from core.export.withheld import WITHHELD, case_without_text
from core.frameworks.base import framework
from core.images import contents, local_images
from core.interchange.public import PublicNames, people_playing, people_writing
from core.jobs.progress import is_running
from core.journal import PLAYED_ELSEWHERE, RunHeader, journal_path, line_bytes, read_header, writable
from core.measures.base import MetricRequest, Row
from core.measures.notes import result_of
from core.measures.registry import metrics
from core.models.keys import known_keys
from core.paths import ROOT, journals_of
from core.prompts import PromptPack, unchanged_pack
from core.report.bundle_journals import Belonging, job_lines, peoples_lines, replaced_in, run_lines, without_addresses
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.trials import done_trial_ids
from core.store.run_files import header_with_cases, read_run_tables, write_run_tables
from core.store.selection import Selection
from core.store.written import PEOPLE, JournalContents
from core.store.written import journal_contents as read_written

MANIFEST, FIGURES_FILE, README = "manifest.json", "figures.csv", "README.md"
JOURNALS, IMPORTED, CASES, PROMPTS, IMAGES = "journals", "imported", "cases", "prompts", "images"
FIGURES: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("accuracy", {}),
    ("accuracy", {"by": "specialty"}),
    ("pairs", {"against": "both"}),
    ("endings", {}),
    ("graders", {}),
    ("rubric_scores", {}),
    ("spend", {}),
)
"""The metrics of every bundle with their options."""
Cells = dict[tuple[str, str, str], float | None]
"""Figure, row in words and column → number; ``None`` is a missing number."""
_CELL = ("figure", "row", "column", "value")
VERSION: Literal[2] = 2
"""Of the manifest; bundles of version 0.5 have 1."""
_JUDGEMENTS_LEFT_OUT = "Judgements, facts and reviews of runs whose texts are withheld: they quote the texts."
_TIME = (1980, 1, 1, 0, 0, 0)
_BLOCK = 1 << 20


class BundledRun(BaseModel):
    """A run of a bundle. ``cases_inside``: the texts of its cases and conversations are in the bundle."""

    model_config = ConfigDict(frozen=True)

    run_id: str
    doctor: str
    protocol: str
    source: str
    cases: int
    trials: int
    licences: list[str]
    cases_inside: bool


class Manifest(BaseModel):
    """The runs, what was left out with the reason, and file → SHA-256.

    ``figures_left_out`` are figures that the bundle does not give again, because they need what was left out. ``locks``
    is name → SHA-256 of the lists of package versions of the program that made the bundle.
    """

    model_config = ConfigDict(frozen=True)

    format: Literal["anamnesis-bundle"] = "anamnesis-bundle"
    version: Literal[2] = VERSION
    made_with: str
    runs: list[BundledRun]
    left_out: list[str] = Field(default_factory=list)
    figures_left_out: list[str] = Field(default_factory=list)
    locks: dict[str, str] = Field(default_factory=dict)
    files: dict[str, str] = Field(default_factory=dict)


@dataclass(frozen=True)
class MadeBundle:
    """A written bundle: size in bytes, and SHA-256 of the zip.

    ``people`` is the number of people whose names were replaced by numbers.
    """

    manifest: Manifest
    size: int
    sha256: str
    people: int = 0


@dataclass
class _Draft:
    """The files of a bundle in a temporary folder, with the database that is built from them."""

    root: Path
    private: Mapping[bytes, bytes]
    files: dict[str, Path] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)

    @property
    def store(self) -> Store:
        return Store(self.root / "check.duckdb")

    def path(self, name: str) -> Path:
        """Return the path for a file; journals are where the database of the draft looks for them."""
        folder, _, rest = name.partition("/")
        path = journals_of(self.store.path) / rest if folder == JOURNALS else self.root / "files" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        self.files[name] = path
        return path

    def write(self, name: str, data: bytes) -> None:
        self.path(name).write_bytes(replaced_in(data, self.private))

    def write_json(self, name: str, value: Any) -> None:
        self.write(name, orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n")

    def write_journal(self, name: str, lines: Iterable[bytes]) -> None:
        """Write a journal, unless there is no line."""
        file = f"{JOURNALS}/{name}/journal.jsonl"
        path = self.path(file)
        with path.open("wb") as journal:
            journal.writelines(replaced_in(line, self.private) for line in lines)
        if not path.stat().st_size:
            shutil.rmtree(path.parent)
            del self.files[file]


def file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def make_bundle(
    store: Store,
    run_ids: Sequence[str],
    out: Path,
    *,
    with_cases: bool = False,
    with_names: bool = False,
    progress: StepProgress = lambda done, planned, step="": None,
) -> MadeBundle:
    """Write the bundle of some runs, with the figures that its contents give as the database does.

    ``with_cases`` also includes cases whose licence does not allow it, or is unknown; ``with_names`` keeps names of
    people. Raises ``UsageError`` for a run that is not stored or is running, ``AnamnesisError`` if a journal is
    damaged, ``out`` cannot be written, or the runs have no figure.
    """
    damaged = {damage.path.parent.name: damage.message for damage in fold(store).damaged}
    for run_id in run_ids:
        if run_id in damaged:
            raise AnamnesisError(damaged[run_id])
        if is_running(run_id):
            raise UsageError(f"Run {run_id} is running: stop it, or wait for its end.")
    with writable(out.parent), tempfile.TemporaryDirectory(dir=out.parent, prefix=".bundle-") as folder:
        headers = [_header(store, run_id) for run_id in run_ids]
        inside = [with_cases or (bool(header.cases) and all(map(texts_may_leave, header.cases))) for header in headers]
        written, belonging = read_written(store.path), _belonging(store, headers, inside)
        names = PublicNames(() if with_names else _people(headers, written, belonging), with_names=with_names)
        belonging = replace(belonging, names=names)
        draft = _Draft(Path(folder), _private(store, headers, names))
        runs = [_add_run(draft, store, *of, progress) for of in zip(headers, inside, strict=True)]
        _add_cases(draft, list(zip(headers, inside, strict=True)))
        _add_shared(draft, store, written, belonging, damaged.keys(), progress)
        if not all(inside):
            draft.left_out.append(_JUDGEMENTS_LEFT_OUT)
        database = draft.store
        load_bundle(database, [draft.root / "files" / IMPORTED / run.run_id for run in runs if run.source == "release"])
        figures_left_out = _add_figures(draft, figure_cells(store, run_ids, progress), figure_cells(database, run_ids))
        manifest = Manifest(
            made_with=f"Anamnesis {__version__}, {platform.python_implementation()} {platform.python_version()}",
            runs=runs,
            left_out=draft.left_out,
            figures_left_out=figures_left_out,
            locks={path.name: file_digest(path) for path in sorted(ROOT.glob("requirements*.lock"))},
        )
        draft.write(README, _readme(manifest, names).encode())
        sums = {name: file_digest(path) for name, path in sorted(draft.files.items())}
        manifest = manifest.model_copy(update={"files": sums})
        draft.write_json(MANIFEST, manifest.model_dump())
        _write_zip(draft.files, out, progress)
    return MadeBundle(manifest, out.stat().st_size, file_digest(out), names.replaced)


def load_bundle(database: Store, imported: Iterable[Path]) -> None:
    """Fill an empty database from the journals next to it, and from the folders of imported runs."""
    for folder in imported:
        header = RunHeader.model_validate(orjson.loads((folder / "run.json").read_bytes()))
        with database.write() as connection:
            read_run_tables(connection, header, folder)
    # the journals come last: a re-grading of an imported run needs its trials
    if damaged := fold(database).damaged:
        raise AnamnesisError(damaged[0].message)


def figure_cells(store: Store, run_ids: Sequence[str], progress: StepProgress = lambda *_: None) -> Cells:
    """Return the numbers of ``FIGURES`` for some runs; a metric that has nothing to report on them has none."""
    cells: Cells = {}
    known = metrics()
    for done, (name, options) in enumerate(FIGURES):
        progress(done, len(FIGURES), "Figures")
        figure = " ".join([name, *(f"{option}={value}" for option, value in options.items())])
        try:
            result = result_of(known[name], MetricRequest(store, Selection(runs=list(run_ids))), options)
        except AnamnesisError:  # the metric says that there is nothing to report
            continue
        earlier = Counter[str]()
        for row in result.rows:
            columns = row.cells(plain=True) if isinstance(row, Row) else row
            label = row.label if isinstance(row, Row) else {n: v for n, v in row.items() if isinstance(v, str)}
            # some labels have the two means of a comparison, which are numbers of the row
            words = "; ".join(f"{n}={v}" for n, v in label.items() if not isinstance(v, float) and v not in (None, ""))
            earlier[words] += 1
            again = f" ({earlier[words]})" if earlier[words] > 1 else ""
            for column, value in columns.items():
                if column in label and not isinstance(value, float):
                    continue
                parts = value.items() if isinstance(value, Mapping) else [("", value)]
                for part, n in parts:
                    if n is None or isinstance(n, (int, float, np.number)):
                        number = math.nan if n is None else float(n)
                        cells[figure, words + again, f"{column} {part}".strip()] = (
                            None if math.isnan(number) else number
                        )
    return cells


def differing_cells(recorded: Cells, computed: Cells) -> Iterator[str]:
    """Name the cells of the recorded figures that differ from those computed again, with both numbers.

    Columns that only the computed figure has are those of another version of the program, and are ignored.
    """
    for cell, value in recorded.items():
        name = ": ".join(cell)
        if cell not in computed:
            yield f"{name} is {value} and cannot be computed again"
        elif not _equal(value, computed[cell]):
            yield f"{name} is {value}, computed {computed[cell]}"
    rows, figures = {cell[:2] for cell in recorded}, {cell[0] for cell in recorded}
    for figure, row in dict.fromkeys(cell[:2] for cell in computed):
        if figure in figures and (figure, row) not in rows:
            yield f"{figure}: {row} is missing"


def _equal(first: float | None, second: float | None) -> bool:
    """Whether two numbers are equal; another processor may round the last digits differently."""
    if first is None or second is None:
        return first is second
    return math.isclose(first, second, rel_tol=1e-9, abs_tol=1e-12)


def _add_figures(draft: _Draft, stored: Cells, computed: Cells) -> list[str]:
    """Write the figures that the contents of the bundle give as the database does; return the names of the others."""
    public = {(f, replaced_in(row.encode(), draft.private).decode(), c): value for (f, row, c), value in stored.items()}
    left_out = []
    rows: list[tuple[str, str, str, float | None]] = []
    for figure in dict.fromkeys(cell[0] for cell in public):
        cells = {cell: value for cell, value in public.items() if cell[0] == figure}
        if any(differing_cells(cells, {cell: value for cell, value in computed.items() if cell[0] == figure})):
            left_out.append(figure)
        else:
            rows += [(*cell, value) for cell, value in cells.items()]
    if not rows:
        raise AnamnesisError("These runs have no figure that a bundle could give again: there is nothing to verify.")
    with draft.path(FIGURES_FILE).open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([_CELL, *rows])
    return left_out


def read_figures(path: Path) -> Cells:
    """Read a file of figures; raise ``ValueError`` if it is none, or has no figure."""
    with path.open(encoding="utf-8", newline="") as file:
        heads, *rows = csv.reader(file)
    if tuple(heads) != _CELL or not rows:
        raise ValueError("it has no figure")
    return {(figure, row, column): float(value) if value else None for figure, row, column, value in rows}


def _header(store: Store, run_id: str) -> RunHeader:
    """Return the header of a run with its cases, from its journal or, if it was imported, from the database."""
    with store.read() as cursor:
        stored = header_with_cases(cursor, run_id)
    if stored.source == "release":
        return stored
    path = journal_path(run_id, store.journals)
    if not path.exists():
        raise AnamnesisError(f"The journal of run {run_id} is not here ({path}): restore it, then make the bundle.")
    header = read_header(path)
    return header if header.cases else header.model_copy(update={"cases": stored.cases})


def _belonging(store: Store, headers: Sequence[RunHeader], inside: Sequence[bool]) -> Belonging:
    """Return what belongs to runs; ``inside`` says of which of them texts may leave."""
    open_ = [header for header, may in zip(headers, inside, strict=True) if may]
    cases = {case.case_key for header in open_ for case in header.cases}
    hidden = {case.case_key: case for header in headers for case in header.cases if case.case_key not in cases}
    with store.read() as cursor:
        trials = set[str]().union(*(done_trial_ids(cursor, header.run_id) for header in open_))
    return Belonging(
        frozenset(header.run_id for header in headers),
        frozenset(trials),
        frozenset(cases),
        {key: case_without_text(case).text_hash for key, case in hidden.items()},
    )


def _people(headers: Sequence[RunHeader], contents: JournalContents, belonging: Belonging) -> set[str]:
    """Return the names of the people who played in the runs, or wrote what belongs to them."""
    people = {name for header in headers for name in people_playing(header.model_dump(exclude={"cases"}))}
    for line in peoples_lines(contents, replace(belonging, names=PublicNames(with_names=True))).lines:
        people |= people_writing(line)
    return people


def _private(store: Store, headers: Sequence[RunHeader], names: PublicNames) -> dict[bytes, bytes]:
    """Return text of this machine → its public form: people, keys of providers, and paths, the longest first."""
    private = {key: "[key]" for key in known_keys()}
    packs = {header.prompt_pack for header in headers if os.sep in header.prompt_pack}
    private |= {pack: Path(pack).name for pack in packs}
    for folder, public in ((store.path.parent, ""), (store.path.parent.resolve(), ""), (Path.home(), "~/")):
        if folder != Path(folder.anchor):
            private[f"{folder}{os.sep}"] = public
    private |= names.playing
    ordered = sorted(private.items(), key=lambda item: -len(item[0]))
    return {orjson.dumps(text)[1:-1]: orjson.dumps(public)[1:-1] for text, public in ordered}


def _add_run(draft: _Draft, store: Store, header: RunHeader, inside: bool, progress: StepProgress) -> BundledRun:
    run_id = header.run_id
    progress(0, 0, f"Run {run_id}")
    licences = {case.licence.strip() or "unknown" for case in header.cases}
    public = _public_header(header, inside)
    _add_prompts(draft, header)
    settings = public.model_dump(mode="json", exclude={"cases"})
    draft.write_json(f"runs/{run_id}.json", settings)
    journal = journal_path(run_id, store.journals)
    if header.source == "release":
        place = f"{IMPORTED}/{run_id}"
        draft.write(f"{place}/run.json", orjson.dumps(public.model_dump(mode="json")) + b"\n")
        with store.read() as cursor:
            for path in write_run_tables(cursor, run_id, draft.path(f"{place}/x").parent, "" if inside else WITHHELD):
                draft.files[f"{place}/{path.name}"] = path
        del draft.files[f"{place}/x"]
    if journal.exists():
        draft.write_journal(run_id, run_lines(journal, public, withheld=not inside))
    if not inside:
        draft.left_out.append(
            f"Run {run_id}: texts of its {len(header.cases):,} cases and of all conversations, answers, requests and "
            f"replies, because the licence of its cases is {' or '.join(sorted(licences)) or 'unknown'}."
        )
    return BundledRun(
        run_id=run_id,
        doctor=header.doctor,
        protocol=header.protocol,
        source=header.source,
        cases=len(header.cases),
        trials=header.trials,
        licences=sorted(licences),
        cases_inside=inside,
    )


def _public_header(header: RunHeader, inside: bool) -> RunHeader:
    """Return a header without credentials, and without the name of who started the run on a server."""
    changes: dict[str, Any] = {"settings": without_addresses(header.settings), "visitor": ""}
    if not inside:
        changes |= {"cases": [case_without_text(case) for case in header.cases], "many_choices": []}
        if header.fork is not None:
            kept = [(speaker, WITHHELD) for speaker, _ in header.fork.kept]
            changes["fork"] = header.fork.model_copy(update={"kept": kept, "request": None})
        if isinstance(prompts := header.settings.get("prompts"), dict):  # those of a release, with their templates
            without = {name: {**about, "template": WITHHELD} for name, about in prompts.items()}
            changes["settings"] = {**changes["settings"], "prompts": without}
    return header.model_copy(update=changes)


def _add_prompts(draft: _Draft, header: RunHeader) -> None:
    """Add the prompt packs of a run that are still as they were."""
    grading = header.settings.get("grading_prompts")
    if grading and (pack := unchanged_pack(framework().name, str(grading))) is not None:
        _add_pack(draft, pack)
    if header.source == "release":
        return
    own = unchanged_pack(header.prompt_pack, header.prompt_hash)
    if own is not None:
        _add_pack(draft, own)
        return
    requests = (
        "The log that it came with has no requests."
        if header.source in PLAYED_ELSEWHERE
        else "Its journal has every request as it was sent."
    )
    draft.left_out.append(
        f"Run {header.run_id}: its prompts {Path(header.prompt_pack).name} {header.prompt_hash}, which have "
        f"changed since or are not here. {requests}"
    )


def _add_pack(draft: _Draft, pack: PromptPack) -> None:
    for path in sorted(pack.folder.glob("*.md")):
        shutil.copyfile(path, draft.path(f"{PROMPTS}/{pack.name}-{pack.hash}/{path.name}"))


def _add_cases(draft: _Draft, runs: Sequence[tuple[RunHeader, bool]]) -> None:
    """Add the digests of all cases, the cases that may leave, and their pictures."""
    digests: dict[tuple[str, str], dict[str, Any]] = {}
    inside: dict[tuple[str, str], Case] = {}
    for header, with_text in runs:
        for case in header.cases:
            key = case.case_key, case.content_hash
            about = {"case_key": key[0], "content_hash": key[1], "text_hash": case.text_hash, "licence": case.licence}
            digests[key] = {**about, "inside": with_text or key in inside}
            if with_text:
                inside[key] = case
    draft.write(f"{CASES}/digests.jsonl", b"".join(orjson.dumps(digests[key]) + b"\n" for key in sorted(digests)))
    if inside:
        lines = (orjson.dumps(inside[key].model_dump(mode="json")) + b"\n" for key in sorted(inside))
        draft.write(f"{CASES}/cases.jsonl", b"".join(lines))
    for image in {image for case in inside.values() for image in local_images(case.images)}:
        try:
            draft.path(f"{IMAGES}/{image.path.name}").write_bytes(contents(image))
        except UsageError as error:
            del draft.files[f"{IMAGES}/{image.path.name}"]
            draft.left_out.append(str(error))


def _add_shared(
    draft: _Draft,
    store: Store,
    contents_: JournalContents,
    belonging: Belonging,
    damaged: Collection[str],
    progress: StepProgress,
) -> None:
    """Add what jobs and people wrote about the runs, without ``damaged`` journals."""
    people = peoples_lines(contents_, belonging)
    draft.write_journal(PEOPLE, map(line_bytes, people.lines))
    draft.left_out += [f"Reviews {reason}: {count}." for reason, count in sorted(people.left_out.items())]
    journals = sorted(store.journals.glob("*/journal.jsonl"))
    for number, path in enumerate(journals):
        progress(number, len(journals), "Jobs")
        if path.parent.name in damaged:
            draft.left_out.append(f"The journal {path.parent.name}: it is damaged.")
        elif path.parent.name not in belonging.runs and path.parent.name.partition("-")[0] != PEOPLE:
            draft.write_journal(path.parent.name, job_lines(path, belonging, contents_.withdrawn))


def _write_zip(files: Mapping[str, Path], out: Path, progress: StepProgress) -> None:
    """Write files sorted by name and with one time stamp, so that equal contents give equal bytes."""
    with zipfile.ZipFile(out, "w") as archive:
        for number, (name, path) in enumerate(sorted(files.items())):
            progress(number, len(files), "Packing")
            info = zipfile.ZipInfo(name, _TIME)
            info.compress_type, info.create_system, info.external_attr = zipfile.ZIP_DEFLATED, 3, 0o644 << 16
            info.file_size = path.stat().st_size
            with path.open("rb") as source, archive.open(info, "w") as target:
                shutil.copyfileobj(source, target, _BLOCK)


@contextmanager
def unpacked_store(folder: Path) -> Iterator[Store]:
    """Yield a database filled from an unpacked bundle; ``folder`` must be one that may be changed."""
    with tempfile.TemporaryDirectory(prefix="anamnesis-bundle-") as place:
        store = Store(Path(place) / "bundle.duckdb")
        if (folder / JOURNALS).is_dir():
            shutil.copytree(folder / JOURNALS, store.journals)
        load_bundle(store, sorted(path for path in (folder / IMPORTED).glob("*") if path.is_dir()))
        yield store


def _readme(manifest: Manifest, names: PublicNames) -> str:
    """Return what is in the bundle, and how to check it, in plain words."""
    runs = [
        f"- `{run.run_id}`: {run.doctor}, {run.protocol}, {run.cases:,} cases, {run.trials} trials of each; "
        + ("texts inside" if run.cases_inside else "texts withheld")
        for run in manifest.runs
    ]
    people = (
        "Journals may contain the names of annotators."
        if names.with_names
        else "People are numbers: annotator 1 is the doctor human/1. What they wrote is as they wrote it. Who edited a "
        "profile or the items of a case is named: the hash of the case and the settings of runs contain the name."
    )
    return "\n".join(
        [
            "# Runs of clinical language models, with everything behind their figures",
            "",
            f"Made with {manifest.made_with}. Check it with that program: `python -m core bundle verify study.zip`",
            "",
            *runs,
            "",
            "- `figures.csv`: figures of these runs, which the journals give again",
            "- `journals/`: a line for each request with its reply, and for each trial, verdict, judgement and review",
            "- `imported/`: trials of imported runs, which have no journal",
            "- `runs/`: the settings of each run",
            "- `cases/`: `digests.jsonl` has key and hashes of every case, `cases.jsonl` those with text inside",
            "- `prompts/`: the prompt packs; the last part of a folder's name is the hash of the pack",
            "- `manifest.json`: runs, what was left out, lists of package versions, SHA-256 of every other file",
            "",
            "Left out:",
            "",
            *(f"- {sentence}" for sentence in manifest.left_out),
            *(f"- The figure {figure}: it needs what is left out." for figure in manifest.figures_left_out),
            "- Keys, credentials in addresses, and paths of the machine.",
            "- Edits in the case debugger, and tests of whether a model has memorised cases.",
            "",
            f"A text that is left out stands as {WITHHELD}. {people}",
            "",
        ]
    )
