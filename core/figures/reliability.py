"""The reliability diagram: how often what was believed to a degree is right; on the diagonal as often as believed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from core.figures.style import GREY, LEGEND, MARGIN, Axis, whiskers

_LEAST, _MOST = 6, 22
"""Diameters of marks, in pixels."""


@dataclass(frozen=True)
class Bin:
    """Beliefs of about one probability (0 to 1): their mean, the share that is right, their number."""

    series: str
    believed: float
    right: float
    low: float
    high: float
    n: int
    words: str = ""


def reliability(
    bins: Sequence[Bin], names: Mapping[str, str], colours: Mapping[str, str], *, dark: bool = False
) -> go.Figure:
    """Return a mark for each bin, larger where there are more beliefs, in the order of ``names``."""
    figure = go.Figure()
    figure.add_scatter(
        x=[0, 1],
        y=[0, 1],
        mode="lines",
        line={"dash": "dot", "color": GREY, "width": 1.5},
        hoverinfo="skip",
        name="Perfectly calibrated",
    )
    for series, name in names.items():
        mine = [one for one in bins if one.series == series]
        most = max((one.n for one in mine), default=1)
        figure.add_scatter(
            name=name,
            mode="markers",
            x=[one.believed for one in mine],
            y=[one.right for one in mine],
            marker={
                "color": colours[series],
                "size": [_LEAST + (_MOST - _LEAST) * (one.n / most) ** 0.5 for one in mine],
            },
            error_y=whiskers(((one.right, one.low, one.high) for one in mine), colours[series]),
            customdata=[f"{one.low:.1%} – {one.high:.1%})<br>{one.words}" for one in mine],
            hovertemplate="%{fullData.name}<br>believed %{x:.1%}, right %{y:.1%} (%{customdata}<extra></extra>",
        )
    across, up = (
        Axis(title, (-0.02, 1.04), ".0%", 0.2).layout(dark=dark)
        for title in ("Probability of the leading diagnosis", "Share that is right")
    )
    return figure.update_layout(
        height=360, margin=MARGIN, legend=LEGEND, hovermode="closest", font={"size": 13}, xaxis=across, yaxis=up
    )
