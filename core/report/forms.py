"""The file formats of a report: HTML and Markdown from templates, Word by python-docx."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import jinja2
from markupsafe import Markup

from core import __version__
from core.export.page import HTML, MARKDOWN, POLICY, STYLE, Written, inline
from core.export.visible import visible
from core.report.blocks import Link, Report, cell_text, is_numeric

_FOLDER = Path(__file__).parent


def _code(text: str) -> str:
    """Return a command as inline code; as escaped text if it contains the mark that would end the code."""
    line = " ".join(visible(text).split())
    return inline(text) if "`" in line else Written(f"`{line}`")


def _environment(base: jinja2.Environment) -> jinja2.Environment:
    environment = base.overlay(loader=jinja2.FileSystemLoader(_FOLDER))
    environment.filters = {**base.filters, "cell": cell_text, "code": _code}
    environment.tests = {**base.tests, "link": lambda value: isinstance(value, Link), "numeric": is_numeric}
    return environment


def to_html(report: Report) -> bytes:
    """Return one HTML file without any reference to another file or address."""
    style = Markup(STYLE + (_FOLDER / "report.css").read_text(encoding="utf-8"))
    template = _environment(HTML).get_template("report.html.j2")
    return template.render(report=report, style=style, policy=Markup(POLICY), version=__version__).encode("utf-8")


def to_markdown(report: Report) -> bytes:
    template = _environment(MARKDOWN).get_template("report.md.j2")
    return template.render(report=report, markup=Written, inline=inline).encode("utf-8")


def to_word(report: Report) -> bytes:
    """Return a Word file (.docx)."""
    from core.report.word import to_docx  # takes half a second to import

    return to_docx(report)


@dataclass(frozen=True)
class ReportForm:
    """A file format: its name and suffix, its MIME type, and its writer."""

    name: str
    mime: str
    render: Callable[[Report], bytes]


REPORT_FORMS = {
    form.name: form
    for form in (
        ReportForm("html", "text/html", to_html),
        ReportForm("md", "text/markdown", to_markdown),
        ReportForm("docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document", to_word),
    )
}
