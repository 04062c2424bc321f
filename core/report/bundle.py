"""A bundle: one zip with everything behind the figures of some runs, for an archive or for reviewers.

It contains the journals of the runs with their re-gradings, judgements and unblinded reviews, the cases, prompts and
settings, the figures with the environment that computed them, and a manifest with the SHA-256 of every file. Equal
contents give equal bytes. Where the licence of a run's cases does not allow to pass them on, the texts of the cases and
of every conversation about them are withheld: journals then have verdicts, counts and costs, but no words.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, field_validator

from core import __version__
from core.callbacks import StepProgress
from core.case import Case
from core.datasets.archive import safe_name
from core.datasets.licences import open_licence
from core.errors import AnamnesisError, UsageError
from core.frameworks.base import default_pack
from core.images import contents, local_images
from core.interchange.public import WITHHELD, PublicNames, people_playing, people_writing
from core.jobs.progress import is_running
from core.journal import PLAYED_ELSEWHERE, RunHeader, journal_path, line_bytes, read_header, writable
from core.models.keys import known_keys
from core.paths import journals_of
from core.prompts import PromptPack, load_pack
from core.report.bundle_figures import Figure, FigureDifference, differences, figures_of
from core.report.bundle_journals import (
    Belonging,
    case_without_text,
    job_lines,
    peoples_lines,
    replaced_in,
    run_lines,
    without_addresses,
)
from core.report.environment import environment
from core.report.plan import Plan, stored_plan, to_toml, when
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.plans import LockedPlan, locked_plans
from core.store.queries.trials import done_trial_ids
from core.store.run_files import header_with_cases, read_run_tables, write_run_tables
from core.store.written import PEOPLE, JournalContents
from core.store.written import journal_contents as read_written

MANIFEST, FIGURES_FILE, README = "manifest.json", "figures.json", "README.md"
JOURNALS, IMPORTED, CASES, PROMPTS = "journals", "imported", "cases", "prompts"
IMAGES, PLANS = "images", "plans"
LINE_DIGITS = 12
"""Digits of the SHA-256 of each line of a journal, by which a changed line is found."""
_JUDGEMENTS_LEFT_OUT = "Judgements, facts and reviews of runs whose texts are withheld: they quote the texts."
_TIME = (1980, 1, 1, 0, 0, 0)
_BLOCK = 1 << 20


class BundledRun(BaseModel):
    """A run of a bundle. ``cases_inside``: the texts of its cases and conversations are in the bundle.

    ``pack`` is the folder of its prompts in the bundle, empty if the pack is not available as it was.
    """

    model_config = ConfigDict(frozen=True)

    run_id: str
    doctor: str
    protocol: str
    source: str
    cases: int
    trials: int
    licences: list[str]
    cases_inside: bool
    pack: str = ""

    @field_validator("run_id", "pack")
    @classmethod
    def _inside(cls, name: str) -> str:
        safe_name(name, MANIFEST)  # a manifest may come from anybody, and both are parts of paths
        return name


class Manifest(BaseModel):
    """The manifest: the runs, what was left out with the reason, and file → SHA-256."""

    model_config = ConfigDict(frozen=True)

    format: Literal["anamnesis-bundle"] = "anamnesis-bundle"
    version: int = 1
    made_with: str
    runs: list[BundledRun]
    reviews: list[str] = Field(default_factory=list)
    left_out: list[str] = Field(default_factory=list)
    files: dict[str, str] = Field(default_factory=dict)


@dataclass(frozen=True)
class MadeBundle:
    """A written bundle: size in bytes, SHA-256 of the zip, and figures that its contents do not give again.

    ``people`` is the number of people whose names were replaced by numbers.
    """

    manifest: Manifest
    size: int
    sha256: str
    differing: Sequence[FigureDifference]
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

    def write_journal(self, name: str, lines: Iterable[bytes]) -> bool:
        """Write a journal and the digests of its lines; return whether there is a line."""
        place = f"{JOURNALS}/{name}"
        journal, sums = self.path(f"{place}/journal.jsonl"), self.path(f"{place}/lines.sha256")
        with journal.open("wb") as file, sums.open("w", encoding="ascii") as digests:
            for raw in lines:
                data = replaced_in(raw, self.private)
                file.write(data)
                digests.write(line_digest(data) + "\n")
        if journal.stat().st_size:
            return True
        shutil.rmtree(journal.parent)
        for path in ("journal.jsonl", "lines.sha256"):
            del self.files[f"{place}/{path}"]
        return False


def line_digest(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()[:LINE_DIGITS]


def file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def may_leave(licence: str) -> bool:
    """Return whether a licence allows to pass a case on to anybody; an unknown licence does not."""
    return open_licence(licence) is not None


def make_bundle(
    store: Store,
    run_ids: Sequence[str],
    out: Path,
    *,
    with_cases: bool = False,
    with_names: bool = False,
    progress: StepProgress = lambda done, planned, step="": None,
) -> MadeBundle:
    """Write the bundle of some runs, and check that its contents give the same figures as the database.

    ``with_cases`` also includes cases whose licence does not allow it, or is unknown; ``with_names`` keeps names of
    people. Raises ``UsageError`` for a run that is not stored or is running, ``AnamnesisError`` if a journal is damaged
    or ``out`` cannot be written.
    """
    damaged = {damage.path.parent.name: damage.message for damage in fold(store).damaged}
    for run_id in run_ids:
        if run_id in damaged:
            raise AnamnesisError(damaged[run_id])
        if is_running(run_id):
            raise UsageError(f"Run {run_id} is running: stop it, or wait for its end.")
    with writable(out.parent), tempfile.TemporaryDirectory(dir=out.parent, prefix=".bundle-") as folder:
        headers = [_header(store, run_id) for run_id in run_ids]
        inside = [with_cases or _may_leave(header) for header in headers]
        written, locks = read_written(store.path), _locks_of(store, headers)
        belonging = _belonging(store, headers, inside, {lock.name for lock in locks})
        names = PublicNames(() if with_names else _people(headers, written, belonging), with_names=with_names)
        belonging = replace(belonging, names=names)
        draft = _Draft(Path(folder), _private(store, headers, names))
        runs = [_add_run(draft, store, *of, progress) for of in zip(headers, inside, strict=True)]
        _add_cases(draft, list(zip(headers, inside, strict=True)))
        _add_plans(draft, locks)
        reviews = _add_shared(draft, store, written, belonging, progress)
        if not all(inside):
            draft.left_out.append(_JUDGEMENTS_LEFT_OUT)
        progress(0, 0, "Figures")
        database = draft.store
        load_bundle(database, [draft.root / "files" / IMPORTED / run.run_id for run in runs if run.source == "release"])
        recorded = figures_of(store, run_ids, reviews, progress)
        computed = {figure.name: figure for figure in figures_of(database, run_ids, reviews, progress)}
        figures, differing = _checked(draft, recorded, computed, names)
        draft.write_json(FIGURES_FILE, [figure.model_dump() for figure in figures])
        draft.write_json("environment.json", environment())
        manifest = Manifest(
            made_with=f"Anamnesis {__version__}", runs=runs, reviews=list(reviews), left_out=draft.left_out
        )
        draft.write(README, _readme(manifest, figures, names).encode())
        sums = {name: file_digest(path) for name, path in sorted(draft.files.items())}
        manifest = manifest.model_copy(update={"files": sums})
        draft.write_json(MANIFEST, manifest.model_dump())
        _write_zip(draft.files, out, progress)
    return MadeBundle(manifest, out.stat().st_size, file_digest(out), differing, names.replaced)


def load_bundle(database: Store, imported: Iterable[Path]) -> None:
    """Fill an empty database from the journals next to it, and from the folders of imported runs."""
    for folder in imported:
        header = RunHeader.model_validate(orjson.loads((folder / "run.json").read_bytes()))
        with database.write() as connection:
            read_run_tables(connection, header, folder)
    # the journals come last: a re-grading of an imported run needs its trials
    if damaged := fold(database).damaged:
        raise AnamnesisError(damaged[0].message)


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


def _may_leave(header: RunHeader) -> bool:
    return bool(header.cases) and all(may_leave(case.licence.strip()) for case in header.cases)


def _belonging(store: Store, headers: Sequence[RunHeader], inside: Sequence[bool], plans: Iterable[str]) -> Belonging:
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
        frozenset(plans),
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
    pack = _add_prompts(draft, header)
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
        pack=pack,
    )


def _public_header(header: RunHeader, inside: bool) -> RunHeader:
    """Return a header without credentials, and without the name of who started the run on a server."""
    changes: dict[str, Any] = {"settings": without_addresses(header.settings), "visitor": ""}
    if not inside:
        changes |= {"cases": [case_without_text(case) for case in header.cases], "many_choices": []}
        if header.fork is not None:
            kept = [(speaker, WITHHELD) for speaker, _ in header.fork.kept]
            changes["fork"] = header.fork.model_copy(update={"kept": kept})
        if isinstance(prompts := header.settings.get("prompts"), dict):  # those of a release, with their templates
            without = {name: {**about, "template": WITHHELD} for name, about in prompts.items()}
            changes["settings"] = {**changes["settings"], "prompts": without}
    return header.model_copy(update=changes)


def _add_prompts(draft: _Draft, header: RunHeader) -> str:
    """Add the prompt packs of a run; return the folder of its own pack, or "" if it is not available as it was."""
    grading = header.settings.get("grading_prompts")
    if grading and (pack := _pack("", str(grading))) is not None:
        _add_pack(draft, pack)
    if header.source == "release":
        return ""
    own = _pack(header.prompt_pack, header.prompt_hash)
    if own is None:
        requests = (
            "The log that it came with has no requests."
            if header.source in PLAYED_ELSEWHERE
            else "Its journal has every request as it was sent."
        )
        draft.left_out.append(
            f"Run {header.run_id}: its prompts {Path(header.prompt_pack).name} {header.prompt_hash}, which have "
            f"changed since or are not here. {requests}"
        )
        return ""
    return _add_pack(draft, own)


def _pack(place: str, hash_: str) -> PromptPack | None:
    try:
        pack = load_pack(place) if place else default_pack()
    except UsageError:
        return None
    return pack if pack.hash == hash_ else None


def _add_pack(draft: _Draft, pack: PromptPack) -> str:
    folder = f"{PROMPTS}/{pack.name}-{pack.hash}"
    for path in sorted(pack.folder.glob("*.md")):
        shutil.copyfile(path, draft.path(f"{folder}/{path.name}"))
    return folder


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
    draft: _Draft, store: Store, contents_: JournalContents, belonging: Belonging, progress: StepProgress
) -> Sequence[str]:
    """Add what jobs and people wrote about the runs; return the names of the reviews inside."""
    people = peoples_lines(contents_, belonging)
    draft.write_journal(PEOPLE, map(line_bytes, people.lines))
    draft.left_out += [f"Reviews {reason}: {count}." for reason, count in sorted(people.left_out.items())]
    journals = sorted(store.journals.glob("*/journal.jsonl"))
    for number, path in enumerate(journals):
        progress(number, len(journals), "Jobs")
        if path.parent.name not in belonging.runs and path.parent.name.partition("-")[0] != PEOPLE:
            draft.write_journal(path.parent.name, job_lines(path, belonging, contents_.withdrawn))
    return people.reviews


def _locks_of(store: Store, headers: Sequence[RunHeader]) -> list[LockedPlan]:
    """Return every lock of the locked plans of the runs."""
    with store.read() as cursor:
        locks = locked_plans(cursor)
    names = {lock.name for lock in locks if any(_is_planned(stored_plan(lock), header) for header in headers)}
    return [lock for lock in locks if lock.name in names]


def _add_plans(draft: _Draft, locks: Iterable[LockedPlan]) -> None:
    for lock in locks:
        comments = (f"Locked at {when(lock.locked_at)}.", *([f"Reason: {lock.reason}"] if lock.reason else ()))
        text = to_toml(stored_plan(lock), comments)
        draft.write(f"{PLANS}/{lock.name}-{lock.plan_hash[:12]}.toml", text.encode())


def _is_planned(plan: Plan, header: RunHeader) -> bool:
    """Return whether a plan names a run, or is for its doctor on its cases."""
    if header.run_id in (plan.condition.get("run"), plan.reference.get("run")):
        return True
    doctors = (plan.condition.get("doctor"), plan.reference.get("doctor"))
    return plan.cases.case_set_hash == header.case_set_hash and header.doctor in doctors


def _checked(
    draft: _Draft, recorded: Sequence[Figure], computed: Mapping[str, Figure], names: PublicNames
) -> tuple[list[Figure], list[FigureDifference]]:
    """Return the figures, marked whether the contents of the bundle give them again, and what differs."""
    figures, differing = [], list[FigureDifference]()
    for figure in recorded:
        public = Figure.model_validate(orjson.loads(replaced_in(orjson.dumps(figure.model_dump()), draft.private)))
        wrong = list(differences(public, computed.get(figure.name)))
        differing += wrong
        notes = [names.in_words(note) for note in public.notes]
        figures.append(public.model_copy(update={"notes": notes, "recomputable": not wrong}))
    return figures, differing


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


def _readme(manifest: Manifest, figures: Sequence[Figure], names: PublicNames) -> str:
    """Return what is in the bundle, and how to check it, in plain words."""
    runs = [
        f"- `{run.run_id}`: {run.doctor}, {run.protocol}, {run.cases:,} cases, {run.trials} trials of each; "
        + ("texts inside" if run.cases_inside else "texts withheld")
        for run in manifest.runs
    ]
    recomputable = sum(figure.recomputable for figure in figures)
    people = (
        "Journals may contain the names of annotators."
        if names.with_names
        else "People are numbers: annotator 1 is the doctor human/1. What they wrote is as they wrote it. Who edited a "
        "profile or the items of a case is named: the hash of the case and the settings of runs contain the name."
    )
    left_out = [f"- {sentence}" for sentence in manifest.left_out] or ["- Nothing that belongs to these runs."]
    return "\n".join(
        [
            "# Runs of clinical language models, with everything behind their figures",
            "",
            f"Made with {manifest.made_with}. Check it, or play the runs again, with that program:",
            "",
            "    python -m core bundle verify study.zip",
            "    python -m core bundle rerun study.zip --dry-run",
            "",
            "## Runs",
            "",
            *runs,
            "",
            "## Files",
            "",
            "- `manifest.json`: the runs, what was left out, and the SHA-256 of every other file",
            "- `figures.json`: results of a fixed list of metrics for these runs: "
            f"{recomputable} of {len(figures)} can be computed again from this bundle",
            "- `journals/`: a line for each request with its reply, and for each trial, verdict, judgement and review;",
            "  `lines.sha256` has the first digits of the SHA-256 of each line",
            "- `imported/`: trials of imported runs, which have no journal",
            "- `runs/`: the settings of each run",
            "- `cases/`: `digests.jsonl` has key and hashes of every case, `cases.jsonl` those with text inside",
            "- `prompts/`: the prompt packs; the last part of a folder's name is the hash of the pack",
            "- `plans/`: locked plans of these runs, if they have any",
            "- `environment.json`: Python, packages, hardware and code version of the machine that made this bundle",
            "",
            "## Left out",
            "",
            *left_out,
            "- Keys, credentials in addresses, and paths of the machine.",
            "- Edits in the case debugger, and tests of whether a model has memorised cases.",
            "",
            f"A text that is left out stands as {WITHHELD}. {people}",
            "",
        ]
    )
