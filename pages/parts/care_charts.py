"""Figures of the CARE page: one panel for a part, and static against conversational accuracy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from core.figures.marks import Mark, dots
from core.figures.style import FAINT, GREY, INK, LEGEND, MARGIN, Axis
from core.measures.care.across import Fit, Point
from core.measures.care.profile import Estimate

_LONG = 24
"""Characters of a name beyond which it takes two lines."""
_AIR = 1.06
"""How far beyond the farthest whisker an axis goes on."""
_SYMBOLS = ("circle", "diamond", "square", "triangle-up", "cross", "star", "hexagon", "triangle-down")
"""Of the data sets in the scatter."""
PRINTED = GREY
"""Colour of what is published."""


@dataclass(frozen=True)
class Row:
    """A row of a panel: one estimate with its colour, or a heading where there is no ``colour``.

    ``open_`` dots are not ours but published; ``note`` is added to what hovering says.
    """

    label: str
    estimate: Estimate | None = None
    colour: str = ""
    open_: bool = False
    note: str = ""


def panel(
    rows: Sequence[Row], title: str, *, axis: tuple[float, float] | None = None, decimals: int = 3, dark: bool = False
) -> go.Figure:
    """Return a dot with its interval in each row; headings divide the rows. ``axis``: where it begins and ends."""
    places = {str(n): two_lines(row.label) if row.colour else f"<b>{row.label}</b>" for n, row in enumerate(rows)}
    marks = [
        Mark(
            str(n), row.estimate.value, row.estimate.low, row.estimate.high, "row", words=row.note, colour=row.colour,
            open=row.open_,
        )
        for n, row in enumerate(rows) if row.estimate and row.colour
    ]  # fmt: skip
    most = max([bound for mark in marks for bound in (mark.high or mark.estimate or 0,)] or [1])
    numbers = Axis(title, axis or (0.0, _AIR * most or 1.0), "~g", None, f".{decimals}f")
    return dots(marks, {"row": ""}, {}, numbers, places=places, legend=False, dark=dark)


def two_lines(name: str) -> str:
    """Return a name for an axis: a long one is broken where its last part begins."""
    for mark, kept in ((" · ", ""), ("/", "/")):
        head, found, tail = name.rpartition(mark)
        if found and len(name) > _LONG:
            return f"{head}{kept}<br>{tail}"
    return name


def scatter(
    points: Sequence[Point], fits: Mapping[str, Fit], names: Mapping[str, str], colours: Mapping[str, str],
    datasets: Mapping[str, str], *, by_group: bool = False, dark: bool = False,
) -> go.Figure:  # fmt: skip
    """Return conversational against static accuracy: a mark for each model and data set, and the fitted lines.

    ``fits``: name → fit, drawn where there is a line. ``colours``: of the models, or of the groups where the marks
    are coloured ``by_group``. ``datasets``: the data set's name on the page; its symbol is the same in both.
    """
    figure = go.Figure()
    figure.add_scatter(x=[0, 1], y=[0, 1], mode="lines", name="No drop", hoverinfo="skip",
                       line={"color": PRINTED, "width": 1.5, "dash": "dot"})  # fmt: skip
    symbols = {name: _SYMBOLS[i % len(_SYMBOLS)] for i, name in enumerate(datasets)}
    for key in dict.fromkeys(p.group if by_group else p.seat for p in points):
        mine = [p for p in points if (p.group if by_group else p.seat) == key]
        _add_points(figure, mine, names.get(key, key), colours[key], symbols, names, datasets)
    if len({p.dataset for p in points}) > 1:
        for name in dict.fromkeys(p.dataset for p in points):
            figure.add_scatter(x=[None], y=[None], mode="markers", name=datasets[name],
                               marker={"color": PRINTED, "size": 10, "symbol": symbols[name]})  # fmt: skip
    for key, fit in fits.items():
        _add_line(figure, fit, names.get(key, key), colours.get(key, INK[dark]))
    figure.update_layout(
        height=500, margin=MARGIN, legend=LEGEND, hovermode="closest", font={"size": 13},
        xaxis={"title": "Static accuracy: the whole question at once", "range": [0, 1.02], "dtick": 0.2,
               "tickformat": ".1f", "gridcolor": FAINT[dark], "showgrid": True, "zeroline": False},
        yaxis={"title": "Conversational accuracy", "range": [0, 1.02], "dtick": 0.2, "tickformat": ".1f",
               "gridcolor": FAINT[dark], "zeroline": False},
    )  # fmt: skip
    return figure


def _add_points(
    figure: go.Figure, points: Sequence[Point], name: str, colour: str, symbols: Mapping[str, str],
    names: Mapping[str, str], datasets: Mapping[str, str],
) -> None:  # fmt: skip
    told = [f"{names.get(p.seat, p.seat)}<br>{datasets[p.dataset]}, {p.n:,} cases" for p in points]
    figure.add_scatter(
        x=[p.static for p in points], y=[p.conv for p in points], mode="markers", name=name, legendgroup=name,
        marker={"color": colour, "size": 11, "symbol": [symbols[p.dataset] for p in points]}, hovertext=told,
        hovertemplate="%{hovertext}<br>static %{x:.3f}, conversational %{y:.3f}<extra></extra>",
    )  # fmt: skip


def _add_line(figure: go.Figure, fit: Fit, name: str, colour: str) -> None:
    if fit.slope is None or fit.intercept is None:
        return
    ends = [0.0, 1.0]
    r = "" if fit.r is None else f", r = {fit.r:.2f}"
    figure.add_scatter(
        x=ends, y=[fit.intercept + fit.slope * x for x in ends], mode="lines", name=f"{name}: fitted line{r}",
        legendgroup=name, line={"color": colour, "width": 2}, hoverinfo="skip",
    )  # fmt: skip
