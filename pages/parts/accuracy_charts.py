"""Figures of the Accuracy page: bars where groups are few, dots where they are many, published ones marked."""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from core.datasets.published import LeaderboardRow
from core.figures.marks import Mark, bars, dots
from core.figures.style import Axis
from core.measures.accuracy import Cell
from pages.parts.look import FORMAT

_FORMAT_COLOUR: dict[str, str] = {
    "vignette": "#0072B2", "multi_turn": "#D55E00", "single_turn": "#CC79A7", "summarized": "#009E73",
}  # fmt: skip
"""Where models are the rows."""
CellKey = tuple[str, str, str, str | None]


def key_of(cell: Cell) -> CellKey:
    """Return what tells a cell from all others."""
    return cell.model, cell.format, cell.question_type, cell.group


def bars_chart(
    cells: Sequence[Cell], stars: Mapping[CellKey, str], names: Mapping[str, str], colours: Mapping[str, str],
    *, dark: bool = False,
) -> go.Figure:  # fmt: skip
    """Return the cells of one question type and group: a bar for each model in each format, with stars."""
    marks = [_mark(cell, FORMAT[cell.format], stars.get(key_of(cell), "")) for cell in cells]
    return bars(marks, names, colours, Axis("Accuracy", (0, 1.1), ".1f", 0.2), places=list(FORMAT.values()), dark=dark)


def dots_chart(
    cells: Sequence[Cell], groups: Sequence[str], names: Mapping[str, str], colours: Mapping[str, str],
    *, dark: bool = False,
) -> go.Figure:  # fmt: skip
    """Return the cells of one question type and format: a row a group, a dot and interval a model."""
    marks = [_mark(cell, cell.group or "") for cell in cells]
    return dots(marks, names, colours, _UNIT, places=groups, legend=True, dark=dark)


def leaderboard_chart(rows: Sequence[LeaderboardRow], *, dark: bool = False) -> go.Figure:
    """Return the leaderboard: a row for each model, a dot for each format."""
    marks = [
        Mark(row.model, row.means[format_], series=format_, words="published")
        for row in rows for format_ in _FORMAT_COLOUR
    ]  # fmt: skip
    axis = Axis("Accuracy (published)", _UNIT.range, _UNIT.ticks, _UNIT.step)
    return dots(marks, FORMAT, _FORMAT_COLOUR, axis, dark=dark)


_UNIT = Axis("Accuracy", (-0.01, 1.01), ".1f", 0.2)


def _mark(cell: Cell, place: str, star: str = "") -> Mark:
    if cell.own is None:
        rest = f"published, supplementary table {cell.table}"
    else:
        rest = f"{cell.own.n_cases:,} cases, {cell.own.n_trials:,} trials, {cell.own.n_excluded:,} excluded"
    where = f"{cell.group}, {FORMAT[cell.format]}" if cell.group else ""
    return Mark(
        place, cell.mean, cell.ci_low, cell.ci_high, cell.model, words="<br>".join(filter(None, [where, rest])),
        published=cell.table is not None, star=star,
        data=(cell.model, cell.format, cell.question_type, cell.group or ""),
    )  # fmt: skip
