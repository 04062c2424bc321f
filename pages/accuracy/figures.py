"""Figures of the Accuracy page: bars in panels where they fit, else dots in rows; static against conversational."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from core.datasets.published import leaderboard
from core.events import QUESTION_TYPES
from core.figures.marks import Mark, bars, dots
from core.figures.style import Axis
from core.measures.accuracy import Cell
from core.measures.choice_rules import rules_in_words
from core.measures.compare import FormatPair
from core.stats.corrections import LABELS
from pages.accuracy.cases import take_bar
from pages.accuracy.data import SPLIT, group_name
from pages.kit.figures import draw_figure
from pages.kit.look import FORMAT, QUESTION_TYPE, plain
from pages.kit.names import dataset_name, model_colours
from pages.kit.tables import draw_table
from pages.kit.view import INTERVALS, View, in_order

FORMAT_COLOUR: dict[str, str] = {
    "vignette": "#0072B2", "multi_turn": "#D55E00", "single_turn": "#CC79A7", "summarized": "#009E73",
}  # fmt: skip
"""Where models are the places."""
CellKey = tuple[str, str, str, str | None]
STATIC: Mapping[str, str] = {"vignette": "Static (vignette)", "multi_turn": "Conversational (multi-turn)"}
_FIT = 24
"""Bars of a panel beyond which dots take their place."""
DRAWN = {"auto": "As fits", "bars": "Bars", "dots": "Dots"}
DRAWN_HELP = f"As fits: bars where a panel holds up to {_FIT} of them, else dots."
_BARS = Axis("Accuracy", (0, 1.1), ".1f", 0.2)
_DOTS = Axis("Accuracy", (-0.01, 1.01), ".1f", 0.2)


def key_of(cell: Cell | FormatPair) -> CellKey:
    """Return what tells a cell from all others; of a pair, the one that is set against the vignette."""
    return cell.model, cell.format, cell.question_type, cell.group


def mark_of(cell: Cell, place: str, series: str, panel: str = "", star: str = "") -> Mark:
    """Return a cell as it is drawn: its interval, what it rests on, and what a click on it chooses."""
    rest = f"published, {cell.source}"
    if cell.own:
        rest = f"{cell.own.n_cases:,} cases, {cell.own.n_trials:,} trials, {cell.own.n_excluded:,} excluded"
    where = f"{group_name(cell.group)}, {FORMAT[cell.format]}" if cell.group else ""
    return Mark(
        place,
        cell.mean,
        cell.ci_low,
        cell.ci_high,
        series,
        panel,
        "<br>".join(filter(None, [where, rest])),
        published=bool(cell.printed),
        star=star,
        data=(cell.model, cell.format, cell.question_type, cell.group or ""),
    )


def formats_figure(
    cells: Sequence[Cell],
    stars: Mapping[CellKey, str],
    names: Mapping[str, str],
    colours: Mapping[str, str],
    *,
    as_bars: bool,
    dark: bool = False,
) -> go.Figure:
    """Return the cells of one question type: bars have a panel for each group, dots one for each format."""
    groups = {group: group_name(group) for group in in_order(cell.group for cell in cells if cell.group)}
    if as_bars:
        marks = [mark_of(c, FORMAT[c.format], c.model, c.group or "", stars.get(key_of(c), "")) for c in cells]
        tall = 250 if len(groups) > 1 else 390
        places = list(FORMAT.values())
        return bars(marks, names, colours, _BARS, places=places, panels=groups or None, height=tall, dark=dark)
    marks = [mark_of(c, c.group or c.format, c.model, c.format if groups else "") for c in cells]
    formats = {str(key): words for key, words in FORMAT.items() if any(c.format == key for c in cells)}
    panels = formats if groups else None
    return dots(marks, names, colours, _DOTS, places=groups or formats, panels=panels, legend=True, dark=dark)


def draw_formats(view: View, cells: Sequence[Cell], stars: Mapping[CellKey, str], split: str, drawn: str) -> None:
    """Draw the cells, a figure for each question type; ``drawn`` is a key of ``DRAWN``."""
    as_bars = drawn == "bars" or (drawn == "auto" and len({(cell.model, cell.format) for cell in cells}) <= _FIT)
    types = [one for one in QUESTION_TYPES if any(cell.question_type == one for cell in cells)]
    whole = any(cell.group for cell in cells) or len(types) == 1
    columns = [st.container()] if whole else st.columns(2)
    for number, question_type in enumerate(types):
        members = [cell for cell in cells if cell.question_type == question_type]

        def make(dark: bool, members: Sequence[Cell] = members) -> go.Figure:
            return formats_figure(members, stars, view.names, model_colours(view.names), as_bars=as_bars, dark=dark)

        title = QUESTION_TYPE[question_type] + (f" · {split}" if any(cell.group for cell in members) else "")
        with columns[number % len(columns)]:
            rests = rests_on(view, members)
            draw_figure(make, f"accuracy_{question_type}", title, rests, on_point=take_bar)


def static_figure(
    cells: Sequence[Cell], stars: Mapping[CellKey, str], names: Mapping[str, str], *, dark: bool = False
) -> go.Figure:
    """Return vignettes beside conversations: bars for each model, a panel for each data set and for all of them."""
    held = {cell.group for cell in cells}
    panels = {
        group or "": group_name(group) if group else SPLIT["all"]
        for group in (None, *in_order(g for g in held if g))
        if group in held
    }
    marks = [mark_of(c, names[c.model], c.format, c.group or "", stars.get(key_of(c), "")) for c in cells]
    places = list(names.values())
    return bars(marks, STATIC, FORMAT_COLOUR, _BARS, places=places, panels=panels, height=300, dark=dark)


def rests_on(view: View, cells: Sequence[Cell]) -> str:
    """Return in words what figures rest on: cases, trials, intervals, rule, what is published."""
    own = [cell.own for cell in cells if cell.own]
    least, most = min((row.n_cases for row in own), default=0), max((row.n_cases for row in own), default=0)
    n = f"{least:,} to {most:,}" if least < most else f"{most:,}"
    words = [
        f"{dataset_name(view.case_set)}. Accuracy: mean over a case’s counted trials, then over cases",
        f"n = {n} cases a mark, 95 % intervals by {INTERVALS[view.interval].lower()} over cases" if own else "",
        f"stars: against the same model’s vignette, p corrected by {LABELS[view.correction]}" if own else "",
        f"choices by {by}" if (by := rules_in_words((view.names.get(r.model, r.model), r.rule) for r in own)) else "",
        "hatched or open: published" if len(own) < len(cells) else "",
    ]
    return "; ".join(filter(None, words)) + "."


def draw_leaderboard(view: View, own: Sequence[Cell], names: Mapping[str, str], *, same_cases: bool) -> None:
    """Draw the authors' public leaderboard, with what was found here beside it; ``names`` are of these models."""
    said = "the authors’ public leaderboard of 2 January 2025, 2,004 cases, without intervals"
    words = f"**Published** (open): {said}."
    if own:
        other = "" if same_cases else ", which are **other cases** than the leaderboard’s"
        words += f" **Found here** (filled, with 95 % intervals): {plain(dataset_name(view.case_set))}{other}."
    st.caption(words)
    types = [one for one in QUESTION_TYPES if any(row.question_type == one for row in leaderboard())]
    for column, question_type in zip(st.columns(len(types)), types, strict=True):
        held = [cell for cell in own if cell.question_type == question_type and cell.format in FORMAT_COLOUR]
        marks = [mark_of(cell, names[cell.model], cell.format) for cell in held] + [
            Mark(row.model, row.means[format_], series=format_, words="published", published=True)
            for row in leaderboard()
            if row.question_type == question_type
            for format_ in FORMAT_COLOUR
        ]

        def make(dark: bool, marks: Sequence[Mark] = tuple(marks)) -> go.Figure:
            return dots(marks, FORMAT, FORMAT_COLOUR, _DOTS, dark=dark)

        with column:
            draw_figure(
                make,
                f"leaderboard_{question_type}",
                f"Leaderboard · {QUESTION_TYPE[question_type]}",
                f"Open: {said}. {rests_on(view, held)}" if held else f"Published: {said}.",
            )
    rows = sorted(leaderboard(), key=lambda row: types.index(row.question_type))
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for cell in own:
        line = found.setdefault((cell.model, cell.question_type), {"Model": names[cell.model]})
        line |= {FORMAT[cell.format]: round(cell.mean, 3), "Question": QUESTION_TYPE[cell.question_type]}
        line |= {"From": "this database", "Cases": f"{cell.own.n_cases:,}" if cell.own else ""}
    printed = [
        {"Rank": row.rank, "Model": row.model, "Organisation": row.organisation, "Year": str(row.year)}
        | {FORMAT[name]: mean for name, mean in row.means.items()}  # type: ignore[index]
        | {"Question": QUESTION_TYPE[row.question_type], "From": "published leaderboard", "Cases": "2,004"}
        for row in rows
    ]
    means = [FORMAT[name] for name in rows[0].means]  # type: ignore[index]
    heads = ["Rank", "Model", "Organisation", "Year", *means, "Question", "From", "Cases"]
    table = pd.DataFrame([*found.values(), *printed], columns=heads).astype({"Rank": "Int64"})
    draw_table(table, "leaderboard_published")
