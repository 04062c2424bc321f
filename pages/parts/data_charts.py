"""Figures of the Data page: why cases are not suitable, and how far the suitable ones fill a profile's fields."""

from collections.abc import Mapping

import plotly.graph_objects as go

from core.figures.shares import Segment, stacked
from core.figures.style import FAINT, INK
from core.text.profiles import STATES, Coverage, Reason, State
from pages.parts.data_words import FIELD, STATE, reason_words

_COLOUR: dict[State, dict[bool, str]] = {
    "present": {False: "#0072B2", True: "#56B4E9"},
    "imputed": {False: "#E69F00", True: "#E69F00"},
    "absent": {False: "#DDE5E4", True: "#33474A"},
}
"""State of a field → colour, by whether the page is dark."""
_BAR = 26
_MARGIN = {"l": 8, "r": 28, "t": 8, "b": 8}


def reasons_chart(reasons: Mapping[Reason, int], n: int, *, dark: bool = False) -> go.Figure:
    """Return a bar for each reason, the most frequent on top, as a share of all ``n`` cases that were looked at."""
    order = sorted(reasons, key=lambda reason: reasons[reason])
    counts = [reasons[reason] for reason in order]
    figure = go.Figure(
        go.Bar(
            x=[count / n for count in counts], y=[reason_words(reason) for reason in order], orientation="h",
            marker_color="#D55E00", text=[f"{count:,} · {count / n:.1%}" for count in counts], textposition="outside",
            cliponaxis=False, customdata=counts, textfont={"color": INK[dark]},
            hovertemplate="%{y}<br>%{customdata:,} cases, %{x:.1%}<extra></extra>",
        )
    )  # fmt: skip
    most = max(counts, default=0) / n if n else 1
    figure.update_layout(
        height=70 + _BAR * max(1, len(order)), margin=_MARGIN, font={"size": 13}, bargap=0.35,
        xaxis={"title": "Share of the cases that were looked at", "tickformat": ".0%" if most > 0.04 else ".1%",
               "range": [0, 1.35 * most], "gridcolor": FAINT[dark]},
        yaxis={"automargin": True},
    )  # fmt: skip
    return figure


def coverage_chart(coverage: Coverage, *, dark: bool = False) -> go.Figure:
    """Return a stacked bar for each field of a profile: the shares of suitable cases by the field's state."""
    segments = [
        Segment(
            STATE[state], _COLOUR[state][dark], INK[dark if state == "absent" else False],
            [shares.share(state) for shares in coverage.fields], [getattr(shares, state) for shares in coverage.fields],
        )
        for state in STATES
    ]  # fmt: skip
    labels = [FIELD[shares.field] for shares in coverage.fields]
    return stacked(labels, segments, "Share of the suitable cases", "cases", row=_BAR, percent=True, dark=dark)
