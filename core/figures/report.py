"""The figure of a report: any metric's rows as bars or dots, with what they rest on beneath."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import plotly.graph_objects as go

from core import words
from core.errors import UsageError
from core.figures.marks import Mark, bars, dots
from core.figures.style import MARGIN, PALETTE, Axis
from core.measures.base import Note, Row, counts_in_words

_FEW = 6
"""Places beyond which dots replace bars."""
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
    kind: Literal["auto", "bars", "dots"] = "auto",
    series: str = "",
    place: str = "",
    panel: str = "",
    dark: bool = False,
) -> go.Figure:
    """Return rows as a chart: a colour for each model (else for the first part of the labels that varies).

    Of what else varies the part with most values makes the places, the others the panels; ``series``, ``place`` and
    ``panel`` name these parts instead, where they vary. If some places hold shares and others numbers, each has a panel
    with an axis of its own. Raises ``UsageError`` if there is no estimate, and if the rows measure different things.
    """
    known = [row for row in rows if row.estimate is not None]
    if not known:
        raise UsageError("There is no estimate to draw: take the table instead.")
    kinds = sorted({row.columns.estimate for row in known})
    if len(kinds) > 1:
        raise UsageError(f"These rows measure different things ({', '.join(kinds)}): choose one to draw.")
    count = {name: len({_word(row, name) for row in known}) for name in known[0].label}
    varying = [name for name, n in count.items() if n > 1]
    usual = next((name for name in varying if name in _WHO), varying[0] if len(varying) > 1 else "")
    series = series if series in varying else usual
    # what a series settles (the persona that its condition has) tells nothing beside it
    others = [
        name
        for name in varying
        if name != series and len({(_word(row, series), _word(row, name)) for row in known}) > count.get(series, 1)
    ]
    free_parts = [name for name in others if name != panel] or others
    if place not in others:
        place = max(free_parts, key=count.__getitem__) if free_parts else series or next(iter(count))
    between = [name for name in others if name != place]
    of = {one: _unit_of([row for row in known if _word(row, place) == one]) for one in _values(known, place)}
    free = {"a share", "number"} <= set(of.values()) and not between and series != place
    if free:
        place, between = series, [place]
    unit = min(of.values(), key=("signed", "number", "a share").index)
    axis = Axis(
        kinds[0].replace("_", " ").capitalize(),
        (0, 1.02) if unit == "a share" else None,
        "+.2f" if unit == "signed" else "~g",
        None,
        {"signed": "+.3f", "a share": ".3f", "number": ".4g"}[unit],
        zero=unit == "signed",
    )
    if free:
        axis = Axis()
    names = {one: _broken(one) for one in _values(known, series)}
    colours = {one: PALETTE[number % len(PALETTE)] for number, one in enumerate(names)}
    marks = [_mark(row, place, series, between) for row in known]
    panels = {mark.panel: mark.panel for mark in marks} if between else None
    places = _values(known, place)
    short = len(places) <= _FEW and max(map(len, places)) <= _SHORT
    if free or kind == "bars" or (kind == "auto" and short):
        if place == series:  # the legend names them
            marks, places = [replace(mark, place="") for mark in marks], [""]
        figure = bars(marks, names, colours, axis, places=places, panels=panels, free=free, dark=dark)
    else:
        figure = dots(
            marks, names, colours, axis, places={one: _broken(one) for one in places}, panels=panels, dark=dark
        )
    named = len(names) > 1 and (places == [""] or place != series)
    figure.update_layout(showlegend=named, template="plotly_dark" if dark else "plotly_white")
    return figure


def caption_of(rows: Sequence[Row]) -> str:
    """Return what rows rest on: how many cases, which intervals, what was excluded, and what is the same for all."""
    known = [row for row in rows if row.estimate is not None]
    varying = [name for name in known[0].label if len({_word(row, name) for row in known}) > 1] if known else []
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


def _mark(row: Row, place: str, series: str, between: Sequence[str]) -> Mark:
    rest = f"{row.n:,} {row.unit}" if row.n is not None else ""
    left_out = counts_in_words(row.excluded)
    return Mark(
        _word(row, place),
        row.estimate,
        row.low,
        row.high,
        _word(row, series),
        " · ".join(_word(row, name) for name in between),
        ", ".join(filter(None, [rest, f"excluded: {left_out}" if left_out else ""])),
    )


def _word(row: Row, name: str) -> str:
    value = row.label.get(name, "")
    word = _WORDS.get(name, {}).get(value) or ("" if value is None else str(value))
    return word if name in _WHO else word.replace("_", " ")


def _values(rows: Sequence[Row], name: str) -> list[str]:
    return list(dict.fromkeys(_word(row, name) for row in rows))


def _unit_of(rows: Sequence[Row]) -> Literal["signed", "number", "a share"]:
    bounds = [bound for row in rows for bound in (row.estimate, row.low, row.high) if bound is not None]
    if min(bounds) < -_SLACK:
        return "signed"
    return "number" if max(bounds) > 1 + _SLACK else "a share"


def _broken(name: str) -> str:
    return "<br>".join(textwrap.wrap(name, _LONG)) or name


def _caption(rows: Sequence[Row], known: Sequence[Row], varying: Sequence[str]) -> str:
    same = [_word(known[0], name) for name in known[0].label if name not in varying]
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
