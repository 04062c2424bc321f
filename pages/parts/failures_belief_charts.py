"""Figures of belief: the mean curve of the right diagnosis with its band, and the reliability diagram."""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from core.figures.curves import Point, curves
from core.figures.style import FAINT, LEGEND, MARGIN, Axis
from core.measures.belief import Calibration, CurvePoint

_LEAST, _MOST = 6, 22
"""Diameters of marks, in pixels."""


def curve_chart(
    points: Sequence[CurvePoint], names: Mapping[str, str], colours: Mapping[str, str], *, dark: bool = False
) -> go.Figure:
    """Return the mean probability of the right diagnosis over the share of the dialogue, with 95 % bands."""
    right = [point for point in points if point.quantity == "right"]
    shown = [Point(p.model, p.per_cent / 100, p.mean.value, *p.mean.interval) for p in right]
    cases = {p.model: p.mean.n_cases for p in reversed(right)}
    heads = {model: f"{name}, n = {cases[model]:,} cases" for model, name in names.items() if model in cases}
    along = Axis("Share of the patient’s replies", (0.07, 1.03), ".0%", 0.1, ".0%")
    return curves(
        shown, heads, colours, along, Axis("Probability of the right diagnosis", (0, 1.02), ".0%", None, ".1%"),
        dark=dark,
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
