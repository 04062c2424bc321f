"""Figures of belief: the mean curve of the right diagnosis with its band, and the reliability diagram."""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from core.measures.belief import Calibration, CurvePoint
from pages.parts.accuracy_charts import FAINT
from pages.parts.failures_causes_charts import LEGEND, MARGIN

_BAND = 0.18
_LEAST, _MOST = 6, 22
"""Diameters of marks, in pixels."""


def curve_chart(
    points: Sequence[CurvePoint], names: Mapping[str, str], colours: Mapping[str, str], *, dark: bool = False
) -> go.Figure:
    """Return the mean probability of the right diagnosis over the share of the dialogue, with 95 % bands."""
    figure = go.Figure()
    for model in names:
        held = sorted((p for p in points if p.model == model and p.quantity == "right"), key=lambda p: p.per_cent)
        if held:
            _add_curve(figure, held, names[model], colours[model])
    figure.update_layout(
        height=360, margin=MARGIN, legend=LEGEND, hovermode="closest",
        xaxis={
            "title": "Share of the patient’s replies", "ticksuffix": " %", "range": [7, 103], "dtick": 10,
            "gridcolor": FAINT[dark], "zeroline": False,
        },
        yaxis={
            "title": "Probability of the right diagnosis", "range": [0, 1.02], "tickformat": ".0%",
            "gridcolor": FAINT[dark], "zeroline": False,
        },
    )  # fmt: skip
    return figure


def _add_curve(figure: go.Figure, held: Sequence[CurvePoint], name: str, colour: str) -> None:
    shares = [point.per_cent for point in held]
    edge = [*(p.mean.interval.high for p in held), *(p.mean.interval.low for p in reversed(held))]
    figure.add_scatter(
        x=[*shares, *reversed(shares)], y=edge, fill="toself", fillcolor=colour, opacity=_BAND, mode="lines",
        line={"width": 0}, hoverinfo="skip", showlegend=False, name=f"{name}, 95 % interval",
    )  # fmt: skip
    figure.add_scatter(
        name=f"{name}, n = {held[0].mean.n_cases:,} cases", mode="lines+markers", x=shares,
        y=[point.mean.value for point in held], line={"color": colour, "width": 2.5}, marker={"size": 6},
        customdata=[tuple(point.mean.interval) for point in held],
        hovertemplate="%{fullData.name}<br>%{x} % of replies: %{y:.1%} (%{customdata[0]:.1%} – %{customdata[1]:.1%})"
        "<extra></extra>",
    )  # fmt: skip


def reliability_chart(
    found: Sequence[Calibration], names: Mapping[str, str], colours: Mapping[str, str], *, dark: bool = False
) -> go.Figure:
    """Return how often the leading diagnosis is right by its probability; the diagonal is perfect calibration."""
    figure = go.Figure()
    figure.add_scatter(
        x=[0, 1], y=[0, 1], mode="lines", line={"dash": "dot", "color": "#8C8C8C", "width": 1.5}, hoverinfo="skip",
        name="Perfectly calibrated",
    )  # fmt: skip
    for one in sorted((c for c in found if c.model in names), key=lambda c: list(names).index(c.model)):
        bins = [b for b in one.bins if b.n_probes]
        most = max((b.n_probes for b in bins), default=1)
        figure.add_scatter(
            name=f"{names[one.model]}, Brier {one.brier:.3f}, ECE {one.ece:.3f}", mode="markers",
            x=[b.probability for b in bins], y=[b.right for b in bins],
            marker={
                "color": colours[one.model],
                "size": [_LEAST + (_MOST - _LEAST) * (b.n_probes / most) ** 0.5 for b in bins],
            },
            error_y={
                "type": "data", "symmetric": False, "array": [b.interval.high - b.right for b in bins],
                "arrayminus": [b.right - b.interval.low for b in bins], "thickness": 1.3, "width": 3,
                "color": colours[one.model],
            },
            customdata=[(*b.interval, b.n_cases, b.n_probes) for b in bins],
            hovertemplate="%{fullData.name}<br>believed %{x:.1%}, right %{y:.1%} (%{customdata[0]:.1%} – "
            "%{customdata[1]:.1%})<br>%{customdata[2]:,} cases, %{customdata[3]:,} beliefs<extra></extra>",
        )  # fmt: skip
    axis = {"range": [-0.02, 1.04], "tickformat": ".0%", "gridcolor": FAINT[dark], "zeroline": False, "dtick": 0.2}
    figure.update_layout(
        height=360, margin=MARGIN, legend=LEGEND, hovermode="closest",
        xaxis={"title": "Probability of the leading diagnosis", **axis},
        yaxis={"title": "Share that is right", **axis},
    )  # fmt: skip
    return figure
