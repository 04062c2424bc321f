"""Figures of the CARE page: one panel for a part, stacked shares, and static against conversational accuracy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import plotly.graph_objects as go

from core.measures.care.across import Fit, Point
from core.measures.care.profile import Estimate
from pages.parts.accuracy_charts import FAINT, INK

_MARGIN = {"l": 8, "r": 12, "t": 8, "b": 8}
_LEGEND = {"orientation": "h", "yref": "container", "yanchor": "bottom", "y": 0, "x": 0, "traceorder": "normal"}
_ROW, _HIGH_ROW = 25, 34
"""Pixels of a row of a panel, and where names take two lines."""
_LONG = 24
"""Characters of a name beyond which it takes two lines."""
_WRITTEN = 0.03
"""Parts of an axis below are too narrow for a number."""
_AIR = 1.06
"""How far beyond the farthest whisker an axis goes on."""
_SYMBOLS = ("circle", "diamond", "square", "triangle-up", "cross", "star", "hexagon", "triangle-down")
"""Of the data sets in the scatter."""
PRINTED = "#8C8C8C"
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


@dataclass(frozen=True)
class Segment:
    """One colour of a stacked bar: for each bar its share, its count, and what a click on it gives."""

    name: str
    colour: str
    ink: str
    shares: Sequence[float]
    counts: Sequence[int]
    data: Sequence[tuple[str, ...]] = field(default_factory=tuple)


def panel(
    rows: Sequence[Row], title: str, *, axis: tuple[float, float] | None = None, decimals: int = 3, dark: bool = False
) -> go.Figure:
    """Return a dot with its interval in each row; headings divide the rows. ``axis``: where it begins and ends."""
    figure = go.Figure()
    shown = [(place, row, row.estimate) for place, row in enumerate(rows) if row.estimate and row.colour]
    for place, row, estimate in shown:
        _add_dot(figure, place, row, estimate, decimals)
    labels = [two_lines(row.label) if row.colour else f"<b>{row.label}</b>" for row in rows]
    row_height = _HIGH_ROW if any("<br>" in label for label in labels) else _ROW
    low, high = axis or (0.0, _AIR * max([e.high if e.high is not None else e.value or 0 for _, _, e in shown] or [1]))
    figure.update_layout(
        height=56 + row_height * max(1, len(rows)), margin=_MARGIN, hovermode="closest", showlegend=False,
        font={"size": 13},
        xaxis={"title": title, "range": [low, high or 1.0], "tickformat": "~g", "nticks": 7, "gridcolor": FAINT[dark],
               "showgrid": True, "zeroline": False},
        yaxis={"range": [len(rows) - 0.5, -0.5], "tickvals": list(range(len(rows))), "automargin": True,
               "ticktext": labels,
               "gridcolor": FAINT[dark], "zeroline": False},
    )  # fmt: skip
    return figure


def two_lines(name: str) -> str:
    """Return a name for an axis: a long one is broken where its last part begins."""
    for mark, kept in ((" · ", ""), ("/", "/")):
        head, found, tail = name.rpartition(mark)
        if found and len(name) > _LONG:
            return f"{head}{kept}<br>{tail}"
    return name


def _add_dot(figure: go.Figure, place: int, row: Row, estimate: Estimate, decimals: int) -> None:
    if estimate.value is None:
        return
    as_ = f".{decimals}f"
    held = estimate.low is not None and estimate.high is not None
    bounds = f" ({estimate.low:{as_}} – {estimate.high:{as_}})" if held else ""
    figure.add_scatter(
        x=[estimate.value], y=[place], mode="markers", name=row.label,
        marker={"color": row.colour, "size": 10, "symbol": "circle-open" if row.open_ else "circle",
                "line": {"width": 2, "color": row.colour}},
        error_x=_whisker(estimate, row.colour), hovertext=[f"{row.label}<br>{estimate.value:{as_}}{bounds}{row.note}"],
        hovertemplate="%{hovertext}<extra></extra>",
    )  # fmt: skip


def _whisker(estimate: Estimate, colour: str) -> dict[str, object] | None:
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return None
    shape = {"type": "data", "symmetric": False, "thickness": 1.6, "width": 4, "color": colour}
    return {**shape, "array": [estimate.high - estimate.value], "arrayminus": [estimate.value - estimate.low]}


def stacked(labels: Sequence[str], segments: Sequence[Segment], title: str, unit: str, *,
            whole: bool = True, dark: bool = False) -> go.Figure:  # fmt: skip
    """Return a bar for each label, made of shares; ``unit`` is what is counted. ``whole``: the shares add up to 1."""
    figure = go.Figure()
    end = 1.001 if whole else _AIR * max([sum(s.shares[i] for s in segments) for i in range(len(labels))] or [1])
    for segment in segments:
        if not any(segment.counts):
            continue
        data = segment.data or [()] * len(labels)
        figure.add_bar(
            name=segment.name, orientation="h", y=list(labels), x=list(segment.shares),
            marker={"color": segment.colour},
            text=[
                f"{n:,}" if share >= _WRITTEN * end else ""
                for n, share in zip(segment.counts, segment.shares, strict=True)
            ],
            textposition="inside", insidetextanchor="middle", textangle=0, textfont={"color": segment.ink},
            customdata=[(n, *own) for n, own in zip(segment.counts, data, strict=True)],
            hovertemplate=f"%{{y}}<br>%{{fullData.name}}: %{{customdata[0]:,}} {unit} (%{{x:.1%}})<extra></extra>",
            unselected={"marker": {"opacity": 0.55}},
        )  # fmt: skip
    figure.update_layout(
        barmode="stack", height=120 + 50 * len(labels) + 12 * max(0, len(figure.data) - 3),
        margin={**_MARGIN, "r": 28}, bargap=0.35, legend=_LEGEND,
        font={"size": 13},
        xaxis={"title": title, "range": [0, end or 1.0], "tickformat": ".0%", "nticks": 7,
               "ticklabeloverflow": "allow", "gridcolor": FAINT[dark]},
        yaxis={"autorange": "reversed", "automargin": True},
    )  # fmt: skip
    return figure


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
        height=500, margin=_MARGIN, legend=_LEGEND, hovermode="closest", font={"size": 13},
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
