"""Figures of the Memorisation page."""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from core.measures.memorisation import BINS, FLAG, ModelRow

_MARGIN = {"l": 8, "r": 8, "t": 8, "b": 8}
_LEGEND = {"orientation": "h", "yref": "container", "yanchor": "bottom", "y": 0, "x": 0}


def histogram(rows: Sequence[ModelRow], names: Mapping[str, str], colours: Mapping[str, str]) -> go.Figure:
    """Return how the similarities of each model lie between 0 and 1, as shares of its cases."""
    figure = go.Figure()
    middles = [(place + 0.5) / BINS for place in range(BINS)]
    for row in rows:
        figure.add_bar(
            name=names[row.model], x=middles, y=[count / max(1, row.n) for count in row.counts],
            marker={"color": colours[row.model]}, customdata=list(row.counts), width=0.9 / BINS / len(rows),
            hovertemplate="similarity about %{x:.2f}: %{customdata} cases (%{y:.0%})<extra>%{fullData.name}</extra>",
        )  # fmt: skip
    figure.add_vline(x=FLAG, line={"dash": "dot", "color": "#8C8C8C"})
    figure.add_annotation(
        x=FLAG, y=1, yref="paper", text="flagged from here ", showarrow=False, xanchor="right", yanchor="top"
    )
    figure.update_layout(
        barmode="group", height=340, margin=_MARGIN, legend=_LEGEND, showlegend=len(rows) > 1,
        xaxis={"title": "Similarity of the completion to the second half", "range": [0, 1], "tickformat": ".1f"},
        yaxis={"title": "Share of cases", "tickformat": ".0%", "rangemode": "tozero"},
    )  # fmt: skip
    return figure
