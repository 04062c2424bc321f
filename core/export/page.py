"""A document as a page, in HTML or in Markdown: readable as it is, and harmless in whatever draws it.

What models wrote can only be text there: every value is escaped on its way into a template. The HTML file needs nothing
else, with its style inside, and forbids scripts and remote content to itself by a content security policy. In Markdown,
where only what this module marks as written is not escaped, every character that could begin HTML, emphasis, a link, an
image, a list, a table or code is; addresses get a space of no width, because many viewers turn bare ones into links.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from core.export import plot, reading
from core.export.document import Document
from core.export.visible import visible
from core.words import VERDICT

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
"""Without a source for scripts, frames, fonts or connections there are none."""
_FOLDER = Path(__file__).parent
_environment = partial(
    jinja2.Environment,
    loader=jinja2.FileSystemLoader(_FOLDER),
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def _shown(value: object) -> object:
    """Make text visible on its way into the page; the engine escapes it afterwards."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


_HTML = _environment(autoescape=True, finalize=_shown)


def to_html(document: Document) -> bytes:
    """Return the document as a self-contained page in UTF-8."""
    return page_of(document, POLICY).encode("utf-8")


def page_of(document: Document, policy: str) -> str:
    """Return the page under a content security policy."""
    return _HTML.get_template("page.html.j2").render(
        _values(document),
        plots=[plot.plot_of(reading.beliefs(talk), talk.case) for talk in document.talks],
        style=Markup((_FOLDER / "style.css").read_text(encoding="utf-8")),
        size=(plot.WIDTH, plot.HEIGHT),
        policy=Markup(policy),
    )


def _values(document: Document) -> dict[str, Any]:
    """Return what the templates of both forms are filled in with."""
    talks = document.talks
    return {
        "document": document,
        "rows": reading.rows(talks),
        "arms": reading.arms(talks),
        "facts": reading.provenance(document),
        "cases": list({talk.case.content_hash: talk.case for talk in talks if talk.case}.values()),
        "reading": reading,
        "VERDICT": VERDICT,
    }


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


MARKDOWN = _environment(autoescape=False, finalize=inline, keep_trailing_newline=True)
MARKDOWN.filters["quoted"] = quoted
"""Where all that is written as Markdown here is made."""


def to_markdown(document: Document) -> bytes:
    """Return the document as CommonMark with tables, in UTF-8."""
    return MARKDOWN.get_template("page.md.j2").render(_values(document)).encode("utf-8")
