"""A document as Markdown: readable as it is, and harmless in whatever draws it.

Every value is escaped by the template engine itself; only what this package marks as written Markdown is not. Every
character that could begin HTML, emphasis, a link, an image, a list, a table or code is escaped; addresses get a space
of no width, because many viewers turn bare ones into links.
"""

from __future__ import annotations

import re
from pathlib import Path

import jinja2

from core.export import reading, words
from core.export.document import Document
from core.export.visible import visible

_ENTITY = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\u00a0": "&nbsp;"}
_ANYWHERE = re.compile(r"[\\`*_\[\]{}|~$^]")
_AT_LINE_START = re.compile(r"^([-+=#:])|^(\d{1,9})([.)])", re.MULTILINE)
_INDENT = re.compile(r"^[ \t]+", re.MULTILINE)
_ADDRESS = re.compile(r"(?<=:)(?=//)|(?<=www)(?=\.)|(?<=@)(?=\S)", re.IGNORECASE)
_TRAILING = re.compile(r"[ \t]+$", re.MULTILINE)
_MARKER_ESCAPED = re.compile(r"\\\*\\\*(Final (?:Diagnosis|Answer):)\\\*\\\*")
"""What a doctor begins its conclusion with (Johri et al. 2025): the only Markdown of a message that is drawn."""


class Written(str):
    """Text that is Markdown already and is not to be escaped again."""

    __slots__ = ()


def escape(text: str) -> str:
    """Return text so that Markdown shows it as it is in the middle of a line; its line breaks stay bare."""
    lines = _INDENT.sub(lambda found: "\u00a0" * len(found[0].expandtabs(4)), _TRAILING.sub("", visible(text)))
    broken = _ADDRESS.sub("\u200b", lines)
    return _ANYWHERE.sub(r"\\\g<0>", re.sub("[&<>\u00a0]", lambda found: _ENTITY[found[0]], broken))


def inline(text: object) -> str:
    """Return a value for the middle of a line: a heading, a table's cell."""
    return text if isinstance(text, Written) else escape(" ".join(visible(str(text)).split()))


def quoted(text: str) -> Written:
    """Return text as a block quote that holds nothing but paragraphs, every line break kept."""
    escaped = _AT_LINE_START.sub(lambda at: f"\\{at[1]}" if at[1] else f"{at[2]}\\{at[3]}", escape(text))
    lines = _MARKER_ESCAPED.sub(r"**\1**", escaped).split("\n")
    ends = [
        f"{line}\\" if line and following else line for line, following in zip(lines, [*lines[1:], ""], strict=True)
    ]
    return Written("\n".join(f"> {line}".rstrip() for line in ends))


ENVIRONMENT = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent),
    autoescape=False,
    undefined=jinja2.StrictUndefined,
    finalize=inline,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
ENVIRONMENT.filters["quoted"] = quoted
"""Where all that is written as Markdown here is made."""


def to_markdown(document: Document) -> bytes:
    """Return the document as CommonMark with tables, in UTF-8."""
    talks = document.talks
    values = {
        "document": document,
        "rows": reading.rows(talks),
        "arms": reading.arms(talks),
        "facts": reading.provenance(document),
        "cases": list({talk.case.content_hash: talk.case for talk in talks if talk.case}.values()),
        "reading": reading,
        "words": words,
    }
    return ENVIRONMENT.get_template("page.md.j2").render(values).encode("utf-8")
