"""A section of a page: one metric with controls, notes, figure, table, download, and links to the conversations."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

import pandas as pd
import plotly.graph_objects as go
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.errors import AnamnesisError, UsageError
from core.figures.report import caption_of, chart_of, fits_bars, panels_of
from core.frameworks.starts import Start
from core.measures.base import Metric, MetricRequest, Positional, Result, Row, Section
from core.measures.notes import result_of, why_empty
from core.stats.corrections import LABELS, format_p, stars
from core.store.database import Store
from core.store.selection import Selection
from pages.kit.behind import behind_row
from pages.kit.cached import cached_query, read
from pages.kit.cases import excluded_in_words
from pages.kit.controls import choose
from pages.kit.empty import draw_empty, draw_error, draw_no_match, narrowed
from pages.kit.figures import draw_figure
from pages.kit.look import FORMAT, QUESTION_TYPE, RULE, STARS, plain
from pages.kit.names import dataset_name, model_colours, model_name
from pages.kit.navigation import lead_to
from pages.kit.notes import draw_notes, first_time
from pages.kit.tables import draw_as_table, draw_table
from pages.kit.view import in_words, names_of, names_on

Chart = Callable[[Sequence[Row], Mapping[str, str], bool], go.Figure]
"""Draws rows with the names of their values, on a dark or light background."""
_ALL = "–"
"""The choice that leaves an option out."""
_WIDTH = 176
_MOST_PANELS = 12
_WITH_PANELS = ("auto", "bars", "dots")
"""Kinds of figures that have panels."""
_HEADS = {
    "mean": "Mean", "ci_low": "Low", "ci_high": "High", "question_type": "Question", "difference": "Difference",
    "difference_low": "Difference, low", "difference_high": "Difference, high", "p_adjusted": "Adjusted p", "p": "p",
    "excluded_by_reason": "Why", "n_refused_in_words": "Refused in words",
}  # fmt: skip
"""Column of a report → its head on a page, if the head is not simply the name in words."""
_ADJUSTED = "p_"
"""Prefix of the columns with adjusted p-values."""
_PLAYERS = frozenset(
    {"doctor", "grader", "judge", "maker", "model", "patient", "rater", "solver", "staff", "summariser"}
)
"""Columns with names of models, or of the rules that stand in for them."""
_WORDS: Mapping[str, Mapping[Any, str]] = {"format": FORMAT, "question_type": QUESTION_TYPE, "rule": RULE}
"""Part of a label → its values in words."""


def draw_section(
    section: Section,
    selection: Selection,
    *,
    options: Mapping[str, Any] | None = None,
    charts: Mapping[str, Chart] | None = None,
    on_row: Callable[[Row], None] | None = None,
    names: Mapping[Any, str] | None = None,
    name: str = "",
    empty: str = "",
    titled: bool = True,
    controls: DeltaGenerator | None = None,
) -> Result | None:
    """Draw a section for the trials of a selection.

    The options chosen in its controls are stored in the URL under the metric's name.

    Args:
        section: The section.
        selection: The trials.
        options: Further options of the metric.
        charts: Section ``kind`` → a function of the page that draws the figure.
        on_row: Called with the row of the clicked mark or line; by default a line opens the conversations it counts.
        names: Further label values in words.
        name: Key of the figure and name of its files.
        empty: Text if there are no rows; by default the metric's.
        titled: Whether to draw the title, if there are rows.
        controls: Where to draw the section's controls, such as the popover of a ``FilterRow``; by default in a row.

    Returns:
        The result that is drawn, or ``None`` if there is nothing to draw.
    """
    metric, head = section.metric, st.container()
    chosen = {**section.options, **(options or {}), **_ask_options(section, controls)}
    try:
        result = section_result(section, selection, chosen)
    except AnamnesisError as error:
        if first_time(str(error)):
            draw_error(error)
        return None
    if not result.rows:
        if not first_time(empty or metric.empty):
            return None
        if narrowed() and why_empty(metric, MetricRequest(Store(), selection, query=read), chosen).filtered:
            draw_no_match(f"The filters leave nothing: {plain(in_words(selection))}.", name=name or metric.name)
        else:
            draw_empty(plain(empty or metric.empty), *(() if empty else metric.starts))
        return None
    if titled:
        head.header(section.title, anchor=False)
    draw_result(
        section,
        result,
        {**words_of(result, selection), **(names or {})},
        selection=selection,
        charts=charts,
        on_row=on_row,
        name=name or f"section_{metric.name}",
        correction=str(chosen.get("correction", "holm")),
        options=chosen,
        titled=not titled,
    )
    return result


def draw_result(
    section: Section,
    result: Result,
    names: Mapping[str, str],
    *,
    name: str,
    selection: Selection | None = None,
    charts: Mapping[str, Chart] | None = None,
    on_row: Callable[[Row], None] | None = None,
    correction: str = "holm",
    options: Mapping[str, Any] | None = None,
    titled: bool = True,
) -> None:
    """Draw a result as its section declares: figure, a line of notes, table and download; see ``draw_section``.

    ``names`` are label values in words. The conversations behind a row are opened in the ``selection`` of the result,
    if it is given. ``options`` are those of the metric.
    """
    names = {**names, **section.words}
    rows = result.figures
    drawn: Sequence[Row] = [_with_estimate(row, section.estimate) for row in rows]
    if section.by_size:
        order = sorted(range(len(drawn)), key=lambda n: (drawn[n].estimate is None, drawn[n].estimate or 0.0))
        drawn, result = [drawn[n] for n in order], replace(result, rows=tuple(rows[n] for n in order))
    if section.drawn is not None:
        request = MetricRequest(Store(), selection or Selection(), query=read)
        drawn = section.drawn(drawn, request, options or section.options)
        models = {str(row.label["model"]) for row in drawn if "model" in row.label and row.estimate is not None}
        names = {**names_of(models - set(names)), **names}
    clicked, figure = on_row, st.container()
    draw_notes(result.notes, section.metric.page)  # before the figure is drawn, because its pictures have these notes
    if section.kind != "table":
        with figure:
            scope = f"{in_words(selection)}." if selection is not None else ""
            own_chart = (charts or {}).get(section.kind)
            _draw_charts(section, drawn, names, own_chart, clicked, name, scope, titled=titled)
    _draw_reading(section, result, correction)
    if on_row is None and selection is not None and any(row.counts for row in result.figures):
        on_row = partial(open_counted, selection)
    _draw_table(section, result, names, on_row, name, selection)


def draw_filled(
    sections: Mapping[str, Section],
    selection: Selection,
    name: str,
    *,
    options: Mapping[str, Any] | None = None,
    empty: str = "",
    starts: Sequence[Start] = (),
) -> None:
    """Draw the sections that have rows, and one sentence on the others with the links to where their data is made.

    ``sections`` are by the last part of their key, of which ``name`` is the first. ``empty`` is the sentence if none
    has rows, ``starts`` are the links; by default those of the metrics.
    """
    filled, missing = dict[str, Section](), list[Section]()
    for key, section in sections.items():
        try:
            rows = section_result(section, selection, {**section.options, **(options or {})}).rows
        except AnamnesisError:
            rows = ()
        if rows:
            filled[key] = section
        else:
            missing.append(section)
    for key, section in filled.items():
        draw_section(section, selection, options=options, name=f"{name}_{key}")
    if missing:
        titles = "; ".join(section.title.rstrip("?") for section in missing)
        sentence = f"Nothing is stored yet for: {titles}." if filled else empty or missing[0].metric.empty
        made_by = starts or dict.fromkeys(start for section in missing for start in section.metric.starts)
        draw_empty(plain(sentence), *made_by)


def section_result(section: Section, selection: Selection, options: Mapping[str, Any] | None = None) -> Result:
    """Return the result of a section's metric for a selection, cached by the state of the store.

    Raises ``AnamnesisError`` if the metric rejects these options.
    """
    chosen = tuple(sorted((options or section.options).items()))
    return _result(section.metric.name, selection, chosen, section.metric)


@cached_query("Computing…", entries=64)
def _result(name: str, selection: Selection, options: tuple[tuple[str, Any], ...], _metric: Metric) -> Result:
    names = names_on(selection)
    request = MetricRequest(Store(), selection, query=read)

    def name_of(model: str) -> str:
        return names.get(model) or model_name(model)

    return result_of(_metric, request, dict(options), name=name_of, data_set_name=dataset_name)


def words_of(result: Result, selection: Selection) -> dict[str, str]:
    """Return label value → words for the conditions, published models and data sets in the rows of a result."""
    labels = [row.label if isinstance(row, Row) else row for row in result.rows]
    condition_names = names_on(selection)
    models = {str(label["model"]): None for label in labels if isinstance(label.get("model"), str)}
    players = {value for label in labels for part in _PLAYERS if isinstance(value := label.get(part), str)}
    case_set = selection.case_sets[0] if selection.case_sets and len(selection.case_sets) == 1 else None
    words = {player: model_name(player) for player in players} | names_of([*condition_names, *models], case_set)
    for part in ("dataset", "data_set", "cases", "group"):
        values = {label[part] for label in labels if isinstance(label.get(part), str)}
        words |= {value: dataset_name(value) for value in values}
    return words


def _ask_options(section: Section, where: DeltaGenerator | None) -> dict[str, Any]:
    """Draw controls for the options in the section's ``controls`` and return the chosen values."""
    parameters = {option.name: option for option in section.metric.options()}
    chosen = dict[str, Any]()
    if not section.controls:
        return chosen
    with where or st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        for name in section.controls:
            option = parameters[name]
            kind, words = get_args(option.annotation)[:2] if get_origin(option.annotation) is Annotated else (str, "")
            key = f"{section.metric.name}_{name}".strip("_")
            label = section.heads.get(name) or name.strip("_").replace("_", " ").capitalize()
            chosen[name] = _ask(kind, label, key, option.default, "" if isinstance(words, Positional) else str(words))
    return chosen


