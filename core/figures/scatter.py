"""Scatter plot of two estimates: points with their 95 % intervals in both directions, and straight lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from core.figures.marks import legend_name
from core.figures.style import GREY, INK, LAYOUT, Axis, Trace, whiskers

_SYMBOLS = ("circle", "diamond", "square", "triangle-up", "cross", "star", "hexagon", "triangle-down")
_ACROSS = 3
"""Panels in a row."""
_PANEL, _BETWEEN = 330, 96
"""Pixels of a panel's height, and between rows of panels."""
AxisBounds = tuple[float | None, float | None]
_UNBOUNDED: AxisBounds = (None, None)


@dataclass(frozen=True)
class Spot:
    """One point with its intervals; without an ``x`` it is a horizontal line at ``y`` (no value from conversations).

    ``kind`` chooses the symbol (its data set, say), ``published`` points are open, ``words`` are added to the hover
    text. A click on the point gives ``data``.
    """

    series: str
    y: float
    x: float | None = None
    x_bounds: AxisBounds = _UNBOUNDED
    y_bounds: AxisBounds = _UNBOUNDED
    kind: str = ""
    label: str = ""
    words: str = ""
    published: bool = False
    data: tuple[str, ...] = ()


@dataclass(frozen=True)
class StraightLine:
    """A straight line y = ``start`` + ``slope`` · x over the whole plot; a dotted line is a grey reading aid."""

    name: str
    slope: float
    start: float = 0.0
    colour: str = ""
    dotted: bool = False
    series: str = ""
    """The line is hidden together with the points of this series."""


def scatter(
    spots: Sequence[Spot],
    names: Mapping[str, str],
    colours: Mapping[str, str],
    across: Axis,
    up: Axis,
    *,
    kinds: Mapping[str, str] | None = None,
    lines: Sequence[StraightLine] = (),
    written: bool = False,
    height: int = 500,
    dark: bool = False,
) -> go.Figure:
    """Return points in a colour for each series, in the order of ``names``, with whiskers if they have bounds.

    Each of ``kinds`` (key → name) has a symbol; the legend explains it if there are several. ``lines`` cover the range
    of ``across`` (default: 0 to 1). ``written`` draws the ``label`` next to each point.
    """
    figure = go.Figure()
    symbols = {kind: _SYMBOLS[number % len(_SYMBOLS)] for number, kind in enumerate(kinds or ())}
    ends = across.range or (0.0, 1.0)
    for line in lines:
        figure.add_scatter(
            x=list(ends),
            y=[line.start + line.slope * x for x in ends],
            mode="lines",
            name=line.name,
            legendgroup=line.series or line.name,
            line={
                "color": line.colour or (GREY if line.dotted else INK[dark]),
                "dash": "dot" if line.dotted else "solid",
            },
            hoverinfo="skip",
        )
    for series, name in names.items():
        for published in (False, True):
            members = [spot for spot in spots if (spot.series, spot.published) == (series, published)]
            points = [spot for spot in members if spot.x is not None]
            look = {
                "name": legend_name(name, published=published),
                "legendgroup": series,
                "hovertemplate": "%{customdata[0]}<extra></extra>",
            }
            data = {spot: [_hover_text(spot, name, across, up), *spot.data] for spot in members}
            if points:
                customdata = [data[spot] for spot in points]
                figure.add_scatter(**_points(points, symbols, colours[series], written), customdata=customdata, **look)
            for number, spot in enumerate(spot for spot in members if spot.x is None):
                figure.add_scatter(
                    x=list(ends),
                    y=[spot.y, spot.y],
                    mode="lines",
                    line={"color": colours[series], "width": 1.5, "dash": "dash"},
                    showlegend=not points and not number,
                    customdata=[data[spot]] * 2,
                    **look,
                )
    used = [kind for kind in symbols if any(spot.kind == kind for spot in spots)]
    for kind in used if len(used) > 1 else ():
        marker = {"color": GREY, "size": 10, "symbol": symbols[kind]}
        figure.add_scatter(x=[None], y=[None], mode="markers", name=(kinds or {})[kind], marker=marker)
    return figure.update_layout(
        LAYOUT, height=height, hovermode="closest", xaxis=across.layout(dark=dark), yaxis=up.layout(dark=dark)
    )


def scatter_panels(
    panels: Mapping[str, Sequence[Spot]],
    names: Mapping[str, str],
    colours: Mapping[str, str],
    across: Axis,
    up: Axis,
    *,
    lines: Mapping[str, Sequence[StraightLine]] | None = None,
    dark: bool = False,
) -> go.Figure:
    """Return a scatter plot for each of ``panels`` (title → points), up to three in a row, on equal axes.

    ``lines`` are those of each panel. A series has one entry in the legend, which hides it in all panels.
    """
    columns = 2 if len(panels) in (2, 4) else min(_ACROSS, len(panels))
    rows = -(-len(panels) // columns)
    figure = make_subplots(
        rows=rows,
        cols=columns,
        subplot_titles=list(panels),
        shared_yaxes=True,
        horizontal_spacing=0.03,
        vertical_spacing=_BETWEEN / (rows * _PANEL) if rows > 1 else 0,
    )
    in_legend: set[str] = set()
    for number, (panel, spots) in enumerate(panels.items()):
        row, column = number // columns + 1, number % columns + 1
        of_panel = (lines or {}).get(panel, ())
        for trace in scatter(spots, names, colours, across, up, lines=of_panel, dark=dark).data:
            trace.showlegend = trace.showlegend is not False and trace.name not in in_legend
            in_legend.add(trace.name)
            figure.add_trace(trace, row=row, col=column)
        figure.update_xaxes(**across.layout(dark=dark), row=row, col=column)
        axis = up.layout(dark=dark)
        figure.update_yaxes(**(axis if column == 1 else {**axis, "title": ""}), row=row, col=column)
    return figure.update_layout(LAYOUT, height=rows * _PANEL + _BETWEEN, margin={"t": 36}, hovermode="closest")


def _points(spots: Sequence[Spot], symbols: Mapping[str, str], colour: str, written: bool) -> Trace:
    """Return points with whiskers in the directions in which one of them has bounds."""

    def bounds(value: Literal["x", "y"]) -> Trace | None:
        ends = [getattr(spot, f"{value}_bounds") for spot in spots]
        if all(pair == _UNBOUNDED for pair in ends):  # a whisker of length 0 is drawn as a cross
            return None
        return whiskers(((getattr(spot, value), *pair) for spot, pair in zip(spots, ends, strict=True)), colour)

    return {
        "x": [spot.x for spot in spots],
        "y": [spot.y for spot in spots],
        "error_x": bounds("x"),
        "error_y": bounds("y"),
        "mode": "markers+text" if written else "markers",
        "cliponaxis": False,
        "text": [spot.label for spot in spots] if written else None,
        "textposition": "top right",
        "marker": {
            "color": colour,
            "size": 11,
            "line": {"width": 2, "color": colour},
            "symbol": [symbols.get(s.kind, "circle") + ("-open" if s.published else "") for s in spots],
        },
    }


def _hover_text(spot: Spot, name: str, across: Axis, up: Axis) -> str:
    def number(axis: Axis, value: float, bounds: AxisBounds) -> str:
        low, high = bounds
        around = "" if low is None or high is None else f" ({low:{axis.number}} – {high:{axis.number}})"
        return f"{axis.title}: {value:{axis.number}}{around}"

    first = "" if spot.x is None else number(across, spot.x, spot.x_bounds)
    return "<br>".join(filter(None, [name, spot.label, first, number(up, spot.y, spot.y_bounds), spot.words]))
