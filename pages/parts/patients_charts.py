"""The figure of the Patients page: shares of conversations with a hit as dots with their intervals."""

import textwrap
from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from core.figures.marks import Mark, dots
from core.figures.style import Axis
from core.measures.patients.figures import PatientRate
from core.measures.patients.rules import ABOUT
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
    marks = [
        Mark(
            str(group_of(row)) if by_group else row.kind, row.rate, *row.interval, str(group_of(row)),
            words=f"{ABOUT[row.kind].name}<br>{row.n_hit:,} of {row.n:,} conversations<br>"
            f"{row.per_100:.2f} hits per 100 replies",
        )
        for row in held
    ]  # fmt: skip
    series = {str(group): name for group, name in names.items()}
    labels = series if by_group else {row.kind: ABOUT[row.kind].name for row in held}
    most = max((row.interval.high for row in held), default=1.0) or 1.0
    axis = Axis(
        "Conversations with at least one hit", (-0.015 * most, 1.04 * most), ".0%" if most > 0.1 else ".1%", None, ".2%"
    )
    places = {key: "<br>".join(textwrap.wrap(label, _LABEL)) for key, label in labels.items()
              if any(mark.place == key for mark in marks)}  # fmt: skip
    return dots(
        marks, series, {str(group): colour for group, colour in colours.items()}, axis, places=places,
        legend=not by_group, dark=dark,
    )  # fmt: skip
