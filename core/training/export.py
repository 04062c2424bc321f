"""A training set as a folder: train.jsonl, test.jsonl, and manifest.json with their contents, sources and licences."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from core import __version__
from core.case import Case
from core.errors import UsageError
from core.text.case_items import ItemSet, Order, itemized
from core.text.questions import question_kind
from core.training.chat import SIDES, ChatLine, SplitName, chat_line, sha256, to_jsonl
from core.training.dialogue import golden_dialogue
from core.training.split import SIMILAR, TEST_SHARE, split_cases

MANIFEST = "manifest.json"

ItemsOf = Callable[[Case], ItemSet | None]
"""Returns the stored items of a case, or ``None`` to make them by rule."""


class ExportSettings(BaseModel):
    """The settings of a training set.

    ``similar``: minimum similarity in per cent of near-duplicates; ``dialogues``: number of dialogues for each case,
    with different phrases and, in random order, a different order.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    order: Order = "direct"
    seed: int = 0
    test_share: float = TEST_SHARE
    similar: float = SIMILAR
    dialogues: int = Field(default=1, ge=1)


class FileEntry(BaseModel):
    """One file: SHA-256 of its bytes, dialogues, and cases."""

    sha256: str
    dialogues: int
    cases: int


class SourceEntry(BaseModel):
    """Cases of one source; their licence also applies to the dialogues, which retell them."""

    dataset: str
    source: str
    licence: str
    cases: int


class SpecialtyEntry(BaseModel):
    """Cases of a specialty on either side."""

    specialty: str
    train: int
    test: int


class Manifest(BaseModel):
    """The contents of a training set, its settings and its sources; ``left_out`` cases do not ask for a diagnosis.

    ``cases`` are the case keys of each side; training sets from before version 0.3 lack them.
    """

    version: int = 1
    made_with: str
    settings: ExportSettings
    files: dict[str, FileEntry]
    sources: list[SourceEntry]
    specialties: list[SpecialtyEntry]
    items_made_by: dict[str, int]
    near_duplicates: list[list[str]]
    left_out: list[str]
    cases: dict[SplitName, list[str]] = {}


@dataclass(frozen=True)
class TrainingSet:
    """The lines of both sides and their manifest."""

    lines: dict[SplitName, list[ChatLine]]
    manifest: Manifest


def build(cases: Sequence[Case], settings: ExportSettings, items_of: ItemsOf | None = None) -> TrainingSet:
    """Return the training set of some cases; the same settings, cases and items give the same bytes.

    Raises ``UsageError`` if the cases cannot be split.
    """
    usable = [case for case in cases if question_kind(case) == "diagnosis"]
    split = split_cases(usable, settings.test_share, settings.seed, settings.similar)
    sides: dict[SplitName, tuple[Case, ...]] = {"train": split.train, "test": split.test}
    lines = {side: [line for case in sides[side] for line in _lines(case, side, settings, items_of)] for side in SIDES}
    makers = Counter({line.case_key: line.items_made_by for side in SIDES for line in lines[side]}.values())
    train_counts = Counter(case.specialty for case in split.train)
    test_counts = Counter(case.specialty for case in split.test)
    manifest = Manifest(
        made_with=f"Anamnesis {__version__}",
        settings=settings,
        files={f"{side}.jsonl": _entry(lines[side]) for side in SIDES},
        sources=_sources(usable),
        specialties=[
            SpecialtyEntry(specialty=name, train=train_counts[name], test=test_counts[name])
            for name in sorted({*train_counts, *test_counts})
        ],
        items_made_by=dict(sorted(makers.items())),
        near_duplicates=[list(cluster) for cluster in split.clusters],
        left_out=[case.case_key for case in cases if question_kind(case) != "diagnosis"],
        cases={side: [case.case_key for case in sides[side]] for side in SIDES},
    )
    return TrainingSet(lines, manifest)


def write(folder: Path, training: TrainingSet, *, force: bool = False) -> None:
    """Write the three files, the manifest last, so that its presence means that all files are complete.

    Raises ``UsageError`` if one of them exists, unless ``force`` is set; other files in the folder stay.
    """
    names = [*(f"{side}.jsonl" for side in SIDES), MANIFEST]
    existing = [name for name in names if (folder / name).exists()]
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file: name a folder.")
    if existing and not force:
        raise UsageError(f"{folder} holds {existing[0]} already: choose another folder, or give --force to replace it.")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MANIFEST).unlink(missing_ok=True)
    for side in SIDES:
        _put(folder / f"{side}.jsonl", to_jsonl(training.lines[side]))
    _put(folder / MANIFEST, training.manifest.model_dump_json(indent=2).encode() + b"\n")


def _lines(case: Case, side: SplitName, settings: ExportSettings, items_of: ItemsOf | None) -> Iterator[ChatLine]:
    about = itemized(case, items_of(case) if items_of else None)
    for number in range(settings.dialogues):
        dialogue = golden_dialogue(about, settings.order, settings.seed + number)
        yield chat_line(case, dialogue, side, [i.key for i in about.items], settings.order, about.made_by)


def _entry(lines: Sequence[ChatLine]) -> FileEntry:
    return FileEntry(sha256=sha256(to_jsonl(lines)), dialogues=len(lines), cases=len({line.case_key for line in lines}))


def _sources(cases: Sequence[Case]) -> list[SourceEntry]:
    counted = Counter((case.case_key.partition("/")[0], case.source, case.licence) for case in cases)
    return [
        SourceEntry(dataset=dataset, source=source, licence=licence or "not stated", cases=count)
        for (dataset, source, licence), count in sorted(counted.items())
    ]


def _put(path: Path, data: bytes) -> None:
    half = path.with_name(f".{path.name}.{os.getpid()}.half")
    try:
        half.write_bytes(data)
        os.replace(half, path)
    finally:
        half.unlink(missing_ok=True)