def _ask(kind: Any, label: str, key: str, default: Any, words: str) -> Any:
    if choices := _choices(kind):
        usual = default if default in choices else _ALL
        listed = [*choices] if default in choices else [_ALL, *choices]
        value = choose(label, listed, key, names=_head, default=usual, help=words, width=_WIDTH)
        return default if value == _ALL else value
    if kind is bool:
        return st.toggle(label, value=bool(default), key=key, bind="query-params", help=words)
    numbers: dict[Any, dict[str, Any]] = {float | None: {"min_value": 0.0}, int | None: {"step": 1}, int: {}, float: {}}
    if kind in numbers:
        value = default if kind in (int, float) else None
        return st.number_input(
            label, value=value, key=key, bind="query-params", help=words, width=_WIDTH, **numbers[kind]
        )
    text = st.text_input(label, key=key, bind="query-params", help=words, width=_WIDTH).strip()
    if not text:
        return default
    return [part.strip() for part in text.split(",")] if "list" in str(kind) else text


def _choices(kind: Any) -> list[str]:
    """Return the allowed words of an option of this type; empty if it takes other values."""
    if get_origin(kind) is Literal:
        return [choice for choice in get_args(kind) if isinstance(choice, str)]
    return [choice for part in get_args(kind) for choice in _choices(part)]


