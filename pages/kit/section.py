"""A section of a page: one metric as controls, notes, figure, table, download and the way to the conversations."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal, get_args, get_origin

import pandas as pd
import streamlit as st

from core.errors import AnamnesisError, UsageError
from core.figures.report import caption_of, chart_of
from core.measures.base import Asked, Measure, Metric, Positional, Result, Row, Section
from core.measures.missing import begin_measuring, count_missing, measuring
from core.measures.notes import result_of
from core.measures.registry import metrics
from core.store.conditions import Condition
from core.store.database import Store
from core.store.selection import Selection
from pages.kit.cached import cached_query
from pages.kit.campaigns import in_transcripts
from pages.kit.controls import choose
from pages.kit.figures import draw_figure
from pages.kit.jobs import draw_missing
from pages.kit.look import FORMAT, QUESTION_TYPE, plain
from pages.kit.names import dataset_name, unique_names
from pages.kit.navigation import lead_to
from pages.kit.notes import basis, draw_notes
from pages.kit.tables import draw_table

_ALL = "–"
"""The choice of an option that is left out."""
_WIDTH = 224
_MOST_PANELS = 12
_FEW = 500
"""Conversations that are measured while one waits, in seconds; more are a job."""


def draw_section(section: Section, selection: Selection, *, titled: bool = True) -> None:
    """Draw a section on the trials of a selection; the chosen options stand in the address under its metric's name."""
    metric = section.metric
    if titled:
        st.subheader(section.title, anchor=False)
    if section.help:
        st.caption(plain(section.help.partition("\n\n")[0]))
    options = {**section.options, **_ask_options(section)}
    if metric.measure is not None and not _is_measured(metric.measure, metric, selection):
        return
    try:
        result = _result(metric.name, selection, tuple(sorted(options.items())))
    except AnamnesisError as error:
        st.info(plain(str(error)), icon=":material/info:")
        return
    if not result.rows:
        st.info(plain(metric.empty), icon=":material/info:")
        return
    conditions = {condition.name: condition for condition in basis(selection).conditions}
    names = unique_names(conditions)
    draw_notes(result.notes)
    if section.kind != "table":
        _draw_chart(section, result, names)
    _draw_table(section, result, names, conditions)


def _is_measured(measure: Measure, metric: Metric, selection: Selection) -> bool:
    """Say whether the metric's measure has read enough trials to be shown; draw the way to read the others."""
    store = Store()

    def start() -> None:
        begin_measuring(store, measure, selection)

    work = measuring(store, measure)
    missing = count_missing(store, measure, selection)
    if missing <= _FEW and not (work and work.running):
        return True  # the metric reads the few that are missing itself
    draw_missing(work, missing, measure, start, f"section_{metric.name}", explains=measure.title or measure.name)
    return False


@cached_query("Computing…", entries=64)
def _result(name: str, selection: Selection, options: tuple[tuple[str, Any], ...]) -> Result:
    names = unique_names(condition.name for condition in basis(selection).conditions)
    asked = Asked(Store(), selection)
    return result_of(
        metrics()[name], asked, dict(options), name=lambda model: names.get(model, model), data_set_name=dataset_name
    )


def _ask_options(section: Section) -> dict[str, Any]:
    """Ask for the options of a section's metric that it leaves open."""
    parameters = {option.name: option for option in section.metric.options()}
    chosen = {}
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        for name in section.controls:
            option = parameters[name]
            kind, words = get_args(option.annotation)[:2] if get_origin(option.annotation) is Annotated else (str, "")
            key = f"{section.metric.name}_{name}".strip("_")
            label = name.strip("_").replace("_", " ").capitalize()
            chosen[name] = _ask(kind, label, key, option.default, "" if isinstance(words, Positional) else str(words))
    return chosen


def _ask(kind: Any, label: str, key: str, default: Any, words: str) -> Any:
    """Ask for one option by a control that fits its type."""
    if choices := _choices(kind):
        listed = [*choices] if default in choices else [_ALL, *choices]
        value = choose(label, listed, key, default=default if default in choices else _ALL, help=words, width=_WIDTH)
        return default if value == _ALL else value
    if kind is bool:
        return st.toggle(label, value=bool(default), key=key, bind="query-params", help=words)
    if kind in (int, float):
        return st.number_input(label, value=default, key=key, bind="query-params", help=words, width=_WIDTH)
    if kind == int | None:
        return st.number_input(label, value=None, step=1, key=key, bind="query-params", help=words, width=_WIDTH)
    text = st.text_input(label, key=key, bind="query-params", help=words, width=_WIDTH).strip()
    if not text:
        return default
    return [part.strip() for part in text.split(",")] if "list" in str(kind) else text


def _choices(kind: Any) -> list[str]:
    """Return the words among which an option of this type lets one choose; none if it takes anything else."""
    if get_origin(kind) is Literal:
        return [choice for choice in get_args(kind) if isinstance(choice, str)]
    return [choice for part in get_args(kind) for choice in _choices(part)]


def _draw_chart(section: Section, result: Result, names: Mapping[str, str]) -> None:
    rows = [replace(row, label=_named(row.label, names)) for row in result.figures]
    layout = {"kind": section.kind, "series": section.series, "place": section.place, "panel": section.panel}
    try:
        chart = chart_of(rows, **layout)  # type: ignore[arg-type]
    except UsageError:  # a list, or rows of several quantities
        return
    if len(chart.layout.annotations) > _MOST_PANELS:
        st.caption("Too many panels to draw: the table has all figures.")
        return
    draw_figure(
        lambda dark: chart_of(rows, dark=dark, **layout),  # type: ignore[arg-type]
        f"section_{section.metric.name}",
        section.title,
        caption_of(rows),
        titled=False,
    )


def _draw_table(
    section: Section, result: Result, names: Mapping[str, str], conditions: Mapping[str, Condition]
) -> None:
    cells = [_named(row, names) for row in result.cells()]
    table = pd.DataFrame(cells).drop(columns="notes", errors="ignore")
    if section.columns:
        table = table[[name for name in section.columns if name in table]]
    table.columns = [str(name).replace("_", " ").capitalize() for name in table.columns]
    behind = [_runs(row, conditions) for row in result.rows]

    def read(row: int) -> None:
        lead_to("transcripts", **in_transcripts(behind[row]))

    opens = read if any(behind) else None
    draw_table(table, f"section_{section.metric.name}", on_row=opens)
    if opens:
        st.caption("Choose a row to read the conversations behind it.")


def _runs(row: Any, conditions: Mapping[str, Condition]) -> tuple[str, ...]:
    """Return the runs of the first condition that a row names."""
    label = row.label if isinstance(row, Row) else row
    named = [value for value in label.values() if isinstance(value, str) and value in conditions]
    return conditions[named[0]].runs if named else ()


def _named(label: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return a label with its conditions, formats, question types and data sets as pages call them."""
    shown = {}
    for part, value in label.items():
        if part == "format":
            value = FORMAT.get(value, value)
        elif part == "question_type":
            value = QUESTION_TYPE.get(value, value)
        elif part in ("dataset", "data_set", "cases") and isinstance(value, str):
            value = dataset_name(value)
        elif isinstance(value, str):
            value = names.get(value, value)
        shown[part] = value
    return shown
