"""The figure of a report: any metric's rows as bars or dots, with what they rest on beneath."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import plotly.graph_objects as go

from core import words
from core.case import SPECIALTIES
from core.errors import UsageError
from core.events import FORMATS, QUESTION_TYPES
from core.figures.curves import Point, curves
from core.figures.marks import Mark, bars, dots
from core.figures.style import FALL, GREY, MARGIN, PALETTE, RISE, Axis
from core.measures.base import DIFFERENCES, Note, Row, counts_in_words
from core.measures.comparison import verdict
from core.stats.corrections import stars

_FEW = 6
"""Places beyond which dots replace bars."""
_MOST_BARS = 24
"""Bars of a panel beyond which dots replace them."""
_LINE = 110
"""Characters of a line of the caption."""
_TITLE = 96
"""Characters of a line of the title."""
_WORDS: dict[str, Mapping[Any, str]] = {"format": words.FORMAT, "question_type": words.QUESTION_TYPE}
_SHORT, _LONG = 24, 48
"""Characters of a place below a bar, and of a name from which on it is broken."""
_SLACK = 0.001
_WHO = ("model", "doctor", "grader", "judge", "patient", "seat")
"""Parts of labels that say of whom a row is."""


def figure_of(rows: Sequence[Row], title: str, *, notes: Sequence[Note] = (), dark: bool = False) -> go.Figure:
    """Return the chart of rows with its title, and with the caption of ``caption_of`` and the ``notes``.

    Raises ``UsageError`` if there is no estimate, and if the rows measure different things.
    """
    caption = " ".join([caption_of(rows), *(note.text for note in notes)])
    return with_caption(chart_of(rows, dark=dark), title, caption)


def chart_of(
    rows: Sequence[Row],
    *,
    kind: Literal["auto", "bars", "dots", "curve"] = "auto",
    series: str = "",
    place: str = "",
    panel: str = "",
    axis: str = "",
    names: Mapping[str, str] | None = None,
    colours: Mapping[str, str] | None = None,
    dark: bool = False,
) -> go.Figure:
    """Return rows as a chart: a colour for each model (else for the first part of the labels that varies).

    Of what else varies the part with most values makes the places, the others the panels; ``series``, ``place`` and
    ``panel`` name these parts instead; dots have as places what has more values. A ``curve`` has its
    ``place``, a number, along the axis. If some places hold shares and others numbers, each has a panel with an axis of
    its own. ``axis`` is its title; ``names`` are values of labels in words, ``colours`` those of values. Bars carry
    stars where rows have a comparison with an adjusted p; what has a source is drawn as published. A click on a mark
    gives the number of its row.

    Raises ``UsageError`` if there is no estimate, and if the rows measure different things.
    """
    known, count, series, place, between = _layout(rows, series, place, panel)
    values = _values(known, place)
    unit_of = {value: _unit_of([row for row in known if row.label.get(place) == value]) for value in values}
    free = {"a share", "number"} <= set(unit_of.values()) and not between and series != place
    if free:
        place, between = series, [place]
    unit = min(unit_of.values(), key=("signed", "number", "a share").index)
    scale = Axis(
        axis or known[0].columns.estimate.replace("_", " ").capitalize(),
        (0, 1.02) if unit == "a share" else None,
        "+.2f" if unit == "signed" else "~g",
        None,
        {"signed": "+.3f", "a share": ".3f", "number": ".4g"}[unit],
        zero=unit == "signed",
    )
    if free:
        scale = Axis()
    word = _Words(names or {})
    series_names = {str(value): _broken(word(series, value)) for value in _values(known, series)}
    palette = {value: PALETTE[number % len(PALETTE)] for number, value in enumerate(series_names)}
    inks = {value: (colours or {}).get(value, palette[value]) for value in series_names}
    if kind == "curve":
        points = [
            Point(
                str(row.label.get(series, "")),
                float(row.label[place]),
                row.estimate,
                row.low,
                row.high,
                _rests(row),
                (str(number),),
            )
            for number, row in enumerate(rows)
            if row.estimate is not None
        ]
        along = Axis(word("", place).replace("_", " ").capitalize(), None, "~g", None, "g")
        return curves(points, series_names, inks, along, scale, dark=dark)
    shown = [word(place, value) for value in _values(known, place)]
    short = len(shown) <= _FEW and max(map(len, shown)) <= _SHORT and len(series_names) * len(shown) <= _MOST_BARS
    as_bars = free or kind == "bars" or (kind == "auto" and short)
    if not as_bars and len(between) == 1 and count[between[0]] > count[place]:
        place, between = between[0], [place]
    marks = [
        _mark(row, number, place, series, between, word) for number, row in enumerate(rows) if row.estimate is not None
    ]
    heads = [word(name, value) for name in between[:1] for value in _values(known, name)]
    panels = dict.fromkeys(heads) if len(between) == 1 else dict.fromkeys(mark.panel for mark in marks)
    titled = {panel: panel for panel in panels} if between else None
    shown = [word(place, value) for value in _values(known, place)]
    if as_bars:
        if place == series:  # the legend names them
            marks, shown = [replace(mark, place="") for mark in marks], [""]
        figure = bars(marks, series_names, inks, scale, places=shown, panels=titled, free=free, dark=dark)
    else:
        places = {value: _broken(value) for value in shown}
        figure = dots(marks, series_names, inks, scale, places=places, panels=titled, dark=dark)
    named = len(series_names) > 1 and (shown == [""] or place != series)
    named = named or any(mark.published for mark in marks)
    figure.update_layout(showlegend=named, template="plotly_dark" if dark else "plotly_white")
    return figure


def panels_of(rows: Sequence[Row], *, series: str = "", place: str = "", panel: str = "") -> int:
    """Return in how many panels ``chart_of`` would draw these rows. Raises as ``chart_of`` does."""
    known, _, _, _, between = _layout(rows, series, place, panel)
    return len({tuple(row.label.get(name) for name in between) for row in known})


def _layout(
    rows: Sequence[Row], series: str, place: str, panel: str
) -> tuple[list[Row], dict[str, int], str, str, list[str]]:
    """Return the rows to draw, part of labels → values, and which parts make colours, places and panels."""
    known = [row for row in rows if row.estimate is not None]
    if not known:
        raise UsageError("There is no estimate to draw: take the table instead.")
    kinds = sorted({row.columns.estimate for row in known})
    if len(kinds) > 1:
        raise UsageError(f"These rows measure different things ({', '.join(kinds)}): choose one to draw.")
    count = {name: len({row.label.get(name) for row in known}) for name in known[0].label}
    varying = [name for name, n in count.items() if n > 1 and not isinstance(known[0].label[name], float)]
    usual = next((name for name in varying if name in _WHO), varying[0] if len(varying) > 1 else "")
    series = series if series in count else usual
    # what a series settles (the persona that its condition has) tells nothing next to it
    others = [
        name
        for name in varying
        if name != series
        and len({(row.label.get(series), row.label.get(name)) for row in known}) > count.get(series, 1)
    ]
    free_parts = [name for name in others if name != panel] or others
    if place not in others and (place not in count or place == series):
        place = max(free_parts, key=count.__getitem__) if free_parts else series or next(iter(count))
    between = [name for name in others if name != place]
    if panel in between:  # what a panel settles (the rule that its question type has) tells nothing next to it
        settled = {name: len({(row.label.get(panel), row.label.get(name)) for row in known}) for name in between}
        between = [name for name in between if name == panel or settled[name] > count[panel]]
    return known, count, series, place, between


def caption_of(rows: Sequence[Row]) -> str:
    """Return what rows rest on: how many cases, which intervals, what was excluded, and what is the same for all."""
    known = [row for row in rows if row.estimate is not None]
    varying = [name for name in known[0].label if len({row.label.get(name) for row in known}) > 1] if known else []
    return _caption(rows, known, varying) if known else ""


def with_caption(figure: go.Figure, title: str, caption: str, share: float = 1.0) -> go.Figure:
    """Put a title and a caption above a figure, for where no page stands around it.

    Where the figure is narrower than two columns, by this ``share``, its lines are shorter.
    """
    lines = textwrap.wrap(caption, round(_LINE * share), break_on_hyphens=False)
    heads = textwrap.wrap(title, round(_TITLE * share))
    above = 24 if figure.layout.legend.yref == "paper" else 0
    top = 40 + 20 * len(heads) + 16 * len(lines) + (24 if figure.layout.annotations else 0) + above
    figure.update_layout(
        title={
            "text": "<br>".join(heads),
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
    """Values of labels in words: as they are called on a page, else as reports call them."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def __call__(self, name: str, value: Any) -> str:
        if isinstance(value, str) and value in self._names:
            return self._names[value]
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
        f"published, {row.source}" if row.source else _rests(row),
        published=bool(row.source),
        open=change == GREY,
        star="" if adjusted is None else stars(adjusted),
        colour=change,
        data=(str(number),),
    )


