"""How numbers between 0 and 1 lie: the share of each bin, a bar for each series."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from core.figures.style import GREY, LEGEND, MARGIN, Axis


def histogram(
    counts: Mapping[str, Sequence[int]],
    names: Mapping[str, str],
    colours: Mapping[str, str],
    title: str,
    unit: str,
    *,
    mark: tuple[float, str] | None = None,
    dark: bool = False,
) -> go.Figure:
    """Return bars of the shares of each series' ``counts`` in bins of the same width from 0 to 1.

    ``title`` and ``unit`` say what lies there and what is counted; ``mark`` is a number on the axis and a word for it.
    """
    figure = go.Figure()
    for series, own in counts.items():
        figure.add_bar(
            name=names[series],
            x=[(place + 0.5) / len(own) for place in range(len(own))],
            y=[count / max(1, sum(own)) for count in own],
            marker={"color": colours[series]},
            customdata=list(own),
            width=0.9 / len(own) / len(counts),
            hovertemplate=f"about %{{x:.2f}}: %{{customdata}} {unit} (%{{y:.0%}})<extra>%{{fullData.name}}</extra>",
        )
    if mark is not None:
        figure.add_vline(x=mark[0], line={"dash": "dot", "color": GREY})
        figure.add_annotation(
            x=mark[0], y=1, yref="paper", text=f"{mark[1]} ", showarrow=False, xanchor="right", yanchor="top"
        )
    return figure.update_layout(
        barmode="group",
        height=340,
        margin=MARGIN,
        legend=LEGEND,
        font={"size": 13},
        showlegend=len(counts) > 1,
        xaxis=Axis(title, (0, 1), ".1f").layout(dark=dark),
        yaxis=Axis(f"Share of {unit}", None, ".0%").layout(dark=dark),
    )
