"""Curves over the course of a conversation, with bands for the 95 % intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from core.figures.style import LAYOUT, Axis, faded


@dataclass(frozen=True)
class Point:
    """One point of a curve with its interval; ``words`` are added to the hover text.

    A click on the point gives ``data``, or its series and position if ``data`` is empty.
    """

    series: str
    at: float
    estimate: float
    low: float | None = None
    high: float | None = None
    words: str = ""
    data: tuple[str, ...] = ()


def curves(
    points: Sequence[Point],
    names: Mapping[str, str],
    colours: Mapping[str, str],
    along: Axis,
    axis: Axis,
    *,
    height: int = 360,
    steps: bool = False,
    strong: str = "",
    dark: bool = False,
) -> go.Figure:
    """Return a line for each series in the order of ``names``, with a band if it has intervals.

    ``along`` is the axis of positions, ``axis`` that of estimates. ``steps`` draws a filled step function. The
    ``strong`` series is emphasized.
    """
    figure = go.Figure()
    for series, name in names.items():
        line = sorted((point for point in points if point.series == series), key=lambda point: point.at)
        if not line:
            continue
        x = [point.at for point in line]
        banded = [point for point in line if point.low is not None and point.high is not None]
        if banded:
            ends = [point.at for point in banded]
            figure.add_scatter(
                x=[*ends, *reversed(ends)],
                y=[*(p.high for p in banded), *(p.low for p in reversed(banded))],
                fill="toself",
                fillcolor=faded(colours[series]),
                line={"width": 0},
                mode="lines",
                hoverinfo="skip",
                showlegend=False,
                legendgroup=series,
                name=f"{name}, interval",
            )
        figure.add_scatter(
            x=x,
            y=[point.estimate for point in line],
            mode="lines" if steps else "lines+markers",
            name=name,
            legendgroup=series,
            line={"color": colours[series], "width": 4 if series == strong else 2, "shape": "hv" if steps else None},
            fill="tozeroy" if steps else None,
            fillcolor=faded(colours[series]) if steps else None,
            marker={"size": 7, "symbol": "diamond"} if series == strong else {"size": 5},
            customdata=[[_hover_text(point, name, along, axis), *(point.data or (series, point.at))] for point in line],
            hovertemplate="%{customdata[0]}<extra></extra>",
        )
    return figure.update_layout(
        LAYOUT, height=height, hovermode="closest", xaxis=along.layout(dark=dark), yaxis=axis.layout(dark=dark)
    )


def _hover_text(point: Point, name: str, along: Axis, axis: Axis) -> str:
    number = axis.number
    bounds = "" if point.low is None or point.high is None else f" ({point.low:{number}} – {point.high:{number}})"
    lines = [name, f"{point.at:{along.number}}: {point.estimate:{number}}{bounds}", point.words]
    return "<br>".join(line for line in lines if line)
