"""Figures of the causes of wrong answers: shares as stacked bars, accuracies with and without the patient's as dots."""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from core.figures.marks import Mark, dots
from core.figures.shares import Segment, stacked
from core.figures.style import Axis
from core.measures.attribution import Cause
from core.measures.failures import CauseShare, PatientEffect
from pages.parts.case_why import CAUSE
from pages.parts.look import arm

ORDER: tuple[Cause, ...] = ("doctor_never_asked", "doctor_concluded_wrongly", "patient", "not_judged", "grader", "case")
"""As the bars are stacked; the provider's are excluded and stand in the label."""
_COLOUR: dict[Cause, tuple[str, str]] = {
    "doctor_never_asked": ("#D55E00", "white"), "doctor_concluded_wrongly": ("#0072B2", "white"),
    "patient": ("#E69F00", "#1A2B2B"), "not_judged": ("#C4C9C9", "#1A2B2B"), "grader": ("#56B4E9", "#1A2B2B"),
    "case": ("#CC79A7", "#1A2B2B"), "provider": ("#8C8C8C", "white"),
}  # fmt: skip


def causes_chart(rows: Sequence[CauseShare], names: Mapping[str, str], *, dark: bool = False) -> go.Figure:
    """Return a bar for each model, made of the shares of what its wrong answers are put down to."""
    models = [model for model in names if any(row.model == model and row.n_wrong for row in rows)]
    labels = {m: f"{names[m]}<br>n = {next(r.n_wrong for r in rows if r.model == m):,}" for m in models}
    segments = []
    for cause in ORDER:
        held = {row.model: row for row in rows if row.cause == cause}
        shown = [held[model] for model in models]
        segments.append(
            Segment(
                CAUSE[cause][0], *_COLOUR[cause], [row.share for row in shown], [row.n for row in shown],
                [(row.model, row.cause) for row in shown],
                [f"95 % interval {row.interval.low:.1%} – {row.interval.high:.1%}" for row in shown],
            )
        )  # fmt: skip
    return stacked(
        list(labels.values()), segments, "Share of wrong answers", "answers", percent=True, row=56, dark=dark
    )


def effects_chart(
    rows: Sequence[PatientEffect], names: Mapping[str, str], colours: Mapping[str, str], *, dark: bool = False
) -> go.Figure:
    """Return the accuracies of each arm: a full dot with all answers, an open one without the patient's."""
    marks, series, inks = [], {}, {}
    for row in rows:
        for key, name, mean, bounds, left_out in (
            (row.model, "{}", row.accuracy, row.interval, 0),
            (f"{row.model} without", "{}, without the patient’s", row.without, row.without_interval, row.n_left_out),
        ):
            words = f"{row.n_cases:,} cases, {left_out:,} answers left out"
            marks.append(Mark(str(row.arm), mean, *bounds, key, words=words, open=key != row.model))
            series[key], inks[key] = name.format(names[row.model]), colours[row.model]
    labels = {str(row.arm): arm(*row.arm).replace(" · ", "<br>") for row in rows}
    ordered = {key: series[key] for model in names for key in (model, f"{model} without") if key in series}
    axis = Axis("Accuracy", _around(marks), ".2f")
    return dots(marks, ordered, inks, axis, places=labels, legend=True, dark=dark)


def _around(marks: Sequence[Mark]) -> tuple[float, float] | None:
    """Return an axis that holds all intervals, with a little air."""
    bounds = [b for mark in marks for b in (mark.low, mark.high, mark.estimate) if b is not None and b == b]
    air = 0.04 * ((max(bounds) - min(bounds)) or 1) if bounds else 0
    return (min(bounds) - air, max(bounds) + air) if bounds else None
