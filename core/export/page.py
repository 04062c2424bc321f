"""A document as a page, in HTML or Markdown, that is safe in every viewer.

Texts of models must remain text: every value is escaped when a template inserts it. The HTML file is self-contained,
with its style inside, and its content security policy forbids scripts and remote content. In Markdown, everything but
``Written`` values is escaped: every character that could begin HTML, emphasis, a link, an image, a list, a table or
code. Addresses get a zero-width space, because many viewers turn bare addresses into links.
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
"""No source is allowed for scripts, frames, fonts and connections."""
_FOLDER = Path(__file__).parent
_environment = partial(
    jinja2.Environment,
    loader=jinja2.FileSystemLoader(_FOLDER),
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def _made_visible(value: object) -> object:
    """Make control characters of a template value visible; the engine escapes the value afterwards."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


HTML = _environment(autoescape=True, finalize=_made_visible)
"""The template environment of all HTML output."""
STYLE = (_FOLDER / "style.css").read_text(encoding="utf-8")


def to_html(document: Document) -> bytes:
    return page_of(document, POLICY).encode("utf-8")


def page_of(document: Document, policy: str) -> str:
    return HTML.get_template("page.html.j2").render(
        _values(document),
        plots=[
            plot.plot_of(reading.beliefs(conversation), conversation.case) for conversation in document.conversations
        ],
        style=Markup(STYLE),
        size=(plot.WIDTH, plot.HEIGHT),
        policy=Markup(policy),
    )


def _values(document: Document) -> dict[str, Any]:
    conversations = document.conversations
    return {
        "document": document,
        "rows": reading.rows(conversations),
        "arms": reading.arms(conversations),
        "facts": reading.provenance(document),
        "cases": list(
            {
                conversation.case.content_hash: conversation.case for conversation in conversations if conversation.case
            }.values()
        ),
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
"""The marker of a doctor's conclusion (Johri et al. 2025): the only Markdown of a message that is rendered."""


class Written(str):
    """Markdown that must not be escaped again."""

    __slots__ = ()


def escape(text: str) -> str:
    """Return text escaped for the middle of a Markdown line; line breaks stay as they are."""
    lines = _INDENT.sub(lambda match: "\u00a0" * len(match[0].expandtabs(4)), _TRAILING.sub("", visible(text)))
    broken = _ADDRESS.sub("\u200b", lines)
    return _ANYWHERE.sub(r"\\\g<0>", re.sub("[&<>\u00a0]", lambda match: _ENTITY[match[0]], broken))


def inline(text: object) -> str:
    """Return a value escaped for one line, such as a heading or a table cell."""
    return text if isinstance(text, Written) else escape(" ".join(visible(str(text)).split()))


def quoted(text: str) -> Written:
    """Return text as a block quote of plain paragraphs with all its line breaks."""
    escaped = _AT_LINE_START.sub(lambda match: f"\\{match[1]}" if match[1] else f"{match[2]}\\{match[3]}", escape(text))
    lines = _MARKER_ESCAPED.sub(r"**\1**", escaped).split("\n")
    ends = [
        f"{line}\\" if line and following else line for line, following in zip(lines, [*lines[1:], ""], strict=True)
    ]
    return Written("\n".join(f"> {line}".rstrip() for line in ends))


MARKDOWN = _environment(autoescape=False, finalize=inline, keep_trailing_newline=True)
MARKDOWN.filters["quoted"] = quoted
"""The template environment of all Markdown output."""


def to_markdown(document: Document) -> bytes:
    return MARKDOWN.get_template("page.md.j2").render(_values(document)).encode("utf-8")
