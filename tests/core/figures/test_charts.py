"""Rows as figures: positions, legends and captions, and saved files."""

from __future__ import annotations

import re
import sys
import threading
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from core.errors import AnamnesisError, UsageError
from core.figures import picture
from core.figures.heat import MANY, ink_on
from core.figures.marks import Mark, bars, dots
from core.figures.narrow import in_one_column
from core.figures.picture import COLUMN_MM, WIDTH_MM, check_name, picture_of, without_links
from core.figures.report import chart_of, figure_of, with_caption
from core.measures.base import Columns, Row
from core.measures.comparison import compare_cases

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAMES = {"a": "Model A", "b": "Model B"}
COLOURS = {"a": "#0072B2", "b": "#D55E00"}


def test_shares_stand_in_a_bar_for_each_place_and_know_their_rows() -> None:
    rows = [
        Row({"model": model, "cause": cause}, share, n=n, unit="conversations")
        for model, n, cause, share in (("a", 4, "empty", 0.25), ("a", 4, "multiple", 0.5), ("b", 10, "multiple", 0.1))
    ]
    colours = {"multiple": "#F0E442", "empty": "#0072B2", "never": "#000000"}
    words = {**NAMES, "multiple": "Several"}
    figure = chart_of(rows, kind="shares", series="cause", place="model", axis="Share", names=words, colours=colours)
    several, empty = figure.data
    assert (several.name, several.y, several.x) == (
        "Several",
        ("Model A<br>4 conversations", "Model B<br>10 conversations"),
        (0.5, 0.1),
    )
    assert (several.text, empty.x) == (("2", "1"), (0.25, 0.0)), "counts in the bars; no row, no share"
    assert (several.textfont.color, empty.textfont.color) == ("#1A2B2B", "white")
    assert [data[1] for data in several.customdata] == ["1", "2"]
    whole = chart_of(
        [*rows[:2], Row({"model": "a", "cause": "none"}, 0.25, n=4)], kind="shares", series="cause", place="model"
    )
    assert {text for bar in whole.data for text in bar.text} == {"50%", "25%"}, "of a whole, shares"


def test_a_curve_runs_along_its_place_and_a_click_gives_the_row() -> None:
    rows = [
        Row({"model": "b", "per_cent": 0}, 0.2, 0.1, 0.4, 9),
        Row({"model": "a", "per_cent": 50}, 0.5, 0.3, 0.6, 8),
        Row({"model": "a", "per_cent": 0}, 0.3, None, None, 7),
        Row({"model": "b", "per_cent": 50}, None, n=0),
    ]
    words = {"a": "Model A", "per_cent": "Dialogue done, %"}
    figure = chart_of(rows, kind="curve", series="model", place="per_cent", axis="Recall", names=words)
    lines = {trace.name: trace for trace in figure.data if trace.mode == "lines+markers"}
    assert (list(lines["Model A"].x), list(lines["Model A"].y)) == ([0, 50], [0.3, 0.5])
    assert [rows[int(data[1])].n for data in lines["Model A"].customdata] == [7, 8]
    assert (list(lines["b"].x), list(lines["b"].y)) == ([0], [0.2]), "no point without an estimate"
    assert lines["Model A"].customdata[1][0] == "Model A<br>50: 0.500 (0.300 – 0.600)<br>8 cases"
    assert (figure.layout.xaxis.title.text, figure.layout.yaxis.title.text) == ("Dialogue done, %", "Recall")


