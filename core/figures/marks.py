"""Estimates with their 95 % intervals as bars, where places are few, and as dots in rows, where they are many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from core.figures.style import ACCURACY, INK, LEGEND, MARGIN, Axis, Trace, in_rows, whiskers

PUBLISHED = "published"
_HOVER = "%{customdata[0]}<extra></extra>"
_WIDEST = 0.16
"""Share of a panel that one bar takes at most: two bars are no walls."""
_LANES = 0.66
"""Share of a row over which the dots of several series are spread."""
_ROW, _LANE = 18, 9
"""Pixels of a row of dots, and of each series in it."""
_ACROSS = 3
"""Panels beside one another."""
_LINE = 16
"""Pixels of a line of a row's label."""
_HEAD, _ABOVE = 26, 110
"""Pixels above panels for their titles, and of a figure that are no panels, where a legend stands on top."""
_BETWEEN, _BELOW = 96, 110
"""Pixels between panels under one another, for the upper one's axis and the lower one's title; bars' labels slant."""


@dataclass(frozen=True)
class Mark:
    """One estimate as it is drawn: in which place of the axis, whose (``series``), and in which ``panel``.

    ``published`` marks are hatched bars or open dots of their own in the legend; ``open`` ones are open dots, too (what
    is not sure). ``star`` stands above a bar, ``words`` are added to what hovering says, a ``colour`` of its own
    replaces the series'. ``data`` is what a click on it gives.
    """

    place: str
    estimate: float | None
    low: float | None = None
    high: float | None = None
    series: str = ""
    panel: str = ""
    words: str = ""
    published: bool = False
    open: bool = False
    star: str = ""
    colour: str = ""
    data: tuple[str, ...] = ()


def bars(
    marks: Sequence[Mark],
    names: Mapping[Any, str],
    colours: Mapping[str, str],
    axis: Axis = ACCURACY,
    *,
    places: Sequence[str] = (),
    panels: Mapping[Any, str] | None = None,
    free: bool = False,
    height: int = 390,
    dark: bool = False,
) -> go.Figure:
    """Return places side by side, in each a bar for each series, in the order of ``names``.

    ``places`` is their order, that of the marks unless given; ``panels`` (key → title) stand beside one another, up to
    three in a row, and ``free`` ones have an axis of their own.
    """
    known = [mark for mark in marks if mark.estimate is not None]
    order = [place for place in places or _order(known) if any(mark.place == place for mark in known)]
    heads = {key: title for key, title in (panels or {"": ""}).items() if any(m.panel == key for m in known)}
    traces: list[tuple[int, Trace]] = []
    for number, key in enumerate(heads):
        for series in names:
            # those without an interval apart: in one trace they would be drawn one of no length
            for published, bare in product((False, True), repeat=2):
                wanted = (key, series, published, bare)
                mine = [m for m in known if (m.panel, m.series, m.published, m.low is None) == wanted]
                mine.sort(key=lambda mark: order.index(mark.place))
                bars_ = _bars_of(mine, names[series], colours.get(series, ""), axis, dark) if mine else ()
                traces += [(number, trace) for trace in bars_]
    across = len(order) * max((len({m.series for m in known if m.panel == key}) for key in heads), default=1)
    return _drawn(
        traces,
        list(heads.values()) if panels else [],
        {"categoryorder": "array", "categoryarray": order, "automargin": True},
        axis.layout(dark=dark),
        height,
        _BELOW,
        free=free,
        barmode="group",
        bargap=max(0.22, 1 - _WIDEST * across),
        margin={**MARGIN, "t": 36 if panels else 24},
    )


