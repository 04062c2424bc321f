"""A document as one HTML file that needs nothing else: no script, no address that is fetched, its style inside.

What models wrote can only be text there: every value is escaped by the template engine, and the file forbids scripts
and remote content to itself by a content security policy.
"""

from __future__ import annotations

from pathlib import Path

import jinja2
from markupsafe import Markup

from core.export import plot, reading, words
from core.export.document import Document
from core.export.visible import visible

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
"""Without a source for scripts, frames, fonts or connections there are none."""
_FOLDER = Path(__file__).parent


def _shown(value: object) -> object:
    """Make text visible on its way into the page; the engine escapes it afterwards."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


_ENVIRONMENT = jinja2.Environment(
    loader=jinja2.FileSystemLoader(_FOLDER),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    finalize=_shown,
    trim_blocks=True,
    lstrip_blocks=True,
)


def to_html(document: Document) -> bytes:
    """Return the document as a self-contained page in UTF-8."""
    return page_of(document, POLICY).encode("utf-8")


def page_of(document: Document, policy: str) -> str:
    """Return the page under a content security policy."""
    talks = document.talks
    values = {
        "document": document,
        "rows": reading.rows(talks),
        "arms": reading.arms(talks),
        "facts": reading.provenance(document),
        "plots": [plot.plot_of(reading.beliefs(talk), talk.case) for talk in talks],
        "cases": list({talk.case.content_hash: talk.case for talk in talks if talk.case}.values()),
        "style": Markup((_FOLDER / "style.css").read_text(encoding="utf-8")),
        "size": (plot.WIDTH, plot.HEIGHT),
        "policy": Markup(policy),
        "reading": reading,
        "words": words,
    }
    return _ENVIRONMENT.get_template("page.html.j2").render(values)