def test_a_scatter_has_a_symbol_for_each_place_and_a_line_for_each_row_without_an_estimate() -> None:
    label = {"model": "a", "cases": "ours"}
    rows = [
        Row(label, 0.6, 0.5, 0.7, 10, more={"recall": 0.4, "recall_low": 0.3, "recall_high": 0.5}),
        Row({**label, "cases": "theirs"}, 0.7, more={"recall": 0.2}, source="table 1"),
        Row({**label, "model": "b"}, 0.9, more={"recall": None}),
        Row({"model": "All: r = 1", "cases": ""}, None, more={"recall": None, "slope": 0.5, "intercept": 0.1}),
    ]
    figure = chart_of(
        rows, kind="scatter", series="model", place="cases", across="recall", names={"recall": "Patient recall"}
    )
    assert figure.layout.xaxis.title.text == "Patient recall"
    drawn = {(trace.name, trace.mode): (list(trace.x), list(trace.y)) for trace in figure.data if trace.x != (None,)}
    assert drawn == {
        ("No difference", "lines"): ([0, 1], [0, 1]),
        ("All: r = 1", "lines"): ([0, 1], pytest.approx([0.1, 0.6])),
        ("a", "markers"): ([0.4], [0.6]),
        ("a (published)", "markers"): ([0.2], [0.7]),
        ("b", "lines"): ([0, 1], [0.9, 0.9]),
    }
    (point,) = (trace for trace in figure.data if trace.name == "a")
    assert point.customdata[0][1] == "0"


def test_a_heat_map_has_a_cell_for_each_place_and_series() -> None:
    rows = [
        Row({"model": "a", "topic": "cough"}, 0.25, 0.1, 0.5, 8),
        Row({"model": "b", "topic": "cough"}, None, n=0),
        Row({"model": "b", "topic": "fever"}, 1.0, n=4, unit="conversations"),
        Row({"model": "a", "topic": "fever"}, 0.0, 0.0, 0.3, 4),
        Row({"model": "a", "topic": "rash"}, 0.5),
    ]
    figure = chart_of(rows, kind="heat", series="model", place="topic", names={**NAMES, "cough": "Cough"})
    (drawn,) = figure.data
    assert (figure.layout.xaxis.ticktext, figure.layout.yaxis.ticktext) == (
        ("Model A", "Model B"),
        ("Cough", "fever", "rash"),
    )
    table = (
        (0, 0, 0.25, "0.25", "Model A<br>Cough<br>0.250 (0.10 – 0.50)<br>8 cases"),
        (0, 1, None, "–", ""),  # a row without an estimate
        (1, 0, 0.0, "0.00", "Model A<br>fever<br>0.000 (0.00 – 0.30)<br>4 cases"),
        (1, 1, 1.0, "1.00", "Model B<br>fever<br>1.000<br>4 conversations"),
        (2, 0, 0.5, "0.50", "Model A<br>rash<br>0.500"),
        (2, 1, None, "–", ""),  # no row
    )
    texts = {(note.y, note.x): note.text for note in figure.layout.annotations}
    cells = [(y, x, drawn.z[y][x], texts[y, x], drawn.customdata[y][x]) for y, x, *_ in table]
    assert [cell for cell, expected in zip(cells, table, strict=True) if cell != expected] == []
    assert len(texts) == len(table)
    assert (drawn.zmin, drawn.zmax) == (0, 1), "the same colours in every heat map"
    many = [Row({"model": f"m{n}", "topic": "cough"}, 0.5) for n in range(MANY + 1)]
    assert chart_of(many, kind="heat", series="model", place="topic").layout.xaxis.tickangle == -90


@pytest.mark.parametrize("dark", [False, True])
def test_text_on_the_heat_map_reads(dark: bool) -> None:
    """The ends of the scale lie next to the page's ground and far from it, so the text changes its colour once."""
    inks = [ink_on(share / 20, dark=dark) for share in range(21)]
    assert inks[0] != inks[-1]
    assert sum(a != b for a, b in pairwise(inks)) == 1


def test_a_difference_shows_its_p_when_pointed_at() -> None:
    compared = replace(compare_cases({1: 1.0, 2: 1.0}, {1: 0.0, 2: 0.0}), adjusted_p=1.0)
    row = Row({"model": "a"}, -1.0, -1.0, 0.2, 2, columns=Columns("difference"), comparison=compared)
    (dots_drawn,) = chart_of([row], kind="dots").data
    # of the four signs of two equal changes, two are as extreme
    assert dots_drawn.customdata[0][0].endswith("2 cases, p 0.5000, adjusted 1.0000")