def _change(row: Row) -> str:
    """Return the colour of a difference: that of a rise or a fall beyond chance, grey if neither is clear."""
    if row.columns.estimate not in DIFFERENCES or row.comparison is None:
        return ""
    word = verdict(row.comparison)
    return {"rose": RISE, "fell": FALL}.get(word, GREY)


def _rests(row: Row) -> str:
    """Return what a row rests on, in words."""
    rest = f"{row.n:,} {row.unit}" if row.n is not None else ""
    left_out = counts_in_words(row.excluded)
    return ", ".join(filter(None, [rest, f"excluded: {left_out}" if left_out else ""]))


def _values(rows: Sequence[Row], name: str) -> list[Any]:
    """Return the values of a part of labels: specialties as the publication lists them, others as they come."""
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


def _broken(name: str) -> str:
    return "<br>".join(textwrap.wrap(name, _LONG)) or name


def _caption(rows: Sequence[Row], known: Sequence[Row], varying: Sequence[str]) -> str:
    word = _Words({})
    same = [word(name, known[0].label[name]) for name in known[0].label if name not in varying]
    counts = [row.n for row in known if row.n is not None]
    n = f"n = {min(counts):,}" + (f" to {max(counts):,}" if min(counts) < max(counts) else "") if counts else ""
    interval = "95 % intervals" if any(row.low is not None for row in known) else "without intervals"
    out: dict[str, int] = {}
    for row in rows:
        for why, number in row.excluded.items():
            out[why] = out.get(why, 0) + number
    left_out = f"Excluded: {counts_in_words(out)}" if any(out.values()) else ""
    what = " · ".join(filter(None, same))
    first = ", ".join(filter(None, [what, f"{n} {known[0].unit}" if n else "", interval]))
    return ". ".join(filter(None, [first, left_out])) + "."