def _with_estimate(row: Row, name: str) -> Row:
    if not name:
        return row
    estimate, low, high, n = (row.more[f"{name}_{part}"] for part in ("mean", "ci_low", "ci_high", "n_cases"))
    return replace(row, estimate=estimate, low=low, high=high, n=n)


def _draw_charts(
    section: Section,
    rows: Sequence[Row],
    names: Mapping[str, str],
    own_chart: Chart | None,
    on_row: Callable[[Row], None] | None,
    key: str,
    scope: str,
    *,
    titled: bool,
) -> None:
    """Draw one figure, or one for each value of the section's ``figure``, two next to each other.

    All have the same colours, and are bars only if all of them fit. ``scope`` names the selection in the captions of
    pictures.
    """
    of_models = [value for value in names if any(row.label.get("model") == value for row in rows)]
    section = replace(section, colours={**section.colours, **model_colours(of_models)})
    by_value: dict[Any, list[Row]] = {}
    for row in rows:
        by_value.setdefault(row.label.get(section.figure) if section.figure else None, []).append(row)
    if len(by_value) > 1 and section.kind == "auto":
        with suppress(UsageError):  # a list, or rows of several quantities
            fit = all(fits_bars(of_value, **_parts_of(section)) for of_value in by_value.values())
            section = replace(section, kind="bars" if fit else "dots")
    several_panels = section.panel and len({row.label.get(section.panel) for row in rows}) > 1
    side_by_side = len(by_value) > 1 and not several_panels
    columns = st.columns(2) if side_by_side else [st.container()]
    for number, (value, of_value) in enumerate(by_value.items()):
        with columns[number % len(columns)]:
            title = section.title if value is None else f"{_word(section.figure, value, names)}"
            place = key if value is None else f"{key}_{value}"
            own_title = value is not None or titled
            section_of_value = section if value is None or section.axis else replace(section, axis=title)
            _draw_chart(section_of_value, of_value, title, names, own_chart, on_row, place, scope, titled=own_title)


