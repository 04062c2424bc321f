"""Scatters: points with whiskers in both directions, lines, and marks of published values."""

from __future__ import annotations

import pytest

from core.figures.scatter import Spot, StraightLine, scatter, scatter_panels
from core.figures.style import Axis

ROWS, COLUMNS = {"a": "Model A", "b": "Model B"}, {"x": "First", "y": "Second"}
COLOURS = {"a": "#0072B2", "b": "#D55E00"}
SHARE = Axis("Share", (0, 1), ".0%", None, ".1%")


def test_points_have_whiskers_in_both_directions_and_both_estimates() -> None:
    spots = [
        Spot("a", 0.4, 0.6, (0.5, 0.7), (0.3, 0.6), label="Derm", words="40 cases", data=("t1",)),
        Spot("a", 0.2, 0.3),
    ]
    (trace,) = scatter(spots, ROWS, COLOURS, Axis("Static"), Axis("Talked")).data
    assert (list(trace.x), list(trace.y)) == ([0.6, 0.3], [0.4, 0.2])
    assert [trace.error_x.array[0], trace.error_y.arrayminus[0]] == [pytest.approx(0.1), pytest.approx(0.1)]
    assert trace.error_x.array[1] is None
    assert list(trace.customdata[0]) == [
        "Model A<br>Derm<br>Static: 0.600 (0.500 – 0.700)<br>Talked: 0.400 (0.300 – 0.600)<br>40 cases",
        "t1",
    ]


def test_published_points_are_open_and_those_without_an_x_are_lines() -> None:
    spots = [Spot("a", 0.5, 0.5, published=True), Spot("b", 0.7), Spot("b", 0.8)]
    printed, first, second = scatter(spots, ROWS, COLOURS, Axis("", (0, 10)), SHARE).data
    assert (printed.name, printed.marker.symbol[0]) == ("Model A (published)", "circle-open")
    assert (first.mode, list(first.x), list(first.y)) == ("lines", [0, 10], [0.7, 0.7])
    assert (first.showlegend, second.showlegend) == (True, False)


def test_kinds_have_symbols_that_the_legend_explains_and_lines_are_named() -> None:
    spots = [Spot("a", 0.5, 0.5, kind="x"), Spot("a", 0.6, 0.6, kind="y")]
    same = StraightLine("No drop", 1, dotted=True)
    line, points, *legend = scatter(spots, ROWS, COLOURS, SHARE, SHARE, kinds=COLUMNS, lines=[same]).data
    assert (line.name, list(line.x), list(line.y), line.line.dash) == ("No drop", [0, 1], [0, 1], "dot")
    assert list(points.marker.symbol) == ["circle", "diamond"]
    assert [(trace.name, trace.marker.symbol) for trace in legend] == [("First", "circle"), ("Second", "diamond")]
    alone = scatter(spots[:1], ROWS, COLOURS, SHARE, SHARE, kinds=COLUMNS)
    assert len(alone.data) == 1, "one kind needs no legend"


def test_panels_share_axes_and_a_series_has_one_entry_in_the_legend() -> None:
    panels = {"One": [Spot("a", 0.5, 0.4), Spot("b", 0.6, 0.5)], "Two": [Spot("a", 0.7, 0.6)]}
    lines = {"One": [StraightLine("No drop", 1, dotted=True)], "Two": [StraightLine("No drop", 1, dotted=True)]}
    figure = scatter_panels(panels, ROWS, COLOURS, SHARE, SHARE, lines=lines)
    assert [note.text for note in figure.layout.annotations] == ["One", "Two"]
    assert [trace.name for trace in figure.data if trace.showlegend] == ["No drop", "Model A", "Model B"]
    second = next(trace for trace in figure.data if trace.xaxis == "x2" and trace.name == "Model A")
    assert (second.legendgroup, list(second.y)) == ("a", [0.7])
    assert figure.layout.xaxis.range == figure.layout.xaxis2.range == (0, 1)
