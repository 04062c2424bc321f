"""The neutral content of a report: headings, paragraphs, tables, pictures and quotations, which three writers render.

Texts are plain: the writers escape them, so that a text of a model stays text in every format.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from core.measures.base import cell_in_words

Tone = Literal["", "soft", "warning", "open", "command", "written"]
"""How a paragraph is set: plain, in the background, a severe note, to be written, a command, or written by people."""


@dataclass(frozen=True)
class Link:
    """A text that leads to the heading or table with this anchor, or only the text where a format has no links."""

    text: str
    anchor: str


@dataclass(frozen=True)
class Heading:
    """A heading of ``level`` 2 to 4; level 1 is the title. ``mark`` is a state, shown next to the text."""

    text: str
    level: int = 2
    anchor: str = ""
    mark: str = ""


@dataclass(frozen=True)
class Paragraph:
    """A paragraph; only what people wrote has line breaks."""

    text: str
    tone: Tone = ""


@dataclass(frozen=True)
class Bullets:
    """A list of sentences."""

    items: tuple[str, ...]


@dataclass(frozen=True)
class Reference:
    """A line that leads to content that the report has in another place."""

    before: str
    link: Link


@dataclass(frozen=True)
class Table:
    """Rows by column; ``heads`` are titles of columns, by default their names in words.

    Cells are values of a metric's rows, or links. A ``folded`` table opens on a click where the format can.
    """

    columns: tuple[str, ...]
    rows: tuple[Mapping[str, Any], ...]
    caption: str = ""
    heads: Mapping[str, str] | None = None
    folded: bool = False

    def head(self, column: str) -> str:
        words = column.removeprefix("n_").replace("_", " ")
        return (self.heads or {}).get(column) or words[:1].upper() + words[1:]


@dataclass(frozen=True)
class Picture:
    """An SVG for a light and one for a dark background, of the same size in pixels, with the text that replaces it."""

    svg: str
    dark: str
    width: int
    height: int
    caption: str
    alternative: str


@dataclass(frozen=True)
class Listing:
    """A text whose line breaks matter, such as a prompt; it opens on a click where the format can."""

    title: str
    text: str


@dataclass(frozen=True)
class QuotedMessage:
    """What a role said in a quoted conversation."""

    speaker: str
    text: str


Block = Heading | Paragraph | Bullets | Reference | Table | Picture | Listing | QuotedMessage


@dataclass(frozen=True)
class Report:
    """A title, a line on what it is, and the blocks in their order."""

    title: str
    kind: str
    blocks: tuple[Block, ...]
    made: str

    def of(self, kind: type[Block]) -> Iterator[Any]:
        return (block for block in self.blocks if isinstance(block, kind))


def cell_text(value: Any, column: str = "") -> str:
    """Return a cell as the command prints it; a link as its text."""
    return value.text if isinstance(value, Link) else cell_in_words(column, value)


def is_numeric(table: Table, column: str) -> bool:
    values = [row.get(column) for row in table.rows if row.get(column) is not None]
    return bool(values) and all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def columns_of(rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the columns of rows, in the order in which they occur."""
    return tuple(dict.fromkeys(name for row in rows for name in row))
