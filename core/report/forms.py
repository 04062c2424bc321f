"""The files of an evaluation report: one HTML file that refers to nothing else, and Markdown.

Texts are plain; the templates escape them, so that a text of a model stays text. Pandoc makes a Word file of either.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

import jinja2
from markupsafe import Markup

from core import __version__
from core.export.page import HTML, MARKDOWN, POLICY, STYLE, Written, inline
from core.export.visible import visible
from core.report.evaluation import STATES, Evaluation, State
from core.report.first_page import HEADS

_FOLDER = Path(__file__).parent


def _code(text: str) -> str:
    """Return a command as inline code; as escaped text if it contains the mark that would end the code."""
    line = " ".join(visible(text).split())
    return inline(text) if "`" in line else Written(f"`{line}`")


def _render(base: jinja2.Environment, template: str, evaluation: Evaluation, style: str = "") -> bytes:
    environment = base.overlay(loader=jinja2.FileSystemLoader(_FOLDER))
    environment.filters = {**base.filters, "code": _code}
    counts = ", ".join(f"{evaluation.count(state)} {state}" for state in STATES)
    made = f"Made with Anamnesis {__version__} on {time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime())}."
    values = {"evaluation": evaluation, "counts": counts, "made": made, "style": Markup(style), "markup": Written}
    values |= {"result_heads": HEADS, "states": {state: _items_in(evaluation, state) for state in STATES}}
    return environment.get_template(template).render(values, policy=Markup(POLICY)).encode("utf-8")


def _items_in(evaluation: Evaluation, state: State) -> str:
    return ", ".join(answer.item.item for answer in evaluation.items if answer.state == state) or "none"


def to_html(evaluation: Evaluation) -> bytes:
    style = STYLE + (_FOLDER / "report.css").read_text(encoding="utf-8")
    return _render(HTML, "report.html.j2", evaluation, style)


def to_markdown(evaluation: Evaluation) -> bytes:
    return _render(MARKDOWN, "report.md.j2", evaluation)


def prompts_to_markdown(evaluation: Evaluation) -> bytes:
    """Return the appendix of a report: the texts of its prompts."""
    return _render(MARKDOWN, "report_prompts.md.j2", evaluation)


REPORT_FORMS: Mapping[str, tuple[str, Callable[[Evaluation], bytes]]] = {
    "html": ("text/html", to_html),
    "md": ("text/markdown", to_markdown),
}
"""Suffix → MIME type, and the function that writes the file."""