def test_changes_of_several_models_in_one_place_are_in_the_models_colours() -> None:
    compared = replace(compare_cases({1: 1.0, 2: 1.0}, {1: 0.0, 2: 0.0}), adjusted_p=0.01)
    rows = [
        Row({"model": model, "specialty": name}, -1.0, n=2, columns=Columns("difference"), comparison=compared)
        for model in "ab"
        for name in ("Neurology", "Cardiology")
    ]
    drawn = chart_of(rows, kind="dots", series="model", place="specialty", names=NAMES, colours=COLOURS)
    assert {trace.name: trace.marker.color for trace in drawn.data} == {NAMES[name]: COLOURS[name] for name in "ab"}


def test_a_bar_of_zero_has_an_outline_and_others_have_none() -> None:
    (bar,) = bars([Mark("Vignette", 0.0, 0.0, 0.4, "a"), Mark("Multi-turn", 0.6, 0.5, 0.8, "a")], NAMES, COLOURS).data
    assert bar.marker.line.color == COLOURS["a"]
    assert [width > 0 for width in bar.marker.line.width] == [True, False]


def test_a_bar_has_its_interval_and_number_of_cases() -> None:
    marks = [
        Mark("Vignette", 0.6, 0.5, 0.8, "a", words="12 cases", data=("a", "vignette")),
        Mark("Multi-turn", 0.4, series="a"),
        Mark("Vignette", 0.7, series="b", published=True),
        Mark("Multi-turn", None, series="b"),
    ]
    measured, bare, printed = bars(marks, NAMES, COLOURS).data
    assert (list(measured.x), list(measured.y)) == (["Vignette"], [0.6])
    assert list(measured.error_y.array) == [pytest.approx(0.2)]
    assert list(measured.error_y.arrayminus) == [pytest.approx(0.1)]
    assert (list(bare.x), list(bare.y), bare.error_y.array) == (["Multi-turn"], [0.4], None), "no whisker of 0"
    assert (measured.showlegend, bare.showlegend, bare.offsetgroup) == (True, False, measured.offsetgroup)
    assert list(measured.customdata[0]) == ["Model A<br>Vignette<br>0.600 (0.500 – 0.800)<br>12 cases", "a", "vignette"]
    assert list(bare.customdata[0]) == ["Model A<br>Multi-turn<br>0.400"]
    assert printed.name == "Model B (published)"
    assert list(printed.x) == ["Vignette"], "no bar without an estimate"
    assert printed.error_y.array is None
    assert printed.marker.pattern.shape == "/"


def test_a_name_is_never_a_link_and_a_click_still_gives_it() -> None:
    evil = 'gpt <A href="http://elsewhere.example/x">here</A> < abc'
    drawn = bars([Mark(evil, 0.5, series="a", data=(evil,))], {"a": evil}, COLOURS)
    safe = without_links(drawn)
    assert safe.data[0].name == 'gpt &lt;A href="http://elsewhere.example/x">here</A> < abc'
    assert list(safe.data[0].x) == [safe.data[0].name]
    assert list(safe.data[0].customdata[0])[-1] == evil
    harmless = bars([Mark("Vignette", 0.5, series="a")], NAMES, COLOURS)
    assert without_links(harmless) is harmless
    assert b"&lt;A href=" in picture_of(drawn, ".html")


def test_stars_are_on_the_whisker_and_not_in_the_legend() -> None:
    _, stars = bars([Mark("x", 0.5, 0.4, 0.7, "a", star="**")], NAMES, COLOURS).data
    assert (list(stars.text), list(stars.base), stars.showlegend) == (["**"], [0.7], False)