def _draw_reading(section: Section, result: Result, correction: str) -> None:
    """Draw the caption of a section, with the tests behind stars and its help behind a mark."""
    compared = sum(row.comparison is not None for row in result.figures) if section.compared else 0
    stars_in_words = (
        f"Stars (on bars, and in the table): {section.compared}, paired by case (sign-flip test), p corrected by "
        f"{LABELS[correction]} over the {compared} pair{'s' * (compared > 1)} shown; {STARS}. "  # type: ignore[index]
        "Published figures have no stars."
    )
    help_ = "\n\n".join(filter(None, [stars_in_words if compared else "", plain(section.help)]))
    if section.caption or help_:
        st.caption(plain(section.caption) or "How to read these figures", help=help_ or None)


def _draw_chart(
    section: Section,
    rows: Sequence[Row],
    title: str,
    names: Mapping[str, str],
    own_chart: Chart | None,
    on_row: Callable[[Row], None] | None,
    key: str,
    scope: str,
    *,
    titled: bool,
) -> None:
    if section.kind == "shares" and not any(row.estimate for row in rows):
        st.caption("None of these occurred.")
        return
    layout: dict[str, Any] = {
        "kind": section.kind,
        **_parts_of(section),
        "axis": section.axis,
        "names": dict(names),
        "colours": section.colours,
    }

    if section.kind == "scatter":
        layout["across"] = section.across

    def make(dark: bool) -> go.Figure:
        return chart_of(rows, dark=dark, **layout) if own_chart is None else own_chart(rows, names, dark)

    try:
        if own_chart is None and section.kind in _WITH_PANELS and panels_of(rows, **_parts_of(section)) > _MOST_PANELS:
            st.caption("Too many panels to draw: the table has all figures.")
            return
    except UsageError:  # a list, or rows of several quantities
        return

    def forward_click(data: Sequence[Any]) -> None:
        if on_row is not None and len(data) > 1:
            on_row(rows[int(data[1])])

    rests = " ".join(filter(None, [scope, section.caption, caption_of(rows)]))
    draw_figure(make, key, title, rests, on_point=forward_click if on_row else None, titled=titled)


def _parts_of(section: Section) -> dict[str, str]:
    return {"series": section.series, "place": section.place, "panel": section.panel}