def _bars_of(marks: Sequence[Mark], name: str, colour: str, axis: Axis, dark: bool) -> list[Trace]:
    published = marks[0].published
    fill: Trace = {"color": [mark.colour or colour for mark in marks] if any(m.colour for m in marks) else colour}
    if published:
        pattern = {"shape": "/", "fgcolor": colour, "bgcolor": "rgba(0,0,0,0)", "size": 5, "solidity": 0.35}
        fill |= {"pattern": pattern, "line": {"color": colour, "width": 1}}
    where = {"type": "bar", "offsetgroup": marks[0].series, "x": [mark.place for mark in marks]}
    label = shown_name(name, published=published)
    bar: Trace = {
        **where,
        "name": label,
        "legendgroup": label,
        "y": [mark.estimate for mark in marks],
        "marker": fill,
        "customdata": [said(mark, name, mark.place, axis) for mark in marks],
        "hovertemplate": _HOVER,
        "unselected": {"marker": {"opacity": 0.55}},
    }
    if any(mark.low is not None for mark in marks):
        bar["error_y"] = whiskers(((m.estimate, m.low, m.high) for m in marks), INK[dark])
    if not any(mark.star for mark in marks):
        return [bar]
    # bars of no height that stand on the intervals: text above a bar would be crossed by its own interval
    stars: Trace = {
        **where,
        "name": f"{label}, stars",
        "y": [0] * len(marks),
        "base": [m.high or m.estimate for m in marks],
        "text": [mark.star for mark in marks],
        "textposition": "outside",
        "textangle": -90,
        "textfont": {"size": 11, "color": INK[dark]},
        "cliponaxis": False,
        "constraintext": "none",
        "showlegend": False,
        "hoverinfo": "skip",
        "marker": {"opacity": 0},
    }
    return [bar, stars]


def dots(
    marks: Sequence[Mark],
    names: Mapping[Any, str],
    colours: Mapping[str, str],
    axis: Axis = ACCURACY,
    *,
    places: Mapping[str, str] | Sequence[str] = (),
    panels: Mapping[Any, str] | None = None,
    legend: bool | None = None,
    dark: bool = False,
) -> go.Figure:
    """Return a row for each place, in it a dot with its interval for each series.

    ``places`` are the rows from the top, those of the marks unless given; a mapping gives their labels, and may hold
    rows without a mark, which are headings. ``panels`` (key → title) stand beside one another, up to three in a row. A
    ``legend`` is drawn where there are several names.
    """
    labels = dict(places) if isinstance(places, Mapping) else {one: one for one in places or _order(marks)}
    rows = {place: number for number, place in enumerate(labels)}
    known = [mark for mark in marks if mark.estimate is not None and mark.place in rows]
    series = [key for key in names if any(mark.series == key for mark in known)]
    heads = {key: title for key, title in (panels or {"": ""}).items() if any(m.panel == key for m in known)}
    crowd = Counter((mark.panel, mark.place, mark.published) for mark in known)
    lanes = len(series) if max(crowd.values(), default=1) > 1 else 1
    lines = max((label.count("<br>") for label in labels.values()), default=0)
    height = len(labels) * max(_ROW + _LANE * lanes, _LINE * (lines + 1) + 4)
    traces: list[tuple[int, Trace]] = []
    for lane, key in enumerate(series):
        shift = _LANES * ((lane + 0.5) / lanes - 0.5) if lanes > 1 else 0.0
        held: dict[tuple[str, bool, str, bool], list[Mark]] = {}
        for mark in (mark for mark in known if mark.series == key):
            ink = mark.colour or colours.get(key, "")
            held.setdefault((mark.panel, mark.published, ink, mark.low is None), []).append(mark)
        for (panel, _, ink, _), mine in held.items():
            at = [rows[mark.place] + shift for mark in mine]
            traces.append((list(heads).index(panel), _dots_of(mine, at, names[key], ink, axis, labels)))
    shown = len({trace["name"] for _, trace in traces}) > 1 if legend is None else legend
    return _drawn(
        traces,
        list(heads.values()) if panels else [],
        axis.layout(dark=dark),
        in_rows(list(labels.values()), dark=dark),
        height + (50 if shown else 10) + (60 if not axis.title else 76),
        _BETWEEN,
        hovermode="closest",
        showlegend=shown,
        margin={**MARGIN, "t": 36 if panels else 8},
    )