def test_panels_of_bars_share_one_legend_and_leave_out_the_empty() -> None:
    marks = [Mark("x", 0.5, series=series, panel=panel) for series in "ab" for panel in ("one", "two")]
    figure = bars(marks, NAMES, COLOURS, panels={"one": "First", "none": "Nothing", "two": "Second"})
    assert [title.text for title in figure.layout.annotations] == ["First", "Second"]
    assert [(bar.name, bar.showlegend) for bar in figure.data] == [
        ("Model A", True),
        ("Model B", True),
        ("Model A", False),
        ("Model B", False),
    ]


def test_a_legend_is_above_many_panels_and_below_a_printed_title() -> None:
    marks = [Mark("x", 0.5, series="a", panel=str(n)) for n in range(6)]
    tall = bars(marks, NAMES, COLOURS, panels={str(n): f"Panel {n}" for n in range(6)})
    flat = bars(marks[:3], NAMES, COLOURS, panels={str(n): f"Panel {n}" for n in range(3)})
    assert (tall.layout.legend.yref, flat.layout.legend.yref) == ("paper", "container")
    assert tall.layout.legend.y > 1
    printed = with_caption(tall, "Title", "Caption"), with_caption(flat, "Title", "Caption")
    assert printed[0].layout.margin.t > printed[1].layout.margin.t


def test_a_picture_has_two_lines_of_its_caption_and_whole_notes() -> None:
    """A line has 110 characters at 180 mm, and 54 in one column of 88 mm (110 · 88 / 180 = 53.8)."""
    short, words = "n = 12 cases.", "word " * 100

    def lines(caption: str, share: float = 1.0, notes: tuple[str, ...] = ()) -> list[str]:
        figure = with_caption(bars([Mark("x", 0.5, series="a")], NAMES, COLOURS), "Title", caption, notes, share)
        return str(figure.layout.title.subtitle.text).split("<br>")

    assert lines(short) == [short]
    assert lines(words) == ["word " * 21 + "word", "word " * 20 + "word …"]
    assert [len(line) for line in lines(words, 88 / 180)] == [54, 51]
    assert lines("word " * 44) == ["word " * 21 + "word"] * 2  # 44 words fill two lines, so nothing is left out
    one, six, more = "note " * 22, "note " * 132, "more note"  # lines at 180 mm
    assert lines(short, notes=(one, one)) == [short, one.strip(), one.strip()]
    assert lines(short, notes=(six, one))[1:-1] == [one.strip()] * 6
    for notes, left in (((six, one), "1"), ((one, six, one), "2")):
        assert lines(short, notes=notes)[-1].startswith(f"{left} {more}")


def test_dots_of_several_models_share_a_row_without_covering_each_other() -> None:
    marks = [Mark(place, 0.5, 0.4, 0.6, series) for place in ("x", "y") for series in "ab"]
    first, second = dots(marks, NAMES, COLOURS).data
    assert [round(y) for y in first.y] == [round(y) for y in second.y] == [0, 1]
    assert set(first.y).isdisjoint(second.y)
    alone = dots(marks[::2], NAMES, COLOURS)
    assert list(alone.data[0].y) == [0, 1], "one model stands in the middle of its row"
    assert alone.layout.showlegend is False


def test_rows_without_a_mark_are_headings_and_open_dots_are_not_sure() -> None:
    marks = [Mark("k1", 0.1, series="a", colour="#111111"), Mark("k2", -0.1, series="a", colour="#222222", open=True)]
    figure = dots(marks, NAMES, COLOURS, places={"head": "<b>Ours</b>", "k1": "One", "k2": "Two"})
    assert list(figure.layout.yaxis.ticktext) == ["<b>Ours</b>", "One", "Two"]
    assert [(t.marker.color, t.marker.symbol[0], t.y[0]) for t in figure.data] == [
        ("#111111", "circle", 1),
        ("#222222", "circle-open", 2),
    ]
    assert figure.data[0].customdata[0][0].startswith("Model A<br>One")


def row(value: float | None, label: dict[str, str], *, n: int = 10, excluded: int = 0, estimate: str = "mean") -> Row:
    low, high = (None, None) if value is None else (value - 0.1, value + 0.1)
    return Row(label, value, low, high, n, {"refused": excluded}, columns=Columns(estimate=estimate))


