"""Heat maps of shares: a cell for each row and column, its number in a readable colour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from core.figures.style import FAINT, INK, MARGIN

_COLOURS = (("#FFFFFF", "#0B6E69"), ("#0E1718", "#5CC9C0"))
"""Colours of the shares 0 and 1, on a light and on a dark background."""
_ROW = 28
"""Height of a row in pixels."""
_LIGHT_TEXT, _DARK_TEXT = "#FFFFFF", "#14201F"
MANY = 6
"""With more columns, their names are vertical and the numbers smaller, so that they do not overlap."""
_BRIGHT = 0.26
"""Luminance of a cell above which dark text is easier to read than light text."""


@dataclass(frozen=True)
class HeatCell:
    """A share (0 to 1) that colours the cell, its text, and its hover text (``words``)."""

    share: float | None
    text: str
    words: str = ""


def heat(
    cells: Sequence[Sequence[HeatCell]], columns: Sequence[str], rows: Sequence[str], *, dark: bool = False
) -> go.Figure:
    """Return the heat map; a cell without a share has no colour."""
    many = len(columns) > MANY
    names_px = 7 * max(map(len, columns)) if many else 14 * max((name.count("<br>") + 1 for name in columns), default=1)
    figure = go.Figure()
    # the axes have positions instead of names: two graders may have the same name
    figure.add_heatmap(
        z=[[cell.share for cell in line] for line in cells],
        zmin=0,
        zmax=1,
        showscale=False,
        colorscale=list(enumerate(_COLOURS[dark])),
        xgap=2,
        ygap=2,
        customdata=[[cell.words for cell in line] for line in cells],
        hovertemplate="%{customdata}<extra></extra>",
        hoverongaps=False,
    )
    texts = [
        {
            "x": x,
            "y": y,
            "text": cell.text,
            "showarrow": False,
            "font": {
                "size": 10 if many else 13,
                "color": INK[dark] if cell.share is None else ink_on(cell.share, dark=dark),
            },
        }
        for y, line in enumerate(cells)
        for x, cell in enumerate(line)
    ]
    axis = {"showgrid": False, "zeroline": False, "automargin": True, "linecolor": FAINT[dark]}
    figure.update_layout(
        annotations=texts,  # one call for all: each further call takes as long as all calls before it
        height=76 + _ROW * len(rows) + names_px,
        margin=MARGIN,
        font={"size": 13, "color": INK[dark]},
        xaxis={
            **axis,
            "side": "top",
            "tickangle": -90 if many else 0,
            "tickvals": list(range(len(columns))),
            "ticktext": [name.replace("<br>", " ") for name in columns] if many else list(columns),
            "range": [-0.5, len(columns) - 0.5],
        },
        yaxis={**axis, "range": [len(rows) - 0.5, -0.5], "tickvals": list(range(len(rows))), "ticktext": list(rows)},
    )
    return figure


def ink_on(share: float, *, dark: bool) -> str:
    """Return a readable text colour for the cell of this share (0 to 1)."""
    first, last = ([int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)] for colour in _COLOURS[dark])
    red, green, blue = ((a + share * (b - a)) ** 2.2 for a, b in zip(first, last, strict=True))
    return _DARK_TEXT if 0.2126 * red + 0.7152 * green + 0.0722 * blue >= _BRIGHT else _LIGHT_TEXT
