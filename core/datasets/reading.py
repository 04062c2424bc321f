"""The result of reading a file of cases: the cases, and the other rows with the reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from core.case import Case

PositionUnit = Literal["line", "record", "row"]
"""The unit of positions, which count from 1: lines of a text file, records (JSON, Parquet), or rows of a sheet."""
Remark = tuple[int, str]
"""(position, sentence without full stop); position 0 is the complete file."""


@dataclass
class ReadCases:
    """Cases that could be read, and (position, reason) of the rows that could not.

    ``left_out`` are valid rows that the format leaves out by design (several right answers, a subject other than
    medicine); ``remarks`` are decisions about rows that were read. ``pictures`` is hash → file of the pictures, which
    are not stored yet. ``format`` is the name of the format.
    """

    cases: list[Case] = field(default_factory=list)
    rejected: list[Remark] = field(default_factory=list)
    left_out: list[Remark] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)
    pictures: dict[str, Path] = field(default_factory=dict)
    format: str = ""
    unit: PositionUnit = "line"
    sheet: str = ""

    def at(self, position: int) -> str:
        """Return a position in words: line 3, or sheet Cases, row 3."""
        return f"{f'sheet {clipped(self.sheet)}, ' if self.sheet else ''}{self.unit} {position}"


@dataclass(frozen=True)
class ImportPreview:
    """What an import of a file would store, for page and command, before anything is stored.

    ``understood`` is label → value; ``rows`` is heading → (position, reason) of rows that are not used or are remarked
    on. ``replaces``: other contents are stored under this ``name`` and would be replaced.
    """

    file: str
    name: str
    understood: Mapping[str, str]
    rows: Mapping[str, Sequence[Remark]]
    unit: PositionUnit
    sheet: str = ""
    replaces: bool = False


def clipped(text: str, most: int = 60) -> str:
    """Return a text from a file for a message: at most ``most`` characters, without control characters."""
    plain = "".join(c if c.isprintable() else " " for c in text)
    return plain if len(plain) <= most else f"{plain[: most - 1]}…"