def _dots_of(
    marks: Sequence[Mark], rows: Sequence[float], name: str, ink: str, axis: Axis, labels: Mapping[str, str]
) -> Trace:
    trace: Trace = {
        "type": "scatter",
        "mode": "markers",
        "name": shown_name(name, published=marks[0].published),
        "legendgroup": name,
        "x": [mark.estimate for mark in marks],
        "y": list(rows),
        "marker": {
            "color": ink,
            "size": 9,
            "line": {"width": 1.8, "color": ink},
            "symbol": ["circle-open" if mark.open or mark.published else "circle" for mark in marks],
        },
        "customdata": [said(mark, name, labels[mark.place], axis) for mark in marks],
        "hovertemplate": _HOVER,
        "cliponaxis": False,
        "unselected": {"marker": {"opacity": 0.55}},
    }
    if any(mark.low is not None for mark in marks):
        trace["error_x"] = whiskers(((mark.estimate, mark.low, mark.high) for mark in marks), ink)
    return trace


def _drawn(
    traces: Sequence[tuple[int, Trace]],
    titles: Sequence[str],
    xaxis: Trace,
    yaxis: Trace,
    height: int,
    between: int,
    *,
    free: bool = False,
    **layout: Any,
) -> go.Figure:
    """Return traces, each with the number of its panel, as one figure; ``height`` and ``between`` are of a panel."""
    told: set[str] = set()
    for _, trace in traces:
        trace["showlegend"] = trace.get("showlegend", True) and trace["name"] not in told
        told.add(trace["name"])
    layout |= {"font": {"size": 13}, "legend": LEGEND}
    if not titles:  # made at once: much faster than panels are
        return go.Figure([trace for _, trace in traces], {**layout, "height": height, "xaxis": xaxis, "yaxis": yaxis})
    across = 2 if len(titles) in (2, 4) else min(_ACROSS, len(titles))  # three would leave most of a row empty
    down = -(-len(titles) // across)
    whole = down * height + (down - 1) * between
    figure = make_subplots(
        rows=down,
        cols=across,
        shared_yaxes=not free,
        horizontal_spacing=0.08 if free else 0.03,
        vertical_spacing=between / whole if down > 1 else 0,
        subplot_titles=titles,
    )
    places = [divmod(number, across) for number, _ in traces]
    figure.add_traces([trace for _, trace in traces], [row + 1 for row, _ in places], [col + 1 for _, col in places])
    figure.update_xaxes(**xaxis)
    figure.update_yaxes(**yaxis)
    for number in range(len(titles)):
        if number % across:
            figure.update_yaxes(title="", row=number // across + 1, col=number % across + 1)
    if down > 1:  # beneath, the legend would be out of sight
        layout["legend"] = {**LEGEND, "yref": "paper", "y": 1 + _HEAD / (whole - _ABOVE)}
        layout["margin"] = {**layout["margin"], "t": 36 + _HEAD}
    return figure.update_layout(height=whole, **layout)


def _order(marks: Sequence[Mark]) -> list[str]:
    return list(dict.fromkeys(mark.place for mark in marks))


def shown_name(name: str, *, published: bool) -> str:
    """Return a series' name as the legend says it: what is published says so."""
    return f"{name} ({PUBLISHED})" if published else name


def said(mark: Mark, name: str, place: str, axis: Axis) -> list[str]:
    """Return what hovering says of a mark, and what a click gives."""
    bounds = "" if mark.low is None or mark.high is None else f" ({mark.low:{axis.number}} – {mark.high:{axis.number}})"
    lines = [name, place.replace("<br>", " "), f"{mark.estimate:{axis.number}}{bounds}", mark.words]
    return ["<br>".join(line for line in lines if line), *mark.data]
