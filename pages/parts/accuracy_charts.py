"""Figures of the Accuracy page: bars where groups are few, dots where they are many, published ones marked."""

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from core.datasets.published import LeaderboardRow
from core.events import FORMATS, Format
from core.measures.accuracy import Cell
from pages.parts.look import FORMAT

INK = {False: "#1A2B2B", True: "#E3ECEB"}
FAINT = {False: "#D5E0DF", True: "#2B3B3C"}
FORMAT_MARK: dict[str, tuple[str, str]] = {
    "vignette": ("#0072B2", "circle"), "multi_turn": ("#D55E00", "square"), "single_turn": ("#CC79A7", "diamond"),
    "summarized": ("#009E73", "triangle-up"),
}  # fmt: skip
"""Colour and symbol of a format where models are the rows."""
PUBLISHED = "published"
_TOP = 1.1
_UNIT = {"range": [-0.01, 1.01], "tickformat": ".1f", "dtick": 0.2}
_LANE, _AIR = 8, 12
"""Pixels for each model in a row of dots, and between rows."""
Trace = dict[str, Any]
CellKey = tuple[str, str, str, str | None]


def key_of(cell: Cell) -> CellKey:
    """Return what tells a cell from all others."""
    return cell.model, cell.format, cell.question_type, cell.group


def bars(
    cells: Sequence[Cell],
    stars: Mapping[CellKey, str],
    names: Mapping[str, str],
    colours: Mapping[str, str],
    *,
    dark: bool = False,
) -> go.Figure:
    """Return the cells of one question type and group: a bar for each model in each format, with stars."""
    traces: list[Trace] = []
    formats = [f for f in FORMATS if any(cell.format == f for cell in cells)]
    for model in names:
        for published in (False, True):
            shown = [c for c in _in_order(cells, formats) if c.model == model and (c.table is not None) == published]
            if shown:
                traces += _bars_of(shown, names[model], colours[model], stars, dark)
    layout = go.Layout(
        barmode="group", bargap=0.22, height=390, margin={"l": 8, "r": 8, "t": 24, "b": 8}, font={"size": 13},
        yaxis={"title": "Accuracy", "range": [0, _TOP], "tickformat": ".1f", "dtick": 0.2},
        xaxis={"categoryorder": "array", "categoryarray": [FORMAT[f] for f in formats], "automargin": True},
        legend={"orientation": "h", "yref": "container", "yanchor": "bottom", "y": 0, "x": 0},
    )  # fmt: skip
    return go.Figure(traces, layout)


def dots(
    cells: Sequence[Cell],
    groups: Sequence[str],
    names: Mapping[str, str],
    colours: Mapping[str, str],
    *,
    dark: bool = False,
) -> go.Figure:
    """Return the cells of one question type and format: a row a group, a dot and interval a model."""
    traces: list[Trace] = []
    models = [model for model in names if any(cell.model == model for cell in cells)]
    for lane, model in enumerate(models):
        shift = 0.62 * ((lane + 0.5) / len(models) - 0.5)
        for published in (False, True):
            shown = [c for c in cells if c.model == model and (c.table is not None) == published and c.group in groups]
            if shown:
                rows = [groups.index(c.group or "") + shift for c in shown]
                traces.append(_dots_of(shown, rows, names[model], colours[model]))
    count = len(groups)
    layout = go.Layout(
        height=max(220, count * (_AIR + _LANE * len(models)) + 110),
        margin={"l": 8, "r": 8, "t": 8, "b": 8}, font={"size": 13}, hovermode="closest",
        xaxis={"title": "Accuracy", **_UNIT, "gridcolor": FAINT[dark]},
        yaxis={
            "range": [count - 0.5, -0.5], "tickvals": list(range(count)), "ticktext": list(groups),
            "automargin": True, "showgrid": False, "zeroline": False,
            "minor": {"tickvals": [i + 0.5 for i in range(count - 1)], "showgrid": True, "gridcolor": FAINT[dark]},
        },
        legend={"orientation": "h", "yref": "container", "yanchor": "bottom", "y": 0, "x": 0},
    )  # fmt: skip
    return go.Figure(traces, layout)


