"""Figures from rows: pure functions, the same colours and axes on every page."""

from collections.abc import Sequence

import plotly.graph_objects as go

from core.events import FORMATS, QUESTION_TYPES
from core.measures.accuracy import AccuracyRow
from pages.parts.look import FORMAT, QUESTION_COLOUR, QUESTION_TYPE

_INK = {False: "#1A2B2B", True: "#E3ECEB"}
"""Lines that must stand out from the page, by whether it is dark."""


def accuracy_chart(rows: Sequence[AccuracyRow], *, dark: bool = False) -> go.Figure:
    """Return accuracy by format as bars, one colour for each question type, with 95 % intervals."""
    figure = go.Figure()
    formats = [f for f in FORMATS if any(row.format == f for row in rows)]
    for question_type in QUESTION_TYPES:
        found = {row.format: row for row in rows if row.question_type == question_type and row.mean is not None}
        if not found:
            continue
        shown = [found[f] for f in formats if f in found]
        figure.add_bar(
            name=QUESTION_TYPE[question_type],
            x=[FORMAT[row.format] for row in shown],
            y=[row.mean for row in shown],
            marker_color=QUESTION_COLOUR[question_type],
            error_y={
                "type": "data",
                "symmetric": False,
                "array": [0.0 if row.ci_high is None else row.ci_high - (row.mean or 0.0) for row in shown],
                "arrayminus": [0.0 if row.ci_low is None else (row.mean or 0.0) - row.ci_low for row in shown],
                "color": _INK[dark],
                "thickness": 1.2,
                "width": 3,
            },
            customdata=[(row.n_cases, row.n_trials, row.n_excluded, row.ci_low, row.ci_high) for row in shown],
            hovertemplate="%{x}, %{fullData.name}<br>%{y:.3f} (%{customdata[3]:.3f} – %{customdata[4]:.3f})<br>"
            "%{customdata[0]} cases, %{customdata[1]} trials, %{customdata[2]} excluded<extra></extra>",
        )
    figure.update_layout(
        barmode="group",
        height=400,
        margin={"l": 10, "r": 10, "t": 36, "b": 10},
        yaxis={"title": "Accuracy", "range": [0, 1.02], "tickformat": ".1f"},
        xaxis={"automargin": True, "categoryorder": "array", "categoryarray": [FORMAT[f] for f in formats]},
        legend={"orientation": "h", "yref": "container", "yanchor": "bottom", "y": 0, "x": 0},
    )
    return figure
