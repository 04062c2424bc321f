"""A training set as a folder: train.jsonl, test.jsonl, and manifest.json, which says what they hold and whose it is."""

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
from core.training.chat import SIDES, ChatLine, Side, chat_line, sha256, to_jsonl
from core.training.dialogue import golden_dialogue
from core.training.split import SIMILAR, TEST_SHARE, split_cases

MANIFEST = "manifest.json"

ItemsOf = Callable[[Case], ItemSet | None]
"""Gives the items that are stored for a case, or ``None``: then they are made by rule."""


class Settings(BaseModel):
    """What decides a training set beside its cases and their items.

    ``similar``: per cent from which two vignettes count as near-duplicates; ``dialogues``: how many of each case, each
    in other phrases and, where the order is random, in another order.
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
    """Cases of one source: their licence holds for the dialogues too, which retell them."""

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
    """What a training set holds, how it was made, and from whose cases; ``left_out`` cases ask for no diagnosis.

    ``cases`` are the keys of those on each side; sets of before 0.3 lack them.
    """

    version: int = 1
    made_with: str
    settings: Settings
    files: dict[str, FileEntry]
    sources: list[SourceEntry]
    specialties: list[SpecialtyEntry]
    items_made_by: dict[str, int]
    near_duplicates: list[list[str]]
    left_out: list[str]
    cases: dict[Side, list[str]] = {}


@dataclass(frozen=True)
class TrainingSet:
    """The lines of both sides and their manifest."""

    lines: dict[Side, list[ChatLine]]
    manifest: Manifest


def build(cases: Sequence[Case], settings: Settings, items_of: ItemsOf | None = None) -> TrainingSet:
    """Return the training set of some cases; the same settings, cases and items give the same bytes.

    Raises ``UsageError`` where they cannot be split.
    """
    usable = [case for case in cases if question_kind(case) == "diagnosis"]
    split = split_cases(usable, settings.test_share, settings.seed, settings.similar)
    sides: dict[Side, tuple[Case, ...]] = {"train": split.train, "test": split.test}
    lines = {side: [line for case in sides[side] for line in _lines(case, side, settings, items_of)] for side in SIDES}
    makers = Counter({line.case_key: line.items_made_by for side in SIDES for line in lines[side]}.values())
    left, right = Counter(c.specialty for c in split.train), Counter(c.specialty for c in split.test)
    manifest = Manifest(
        made_with=f"Anamnesis {__version__}",
        settings=settings,
        files={f"{side}.jsonl": _entry(lines[side]) for side in SIDES},
        sources=_sources(usable),
        specialties=[SpecialtyEntry(specialty=s, train=left[s], test=right[s]) for s in sorted({*left, *right})],
        items_made_by=dict(sorted(makers.items())),
        near_duplicates=[list(cluster) for cluster in split.clusters],
        left_out=[case.case_key for case in cases if question_kind(case) != "diagnosis"],
        cases={side: [case.case_key for case in sides[side]] for side in SIDES},
    )
    return TrainingSet(lines, manifest)


def write(folder: Path, training: TrainingSet, *, force: bool = False) -> None:
    """Write the three files, the manifest last: where it lies, the others are whole.

    Raises ``UsageError`` where one of them exists and ``force`` is not given; other files of the folder stay.
    """
    names = [*(f"{side}.jsonl" for side in SIDES), MANIFEST]
    there = [name for name in names if (folder / name).exists()]
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file: name a folder.")
    if there and not force:
        raise UsageError(f"{folder} holds {there[0]} already: choose another folder, or give --force to replace it.")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MANIFEST).unlink(missing_ok=True)
    for side in SIDES:
        _put(folder / f"{side}.jsonl", to_jsonl(training.lines[side]))
    _put(folder / MANIFEST, training.manifest.model_dump_json(indent=2).encode() + b"\n")


def _lines(case: Case, side: Side, settings: Settings, items_of: ItemsOf | None) -> Iterator[ChatLine]:
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
