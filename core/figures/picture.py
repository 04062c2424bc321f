"""A figure as a file: SVG, PDF or PNG at print size, or an interactive HTML page."""

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
"""Width of two columns of a journal's page."""
COLUMN_MM = 88.0
"""Width of one column."""
DOTS_PER_INCH = 300
_PIXELS = 960
"""Layout width of a figure of ``WIDTH_MM``; narrower figures have fewer pixels, so that the font size is the same."""
_PIXELS_PER_INCH = 96
"""Of a PDF that a browser writes, at scale 1."""
_BROWSER = "BROWSER_PATH"
"""The environment variable with the browser that Plotly's image export uses."""
_ANSWERS_WITHIN_S = 60.0
"""A figure takes a second or two; a browser that hangs at its start never answers."""

_LINK = re.compile(r"(?:<|\\u003c)a", re.IGNORECASE)


def check_name(path: Path) -> None:
    """Raise ``UsageError`` if figures cannot be saved with this file's suffix."""
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(f"{path.name} is no figure's name: end it with {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}.")


def no_browser(html: str) -> str:
    """Return the advice for a machine without a browser; ``html`` is the file (or suffix) to use instead."""
    return (
        "There is no Chrome or Chromium on this machine to draw the figure: "
        f"use {html}, whose camera button saves an SVG; for PDF and PNG, {HOW_TO_INSTALL}."
    )


def picture_of(figure: go.Figure, suffix: str, width_mm: float = WIDTH_MM, name: str = "figure") -> bytes:
    """Return the bytes of a figure as a file; a PNG has 300 dots per inch at this width.

    An HTML page needs no browser: its camera button saves an SVG of this width as ``name``.svg. Raises
    ``AnamnesisError`` for the other suffixes if no Chrome or Chromium is installed.
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
    mm = WIDTH_MM / _PIXELS
    scale = {".png": mm / 25.4 * DOTS_PER_INCH, ".pdf": mm / 25.4 * _PIXELS_PER_INCH}.get(suffix, 1.0)
    size = {"width": width, "height": height, "scale": scale}
    try:
        try:
            drawn = _image(figure, suffix.removeprefix("."), size)
        except TimeoutError:  # some browsers hang at their start: try a new one
            drawn = _image(figure, suffix.removeprefix("."), size)
    except (RuntimeError, ValueError, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise AnamnesisError(f"The figure could not be drawn ({reason}): take .html instead.") from error
    if suffix != ".svg":
        return drawn
    in_pixels, in_mm = f'width="{width}" height="{height}"', f'width="{width * mm:g}mm" height="{height * mm:g}mm"'
    return drawn.replace(in_pixels.encode(), in_mm.encode(), 1)


def _image(figure: go.Figure, kind: str, size: dict[str, float]) -> bytes:
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
    """Return the figure with links in its texts disabled: names of models and cases are untrusted.

    The data of clicks (``customdata``) does not change.
    """
    encoded = figure.to_json()
    if not _LINK.search(encoded):
        return figure

    def escaped(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: item if key == "customdata" else escaped(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [escaped(item) for item in value]
        return re.sub("<(?=a)", "&lt;", value, flags=re.IGNORECASE) if isinstance(value, str) else value

    return go.Figure(escaped(json.loads(encoded)))