def test_a_report_is_coloured_by_model_with_the_rest_in_places_and_panels() -> None:
    rows = [
        row(0.5, {"model": model, "format": format_, "question_type": question}, n=n, excluded=1)
        for n, model in enumerate(("m1", "m2"), start=10)
        for format_ in ("vignette", "multi_turn", "summarized")
        for question in ("mcq", "frq")
    ]
    figure = figure_of([*rows, row(None, {"model": "m3", "format": "vignette", "question_type": "mcq"})], "Accuracy")
    assert [title.text for title in figure.layout.annotations] == ["Multiple choice", "Free response"]
    assert {bar.name for bar in figure.data} == {"m1", "m2"}
    assert list(figure.layout.xaxis.categoryarray) == ["Vignette", "Multi-turn", "Summarized"]
    caption = figure.layout.title.subtitle.text
    assert caption == "n = 10 to 11 cases, 95 % intervals. Excluded: 12 refused."
    assert tuple(figure.layout.yaxis.range) == (0, 1.02)


def test_shares_and_numbers_never_share_an_axis() -> None:
    rows = [row(value, {"model": m, "measure": name}) for m in ("m1", "m2") for name, value in MEASURED.items()]
    figure = figure_of(rows, "History")
    assert [title.text for title in figure.layout.annotations] == ["recall", "doctor turns"]
    assert figure.layout.yaxis2.matches is None
    assert "m1 · the same" not in str(figure)


MEASURED = {"recall": 0.4, "doctor_turns": 12.0}


def test_many_places_become_rows_of_dots_and_a_constant_stands_in_the_caption() -> None:
    rows = [row(0.3, {"model": "m1", "format": "vignette", "group": f"Specialty {n}"}) for n in range(12)]
    figure = figure_of(rows, "Accuracy")
    assert [trace.type for trace in figure.data] == ["scatter"]
    assert len(figure.layout.yaxis.ticktext) == 12
    assert figure.layout.title.subtitle.text.startswith("m1 · Vignette, n = 10 cases")


def test_differences_are_drawn_around_zero() -> None:
    rows = [row(-0.2, {"pair": "a"}), row(0.3, {"pair": "b"})]
    axis = figure_of(rows, "Pairs").layout.yaxis
    assert axis.zeroline is True
    assert axis.range is None


def test_impossible_figures_are_refused() -> None:
    with pytest.raises(UsageError, match="no estimate"):
        figure_of([row(None, {"model": "m"})], "x")
    with pytest.raises(UsageError, match=r"different things \(mean, rate\)"):
        figure_of([row(0.1, {"model": "m"}), row(0.1, {"model": "n"}, estimate="rate")], "x")
    with pytest.raises(UsageError, match=r"figure.txt is no figure's name"):
        check_name(Path("figure.txt"))


@pytest.mark.slow
@pytest.mark.browser
def test_a_figure_is_saved_at_print_size() -> None:
    figure = bars([Mark("Ä or B", 0.5, 0.4, 0.7, "a")], NAMES, COLOURS)
    svg = picture_of(figure, ".svg").decode()
    assert re.match(r'<svg [^>]*width="180mm"', svg)
    for width_mm in (WIDTH_MM, COLUMN_MM):
        box = re.search(rb"/MediaBox \[0 0 ([\d.]+)", picture_of(figure, ".pdf", width_mm))
        assert box is not None
        assert float(box[1]) == pytest.approx(width_mm / 25.4 * 72, abs=1.5), "points"
    assert "Ä or B" in svg
    png = picture_of(figure, ".png")
    width = int.from_bytes(png[16:20], "big")
    assert width == pytest.approx(180 / 25.4 * 300, abs=2), "180 mm at 300 dots an inch"
    assert b"<html" in picture_of(figure, ".html")[:200]


