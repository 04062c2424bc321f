"""The figure of the Patients page: shares of conversations with a hit as dots with their intervals."""

import textwrap
from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from core.measures.patients.figures import PatientRate
from core.measures.patients.rules import ABOUT
from pages.parts.accuracy_charts import FAINT
from pages.parts.failures_causes_charts import LEGEND, MARGIN
from pages.parts.patients_tables import Group, group_of

_LABEL = 22
"""Characters of a label from which on it is broken over lines."""


def rates_chart(
    rows: Sequence[PatientRate], names: Mapping[Group, str], colours: Mapping[Group, str],
    *, by_group: bool = False, dark: bool = False,
) -> go.Figure:  # fmt: skip
    """Return a line of dots for each kind, one for each group; or, ``by_group``, a line for each group.

    Rows of which nothing was looked at are left out.
    """
    held = [row for row in rows if row.n]
    labels = [names[group_of(row)] if by_group else ABOUT[row.kind].name for row in held]
    lines = list(dict.fromkeys(labels))
    groups = [group for group in names if any(group_of(row) == group for row in held)]
    lanes = 1 if by_group else len(groups)
    most = max((row.interval.high for row in held), default=1.0) or 1.0
    figure = go.Figure()
    for lane, group in enumerate(groups):
        shift = 0.0 if by_group else 0.7 * ((lane + 0.5) / lanes - 0.5)
        mine = [(row, lines.index(line) + shift) for row, line in zip(held, labels, strict=True)
                if group_of(row) == group]  # fmt: skip
        _add_dots(figure, mine, names[group], colours[group])
    figure.update_layout(
        height=110 + len(lines) * max(30, 16 + 16 * lanes), margin=MARGIN, hovermode="closest",
        legend=LEGEND, showlegend=not by_group,
        xaxis={
            "title": "Conversations with at least one hit", "tickformat": ".0%" if most > 0.1 else ".1%",
            "range": [-0.015 * most, 1.04 * most], "showgrid": True, "gridcolor": FAINT[dark], "zeroline": False,
            "nticks": 6,
        },
        yaxis={
            "range": [len(lines) - 0.5, -0.5], "tickvals": list(range(len(lines))), "automargin": True,
            "ticktext": ["<br>".join(textwrap.wrap(line, _LABEL)) for line in lines], "showgrid": False,
            "zeroline": False,
        },
    )  # fmt: skip
    return figure


def _add_dots(figure: go.Figure, placed: Sequence[tuple[PatientRate, float]], name: str, colour: str) -> None:
    rows = [row for row, _ in placed]
    figure.add_scatter(
        name=name, mode="markers", x=[row.rate for row in rows], y=[place for _, place in placed],
        marker={"color": colour, "size": 9},
        error_x={
            "type": "data", "symmetric": False, "thickness": 1.4, "width": 3, "color": colour,
            "array": [row.interval.high - row.rate for row in rows],
            "arrayminus": [row.rate - row.interval.low for row in rows],
        },
        customdata=[(*row.interval, ABOUT[row.kind].name, row.n_hit, row.n, row.per_100) for row in rows],
        hovertemplate="%{fullData.name}<br>%{customdata[2]}: %{x:.2%} (%{customdata[0]:.2%} – %{customdata[1]:.2%})"
        "<br>%{customdata[3]:,} of %{customdata[4]:,} conversations<br>%{customdata[5]:.2f} hits per 100 replies"
        "<extra></extra>",
    )  # fmt: skip
