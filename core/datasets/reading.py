"""What reading a file of cases gave: the cases, and every row that did not become one, with the reason."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from core.case import Case

Unit = Literal["line", "record", "row"]
"""What positions count from 1: lines of a text file, records (JSON array, Parquet), or rows of a sheet."""
Remark = tuple[int, str]
"""(position, sentence without its full stop); position 0 speaks of the whole file."""


@dataclass
class Reading:
    """Cases that could be read, and (position, reason) of the rows that could not.

    ``left_out`` are sound rows that the format leaves out by its nature (several right answers, another subject than
    medicine); ``remarks`` say what was decided about rows that were read. ``pictures`` are the files of
    the cases' pictures by their hash, not yet kept. ``format`` is the name of the format.
    """

    cases: list[Case] = field(default_factory=list)
    rejected: list[Remark] = field(default_factory=list)
    left_out: list[Remark] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)
    pictures: dict[str, Path] = field(default_factory=dict)
    format: str = ""
    unit: Unit = "line"


def clipped(text: str, most: int = 60) -> str:
    """Return a text from a file as a message may show it: no more than ``most`` characters, no control characters."""
    plain = "".join(c if c.isprintable() else " " for c in text)
    return plain if len(plain) <= most else f"{plain[: most - 1]}…"
