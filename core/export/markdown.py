"""A document as Markdown: readable as it is, and harmless in whatever draws it.

Every value is escaped by the template engine itself; only what this package marks as written Markdown is not.
"""

from __future__ import annotations

from pathlib import Path

import jinja2

from core.export import reading, words
from core.export.document import Document
from core.export.markdown_text import inline, quoted

_ENVIRONMENT = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent),
    autoescape=False,
    undefined=jinja2.StrictUndefined,
    finalize=inline,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_ENVIRONMENT.filters["quoted"] = quoted


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
    return _ENVIRONMENT.get_template("page.md.j2").render(values).encode("utf-8")
