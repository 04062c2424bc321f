"""A cell of a printed table with what the release gives for it, and what is to be said of a table as a whole."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

Status = Literal["match", "misprint", "differs", "not_attempted"]
STATUSES: tuple[Status, ...] = ("match", "misprint", "differs", "not_attempted")
Quantity = Literal["mean", "ci_low", "ci_high", "p_value", "p_adjusted"]
DIGITS: dict[Quantity, int] = {"mean": 3, "ci_low": 3, "ci_high": 3, "p_value": 4, "p_adjusted": 4}
"""Decimals to which the tables print."""


@dataclass(frozen=True)
class Cell:
    """One printed number and its recomputed one, both rounded as printed; labels as in data/published.

    ``recomputed`` is ``None`` where nothing was attempted. ``reason`` says why not, or what is wrong with the print.
    """

    table: int
    quantity: Quantity
    model: str | None
    question_type: str | None
    format: str | None
    specialty: str | None
    dataset: str | None
    arm_a: str | None
    arm_b: str | None
    published: float | None
    printed: str
    recomputed: float | None = None
    status: Status = "not_attempted"
    reason: str | None = None

    def with_value(self, value: float, misprint: str | None = None) -> Cell:
        """Return the cell with its recomputed value; ``misprint`` says what is known to be wrong with the print."""
        rounded = as_printed(value, self.quantity)
        status: Status = "misprint" if misprint else ("match" if self.agrees(rounded) else "differs")
        agree = "; here the two agree all the same" if misprint and self.agrees(rounded) else ""
        return replace(self, recomputed=rounded, status=status, reason=misprint and misprint + agree)

    def left_out(self, reason: str) -> Cell:
        """Return the cell as not attempted, for this reason."""
        return replace(self, recomputed=None, status="not_attempted", reason=reason)

    def agrees(self, value: float) -> bool:
        """Say whether a value is the printed one once it is rounded as printed."""
        return self.published is not None and abs(as_printed(value, self.quantity) - self.published) < 1e-9


@dataclass(frozen=True)
class Remark:
    """Something about a table that the reader should know: a ``misprint``, something ``unclear``, or a ``note``.

    Each sentence of ``evidence`` was computed just now, from the printed tables and the release.
    """

    table: int
    kind: Literal["misprint", "unclear", "note"]
    title: str
    evidence: tuple[str, ...]


@dataclass(frozen=True)
class ModelData:
    """What is at hand of a released model; ``missing`` are cases that other models have and this one has not."""

    run_id: str
    cases: int
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reproduction:
    """Every cell of every table, the remarks, and the models that were at hand."""

    models: dict[str, ModelData]
    cells: tuple[Cell, ...]
    remarks: tuple[Remark, ...]
    titles: dict[int, str] = field(default_factory=dict)

    @property
    def counts(self) -> dict[Status, int]:
        """How many cells have each status."""
        return count(self.cells)

    @property
    def succeeded(self) -> bool:
        """Whether something was attempted and all of it matches or is a listed misprint."""
        counts = self.counts
        return counts["differs"] == 0 and counts["match"] > 0


def as_printed(value: float, quantity: Quantity) -> float:
    """Return a value rounded as the tables are: by numpy, which takes 0.00045 to 0.0004 (table 11)."""
    return float(np.round(value, DIGITS[quantity]))


def count(cells: tuple[Cell, ...] | list[Cell]) -> dict[Status, int]:
    """Return how many cells have each status, in the order of ``STATUSES``."""
    return {status: sum(cell.status == status for cell in cells) for status in STATUSES}
