"""Room for the legend of a figure: its entries never take the height of the panels."""

import plotly.graph_objects as go

_LINE, _GAP = 17, 3
"""Pixels of a line of text in a legend, and between its entries."""
_LETTER, _SYMBOL = 7, 50
"""Pixels of a letter, and of the symbol of an entry with its margins."""
_INCLUDED = 1
"""Lines of the legend for which the height of a chart already has room."""


def legend_height(figure: go.Figure, width: float) -> int:
    """Return the approximate height in pixels of a horizontal legend in a figure of this width; 0 without a legend.

    Entries are in one line if they fit, otherwise in columns as wide as the longest.
    """
    names = [str(trace.name).split("<br>") for trace in figure.data if trace.showlegend is not False and trace.name]
    shown = figure.layout.showlegend
    if not names or shown is False or (shown is None and len(names) < 2):
        return 0
    widths = [_SYMBOL + _LETTER * max(map(len, lines)) for lines in names]
    across = len(names) if sum(widths) <= width else max(1, int(width // max(widths)))
    rows = (names[start : start + across] for start in range(0, len(names), across))
    return sum(_GAP + _LINE * max(map(len, row)) for row in rows)


def legend_room(figure: go.Figure, width: float) -> int:
    """Return the pixels that the legend needs beyond one line at this width in pixels."""
    return max(0, legend_height(figure, width) - _GAP - _LINE * _INCLUDED)


def with_legend_room(figure: go.Figure, width: float) -> go.Figure:
    """Return the figure with the height that the legend needs beyond one line at this width in pixels."""
    more = legend_room(figure, width)
    if not more:
        return figure
    layout = figure.layout
    figure.update_layout(height=(layout.height or 450) + more)
    if layout.legend.yref == "paper":  # the legend is above the panels
        figure.update_layout(margin={"t": (layout.margin.t or 0) + more})
    return figure
