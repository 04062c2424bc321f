"""The reliability diagram: the share of beliefs of a probability that are right; on the diagonal both are equal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from core.figures.style import GREY, LEGEND, MARGIN, Axis, whiskers

_LEAST, _MOST = 6, 22
"""Smallest and largest diameter of a mark, in pixels."""


@dataclass(frozen=True)
class Bin:
    """Beliefs with similar probabilities (0 to 1): their mean, the share that is right, their number."""

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
    """Return a mark for each bin, larger for more beliefs, in the order of ``names``."""
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
        marks = [mark for mark in bins if mark.series == series]
        most = max((mark.n for mark in marks), default=1)
        figure.add_scatter(
            name=name,
            mode="markers",
            x=[mark.believed for mark in marks],
            y=[mark.right for mark in marks],
            marker={
                "color": colours[series],
                "size": [_LEAST + (_MOST - _LEAST) * (mark.n / most) ** 0.5 for mark in marks],
            },
            error_y=whiskers(((mark.right, mark.low, mark.high) for mark in marks), colours[series]),
            customdata=[f"{mark.low:.1%} – {mark.high:.1%})<br>{mark.words}" for mark in marks],
            hovertemplate="%{fullData.name}<br>believed %{x:.1%}, right %{y:.1%} (%{customdata}<extra></extra>",
        )
    across, up = (
        Axis(title, (-0.02, 1.04), ".0%", 0.2).layout(dark=dark)
        for title in ("Probability of the leading diagnosis", "Share that is right")
    )
    return figure.update_layout(
        height=360, margin=MARGIN, legend=LEGEND, hovermode="closest", font={"size": 13}, xaxis=across, yaxis=up
    )
