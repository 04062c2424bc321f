"""Estimates with their 95 % intervals: as bars for few places, as rows of dots for many."""

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
"""Largest share of a panel's width that one bar takes."""
_LANES = 0.66
"""Share of a row over which the dots of several series are spread."""
_ROW, _LANE = 18, 9
"""Pixels of a row of dots, and of each series in it."""
_ACROSS = 3
"""Panels in a row."""
_LINE = 16
"""Pixels of a line of a row's label."""
_HEAD, _ABOVE = 26, 110
"""Pixels above panels for their titles, and pixels of a figure outside its panels if the legend is on top."""
_TALL, _GAP = 560, 8
"""Pixels of a figure from which on its legend is on top, and then between legend and marks."""
_BETWEEN, _BELOW = 96, 110
"""Pixels between rows of panels, for the axis above and the title below; labels of bars are slanted."""


@dataclass(frozen=True)
class Mark:
    """One estimate in a figure: its place on the axis, its ``series``, and its ``panel``.

    ``published`` marks are hatched bars or open dots, with their own entry in the legend; ``open`` marks are open dots,
    too (for unclear results). ``star`` is drawn above a bar, ``words`` are added to the hover text, ``colour`` replaces
    that of the series. A click on the mark gives ``data``.
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
    """Return a group of bars for each place, with a bar for each series in the order of ``names``.

    ``places`` is their order (default: that of the marks). There are up to three ``panels`` (key → title) in a row;
    ``free`` panels have separate axes.
    """
    drawn = [mark for mark in marks if mark.estimate is not None]
    order = [place for place in places or _order(drawn) if any(mark.place == place for mark in drawn)]
    panel_titles = {key: title for key, title in (panels or {"": ""}).items() if any(m.panel == key for m in drawn)}
    traces: list[tuple[int, Trace]] = []
    for number, key in enumerate(panel_titles):
        for series in names:
            # bars without an interval are a separate trace: in a common trace they get an interval of length 0
            for published, bare in product((False, True), repeat=2):
                group = (key, series, published, bare)
                members = [m for m in drawn if (m.panel, m.series, m.published, m.low is None) == group]
                members.sort(key=lambda mark: order.index(mark.place))
                bar_traces = _bars_of(members, names[series], colours.get(series, ""), axis, dark) if members else ()
                traces += [(number, trace) for trace in bar_traces]
    across = len(order) * max((len({m.series for m in drawn if m.panel == key}) for key in panel_titles), default=1)
    return _in_panels(
        traces,
        list(panel_titles.values()) if panels else [],
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
    elif any(mark.estimate == 0 for mark in marks):  # a bar without height is visible only by its outline
        fill["line"] = {"color": fill["color"], "width": [3 if mark.estimate == 0 else 0 for mark in marks]}
    where = {"type": "bar", "offsetgroup": marks[0].series, "x": [mark.place for mark in marks]}
    label = legend_name(name, published=published)
    bar: Trace = {
        **where,
        "name": label,
        "legendgroup": label,
        "y": [mark.estimate for mark in marks],
        "marker": fill,
        "customdata": [hover_data(mark, name, mark.place, axis) for mark in marks],
        "hovertemplate": _HOVER,
        "unselected": {"marker": {"opacity": 0.55}},
    }
    if any(mark.low is not None for mark in marks):
        bar["error_y"] = whiskers(((m.estimate, m.low, m.high) for m in marks), INK[dark])
    if not any(mark.star for mark in marks):
        return [bar]
    # stars are the text of bars of height 0 on top of the intervals: the text of the bar itself would be crossed by its
    # interval
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
    """Return a row for each place, with a dot and its interval for each series.

    ``places`` are the rows from the top (default: those of the marks); a mapping gives their labels, and rows without a
    mark are headings. There are up to three ``panels`` (key → title) in a row. The ``legend`` is drawn if there are
    several names, unless it is switched on or off.
    """
    labels = dict(places) if isinstance(places, Mapping) else {place: place for place in places or _order(marks)}
    rows = {place: number for number, place in enumerate(labels)}
    drawn = [mark for mark in marks if mark.estimate is not None and mark.place in rows]
    series = [key for key in names if any(mark.series == key for mark in drawn)]
    panel_titles = {key: title for key, title in (panels or {"": ""}).items() if any(m.panel == key for m in drawn)}
    crowd = Counter((mark.panel, mark.place, mark.published) for mark in drawn)
    lanes = len(series) if max(crowd.values(), default=1) > 1 else 1
    lines = max((label.count("<br>") for label in labels.values()), default=0)
    height = len(labels) * max(_ROW + _LANE * lanes, _LINE * (lines + 1) + 4)
    traces: list[tuple[int, Trace]] = []
    for lane, key in enumerate(series):
        shift = _LANES * ((lane + 0.5) / lanes - 0.5) if lanes > 1 else 0.0
        groups: dict[tuple[str, bool, str, bool], list[Mark]] = {}
        for mark in (mark for mark in drawn if mark.series == key):
            ink = mark.colour or colours.get(key, "")
            groups.setdefault((mark.panel, mark.published, ink, mark.low is None), []).append(mark)
        for (panel, _, ink, _), members in groups.items():
            at = [rows[mark.place] + shift for mark in members]
            traces.append((list(panel_titles).index(panel), _dots_of(members, at, names[key], ink, axis, labels)))
    has_legend = len({trace["name"] for _, trace in traces}) > 1 if legend is None else legend
    return _in_panels(
        traces,
        list(panel_titles.values()) if panels else [],
        axis.layout(dark=dark),
        in_rows(list(labels.values()), dark=dark),
        height + (50 if has_legend else 10) + (60 if not axis.title else 76),
        _BETWEEN,
        hovermode="closest",
        showlegend=has_legend,
        margin={**MARGIN, "t": 36 if panels else 8},
    )


def _dots_of(
    marks: Sequence[Mark], rows: Sequence[float], name: str, ink: str, axis: Axis, labels: Mapping[str, str]
) -> Trace:
    trace: Trace = {
        "type": "scatter",
        "mode": "markers",
        "name": legend_name(name, published=marks[0].published),
        "legendgroup": name,
        "x": [mark.estimate for mark in marks],
        "y": list(rows),
        "marker": {
            "color": ink,
            "size": 9,
            "line": {"width": 1.8, "color": ink},
            "symbol": ["circle-open" if mark.open or mark.published else "circle" for mark in marks],
        },
        "customdata": [hover_data(mark, name, labels[mark.place], axis) for mark in marks],
        "hovertemplate": _HOVER,
        "cliponaxis": False,
        "unselected": {"marker": {"opacity": 0.55}},
    }
    if any(mark.low is not None for mark in marks):
        trace["error_x"] = whiskers(((mark.estimate, mark.low, mark.high) for mark in marks), ink)
    return trace


def _in_panels(
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
    """Return traces, each with its panel number, as one figure; ``height`` and ``between`` are pixels of one panel."""
    names: set[str] = set()
    for _, trace in traces:
        trace["showlegend"] = trace.get("showlegend", True) and trace["name"] not in names
        names.add(trace["name"])
    layout |= {"font": {"size": 13}, "legend": LEGEND}
    head = _HEAD if titles else 0
    down = -(-len(titles) // _across(len(titles))) if titles else 1
    total = down * height + (down - 1) * between
    if down > 1 or (total > _TALL and layout.get("showlegend", True)):  # a legend at the bottom would be out of sight
        layout["legend"] = {**LEGEND, "yref": "paper", "y": 1 + (head or _GAP) / (total - _ABOVE)}
        layout["margin"] = {**layout["margin"], "t": 36 + head}
    if not titles:  # much faster than subplots
        return go.Figure([trace for _, trace in traces], {**layout, "height": height, "xaxis": xaxis, "yaxis": yaxis})
    across = _across(len(titles))
    figure = make_subplots(
        rows=down,
        cols=across,
        specs=[
            [{} if row * across + column < len(titles) else None for column in range(across)] for row in range(down)
        ],
        shared_yaxes=not free,
        horizontal_spacing=0.08 if free else 0.03,
        vertical_spacing=between / total if down > 1 else 0,
        subplot_titles=titles,
    )
    places = [divmod(number, across) for number, _ in traces]
    figure.add_traces([trace for _, trace in traces], [row + 1 for row, _ in places], [col + 1 for _, col in places])
    figure.update_annotations(font_size=14)
    figure.update_xaxes(**xaxis)
    figure.update_yaxes(**yaxis)
    for number in range(len(titles)):
        if number % across:
            figure.update_yaxes(title="", row=number // across + 1, col=number % across + 1)
    return figure.update_layout(height=total, **layout)


def _across(panels: int) -> int:
    return 2 if panels in (2, 4) else min(_ACROSS, panels)  # three would leave most of a row of four empty


def _order(marks: Sequence[Mark]) -> list[str]:
    return list(dict.fromkeys(mark.place for mark in marks))


def legend_name(name: str, *, published: bool) -> str:
    """Return the name of a series in the legend, with a remark if its figures are published ones."""
    return f"{name} ({PUBLISHED})" if published else name


def hover_data(mark: Mark, name: str, place: str, axis: Axis) -> list[str]:
    """Return the hover text of a mark, followed by the data that a click gives."""
    bounds = "" if mark.low is None or mark.high is None else f" ({mark.low:{axis.number}} – {mark.high:{axis.number}})"
    lines = [name, place.replace("<br>", " "), f"{mark.estimate:{axis.number}}{bounds}", mark.words]
    return ["<br>".join(line for line in lines if line), *mark.data]