def leaderboard_chart(rows: Sequence[LeaderboardRow], *, dark: bool = False) -> go.Figure:
    """Return the leaderboard: a row for each model, a mark for each format."""
    models = [row.model for row in rows]
    traces: list[Trace] = [
        {
            "type": "scatter", "mode": "markers", "name": FORMAT[format_],  # type: ignore[index]
            "x": [row.means[format_] for row in rows], "y": models,
            "marker": {"color": colour, "symbol": symbol, "size": 10},
            "hovertemplate": "%{y}, %{fullData.name}: %{x:.3f}<br>published<extra></extra>",
        }
        for format_, (colour, symbol) in FORMAT_MARK.items()
    ]  # fmt: skip
    layout = go.Layout(
        height=30 * len(models) + 110, margin={"l": 8, "r": 8, "t": 8, "b": 8}, font={"size": 13},
        xaxis={"title": "Accuracy (published)", **_UNIT},
        yaxis={
            "range": [len(models) - 0.5, -0.5], "categoryorder": "array", "categoryarray": models,
            "automargin": True, "gridcolor": FAINT[dark],
        },
        legend={"orientation": "h", "yref": "container", "yanchor": "bottom", "y": 0, "x": 0},
    )  # fmt: skip
    return go.Figure(traces, layout)


def _in_order(cells: Sequence[Cell], formats: Sequence[Format]) -> list[Cell]:
    return sorted(cells, key=lambda cell: formats.index(cell.format))


def _bars_of(
    shown: list[Cell], name: str, colour: str, stars: Mapping[CellKey, str], dark: bool
) -> list[Trace]:  # fmt: skip
    published = shown[0].table is not None
    pattern = {"shape": "/", "fgcolor": colour, "bgcolor": "rgba(0,0,0,0)", "size": 5, "solidity": 0.35}
    marker: Trace = {"color": colour, "line": {"color": colour, "width": 1}}
    where = {"type": "bar", "offsetgroup": shown[0].model, "x": [FORMAT[c.format] for c in shown]}
    bar = {
        **where, "name": f"{name} ({PUBLISHED})" if published else name, "y": [c.mean for c in shown],
        "marker": {**marker, "pattern": pattern} if published else marker, "error_y": _error(shown, INK[dark]),
        "customdata": [_custom(c) for c in shown], "hovertemplate": _HOVER,
        "unselected": {"marker": {"opacity": 0.55}},
    }  # fmt: skip
    marks = [stars.get(key_of(c), "") for c in shown]
    if not any(marks):
        return [bar]
    # bars of no height that stand on the intervals: text above a bar would be crossed by its own interval
    text = {
        **where, "y": [0] * len(shown), "base": [c.ci_high or c.mean for c in shown], "text": marks,
        "textposition": "outside", "textangle": -90, "textfont": {"size": 11, "color": INK[dark]},
        "cliponaxis": False, "constraintext": "none", "showlegend": False, "hoverinfo": "skip",
        "marker": {"opacity": 0},
    }  # fmt: skip
    return [bar, text]


def _dots_of(shown: list[Cell], rows: list[float], name: str, colour: str) -> Trace:
    published = shown[0].table is not None
    symbol = "circle-open" if published else "circle"
    return {
        "type": "scatter", "mode": "markers", "name": f"{name} ({PUBLISHED})" if published else name,
        "x": [c.mean for c in shown], "y": rows, "error_x": _error(shown, colour, 0),
        "marker": {"color": colour, "size": 8, "symbol": symbol, "line": {"width": 1.6, "color": colour}},
        "customdata": [_custom(c) for c in shown], "hovertemplate": _HOVER,
    }  # fmt: skip


def _error(cells: Sequence[Cell], colour: str, cap: int = 3) -> dict[str, Any] | None:
    if all(c.ci_low is None for c in cells):
        return None
    above = [None if c.ci_high is None else c.ci_high - c.mean for c in cells]
    below = [None if c.ci_low is None else c.mean - c.ci_low for c in cells]
    return {
        "type": "data", "symmetric": False, "array": above, "arrayminus": below, "thickness": 1.2, "width": cap,
        "color": colour,
    }  # fmt: skip


def _custom(cell: Cell) -> list[str]:
    where = f"{cell.group}, " if cell.group else ""
    interval = f" ({cell.ci_low:.3f} – {cell.ci_high:.3f})" if cell.ci_low is not None else ", no interval"
    if cell.own is None:
        rest = f"published, supplementary table {cell.table}"
    else:
        rest = f"{cell.own.n_cases:,} cases, {cell.own.n_trials:,} trials, {cell.own.n_excluded:,} excluded"
    text = f"{where}{FORMAT[cell.format]}<br>{cell.mean:.3f}{interval}<br>{rest}"
    return [cell.model, cell.format, cell.question_type, cell.group or "", text]


_HOVER = "%{fullData.name}<br>%{customdata[4]}<extra></extra>"