def test_without_a_browser_html_is_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHROMIUM", "/no/such/browser")
    figure = bars([Mark("x", 0.5, series="a")], NAMES, COLOURS)
    for suffix in (".svg", ".pdf", ".png"):
        with pytest.raises(AnamnesisError, match=r"use \.html.* install Chrome or Chromium"):
            picture_of(figure, suffix)
    assert b"<html" in picture_of(figure, ".html")[:200]


def test_a_browser_that_draws_nothing_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> bytes:
        raise RuntimeError("The browser closed.\nmore")

    figure = bars([Mark("x", 0.5, series="a")], NAMES, COLOURS)
    monkeypatch.setenv("CHROMIUM", sys.executable)
    monkeypatch.setattr(type(figure), "to_image", fail)
    with pytest.raises(AnamnesisError, match=re.escape("(The browser closed.): take .html")):
        picture_of(figure, ".svg")


@pytest.mark.slow
@pytest.mark.browser
def test_the_camera_of_an_html_figure_saves_the_svg_for_print(browser: Browser, tmp_path: Path) -> None:
    figure = with_caption(bars([Mark("Ä or B", 0.5, 0.4, 0.7, "a")], NAMES, COLOURS), "Accuracy", "n = 12 cases.")
    path = tmp_path / "figure.html"
    path.write_bytes(picture_of(figure, ".html", name="accuracy"))
    page = browser.new_page(accept_downloads=True)
    page.goto(path.as_uri())
    page.hover(".plotly")
    with page.expect_download() as download:
        page.locator(".modebar-btn").first.click()
    svg = download.value.path().read_text(encoding="utf-8")
    assert download.value.suggested_filename == "accuracy.svg"
    assert re.search(r'<svg[^>]* width="960"', svg)
    assert all(words in svg for words in ("Ä or B", "Accuracy", "n = 12 cases."))


def test_panels_are_stacked_on_a_narrow_screen() -> None:
    """Every panel at full width with its own axis, without overlap; a figure of one panel has no such form."""
    marks = [Mark(place, 0.5, series="a", panel=panel) for place in "xy" for panel in ("one", "two", "three")]
    titles = {"one": "First", "two": "Second", "three": "Third"}
    figure = bars(marks, {"a": "A"}, {"a": "#000000"}, panels=titles)
    narrow = in_one_column(figure)
    assert narrow is not None
    places = [narrow.layout[name].domain for name in ("yaxis", "yaxis2", "yaxis3")]
    assert all(upper[0] > lower[1] for upper, lower in pairwise(places))
    assert {narrow.layout[name].domain for name in ("xaxis", "xaxis2", "xaxis3")} == {(0, 1)}
    assert all(narrow.layout[name].showticklabels for name in ("yaxis", "yaxis2", "yaxis3"))
    assert [title.text for title in narrow.layout.annotations] == list(titles.values())
    assert {(title.x, title.xanchor) for title in narrow.layout.annotations} == {(1, "right")}, "long ones are whole"
    assert figure.layout.xaxis.domain != (0, 1)
    assert in_one_column(bars(marks[:1], {"a": "A"}, {"a": "#000000"})) is None


def test_a_hanging_browser_is_tried_again_and_then_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second attempt succeeds; if both hang, a message says so."""
    figure = bars([Mark("A", 0.5, 0.4, 0.7, "a")], NAMES, COLOURS)
    hangs = [True, False]

    def to_image(*_: object, **__: object) -> bytes:
        if hangs.pop(0):
            threading.Event().wait(5)
        return b"drawn"

    monkeypatch.setattr(picture, "find_browser", lambda: "/browser")
    monkeypatch.setattr(picture, "_ANSWERS_WITHIN_S", 0.2)
    monkeypatch.setattr(type(figure), "to_image", to_image)
    assert picture_of(figure, ".svg") == b"drawn"
    hangs[:] = [True, True]
    with pytest.raises(AnamnesisError, match="did not answer"):
        picture_of(figure, ".svg")
