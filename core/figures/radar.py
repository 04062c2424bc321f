"""Profiles as a radar: a spoke for each dimension, a polygon for each series, faint bands for the 95 % intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from core.errors import UsageError
from core.figures.marks import Mark, hover_data, legend_name
from core.figures.style import FAINT, LEGEND, Axis, faded

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
    scales = {place: (axes or {}).get(place, _SHARE) for place in order}
    titles = {
        place: spokes[place] + (f"<br>{ends[0]:g} – {ends[1]:g}" if axes and (ends := scale.range) else "")
        for place, scale in scales.items()
    }

    def along(place: str, value: float) -> float:
        start, end = scales[place].range or (0, 1)
        return (value - start) / (end - start)

    lines = {
        (series, published): {m.place: m for m in drawn if (m.series, m.published) == (series, published)}
        for series in names
        for published in (False, True)
    }
    lines = {key: line for key, line in lines.items() if line}
    figure = go.Figure()
    for (series, published), line in lines.items():
        name, colour = legend_name(names[series], published=published), colours[series]
        present = [line[place] for place in order if place in line]
        intervals = [(mark.low, mark.high) for mark in present if mark.low is not None and mark.high is not None]
        around = [*order, order[0]]
        if len(lines) <= _BANDS and len(intervals) == len(order):
            low = [along(place, bounds[0]) for place, bounds in zip(order, intervals, strict=True)]
            high = [along(place, bounds[1]) for place, bounds in zip(order, intervals, strict=True)]
            figure.add_scatterpolar(
                r=[*high, high[0], low[0], *reversed(low)],
                theta=[titles[place] for place in (*around, order[0], *reversed(order))],
                mode="lines",
                line={"width": 0},
                fill="toself",
                fillcolor=faded(colour, 0.15),
                name=f"{name}, interval",
                legendgroup=name,
                showlegend=False,
                hoverinfo="skip",
            )
        points = [line.get(place) for place in around]
        figure.add_scatterpolar(
            r=[along(m.place, m.estimate) if m and m.estimate is not None else None for m in points],
            theta=[titles[place] for place in around],
            mode="lines+markers",
            connectgaps=False,
            name=name,
            legendgroup=name,
            line={"color": colour, "width": 2, "dash": "dash" if published else "solid"},
            marker={"size": 6, "symbol": "circle-open" if published else "circle"},
            customdata=[hover_data(m, names[series], spokes[m.place], scales[m.place]) if m else [""] for m in points],
            hovertemplate="%{customdata[0]}<extra></extra>",
        )
    return figure.update_layout(
        height=height,
        margin={"l": 84, "r": 92, "t": 44, "b": 80},
        legend=LEGEND,
        showlegend=len(lines) > 1,
        font={"size": 13},
        polar={
            "bgcolor": "rgba(0,0,0,0)",
            "angularaxis": {
                "type": "category",
                "categoryorder": "array",
                "categoryarray": [titles[place] for place in order],
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
