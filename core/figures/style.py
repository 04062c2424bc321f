"""Colours, layout and axes that all charts share, for a light and a dark background."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

INK = {False: "#1A2B2B", True: "#E3ECEB"}
"""Lines and texts with high contrast, by whether the background is dark."""
FAINT = {False: "#D5E0DF", True: "#2B3B3C"}
"""Lines of the grid."""
GREY = "#8C8C8C"
"""Published or unclear figures, and reading aids."""
RISE, FALL = "#0072B2", "#D55E00"
PALETTE = (
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#7A6A00", "#6A51A3", "#8C8C8C", "#1B4F4A",
)  # fmt: skip
"""Okabe and Ito's colours, which colour-blind readers can tell apart, and four more."""
_LIGHT = 0.28
"""Luminance (0 to 1) of a background from which dark texts are easier to read than white ones."""
MARGIN = {"l": 8, "r": 12, "t": 8, "b": 8}
LEGEND = {"orientation": "h", "yref": "container", "yanchor": "bottom", "y": 0, "x": 0, "traceorder": "normal"}
"""Below the axis labels, however long they are."""
LAYOUT = {"margin": MARGIN, "legend": LEGEND, "font": {"size": 13}}
Trace = dict[str, Any]


def text_on(colour: str) -> str:
    """Return the colour of a text on a background "#RRGGBB": white or dark, whichever is easier to read."""
    red, green, blue = ((int(colour[place : place + 2], 16) / 255) ** 2.2 for place in (1, 3, 5))
    return "white" if 0.2126 * red + 0.7152 * green + 0.0722 * blue < _LIGHT else INK[False]


@dataclass(frozen=True)
class Axis:
    """An axis of numbers: its title, range (default: chosen by Plotly), and ticks.

    ``number`` is the number format of hover texts; ``zero`` draws the line at 0.
    """

    title: str = ""
    range: tuple[float, float] | None = None
    ticks: str = "~g"
    step: float | None = None
    number: str = ".3f"
    zero: bool = False

    def layout(self, *, dark: bool = False) -> dict[str, Any]:
        range_ = {"range": list(self.range)} if self.range else {"rangemode": "tozero"}
        return {
            "title": self.title,
            "tickformat": self.ticks,
            "gridcolor": FAINT[dark],
            "showgrid": True,
            "zeroline": self.zero,
            "zerolinecolor": INK[dark],
            **({"dtick": self.step} if self.step else {}),
            **range_,
        }


ACCURACY = Axis("Accuracy", (0, 1.02), ".1f", 0.2)


def whiskers(bounds: Iterable[tuple[float | None, float | None, float | None]], colour: str, width: int = 3) -> Trace:
    """Return Plotly's error bars of (estimate, low, high); a missing bound has none."""
    intervals = list(bounds)
    return {
        "type": "data",
        "symmetric": False,
        "thickness": 1.4,
        "width": width,
        "color": colour,
        "array": [None if v is None or high is None else high - v for v, _, high in intervals],
        "arrayminus": [None if v is None or low is None else v - low for v, low, _ in intervals],
    }


def in_rows(labels: Sequence[str], *, dark: bool = False) -> dict[str, Any]:
    """Return a vertical axis with a row for each label, the first on top, and a faint line between rows."""
    between = [place + 0.5 for place in range(len(labels) - 1)]
    return {
        "range": [len(labels) - 0.5, -0.5],
        "tickvals": list(range(len(labels))),
        "ticktext": list(labels),
        "automargin": True,
        "showgrid": False,
        "zeroline": False,
        "minor": {"tickvals": between, "showgrid": True, "gridcolor": FAINT[dark]},
    }


def faded(colour: str, share: float = 0.18) -> str:
    """Return the colour "#rrggbb" with this opacity (0 to 1)."""
    red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return f"rgba({red}, {green}, {blue}, {share:g})"
