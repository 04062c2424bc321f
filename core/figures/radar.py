"""Profiles as a radar: a spoke for each dimension, a polygon for each series, faint bands for the 95 % intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import plotly.graph_objects as go

from core.errors import UsageError
from core.figures.marks import Mark, hover_data, legend_name
from core.figures.style import FAINT, LAYOUT, Axis, Trace, faded

_SHARE = Axis("", (0, 1))
_BANDS = 3
"""Most series with bands: more would overlap, and their intervals are in the hover text only."""
_LEAST = 3


def radar(
    marks: Sequence[Mark],
    names: Mapping[str, str],
    colours: Mapping[str, str],
    spokes: Mapping[str, str],
    *,
    axes: Mapping[str, Axis] | None = None,
    height: int = 480,
    dark: bool = False,
) -> go.Figure:
    """Return a closed line for each series in the order of ``names``, dashed for ``published`` marks.

    ``spokes`` are the dimensions (a mark's ``place``) and their titles, clockwise from the top. They go from 0 to 1;
    dimensions in ``axes`` have their own range, which is part of the title. A line has a gap at a dimension without an
    estimate. A click gives a mark's ``data``. Raises ``UsageError`` if fewer than three dimensions have an estimate:
    bars are clearer then.
    """
    drawn = [mark for mark in marks if mark.estimate is not None and mark.place in spokes]
    order = [place for place in spokes if any(mark.place == place for mark in drawn)]
    if len(order) < _LEAST:
        raise UsageError(f"A radar needs {_LEAST} dimensions with an estimate, not {len(order)}.")
    dimensions = [_Spoke(spokes[place], (axes or {}).get(place, _SHARE), bool(axes)) for place in order]
    lines = {
        (series, published): {m.place: m for m in drawn if (m.series, m.published) == (series, published)}
        for series in names
        for published in (False, True)
    }
    lines = {key: line for key, line in lines.items() if line}
    figure = go.Figure()
    for (series, published), line in lines.items():
        points = [line.get(place) for place in order]
        name = legend_name(names[series], published=published)
        if len(lines) <= _BANDS:
            figure.add_traces(_band(dimensions, points, name, colours[series]))
        figure.add_trace(_line(dimensions, points, name, names[series], colours[series]))
    return figure.update_layout(
        LAYOUT,
        height=height,
        margin={"l": 84, "r": 92, "t": 44, "b": 80},
        showlegend=len(lines) > 1,
        polar={
            "bgcolor": "rgba(0,0,0,0)",
            "angularaxis": {
                "type": "category",
                "categoryorder": "array",
                "categoryarray": [dimension.title for dimension in dimensions],
                "rotation": 90,
                "direction": "clockwise",
                "gridcolor": FAINT[dark],
                "linecolor": FAINT[dark],
                "ticks": "",
            },
            "radialaxis": {
                "range": [0, 1],
                "dtick": 0.25,
                "tickformat": ".2~f",
                "showticklabels": not axes,
                "ticks": "",
                "angle": 90,
                "tickangle": 90,
                "gridcolor": FAINT[dark],
                "linecolor": FAINT[dark],
            },
        },
    )


class _Spoke(NamedTuple):
    """A dimension: its name, its axis, and whether the title has the range of the axis."""

    name: str
    axis: Axis
    ranged: bool

    @property
    def title(self) -> str:
        start, end = self.axis.range or (0, 1)
        return f"{self.name}<br>{start:g} – {end:g}" if self.ranged and self.axis.range else self.name

    def along(self, value: float) -> float:
        """Return the place of a value on the spoke, from 0 to 1."""
        start, end = self.axis.range or (0, 1)
        return (value - start) / (end - start)


def _line(spokes: Sequence[_Spoke], points: Sequence[Mark | None], name: str, words: str, colour: str) -> Trace:
    """Return the closed line through the points, in the order of the spokes."""
    published = any(point and point.published for point in points)
    closed = [*zip(spokes, points, strict=True), (spokes[0], points[0])]
    return {
        "type": "scatterpolar",
        "r": [spoke.along(m.estimate) if m and m.estimate is not None else None for spoke, m in closed],
        "theta": [spoke.title for spoke, _ in closed],
        "mode": "lines+markers",
        "connectgaps": False,
        "name": name,
        "legendgroup": name,
        "line": {"color": colour, "width": 2, "dash": "dash" if published else "solid"},
        "marker": {"size": 6, "symbol": "circle-open" if published else "circle"},
        "customdata": [hover_data(m, words, spoke.name, spoke.axis) if m else [""] for spoke, m in closed],
        "hovertemplate": "%{customdata[0]}<extra></extra>",
    }


def _band(spokes: Sequence[_Spoke], points: Sequence[Mark | None], name: str, colour: str) -> list[Trace]:
    """Return the band of the intervals; empty unless each point has one."""
    bounds = [(m.low, m.high) for m in points if m is not None and m.low is not None and m.high is not None]
    if len(bounds) < len(spokes):
        return []
    low = [spoke.along(ends[0]) for spoke, ends in zip(spokes, bounds, strict=True)]
    high = [spoke.along(ends[1]) for spoke, ends in zip(spokes, bounds, strict=True)]
    titles = [spoke.title for spoke in spokes]
    return [
        {
            "type": "scatterpolar",
            "r": [*high, high[0], low[0], *reversed(low)],
            "theta": [*titles, titles[0], titles[0], *reversed(titles)],
            "mode": "lines",
            "line": {"width": 0},
            "fill": "toself",
            "fillcolor": faded(colour, 0.15),
            "name": f"{name}, interval",
            "legendgroup": name,
            "showlegend": False,
            "hoverinfo": "skip",
        }
    ]
