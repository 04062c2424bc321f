"""Figures of the History taking page: curves with bands, and dots with intervals in rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from core.measures.history.figures import ComparisonRow, CurvePoint, Figure, MeasureRow
from core.measures.history.measures import LENGTHS
from pages.parts.accuracy_charts import FAINT, INK
from pages.parts.history_tables import PublishedRow
from pages.parts.history_words import MEASURE

_LEGEND = {"orientation": "h", "yref": "container", "yanchor": "bottom", "y": 0, "x": 0}
_MARGIN = {"l": 8, "r": 12, "t": 8, "b": 8}
_PRINTED = "#8C8C8C"
_ROW, _LANE = 16, 9
"""Pixels of a row of dots, and of each doctor in it."""


@dataclass(frozen=True)
class Dot:
    """One figure of one doctor in one row; ``note`` is added to what hovering says."""

    model: str
    row: str
    figure: Figure
    note: str = ""


def dots_chart(
    dots: Sequence[Dot], rows: Sequence[str], names: Mapping[str, str], colours: Mapping[str, str], title: str,
    *, share: bool = False, axis: tuple[float, float] | None = None, dark: bool = False,
) -> go.Figure:  # fmt: skip
    """Return a row for each of ``rows``, in it a dot with its interval for each doctor. ``share``: as per cent."""
    figure = go.Figure()
    shown = [dot for dot in dots if dot.figure.mean is not None]
    models = [key for key in names if any(dot.model == key for dot in shown)]
    for lane, model in enumerate(models):
        shift = 0.66 * ((lane + 0.5) / len(models) - 0.5)
        mine = [dot for dot in shown if dot.model == model and dot.row in rows]
        places = [rows.index(dot.row) + shift for dot in mine]
        _add_dots(figure, mine, places, names[model], colours[model], share)
    format_ = ".0%" if share else "~g"
    figure.update_layout(
        height=100 + len(rows) * (_ROW + _LANE * max(1, len(models))), margin=_MARGIN, hovermode="closest",
        legend=_LEGEND, font={"size": 13},
        xaxis={"title": title, "tickformat": format_, "gridcolor": FAINT[dark], "showgrid": True, "zeroline": False,
               **({"range": axis} if axis else {"rangemode": "tozero"})},
        yaxis={
            "range": [len(rows) - 0.5, -0.5], "tickvals": list(range(len(rows))), "ticktext": list(rows),
            "automargin": True, "showgrid": False, "zeroline": False,
            "minor": {"tickvals": [i + 0.5 for i in range(len(rows) - 1)], "showgrid": True,
                      "gridcolor": FAINT[dark]},
        },
    )  # fmt: skip
    return figure


def _add_dots(
    figure: go.Figure, dots: Sequence[Dot], places: Sequence[float], name: str, colour: str, share: bool
) -> None:
    as_ = ".1%" if share else ".3f"
    figure.add_scatter(
        name=name, mode="markers", x=[d.figure.mean for d in dots], y=places, marker={"color": colour, "size": 8},
        error_x=_whiskers([d.figure for d in dots], colour),
        customdata=[(d.row, d.figure.ci_low, d.figure.ci_high, d.figure.n_cases, d.note) for d in dots],
        hovertemplate=f"%{{fullData.name}}<br>%{{customdata[0]}}: %{{x:{as_}}} (%{{customdata[1]:{as_}}} – "
        f"%{{customdata[2]:{as_}}})<br>%{{customdata[3]:,}} cases%{{customdata[4]}}<extra></extra>",
    )  # fmt: skip


def curves_chart(
    points: Sequence[CurvePoint], measure: str, names: Mapping[str, str], colours: Mapping[str, str],
    *, dark: bool = False,
) -> go.Figure:  # fmt: skip
    """Return a measure against the share of the dialogue done: a line with its band for each doctor."""
    figure = go.Figure()
    for model in names:
        mine = [p for p in points if (p.model, p.measure) == (model, measure) and p.figure.mean is not None]
        if mine:
            _add_curve(figure, mine, names[model], colours[model])
    figure.update_layout(
        height=360, margin=_MARGIN, legend=_LEGEND, hovermode="closest", font={"size": 13},
        xaxis={"title": "Share of the dialogue done", "tickformat": ".0%", "range": [-0.02, 1.02], "dtick": 0.2,
               "gridcolor": FAINT[dark], "showgrid": True, "zeroline": False},
        yaxis={"title": MEASURE[measure][0], "tickformat": "~g", "rangemode": "tozero", "gridcolor": FAINT[dark]},
    )  # fmt: skip
    return figure


def _add_curve(figure: go.Figure, points: Sequence[CurvePoint], name: str, colour: str) -> None:
    x = [p.share / 100 for p in points]
    low, high = ([getattr(p.figure, bound) for p in points] for bound in ("ci_low", "ci_high"))
    figure.add_scatter(
        x=[*x, *reversed(x)], y=[*high, *reversed(low)], fill="toself", fillcolor=_faded(colour), line={"width": 0},
        mode="lines", hoverinfo="skip", showlegend=False, legendgroup=name, name=f"{name}, interval",
    )  # fmt: skip
    figure.add_scatter(
        x=x, y=[p.figure.mean for p in points], mode="lines+markers", name=name, legendgroup=name,
        line={"color": colour, "width": 2}, marker={"size": 5},
        customdata=[(p.figure.ci_low, p.figure.ci_high, p.figure.n_cases) for p in points],
        hovertemplate="%{fullData.name}<br>%{x:.0%} done: %{y:.3f} (%{customdata[0]:.3f} – %{customdata[1]:.3f})<br>"
        "%{customdata[2]:,} cases<extra></extra>",
    )  # fmt: skip


def reached_chart(
    rows: Mapping[tuple[str, str], MeasureRow], printed: Sequence[PublishedRow], names: Mapping[str, str],
    colours: Mapping[str, str], *, dark: bool = False,
) -> go.Figure:  # fmt: skip
    """Return accuracy against what was uncovered: a dot for each doctor, published ones open."""
    figure = go.Figure()
    for model in names:
        recall, accuracy = (rows.get((model, m)) for m in _REACHED)
        if recall is None or accuracy is None or accuracy.figure.mean is None:
            continue
        if recall.figure.mean is not None:
            _add_reached(figure, recall.figure, accuracy.figure, names[model], colours[model])
        elif not recall.n_missing and not recall.n_excluded:
            _add_level(figure, accuracy.figure.mean, names[model], colours[model])
    _add_printed(figure, [row for row in printed if all(m in row.values for m in _REACHED)])
    figure.update_layout(
        height=330 + 15 * len(figure.data), margin=_MARGIN, legend=_LEGEND, hovermode="closest", font={"size": 13},
        xaxis={"title": "Patient recall: what was uncovered", "tickformat": "~g", "rangemode": "tozero",
               "gridcolor": FAINT[dark], "showgrid": True, "zeroline": False},
        yaxis={"title": "Accuracy of the task", "tickformat": ".1f", "range": [0, 1.03], "gridcolor": FAINT[dark]},
    )  # fmt: skip
    return figure


_REACHED = ("patient_recall", "accuracy")


def _add_reached(figure: go.Figure, recall: Figure, accuracy: Figure, name: str, colour: str) -> None:
    figure.add_scatter(
        name=name, x=[recall.mean], y=[accuracy.mean], mode="markers", marker={"color": colour, "size": 10},
        error_x=_whiskers([recall], colour), error_y=_whiskers([accuracy], colour),
        hovertemplate="%{fullData.name}<br>recall %{x:.3f}, accuracy %{y:.3f}<extra></extra>",
    )  # fmt: skip


def _add_level(figure: go.Figure, accuracy: float, name: str, colour: str) -> None:
    """Add a line for a doctor that answers without a conversation."""
    figure.add_hline(
        accuracy, line={"color": colour, "width": 1.5, "dash": "dash"}, annotation_position="bottom left",
        annotation={"text": f"{name}: {accuracy:.3f}", "font": {"size": 11}},
    )  # fmt: skip


def _add_printed(figure: go.Figure, rows: Sequence[PublishedRow]) -> None:
    if rows:
        recall, accuracy = ([row.values[m] for row in rows] for m in _REACHED)
        figure.add_scatter(
            name=f"Published, {rows[0].dataset}", x=recall, y=accuracy, mode="markers",
            marker={"color": _PRINTED, "size": 9, "symbol": "circle-open", "line": {"width": 1.6}},
            customdata=[row.doctor for row in rows],
            hovertemplate="%{customdata} (published)<br>recall %{x:.3f}, accuracy %{y:.3f}<extra></extra>",
        )  # fmt: skip


def differences_chart(rows: Sequence[ComparisonRow], *, dark: bool = False) -> go.Figure:
    """Return the differences of two doctors in the measures between 0 and 1, clear ones in colour."""
    held = {row.measure: row for row in rows if row.measure not in LENGTHS}
    shown = [held[m] for m in MEASURE if m in held]
    inks = ["#0072B2" if row.p_adjusted <= _CLEAR else _PRINTED for row in shown]
    results = [row.difference for row in shown]
    figure = go.Figure()
    figure.add_scatter(
        x=[r.mean for r in results], y=[MEASURE[row.measure][0] for row in shown], mode="markers",
        marker={"color": inks, "size": 9}, showlegend=False,
        error_x={"type": "data", "symmetric": False, "thickness": 1.4, "width": 4, "color": INK[dark],
                 "array": [r.interval.high - r.mean for r in results],
                 "arrayminus": [r.mean - r.interval.low for r in results]},
        customdata=[(*r.interval, r.n_first) for r in results],
        hovertemplate="%{y}: %{x:+.3f} (%{customdata[0]:+.3f} – %{customdata[1]:+.3f})<br>%{customdata[2]:,} cases"
        "<extra></extra>",
    )  # fmt: skip
    figure.add_vline(x=0, line={"width": 1, "dash": "dot", "color": INK[dark]})
    figure.update_layout(
        height=90 + 26 * max(1, len(shown)), margin=_MARGIN, font={"size": 13},
        xaxis={"title": "Difference", "tickformat": "+.2f", "gridcolor": FAINT[dark], "showgrid": True,
               "zeroline": False},
        yaxis={"autorange": "reversed", "automargin": True, "showgrid": False},
    )  # fmt: skip
    return figure


_CLEAR = 0.05


def _whiskers(figures: Sequence[Figure], colour: str) -> dict[str, object]:
    above = [None if f.ci_high is None else f.ci_high - (f.mean or 0.0) for f in figures]
    below = [None if f.ci_low is None else (f.mean or 0.0) - f.ci_low for f in figures]
    shape = {"type": "data", "symmetric": False, "thickness": 1.4, "width": 3, "color": colour}
    return {**shape, "array": above, "arrayminus": below}


def _faded(colour: str) -> str:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red}, {green}, {blue}, .18)"
