"""A figure for a narrow screen: all panels in one column at full width, and room for the lines of the legend."""

import plotly.graph_objects as go

from core.figures.legend import legend_height, legend_room, with_legend_room
from core.figures.style import LEGEND, MARGIN

NARROW, WIDE = 330, 480
"""Pixels of a figure in a narrow window, and of one of two figures next to each other in a wide window."""

_HEAD, _AXIS = 34, 64
"""Pixels above a panel for its title, and below it for its labels and axis title."""
_LEAST_PANEL = 220
"""Pixels below which the legend in a narrow window must not press a panel."""


def in_one_column(figure: go.Figure) -> go.Figure | None:
    """Return the figure for a narrow window: panels in one column; ``None`` if it would not differ."""
    titles = {title.text for title in figure.layout.annotations}
    axes = sorted(int(name.removeprefix("xaxis") or 1) for name in figure.layout if name.startswith("xaxis"))
    if len(axes) < 2 or len(axes) != len(titles):  # a grid with empty last places has axes without a title
        height = figure.layout.height or 450
        panel = height + legend_room(figure, WIDE) - _AXIS  # to copy a figure takes longer than to make it
        pressed = panel - legend_height(figure, NARROW) < min(_LEAST_PANEL, height - _AXIS)
        return with_legend_room(go.Figure(figure), NARROW) if pressed else None
    narrow, many = go.Figure(figure), len(axes)
    downs = {tuple(figure.layout["yaxis" if n == 1 else f"yaxis{n}"].domain) for n in axes}
    panel = (figure.layout.height - _AXIS * (len(downs) - 1)) / len(downs) - _AXIS
    tall = panel + _HEAD + _AXIS
    legend = legend_height(figure, NARROW)
    by_text = {title.text: title for title in narrow.layout.annotations}
    for place, (number, title) in enumerate(zip(axes, by_text.values(), strict=True)):
        suffix = "" if number == 1 else str(number)
        top = 1 - place * tall / (many * tall)
        ends = [top - (_HEAD + panel) / (many * tall), top - _HEAD / (many * tall)]
        narrow.layout[f"xaxis{suffix}"].update(domain=[0, 1], showticklabels=True)
        narrow.layout[f"yaxis{suffix}"].update(domain=ends, showticklabels=True, title=figure.layout.yaxis.title)
        title.update(x=1, xanchor="right", y=ends[1])  # a long title runs over the space of the row labels
    return narrow.update_layout(height=many * tall + legend, legend=LEGEND, margin={**MARGIN, "b": 8 + legend})
