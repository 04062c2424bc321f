"""Figures of the causes of wrong answers: shares as stacked bars, accuracies with and without the patient's as dots."""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from core.measures.attribution import Cause
from core.measures.failures import CauseShare, PatientEffect
from pages.parts.accuracy_charts import FAINT
from pages.parts.case_why import CAUSE
from pages.parts.look import arm

ORDER: tuple[Cause, ...] = ("doctor_never_asked", "doctor_concluded_wrongly", "patient", "not_judged", "grader", "case")
"""As the bars are stacked; the provider's are excluded and stand in the label."""
_COLOUR: dict[Cause, tuple[str, str]] = {
    "doctor_never_asked": ("#D55E00", "white"), "doctor_concluded_wrongly": ("#0072B2", "white"),
    "patient": ("#E69F00", "#1A2B2B"), "not_judged": ("#C4C9C9", "#1A2B2B"), "grader": ("#56B4E9", "#1A2B2B"),
    "case": ("#CC79A7", "#1A2B2B"), "provider": ("#8C8C8C", "white"),
}  # fmt: skip
_WRITTEN = 0.035
"""Shares below are too narrow for their number."""
LEGEND = {"orientation": "h", "yref": "container", "yanchor": "bottom", "y": 0, "x": 0, "traceorder": "normal"}
MARGIN = {"l": 8, "r": 12, "t": 8, "b": 8}


def causes_chart(rows: Sequence[CauseShare], names: Mapping[str, str], *, dark: bool = False) -> go.Figure:
    """Return a bar for each model, made of the shares of what its wrong answers are put down to."""
    models = [model for model in names if any(row.model == model and row.n_wrong for row in rows)]
    labels = {m: f"{names[m]}<br>n = {next(r.n_wrong for r in rows if r.model == m):,}" for m in models}
    figure = go.Figure()
    for cause in ORDER:
        held = {row.model: row for row in rows if row.cause == cause}
        shown = [held[model] for model in models]
        if not any(row.n for row in shown):
            continue
        colour, ink = _COLOUR[cause]
        figure.add_bar(
            name=CAUSE[cause][0], orientation="h", y=[labels[row.model] for row in shown],
            x=[row.share for row in shown], marker={"color": colour},
            text=[f"{row.share:.0%}" if row.share >= _WRITTEN else "" for row in shown], textposition="inside",
            insidetextanchor="middle", textfont={"color": ink}, textangle=0,
            customdata=[(row.model, row.cause, row.n, *row.interval) for row in shown],
            hovertemplate="%{y}<br>%{fullData.name}: %{x:.1%} (%{customdata[3]:.1%} – %{customdata[4]:.1%})<br>"
            "%{customdata[2]:,} answers<extra></extra>", unselected={"marker": {"opacity": 0.55}},
        )  # fmt: skip
    figure.update_layout(
        barmode="stack", height=120 + 56 * len(models), margin=MARGIN, bargap=0.3, legend=LEGEND,
        xaxis={
            "title": "Share of wrong answers", "range": [0, 1.001], "dtick": 0.2, "tickformat": ".0%",
            "ticklabeloverflow": "allow", "gridcolor": FAINT[dark],
        },
        yaxis={"autorange": "reversed", "automargin": True},
    )  # fmt: skip
    return figure


def effects_chart(
    rows: Sequence[PatientEffect], names: Mapping[str, str], colours: Mapping[str, str], *, dark: bool = False
) -> go.Figure:
    """Return the accuracies of each arm: a full dot with all answers, an open one without the patient's."""
    arms = list(dict.fromkeys(row.arm for row in rows))
    models = [model for model in names if any(row.model == model for row in rows)]
    figure = go.Figure()
    for lane, model in enumerate(models):
        shift = 0.7 * ((lane + 0.5) / len(models) - 0.5)
        held = [row for row in rows if row.model == model]
        for open_ in (False, True):
            off = (0.09 if open_ else -0.09) / len(models)
            places = [arms.index(row.arm) + shift + off for row in held]
            _add_dots(figure, held, places, names[model], colours[model], open_=open_)
    figure.update_layout(
        height=120 + len(arms) * (24 + 24 * len(models)), margin=MARGIN, hovermode="closest", legend=LEGEND,
        xaxis={"title": "Accuracy", "tickformat": ".2f", "gridcolor": FAINT[dark], "zeroline": False},
        yaxis={
            "range": [len(arms) - 0.5, -0.5], "tickvals": list(range(len(arms))), "automargin": True,
            "ticktext": [arm(*one).replace(" · ", "<br>") for one in arms], "showgrid": False, "zeroline": False,
        },
    )  # fmt: skip
    return figure


def _add_dots(
    figure: go.Figure, rows: Sequence[PatientEffect], places: Sequence[float], name: str, colour: str, *, open_: bool
) -> None:
    means = [row.without if open_ else row.accuracy for row in rows]
    bounds = [row.without_interval if open_ else row.interval for row in rows]
    figure.add_scatter(
        name=f"{name}, without the patient’s" if open_ else name, mode="markers", x=means, y=list(places),
        marker={
            "color": colour, "size": 9, "symbol": "circle-open" if open_ else "circle",
            "line": {"width": 2, "color": colour},
        },
        error_x={
            "type": "data", "symmetric": False, "thickness": 1.4, "width": 3, "color": colour,
            "array": [b.high - m for b, m in zip(bounds, means, strict=True)],
            "arrayminus": [m - b.low for b, m in zip(bounds, means, strict=True)],
        },
        customdata=[(*b, row.n_cases, row.n_left_out if open_ else 0) for b, row in zip(bounds, rows, strict=True)],
        hovertemplate="%{fullData.name}: %{x:.3f} (%{customdata[0]:.3f} – %{customdata[1]:.3f})<br>"
        "%{customdata[2]:,} cases, %{customdata[3]:,} answers left out<extra></extra>",
    )  # fmt: skip
