"""Which cell of the matrix is looked at: a trial and an arm, as they stand in the address."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from core.debugger.run import Cell, Row
from core.events import FORMATS, QUESTION_TYPES, Rule, Verdict
from core.frameworks.base import Arm

_PLACE = re.compile(r"(\d+):(\w+):(\w+)")
_WRONG: tuple[Verdict, ...] = ("incorrect", "no_diagnosis", "multiple")


@dataclass(frozen=True)
class Place:
    """A cell of the matrix: the trial's number from 0, and the arm."""

    trial: int
    arm: Arm

    def __str__(self) -> str:
        """Return the place as it stands in the address, the trial counted from 1."""
        return f"{self.trial + 1}:{self.arm[0]}:{self.arm[1]}"


def place_of(text: str | None) -> Place | None:
    """Read a place from the address; ``None`` where it is none."""
    found = _PLACE.fullmatch(text or "")
    if not found or found[2] not in FORMATS or found[3] not in QUESTION_TYPES or found[1] == "0":
        return None
    return Place(int(found[1]) - 1, (found[2], found[3]))  # type: ignore[arg-type]


def chosen_place(rows: Sequence[Row], rule: Rule, *, running: bool = False) -> Place | None:
    """Return the cell in the address; else, once the run is over, the first wrong answer or the first cell."""
    places = [Place(cell.trial, (cell.format, cell.question_type)) for row in rows for cell in row.cells]
    wanted = place_of(st.query_params.get("cell"))
    if wanted in places:
        return wanted
    if running:
        return None
    wrong = [p for p, cell in zip(places, cells_of(rows), strict=True) if cell.verdict(rule) in _WRONG]
    return next(iter(wrong or places), None)


def cell_at(rows: Sequence[Row], place: Place) -> Cell:
    """Return the cell of a place that is in the matrix."""
    return next(c for c in cells_of(rows) if (c.trial, (c.format, c.question_type)) == (place.trial, place.arm))


def cells_of(rows: Sequence[Row]) -> list[Cell]:
    """Return all cells of a matrix."""
    return [cell for row in rows for cell in row.cells]
