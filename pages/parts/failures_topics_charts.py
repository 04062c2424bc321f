"""Figures of what became of the facts: a heat map topics × models, and what patients did wrong as dots."""

from collections.abc import Mapping, Sequence
from typing import Literal

import plotly.graph_objects as go

from core.figures.marks import Mark, dots
from core.figures.style import INK, MARGIN, Axis
from core.measures.ledger.kept import TalkRow
from core.measures.ledger.marks import Share, TopicRow

Quantity = Literal["never_elicited", "asked", "volunteered"]
QUANTITY: dict[Quantity, str] = {
    "never_elicited": "Never elicited", "asked": "Asked", "volunteered": "Volunteered",
}  # fmt: skip
_SCALE: dict[bool, tuple[str, str, str]] = {
    False: ("#FFFFFF", "#F2A65A", "#9C3D00"), True: ("#0E1718", "#8A4A12", "#FFB06B"),
}  # fmt: skip
"""From the page's ground to strong, so that little reads as nothing in light and in dark."""
_LIGHT_TEXT, _DARK_TEXT = "#FFFFFF", "#14201F"
_BRIGHT = 0.26
"""Luminance of a cell from which on dark text reads better than light one."""


def topics_chart(
    rows: Mapping[str, Sequence[TopicRow]], names: Mapping[str, str], quantity: Quantity, *, dark: bool = False
) -> go.Figure:
    """Return the share of facts of each topic that were never elicited (or another quantity), by model."""
    models = [model for model in names if model in rows]
    topics = list(dict.fromkeys(row.topic for model in models for row in rows[model]))
    held = {(model, row.topic): row for model in models for row in rows[model]}
    cells = [[held.get((model, topic)) for model in models] for topic in topics]
    values = [[getattr(c, quantity).value if c else None for c in line] for line in cells]
    figure = go.Figure()
    figure.add_heatmap(
        z=values, x=[names[m].replace(" ", "<br>", 1) for m in models], y=[t.capitalize() for t in topics],
        zmin=0, zmax=1, showscale=False,
        colorscale=list(zip((0, 0.5, 1), _SCALE[dark], strict=True)), xgap=2, ygap=2,
        customdata=[[_words(c, quantity) for c in line] for line in cells],
        hovertemplate="%{y}, %{x}<br>%{customdata}<extra></extra>",
    )  # fmt: skip
    for y, line in enumerate(values):
        for x, value in enumerate(line):
            if value is not None:
                figure.add_annotation(
                    x=x, y=y, text=f"{value:.0%}", showarrow=False,
                    font={"size": 13, "color": ink_on(value, dark=dark)},
                )  # fmt: skip
    figure.update_layout(
        height=90 + 34 * len(topics), margin=MARGIN, font={"color": INK[dark]},
        xaxis={"side": "top", "showgrid": False, "tickangle": 0, "automargin": True},
        yaxis={"autorange": "reversed", "showgrid": False, "automargin": True},
    )  # fmt: skip
    return figure


def ink_on(share: float, *, dark: bool) -> str:
    """Return the colour of a text that reads on the cell of a share."""
    low, middle, high = (_rgb(colour) for colour in _SCALE[dark])
    start, end, at = (low, middle, share * 2) if share < 0.5 else (middle, high, share * 2 - 1)
    red, green, blue = (((1 - at) * a + at * b) ** 2.2 for a, b in zip(start, end, strict=True))
    return _DARK_TEXT if 0.2126 * red + 0.7152 * green + 0.0722 * blue >= _BRIGHT else _LIGHT_TEXT


def _rgb(colour: str) -> tuple[float, ...]:
    return tuple(int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))


def _words(cell: TopicRow | None, quantity: Quantity) -> str:
    if cell is None:
        return ""
    share: Share = getattr(cell, quantity)
    low, high = share.interval
    return f"{share.value:.1%} ({low:.1%} – {high:.1%})<br>{cell.cases:,} cases, {cell.facts:,} facts"


def faults_chart(
    rows: Sequence[TalkRow], names: Mapping[str, str], colours: Mapping[str, str], *, dark: bool = False
) -> go.Figure:
    """Return the share of judged conversations in which the patient invented or withheld something, by model."""
    judged = [row for row in rows if row.judged]
    marks = [
        Mark(words, share.value, *share.interval, row.model)
        for row in judged for words, share in (("Invented", row.with_invented), ("Withheld", row.with_withheld))
    ]  # fmt: skip
    shown = {row.model: f"{names[row.model]}, n = {row.judged:,}" for row in judged if row.model in names}
    ordered = {model: shown[model] for model in names if model in shown}
    axis = Axis("Share of judged conversations", (-0.02, 1.02), ".0%", None, ".1%")
    return dots(marks, ordered, colours, axis, legend=True, dark=dark)
