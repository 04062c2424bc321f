"""The figure of a report: any metric's rows as bars or dots, with a caption that says how many cases they rest on."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import plotly.graph_objects as go

from core import words
from core.case import SPECIALTIES
from core.errors import UsageError
from core.events import FORMATS, QUESTION_TYPES
from core.figures.curves import Point, curves
from core.figures.heat import HeatCell, heat
from core.figures.legend import with_legend_room
from core.figures.marks import Mark, bars, dots
from core.figures.scatter import Spot, StraightLine, scatter
from core.figures.shares import Segment, stacked
from core.figures.style import FALL, GREY, MARGIN, PALETTE, RISE, Axis, text_on
from core.measures.base import DIFFERENCES, Note, Row, counts_in_words
from core.measures.comparison import TESTS, verdict
from core.stats.corrections import format_p, stars

_FEW = 6
"""Most places for bars; more are drawn as dots."""
_MOST_BARS = 24
"""Most bars in a panel; more are drawn as dots."""
_MOST_LINES, _MOST_NOTE_LINES = 2, 5
"""Lines of a caption in a picture, and of the notes below it; the first note has as many as it needs."""
_LINE = 110
"""Characters of a line of the caption."""
_TITLE = 96
"""Characters of a line of the title."""
_WIDTH = 940
"""Pixels across which the legend of a figure of two columns is set."""
_WORDS: dict[str, Mapping[Any, str]] = {"format": words.FORMAT, "question_type": words.QUESTION_TYPE}
_SHORT, _PLACE, _LONG = 24, 32, 48
"""Most characters of a place below a bar, of a line of a place next to one, and of a line of a name."""
_SLACK = 0.001
_WHO = ("model", "doctor", "grader", "judge", "patient", "seat")
"""Parts of labels that say whose figure a row is."""


def figure_of(rows: Sequence[Row], title: str, *, notes: Sequence[Note] = (), dark: bool = False) -> go.Figure:
    """Return the chart of rows with its title, its caption and the notes.

    Raises ``UsageError`` if there is no estimate, and if the rows measure different things.
    """
    return with_caption(chart_of(rows, dark=dark), title, caption_of(rows), [note.text for note in notes])


def whole_caption(rows: Sequence[Row], notes: Sequence[Note]) -> str:
    """Return what a file next to a picture says: the picture has the first two lines, and not all notes."""
    return " ".join([caption_of(rows), *(note.text for note in notes)])


def chart_of(
    rows: Sequence[Row],
    *,
    kind: Literal["auto", "bars", "dots", "curve", "shares", "scatter", "heat"] = "auto",
    series: str = "",
    place: str = "",
    panel: str = "",
    across: str = "",
    axis: str = "",
    names: Mapping[str, str] | None = None,
    colours: Mapping[str, str] | None = None,
    dark: bool = False,
) -> go.Figure:
    """Return rows as a chart: a colour for each model (else for the first part of the labels that varies).

    Of the other varying parts of labels, the one with most values makes the places, the rest the panels. Bars have
    stars if rows have a comparison with an adjusted p; rows with a source are drawn as published. If some places have
    shares and others numbers, each place has its own panel and axis. A click on a mark gives the number of its row.

    Args:
        rows: The rows of one metric.
        kind: ``curve`` has ``place``, a number, along its axis; ``shares`` has a bar for each place, made of the shares
            of the series, in the order of ``colours``; ``scatter`` has the column ``across`` along its axis, a symbol
            for each ``place``, and a line for each row with a ``slope`` and no estimate; ``heat`` has a line of
            cells, shares, for each ``place``, a column for each of the series; ``auto`` chooses bars or dots.
        series: Part of the labels that makes the colours.
        place: Part of the labels that makes the places.
        panel: Part of the labels that makes the panels.
        across: Column of the rows along the horizontal axis of a ``scatter``, with its bounds as _low and _high.
        axis: Title of the axis.
        names: Value of a label → its name in the figure.
        colours: Value of a label → its colour.
        dark: For a dark background.

    Raises ``UsageError`` if there is no estimate, and if the rows measure different things.
    """
    layout = _layout(rows, series, place, panel)
    scale = _scale_of(layout, axis)
    if scale is None:  # each place has its own panel and axis
        layout = layout._replace(place=layout.series, between=[layout.place])
    word = _Words(names or {})
    series_names = {str(value): _broken(word(layout.series, value)) for value in _values(layout.rows, layout.series)}
    palette = {value: PALETTE[number % len(PALETTE)] for number, value in enumerate(series_names)}
    inks = {value: (colours or {}).get(value, ink) for value, ink in palette.items()}
    chart = _Chart(layout, scale, word, series_names, inks, dark)
    if kind == "heat":
        return _heat(chart)
    if kind == "scatter":
        return _scatter(rows, chart, place, across)
    if kind == "shares":
        order = [value for value in colours or {} if value in inks]
        return _shares(rows, chart, list(dict.fromkeys([*order, *inks])), axis)
    return _curves(rows, chart) if kind == "curve" else _bars_or_dots(rows, chart, kind)


class _Layout(NamedTuple):
    """The rows to draw, the number of values of each part of their labels, and the parts for colour, place, panels."""

    rows: list[Row]
    sizes: dict[str, int]
    series: str
    place: str
    between: list[str]


class _Chart(NamedTuple):
    """What all kinds of charts are drawn from; without a ``scale``, each panel has its own."""

    layout: _Layout
    scale: Axis | None
    word: _Words
    names: dict[str, str]
    inks: dict[str, str]
    dark: bool


def _curves(rows: Sequence[Row], chart: _Chart) -> go.Figure:
    series, place = chart.layout.series, chart.layout.place
    points = [
        Point(
            str(row.label.get(series, "")),
            float(row.label[place]),
            row.estimate,
            row.low,
            row.high,
            _basis(row),
            (str(number),),
        )
        for number, row in enumerate(rows)
        if row.estimate is not None
    ]
    along = Axis(chart.word("", place).replace("_", " ").capitalize(), None, "~g", None, "g")
    return curves(points, chart.names, chart.inks, along, chart.scale or Axis(), dark=chart.dark)


def _heat(chart: _Chart) -> go.Figure:
    rows, _, series, place, _ = chart.layout
    by_cell = {(row.label.get(place), str(row.label.get(series))): row for row in rows}
    lines = {value: chart.word(place, value) for value in _values(rows, place)}

    def cell(line: Any, column: str) -> HeatCell:
        row = by_cell.get((line, column))
        if row is None or row.estimate is None:
            return HeatCell(None, "–")
        interval = f" ({row.low:.2f} – {row.high:.2f})" if row.low is not None else ""
        words = [chart.names[column], lines[line], f"{row.estimate:.3f}{interval}", _basis(row)]
        return HeatCell(row.estimate, f"{row.estimate:.2f}", "<br>".join(filter(None, words)))

    cells = [[cell(line, column) for column in chart.names] for line in lines]
    columns = [_broken(name.replace("<br>", " "), _SHORT) for name in chart.names.values()]
    return heat(cells, columns, list(lines.values()), dark=chart.dark)


def _scatter(rows: Sequence[Row], chart: _Chart, place: str, across: str) -> go.Figure:
    series, word = chart.layout.series, chart.word
    kinds = {str(value): word(place, value) for value in _values(chart.layout.rows, place)}
    spots = [
        Spot(
            str(row.label[series]),
            row.estimate,
            row.more[across],
            (row.more.get(f"{across}_low"), row.more.get(f"{across}_high")),
            (row.low, row.high),
            str(row.label.get(place, "")),
            words=", ".join(filter(None, [kinds.get(str(row.label.get(place, ""))), _basis(row)])),
            published=bool(row.source),
            data=(str(number),),
        )
        for number, row in enumerate(rows)
        if row.estimate is not None
    ]
    lines = [StraightLine("No difference", 1.0, dotted=True)] * any(row.estimate is None for row in rows)
    for number, row in enumerate(row for row in rows if row.estimate is None and row.more["slope"] is not None):
        name, ink = word("", row.label[series]), PALETTE[-1 - number % len(PALETTE)] if number else ""
        lines.append(StraightLine(name, row.more["slope"], row.more["intercept"], ink))
    along = Axis(word("", across))
    up = chart.scale or Axis()
    return scatter(spots, chart.names, chart.inks, along, up, kinds=kinds, lines=lines, dark=chart.dark)


def _shares(rows: Sequence[Row], chart: _Chart, values: Sequence[str], title: str) -> go.Figure:
    series, place = chart.layout.series, chart.layout.place
    numbers = {(row.label[place], str(row.label[series])): number for number, row in enumerate(rows)}
    sizes = {row.label[place]: row.n or 0 for row in chart.layout.rows}
    unit = chart.layout.rows[0].unit

    def segment(value: str) -> Segment:
        found = [numbers.get((of, value)) for of in sizes]
        shares = [0.0 if number is None else rows[number].estimate or 0.0 for number in found]
        counts = [round(share * size) for share, size in zip(shares, sizes.values(), strict=True)]
        ink = chart.inks[value]
        bounds = [(None, None) if number is None else (rows[number].low, rows[number].high) for number in found]
        hover = [f"95 % interval {low:.1%} – {high:.1%}" if low is not None else "" for low, high in bounds]
        data = [(str(number),) for number in found]
        return Segment(chart.names[value], ink, text_on(ink), shares, counts, data, hover)

    segments = [segment(value) for value in values]
    whole = all(math.isclose(sum(part.shares[bar] for part in segments), 1) for bar in range(len(sizes)))
    size_words = "n = {:,}" if whole else f"{{:,}} {unit}"
    labels = [f"{_broken(chart.word(place, of), _PLACE)}<br>{size_words.format(size)}" for of, size in sizes.items()]
    return stacked(labels, segments, title, unit if whole else "", whole=whole, percent=whole, dark=chart.dark)


def _bars_or_dots(rows: Sequence[Row], chart: _Chart, kind: Literal["auto", "bars", "dots"]) -> go.Figure:
    drawn, sizes, series, place, between = chart.layout
    word, names, dark, free = chart.word, chart.names, chart.dark, chart.scale is None
    labels = [word(place, value) for value in _values(drawn, place)]
    as_bars = free or kind == "bars" or (kind == "auto" and _are_few(labels, len(names)))
    if not as_bars and len(between) == 1 and sizes[between[0]] > sizes[place]:
        place, between = between[0], [place]
        labels = [word(place, value) for value in _values(drawn, place)]
    marks = [
        _mark(row, number, place, series, between, word) for number, row in enumerate(rows) if row.estimate is not None
    ]
    if len(names) > 1 and place != series:  # colours name the series, so that only full and open dots tell changes
        marks = [replace(mark, colour="") for mark in marks]
    panel_names = [word(name, value) for name in between[:1] for value in _values(drawn, name)]
    panels = dict.fromkeys(panel_names) if len(between) == 1 else dict.fromkeys(mark.panel for mark in marks)
    titles = {panel: panel for panel in panels} if between else None
    scale = chart.scale or Axis()
    if as_bars:
        if place == series:  # the legend has their names
            marks, labels = [replace(mark, place="") for mark in marks], [""]
        figure = bars(marks, names, chart.inks, scale, places=labels, panels=titles, free=free, dark=dark)
    else:
        places = {label: _broken(label) for label in labels}
        figure = dots(marks, names, chart.inks, scale, places=places, panels=titles, dark=dark)
    legend = len(names) > 1 and (labels == [""] or place != series)
    legend = legend or any(mark.published for mark in marks)
    return figure.update_layout(showlegend=legend, template="plotly_dark" if dark else "plotly_white")


def fits_bars(rows: Sequence[Row], *, series: str = "", place: str = "", panel: str = "") -> bool:
    """Return whether ``chart_of`` draws these rows as bars if it chooses. Raises the same errors."""
    layout = _layout(rows, series, place, panel)
    labels = [str(value) for value in _values(layout.rows, layout.place)]
    return _are_few(labels, layout.sizes.get(layout.series, 1))


def _are_few(labels: Sequence[str], series: int) -> bool:
    return len(labels) <= _FEW and max(map(len, labels)) <= _SHORT and series * len(labels) <= _MOST_BARS


def _scale_of(layout: _Layout, title: str) -> Axis | None:
    """Return the axis of the estimates; ``None`` if some places have shares and others numbers."""
    drawn, _, series, place, between = layout
    places = _values(drawn, place) if place in drawn[0].label else [None]
    units = {_unit_of([row for row in drawn if row.label.get(place) == value]) for value in places}
    if {"a share", "number"} <= units and not between and series != place:
        return None
    unit = min(units, key=("signed", "number", "a share").index)
    return Axis(
        title or drawn[0].columns.estimate.replace("_", " ").capitalize(),
        (0, 1.02) if unit == "a share" else None,
        "+.2f" if unit == "signed" else "~g",
        None,
        {"signed": "+.3f", "a share": ".3f", "number": ".4g"}[unit],
        zero=unit == "signed",
    )


def panels_of(rows: Sequence[Row], *, series: str = "", place: str = "", panel: str = "") -> int:
    """Return the number of panels of ``chart_of`` for these rows. Raises the same errors."""
    layout = _layout(rows, series, place, panel)
    return len({tuple(row.label.get(name) for name in layout.between) for row in layout.rows})


def _layout(rows: Sequence[Row], series: str, place: str, panel: str) -> _Layout:
    drawn = [row for row in rows if row.estimate is not None]
    if not drawn:
        raise UsageError("There is no estimate to draw: use the table instead.")
    kinds = sorted({row.columns.estimate for row in drawn})
    if len(kinds) > 1:
        raise UsageError(f"These rows measure different things ({', '.join(kinds)}): choose one to draw.")
    count = {name: len({row.label.get(name) for row in drawn}) for name in drawn[0].label}
    varying = [name for name, n in count.items() if n > 1 and not isinstance(drawn[0].label[name], float)]
    usual = next((name for name in varying if name in _WHO), varying[0] if len(varying) > 1 else "")
    series = series if series in count else usual
    # a part that the series determines (the persona of a condition) adds nothing
    others = [
        name
        for name in varying
        if name != series
        and len({(row.label.get(series), row.label.get(name)) for row in drawn}) > count.get(series, 1)
    ]
    free_parts = [name for name in others if name != panel] or others
    if place not in others and (place not in count or place == series):
        place = max(free_parts, key=count.__getitem__) if free_parts else series or next(iter(count))
    between = [name for name in others if name != place]
    if between:  # a part that the panel determines (the rule of a question type) adds nothing
        panel = panel if panel in between else max(between, key=count.__getitem__)
        pairs = {name: len({(row.label.get(panel), row.label.get(name)) for row in drawn}) for name in between}
        between = [name for name in between if name == panel or pairs[name] > count[panel]]
    return _Layout(drawn, count, series, place, between)


def caption_of(rows: Sequence[Row]) -> str:
    """Return the caption: what all rows share, the number of cases, the intervals, and what was excluded."""
    drawn = [row for row in rows if row.estimate is not None]
    if not drawn:
        return ""
    word, label = _Words({}), drawn[0].label
    same = [word(name, value) for name, value in label.items() if all(row.label.get(name) == value for row in drawn)]
    counts = [row.n for row in drawn if row.n is not None]
    n = f"n = {min(counts):,}" + (f" to {max(counts):,}" if min(counts) < max(counts) else "") if counts else ""
    interval = "95 % intervals" if any(row.low is not None for row in drawn) else "without intervals"
    excluded: dict[str, int] = {}
    for row in rows:
        for reason, number in row.excluded.items():
            excluded[reason] = excluded.get(reason, 0) + number
    reasons = (f"{n:,} {_reason(name)}" for name, n in excluded.items() if n)
    left_out = f"Excluded: {', '.join(reasons)}" if any(excluded.values()) else ""
    common = " · ".join(filter(None, same))
    first = ", ".join(filter(None, [common, f"{n} {drawn[0].unit}" if n else "", interval]))
    compared = [row.comparison for row in drawn if row.comparison and row.columns.estimate in DIFFERENCES]
    tests = dict.fromkeys(f"p by the {TESTS[c.test]}, adjusted by {c.family}" for c in compared if c.test and c.family)
    return ". ".join(filter(None, [first, *tests, left_out])) + "."


def _reason(name: str) -> str:
    """Return the verdict behind an exclusion in words."""
    verdicts: Mapping[str, str] = words.VERDICT  # type: ignore[assignment]
    return verdicts.get(name, name.replace("_", " ")).removesuffix(", excluded").lower()


def with_caption(
    figure: go.Figure, title: str, caption: str, notes: Sequence[str] = (), share: float = 1.0
) -> go.Figure:
    """Add a title, at most two lines of a caption, and ``notes`` above a figure that is used outside a page.

    No note is cut: the notes that do not fit are counted.

    ``share`` (0 to 1) is the width of the figure relative to two columns; its lines are shorter accordingly.
    """
    height = figure.layout.height or 450
    legend = (with_legend_room(figure, _WIDTH * share).layout.height or height) - height
    width = round(_LINE * share)
    lines = textwrap.wrap(caption, width, break_on_hyphens=False, max_lines=_MOST_LINES, placeholder=" …")
    note_lines: list[str] = []
    for number, note in enumerate(notes):
        of_note = textwrap.wrap(note, width, break_on_hyphens=False)
        if note_lines and len(note_lines) + len(of_note) > _MOST_NOTE_LINES:
            left = len(notes) - number
            note_lines.append(f"{left} more note{'s stand' if left > 1 else ' stands'} in the table.")
            break
        note_lines += of_note
    lines += note_lines
    title_lines = textwrap.wrap(title, round(_TITLE * share))
    above = 24 + legend if figure.layout.legend.yref == "paper" else 0
    top = 40 + 20 * len(title_lines) + 16 * len(lines) + (24 if figure.layout.annotations else 0) + above
    figure.update_layout(
        title={
            "text": "<br>".join(title_lines),
            "x": 0,
            "xref": "container",
            "xanchor": "left",
            "yref": "container",
            "y": 1,
            "yanchor": "top",
            "pad": {"l": 12, "t": 12},
            "font": {"size": 16},
            "subtitle": {"text": "<br>".join(lines), "font": {"size": 12}},
        },
        height=(figure.layout.height or 400) + top,
        margin={**MARGIN, "t": top, "b": 40 if figure.layout.showlegend else 8},
    )
    return figure


class _Words:
    """The names of label values: those of the page, else those of reports."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def __call__(self, name: str, value: Any) -> str:
        if str(value) in self._names:
            return self._names[str(value)]
        text = _WORDS.get(name, {}).get(value) or ("" if value is None else str(value))
        return text if name in _WHO else text.replace("_", " ")


