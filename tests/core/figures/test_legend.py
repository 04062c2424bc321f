"""Room for legends: a long one makes a figure higher, and never presses its panels."""

from __future__ import annotations

import plotly.graph_objects as go

from core.figures.legend import legend_height, with_legend_room
from core.figures.marks import Mark, bars
from core.figures.narrow import NARROW, in_one_column


def chart(names: list[str]) -> go.Figure:
    series = {str(number): name for number, name in enumerate(names)}
    marks = [Mark("Vignette", 0.5, series=key) for key in series]
    return bars(marks, series, dict.fromkeys(series, "#0072B2"))


def test_the_height_of_a_legend() -> None:
    # an entry is 50 pixels and 7 for each letter wide, 17 for each line and 3 high
    assert legend_height(chart(["aaa", "bbb", "ccc"]), 213) == 20, "3 × 71 = 213: one line"
    assert legend_height(chart(["aaa", "bbb", "ccc"]), 212) == 40, "two columns of 71 in 212"
    assert legend_height(chart(["aaa", "bbb", "ccc"]), 100) == 60
    assert legend_height(chart(["a<br>b", "c"]), 60) == 37 + 20
    assert legend_height(chart(["alone"]), 10) == 0, "a single name has no legend"


def test_a_long_legend_makes_a_figure_higher_by_all_lines_but_one() -> None:
    figure = chart([f"{n:02}".ljust(40, "x") for n in range(12)])
    before = figure.layout.height
    assert with_legend_room(figure, 480).layout.height == before + 11 * 20
    short = chart(["a", "b"])
    assert with_legend_room(short, 480).layout.height == short.layout.height


def test_a_narrow_window_gets_a_figure_of_its_own_only_if_the_legend_would_press_the_panel() -> None:
    assert in_one_column(chart(["a", "b", "c"])) is None
    # 12 names of 20 letters: two columns of 190 in 480, one in 330
    figure = chart([f"{n:02}".ljust(20, "x") for n in range(12)])
    narrow = in_one_column(figure)
    assert narrow is not None
    assert narrow.layout.height - legend_height(narrow, NARROW) >= 220 + 64
    assert figure.layout.height == 390, "the figure of a wide window stays as it is"
