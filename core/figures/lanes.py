"""Branching conversations as lanes: messages from left to right, a lane per conversation, its verdict at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from core.events import COUNTED, Verdict
from core.figures.style import FAINT, GREY, INK, LEGEND, MARGIN

_MARK = {"right": ("#009E73", "circle"), "wrong": ("#D55E00", "x"), "excluded": (GREY, "circle-open")}
_STEADY = {"selected": {"marker": {"opacity": 1}}, "unselected": {"marker": {"opacity": 1}}}
"""A click selects a lane without fading the others."""


@dataclass(frozen=True)
class Lane:
    """One conversation: its messages from ``first`` to ``last``, counted from 1, that no lane above it shows.

    ``leaves`` is the lane (counted from 0) and the message where it branches off. ``words`` is the hover text of its
    end. ``looked_at`` lanes are emphasized, the ``chosen`` lane most.
    """

    id: str
    name: str
    colour: str
    first: int
    last: int
    leaves: tuple[int, int] | None = None
    verdict: Verdict | None = None
    words: str = ""
    looked_at: bool = False
    chosen: bool = False


def lanes(rows: Sequence[Lane], legend: Mapping[str, str], *, dark: bool = False) -> go.Figure:
    """Return the lanes, the first on top; a click on any point of a lane gives its id.

    ``legend`` is name → colour; it is drawn if there are several.
    """
    figure = go.Figure()
    for place, lane in enumerate(rows):
        messages = list(range(lane.first, lane.last + 1)) or [lane.last]
        if lane.leaves is not None:
            figure.add_scatter(
                x=[lane.leaves[1], messages[0]],
                y=[lane.leaves[0], place],
                mode="lines",
                line={"color": lane.colour, "width": 1.5, "dash": "dot"},
                hoverinfo="skip",
                showlegend=False,
            )
        figure.add_scatter(
            x=messages,
            y=[place] * len(messages),
            mode="lines+markers",
            line={"color": lane.colour, "width": 5 if lane.looked_at else 2},
            marker={"size": 5},
            name=lane.name,
            showlegend=False,
            customdata=[[lane.id]] * len(messages),
            hovertemplate=f"{lane.name}, message %{{x}}<extra></extra>",
            **_STEADY,
        )
    for name, colour in legend.items() if len(legend) > 1 else ():
        figure.add_scatter(x=[None], y=[None], mode="lines", line={"color": colour, "width": 3}, name=name)
    for place, lane in enumerate(rows):
        outcome = "excluded" if lane.verdict not in COUNTED else "right" if lane.verdict == "correct" else "wrong"
        colour, symbol = _MARK[outcome]
        ring = {"width": 2 if lane.chosen else 0, "color": INK[dark]}
        figure.add_scatter(
            x=[lane.last],
            y=[place],
            mode="markers",
            customdata=[[lane.id]],
            name=lane.name,
            showlegend=False,
            marker={"size": 15, "color": colour, "symbol": symbol, "line": ring},
            hovertemplate=f"{lane.words}<extra></extra>",
            **_STEADY,
        )
    longest = max(lane.last for lane in rows)
    figure.update_layout(
        height=(96 if len(legend) < 2 else 130) + 34 * len(rows),
        margin=MARGIN,
        legend=LEGEND,
        hovermode="closest",
        clickmode="event+select",
        xaxis={
            "title": "Message",
            "range": [0.4, longest + 0.8],
            "dtick": max(1, -(-longest // 8)),
            "tick0": 1,
            "gridcolor": FAINT[dark],
            "zeroline": False,
            "fixedrange": True,
        },
        yaxis={
            "tickvals": list(range(len(rows))),
            "ticktext": [f"<b>{lane.name}</b>" if lane.looked_at else lane.name for lane in rows],
            "range": [len(rows) - 0.5, -0.5],
            "automargin": True,
            "showgrid": False,
            "zeroline": False,
            "fixedrange": True,
        },
    )
    return figure