def _mark(row: Row, number: int, place: str, series: str, between: Sequence[str], word: _Words) -> Mark:
    adjusted = row.comparison.adjusted_p if row.comparison is not None else None
    change = _change(row)
    return Mark(
        word(place, row.label.get(place)),
        row.estimate,
        row.low,
        row.high,
        str(row.label.get(series, "")),
        " · ".join(word(name, row.label.get(name)) for name in between),
        f"published, {row.source}" if row.source else _basis(row),
        published=bool(row.source),
        open=change == GREY,
        star="" if adjusted is None else stars(adjusted),
        colour=change,
        data=(str(number),),
    )


def _change(row: Row) -> str:
    """Return the colour of a difference: that of a significant rise or fall, else grey."""
    if row.columns.estimate not in DIFFERENCES or row.comparison is None:
        return ""
    word = verdict(row.comparison)
    return {"rose": RISE, "fell": FALL}.get(word, GREY)


def _basis(row: Row) -> str:
    size = f"{row.n:,} {row.unit}" if row.n is not None else ""
    left_out = counts_in_words(row.excluded)
    tested = row.comparison if row.columns.estimate in DIFFERENCES else None
    p = f"p {format_p(tested.p)}" if tested else ""
    if tested and tested.adjusted_p is not None:
        p += f", adjusted {format_p(tested.adjusted_p)}"
    return ", ".join(filter(None, [size, f"excluded: {left_out}" if left_out else "", p]))


def _values(rows: Sequence[Row], name: str) -> list[Any]:
    """Return the values of a part of labels: specialties, formats and question types in their usual order."""
    values = list(dict.fromkeys(row.label.get(name, "") for row in rows))
    if any(value in SPECIALTIES for value in values):
        return [*(s for s in SPECIALTIES if s in values), *(value for value in values if value not in SPECIALTIES)]
    usual = FORMATS if name == "format" else QUESTION_TYPES if name == "question_type" else ()
    return [*(value for value in usual if value in values), *(value for value in values if value not in usual)]


def _unit_of(rows: Sequence[Row]) -> Literal["signed", "number", "a share"]:
    if rows[0].columns.estimate == "difference":
        return "signed"
    bounds = [bound for row in rows for bound in (row.estimate, row.low, row.high) if bound is not None]
    if min(bounds) < -_SLACK:
        return "signed"
    return "number" if max(bounds) > 1 + _SLACK else "a share"


def _broken(name: str, width: int = _LONG) -> str:
    return "<br>".join(textwrap.wrap(name, width)) or name
