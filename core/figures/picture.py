"""A figure as a file: SVG, PDF or PNG at the size of print, or HTML that can still be hovered."""

from __future__ import annotations

import json
import os
import re
import threading
from pathlib import Path
from typing import Any

import plotly.graph_objects as go

from core.browser import HOW_TO_INSTALL, find_browser
from core.errors import AnamnesisError, UsageError

SUFFIXES = (".svg", ".png", ".pdf", ".html")
WIDTH_MM = 180.0
"""Two columns of a journal's page."""
COLUMN_MM = 88.0
"""One column."""
DOTS_PER_INCH = 300
_PIXELS = 960
"""Width at which a figure of ``WIDTH_MM`` is laid out for print, narrower ones in proportion: type keeps its size."""
_BROWSER = "BROWSER_PATH"
"""Where the library that draws looks for a browser first."""
_ANSWERS_WITHIN_S = 60.0
"""A figure takes a second or two; a browser that hangs at its start never answers."""


_LINK = re.compile(r"(?:<|\\u003c)a", re.IGNORECASE)


def check_name(path: Path) -> None:
    """Raise ``UsageError`` where a file's ending is none that figures are drawn as."""
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(f"{path.name} is no figure's name: end it with {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}.")


def no_browser(html: str) -> str:
    """Return what to do without a browser, where the figure can be had as the file (or ending) ``html``."""
    return (
        "There is no Chrome or Chromium on this machine to draw the figure: "
        f"take {html}, whose camera saves it as SVG; for PDF and PNG, {HOW_TO_INSTALL}."
    )


def picture_of(figure: go.Figure, suffix: str, width_mm: float = WIDTH_MM, name: str = "figure") -> bytes:
    """Return a figure as the bytes of a file of this kind; a PNG has 300 dots an inch at this width.

    An HTML page needs no browser here: the camera in it saves the SVG of this width as ``name``.svg. Raises
    ``AnamnesisError`` where anything else is asked for and no Chrome or Chromium is installed.
    """
    figure = without_links(figure)
    width, height = round(_PIXELS * width_mm / WIDTH_MM), figure.layout.height or 480
    if suffix == ".html":
        camera = {"format": "svg", "filename": name, "width": width, "height": height}
        config = {"displaylogo": False, "toImageButtonOptions": camera}
        return str(figure.to_html(config=config, include_plotlyjs=True, full_html=True)).encode()
    browser = find_browser()
    if browser is None:
        raise AnamnesisError(no_browser(".html"))
    os.environ[_BROWSER] = browser
    scale = WIDTH_MM / 25.4 * DOTS_PER_INCH / _PIXELS if suffix == ".png" else 1
    size = {"width": width, "height": height, "scale": scale}
    try:
        try:
            return _drawn(figure, suffix.removeprefix("."), size)
        except TimeoutError:  # a browser that hung at its start; another one seldom does
            return _drawn(figure, suffix.removeprefix("."), size)
    except (RuntimeError, ValueError, OSError) as error:
        why = str(error).strip().splitlines()[0]
        raise AnamnesisError(f"The figure could not be drawn ({why}): take .html instead.") from error


def _drawn(figure: go.Figure, kind: str, size: dict[str, float]) -> bytes:
    """Draw a figure in a browser. Raises ``TimeoutError`` if the browser does not answer in time."""
    answers: list[bytes | Exception] = []

    def draw() -> None:
        try:
            answers.append(figure.to_image(format=kind, **size))
        except Exception as error:
            answers.append(error)

    thread = threading.Thread(target=draw, daemon=True)
    thread.start()
    thread.join(_ANSWERS_WITHIN_S)
    if not answers:
        raise TimeoutError(f"the browser did not answer in {_ANSWERS_WITHIN_S:.0f} seconds")
    (answer,) = answers
    if isinstance(answer, Exception):
        raise answer
    return answer


def without_links(figure: go.Figure) -> go.Figure:
    """Return a figure in which no name is a link: a model or a case may be called anything.

    What a click on a mark hands on (``customdata``) stays as it is.
    """
    held = figure.to_json()
    if not _LINK.search(held):
        return figure

    def said(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: one if key == "customdata" else said(one) for key, one in value.items()}
        if isinstance(value, (list, tuple)):
            return [said(one) for one in value]
        return re.sub("<(?=a)", "&lt;", value, flags=re.IGNORECASE) if isinstance(value, str) else value

    return go.Figure(said(json.loads(held)))
