"""The distribution of numbers between 0 and 1: the share of each bin, a bar for each series."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from core.figures.style import GREY, LAYOUT, Axis


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
    """Return bars of the shares of each series' ``counts`` in bins of equal width from 0 to 1.

    ``title`` is that of the horizontal axis, ``unit`` is what is counted; ``mark`` a number on the axis with a label.
    """
    figure = go.Figure()
    for series, bin_counts in counts.items():
        figure.add_bar(
            name=names[series],
            x=[(number + 0.5) / len(bin_counts) for number in range(len(bin_counts))],
            y=[count / max(1, sum(bin_counts)) for count in bin_counts],
            marker={"color": colours[series]},
            customdata=list(bin_counts),
            width=0.9 / len(bin_counts) / len(counts),
            hovertemplate=f"about %{{x:.2f}}: %{{customdata}} {unit} (%{{y:.0%}})<extra>%{{fullData.name}}</extra>",
        )
    if mark is not None:
        figure.add_vline(x=mark[0], line={"dash": "dot", "color": GREY})
        figure.add_annotation(
            x=mark[0], y=1, yref="paper", text=f"{mark[1]} ", showarrow=False, xanchor="right", yanchor="top"
        )
    return figure.update_layout(
        LAYOUT,
        barmode="group",
        height=340,
        showlegend=len(counts) > 1,
        xaxis=Axis(title, (0, 1), ".1f").layout(dark=dark),
        yaxis=Axis(f"Share of {unit}", None, ".0%").layout(dark=dark),
    )
