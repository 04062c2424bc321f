"""Figures of the History taking page: curves with bands, and dots with intervals in rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from core.figures.curves import Point, curves
from core.figures.marks import Mark, dots
from core.figures.style import FAINT, GREY, LEGEND, MARGIN, RISE, Axis, whiskers
from core.measures.history.figures import ComparisonRow, CurvePoint, Figure, MeasureRow
from core.measures.history.measures import LENGTHS
from pages.parts.history_tables import PublishedRow
from pages.parts.history_words import MEASURE


@dataclass(frozen=True)
class Dot:
    """One figure of one doctor in one row; ``note`` is added to what hovering says."""

    model: str
    row: str
    figure: Figure
    note: str = ""


def dots_chart(
    found: Sequence[Dot], rows: Sequence[str], names: Mapping[str, str], colours: Mapping[str, str], title: str,
    *, share: bool = False, axis: tuple[float, float] | None = None, dark: bool = False,
) -> go.Figure:  # fmt: skip
    """Return a row for each of ``rows``, in it a dot with its interval for each doctor. ``share``: as per cent."""
    marks = [
        Mark(dot.row, dot.figure.mean, dot.figure.ci_low, dot.figure.ci_high, dot.model,
             words=f"{dot.figure.n_cases:,} cases{dot.note}")
        for dot in found
    ]  # fmt: skip
    numbers = Axis(title, axis, ".0%" if share else "~g", None, ".1%" if share else ".3f")
    return dots(marks, names, colours, numbers, places=rows, legend=True, dark=dark)


def curves_chart(
    points: Sequence[CurvePoint], measure: str, names: Mapping[str, str], colours: Mapping[str, str],
    *, dark: bool = False,
) -> go.Figure:  # fmt: skip
    """Return a measure against the share of the dialogue done: a line with its band for each doctor."""
    shown = [
        Point(p.model, p.share / 100, p.figure.mean, p.figure.ci_low, p.figure.ci_high, f"{p.figure.n_cases:,} cases")
        for p in points if p.measure == measure and p.figure.mean is not None
    ]  # fmt: skip
    along = Axis("Share of the dialogue done", (-0.02, 1.02), ".0%", 0.2, ".0%")
    return curves(shown, names, colours, along, Axis(MEASURE[measure][0]), dark=dark)


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
        height=330 + 15 * len(figure.data), margin=MARGIN, legend=LEGEND, hovermode="closest", font={"size": 13},
        xaxis={"title": "Patient recall: what was uncovered", "tickformat": "~g", "rangemode": "tozero",
               "gridcolor": FAINT[dark], "showgrid": True, "zeroline": False},
        yaxis={"title": "Accuracy of the task", "tickformat": ".1f", "range": [0, 1.03], "gridcolor": FAINT[dark]},
    )  # fmt: skip
    return figure


_REACHED = ("patient_recall", "accuracy")


def _add_reached(figure: go.Figure, recall: Figure, accuracy: Figure, name: str, colour: str) -> None:
    figure.add_scatter(
        name=name, x=[recall.mean], y=[accuracy.mean], mode="markers", marker={"color": colour, "size": 10},
        error_x=whiskers([_bounds(recall)], colour), error_y=whiskers([_bounds(accuracy)], colour),
        hovertemplate="%{fullData.name}<br>recall %{x:.3f}, accuracy %{y:.3f}<extra></extra>",
    )  # fmt: skip


def _bounds(figure: Figure) -> tuple[float | None, float | None, float | None]:
    return figure.mean, figure.ci_low, figure.ci_high


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
            marker={"color": GREY, "size": 9, "symbol": "circle-open", "line": {"width": 1.6}},
            customdata=[row.doctor for row in rows],
            hovertemplate="%{customdata} (published)<br>recall %{x:.3f}, accuracy %{y:.3f}<extra></extra>",
        )  # fmt: skip


def differences_chart(rows: Sequence[ComparisonRow], *, dark: bool = False) -> go.Figure:
    """Return the differences of two doctors in the measures between 0 and 1, clear ones in colour."""
    held = {row.measure: row for row in rows if row.measure not in LENGTHS}
    shown = [held[m] for m in MEASURE if m in held]
    marks = [
        Mark(
            MEASURE[row.measure][0], row.difference.mean, *row.difference.interval, "both",
            words=f"{row.difference.n_first:,} cases", colour=RISE if row.p_adjusted <= _CLEAR else GREY,
        )
        for row in shown
    ]  # fmt: skip
    axis = Axis("Difference", None, "+.2f", None, "+.3f", zero=True)
    return dots(marks, {"both": ""}, {}, axis, legend=False, dark=dark)


_CLEAR = 0.05