def _draw_table(
    section: Section,
    result: Result,
    names: Mapping[str, str],
    on_row: Callable[[Row], None] | None,
    key: str,
    selection: Selection | None,
) -> None:
    table = table_of(result, names, section)
    if (cell_behind := section.cell_behind) and selection is not None:
        lines = [row for row in result.rows if isinstance(row, Mapping)]
        column_of = dict(zip(map(str, table), lines[0], strict=True))

        def open_cell(place: int, head: str) -> None:
            if opened := cell_behind(selection, lines[place], column_of[head]):
                lead_to("conversations", **behind_row(*opened))

        shares = {
            str(head): st.column_config.ProgressColumn(min_value=0, max_value=1, format="%.2f", color="auto")
            for head in table.select_dtypes("float")
        }
        draw_table(table, key, shares, on_cell=open_cell)
        return

    def open_row(place: int) -> None:
        row = result.rows[place]
        if on_row is not None and isinstance(row, Row):
            on_row(row)
        elif not isinstance(row, Row) and (trial_id := row.get("trial_id")):
            lead_to("conversations", trial=trial_id)

    of_trials = any(not isinstance(row, Row) and "trial_id" in row for row in result.rows)
    opens = open_row if on_row is not None or of_trials else None
    draw = draw_as_table if section.folded else draw_table
    draw(table, key, on_row=opens)
    if opens and not section.folded:
        st.caption("Choose a row to read the conversations behind it.")


def open_counted(selection: Selection, row: Row) -> None:
    """Lead to the conversations that a row of a result on a selection counts; a row without any leads nowhere."""
    if row.counts is not None:
        lead_to("conversations", **behind_row(selection, row.counts))


def table_of(result: Result, names: Mapping[str, str], section: Section) -> pd.DataFrame:
    """Return the rows of a result as a table with column heads in words, including comparisons and sources."""
    lines = []
    published = any(row.source for row in result.figures)
    for row in result.rows:
        cells = row.cells(plain=True) if isinstance(row, Row) else dict(row)
        line = {}
        wide = (section.wide, *section.columns, row.columns.estimate) if section.wide and isinstance(row, Row) else ()
        kept = wide or section.columns or cells
        for name in dict.fromkeys(kept):
            if name not in cells or name == "notes":
                continue
            value = cells[name]
            head = section.axis if isinstance(row, Row) and name == row.columns.estimate and section.axis else ""
            named = "" if isinstance(row, Row) else names.get(name, "")  # a column of a condition
            line[section.heads.get(name) or head or named or _head(name)] = _cell_value(name, value, names)
            if name.startswith(_ADJUSTED):
                line["Stars"] = "" if value is None else stars(value)
        if published and isinstance(row, Row):
            line["From"] = f"published, {row.source}" if row.source else "this database"
        lines.append(line)
    table = pd.DataFrame(_across(lines, section) if section.wide else lines)
    types = {name: {type(line.get(name)) for line in lines} for name in map(str, table)}
    return table.astype({name: "Int64" for name, kinds in types.items() if kinds in ({int}, {int, NoneType})})


def _across(lines: Sequence[Mapping[str, Any]], section: Section) -> list[dict[str, Any]]:
    """Return one line for the lines that differ in the part ``wide`` alone, whose values are its columns."""
    head, joined = section.heads.get(section.wide) or _head(section.wide), dict[tuple[Any, ...], dict[str, Any]]()
    for line in lines:
        *_, estimate = (name for name in line if name != "From")
        label = {name: value for name, value in line.items() if name not in (head, estimate)}
        key = tuple(value for name, value in label.items() if name != "From")
        joined.setdefault(key, label)[line[head]] = line[estimate]
    return [dict(sorted(line.items(), key=lambda item: item[0] == "From")) for line in joined.values()]


def _head(name: str) -> str:
    return _HEADS.get(name) or name.removeprefix("n_").replace("_", " ").capitalize()


def _cell_value(name: str, value: Any, names: Mapping[str, str]) -> Any:
    if name == "p" or name.startswith(_ADJUSTED):
        return None if value is None else format_p(value)
    if isinstance(value, Mapping):
        return excluded_in_words({names.get(str(reason), reason): number for reason, number in value.items()})
    return _word(name, value, names) if isinstance(value, str) else value


def _word(part: str, value: Any, names: Mapping[str, str]) -> str:
    words = _WORDS.get(part, {}).get(value) or names.get(value)
    return str(words or (model_name(value) if part in _PLAYERS else value))
