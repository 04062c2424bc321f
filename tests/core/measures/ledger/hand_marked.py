"""The dialogues that were written and marked by hand: cases, messages, marks and planted inventions."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.asking.scene import Turn
from core.case import Case
from core.datasets.select import cases_of

FOLDER = Path(__file__).with_name("dialogues")
HELD_OUT = Path(__file__).with_name("heldout")


@dataclass(frozen=True)
class HandMarked:
    name: str
    case: Case
    dialogue: tuple[Turn, ...]
    marks: dict[str, tuple[str, int | None]]
    withheld: dict[str, int]
    invented: list[dict[str, Any]]
    leaked: list[int]


def hand_marked(folder: Path = FOLDER) -> list[HandMarked]:
    library = {case.case_key: case for case in cases_of("library")}
    return [_read(path, library) for path in sorted(folder.glob("*.json"))]


def _read(path: Path, library: dict[str, Case]) -> HandMarked:
    held = json.loads(path.read_text(encoding="utf-8"))
    case = library[held["case"]] if isinstance(held["case"], str) else Case(**held["case"])
    marks: dict[str, tuple[str, int | None]] = {id_: ("never_elicited", None) for id_ in held["never_elicited"]}
    marks |= {id_: (mark, turn) for mark in ("asked", "volunteered") for id_, turn in held[mark].items()}
    return HandMarked(
        path.stem, case, talk(*held["dialogue"]), marks, held["withheld"], held["invented"], held["leaked"]
    )


def talk(*messages: str) -> tuple[Turn, ...]:
    """Return messages as a dialogue in which the doctor begins."""
    return tuple(Turn("patient" if number % 2 else "doctor", text) for number, text in enumerate(messages))
