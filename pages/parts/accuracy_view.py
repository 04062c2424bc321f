"""Draws the Accuracy page: bars or dots, what they leave out, pairs with their stars, the leaderboard."""

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go
import streamlit as st

from core.case import SPECIALTIES
from core.datasets.published import leaderboard
from core.measures.accuracy import Cell
from core.measures.compare import FormatPair, adjusted_p
from core.stats.corrections import LABELS, stars
from core.store.conditions import Condition
from pages.parts.accuracy_cases import take_click
from pages.parts.accuracy_charts import CellKey, bars_chart, dots_chart, leaderboard_chart
from pages.parts.accuracy_data import View, pairs, read_before
from pages.parts.accuracy_filters import Shown
from pages.parts.accuracy_tables import cells_table, excluded_text, group_name, leaderboard_table, pairs_table
from pages.parts.conditions import draw_conditions, draw_what_differs
from pages.parts.figure_controls import CHART, STARS, three_decimals
from pages.parts.figures import conditions, model_colours
from pages.parts.look import ASKS_FOR, FORMAT, QUESTION_TYPE, plain

_FEW = 4
"""Groups beyond which dots replace bars."""


def is_dark() -> bool:
    """Say whether the page is dark."""
    return st.context.theme.type == "dark"


def shown_pairs(view: View, shown: Shown) -> tuple[list[FormatPair], list[float]]:
    """Return the pairs that are shown and their adjusted p-values, corrected over exactly these."""
    found = [p for p in pairs(view) if shown.has(p.model, p.format, p.question_type, p.group)]
    return found, adjusted_p([p.result for p in found], view.statistics.correction)


def stars_of(found: Sequence[FormatPair], adjusted: Sequence[float]) -> dict[CellKey, str]:
    """Return cell → its stars."""
    return {
        (pair.model, pair.format, pair.question_type, pair.group): stars(p)
        for pair, p in zip(found, adjusted, strict=True)
    }  # fmt: skip


def draw_figures(
    cells: Sequence[Cell], marks: Mapping[CellKey, str], names: Mapping[str, str], every: list[str]
) -> None:
    """Draw the cells: bars for few groups, dots for many."""
    groups = ordered_groups(cells)
    colours = model_colours(every)
    types = [q for q in QUESTION_TYPE if any(c.question_type == q for c in cells)]
    if len(groups) <= _FEW:
        for group in groups or [None]:
            columns = st.columns(min(2, max(1, len(types))))
            for number, question_type in enumerate(types):
                members = [c for c in cells if c.group == group and c.question_type == question_type]
                with columns[number % 2]:
                    _draw(
                        bars_chart(members, marks, names, colours, dark=is_dark()), group, QUESTION_TYPE[question_type]
                    )
        return
    formats = [f for f in FORMAT if any(c.format == f for c in cells)]
    for question_type in types:
        columns = st.columns(min(2, max(1, len(formats))))
        for number, format_ in enumerate(formats):
            members = [c for c in cells if c.format == format_ and c.question_type == question_type]
            rows = [group for group in groups if group]
            with columns[number % 2]:
                figure = dots_chart(members, rows, names, colours, dark=is_dark())
                _draw(figure, None, f"{FORMAT[format_]} · {QUESTION_TYPE[question_type]}")


def ordered_groups(cells: Sequence[Cell]) -> list[str | None]:
    """Return the groups of cells in a fixed order: specialties as the publication lists them, others by name."""
    found = {c.group for c in cells if c.group}
    return [*(s for s in SPECIALTIES if s in found), *sorted(found - set(SPECIALTIES))]


def _draw(figure: go.Figure, group: str | None, title: str) -> None:
    words = f"{group_name(group)} · {title}" if group else title
    st.markdown(f"**{words}**")
    key = f"acc_chart_{words}"
    st.plotly_chart(
        figure, key=key, on_select=lambda: take_click(key), selection_mode="points", config=_config(words),
        alt=f"Accuracy with 95 % intervals: {words}",
    )  # fmt: skip


def _config(words: str) -> dict[str, Any]:
    return {**CHART, "toImageButtonOptions": {"format": "svg", "filename": f"accuracy {words}"}}


def draw_notes(view: View, cells: Sequence[Cell], names: Mapping[str, str], n_pairs: int) -> None:
    """Say what the figures rest on, what they leave out, and what else differs between their models."""
    left_out = excluded_text(cells, names)
    if view.statistics.rule == "mcq_strict" and (outdated := read_before()):
        st.warning(
            f"{outdated:,} answers with choices were read by an earlier version of the strict rule: "
            "`python -m core regrade all --rules` reads them anew, at no cost.",
            icon=":material/update:",
        )
    if any(c.own for c in cells):
        st.caption(f"Excluded, and not counted as wrong: {left_out or 'nothing'}.")
    _note_cases(cells, names)
    if view.asks_for:
        kinds = " or ".join(ASKS_FOR[kind].lower() for kind in view.asks_for)
        st.caption(
            f"Only cases whose question asks for: {kinds}. Published figures are about all questions, whatever "
            "they ask for, and are not shown."
        )
    if n_pairs:
        where = "Stars" if len(ordered_groups(cells)) <= _FEW else "Stars (in the table of pairs)"
        st.caption(
            f"{where}: each format against the same model’s vignette, paired by case (bootstrap), p corrected by "
            f"{LABELS[view.statistics.correction]} over the {n_pairs} pairs shown; {STARS}. "
            "Published figures carry none."
        )
    _note_published(cells)
    _differences(view, cells, names)


def _note_cases(cells: Sequence[Cell], names: Mapping[str, str]) -> None:
    most = {m: max(c.own.n_cases for c in cells if c.model == m and c.own) for m in {c.model for c in cells if c.own}}
    if len(most) > 1 and max(most.values()) > 1.05 * min(most.values()) and not any(c.group for c in cells):
        words = ", ".join(f"{names[m]} {most[m]:,}" for m in names if m in most)
        st.warning(f"These models were not asked the same cases: {plain(words)}.", icon=":material/difference:")


def _note_published(cells: Sequence[Cell]) -> None:
    tables = sorted({c.table for c in cells if c.table is not None})
    if not tables:
        return
    notes = [f"Hatched bars and open dots are published (Johri et al. 2025, supplementary {_listed(tables)})."]
    if 4 in tables:
        notes.append("Table 4 repeats table 1’s intervals by mistake, so its bars have none.")
    if 22 in tables:
        notes.append("Table 22’s free responses come from an unnamed part of the cases.")
    if 19 in tables:
        notes.append("GPT-4V was asked 74 cases with images, not the 2,004.")
    notes.append("The GPT models had an older doctor’s prompt and no cap of messages; the open ones had a cap.")
    st.caption(" ".join(notes))


def _listed(tables: Sequence[int]) -> str:
    return f"table{'s' * (len(tables) > 1)} {', '.join(str(table) for table in tables)}"


def _differences(view: View, cells: Sequence[Cell], names: Mapping[str, str]) -> None:
    own = [model for model in names if any(c.own and c.model == model for c in cells)]
    draw_what_differs({model: names[model] for model in own}, _conditions(view), "these models")
    draw_conditions({model: names[model] for model in own}, _conditions(view))


def _conditions(view: View) -> list[Condition]:
    return conditions(view.case_set, pooled=view.pooled)


def draw_tables(
    cells: Sequence[Cell], found: Sequence[FormatPair], adjusted: Sequence[float], names: Mapping[str, str]
) -> None:
    """Draw the figures and the pairs as tables, each with its download."""
    figures, compared = st.columns(2)
    with figures, st.expander(f"The {len(cells)} figures as a table", icon=":material/table:"):
        _table(cells_table(cells, names), "accuracy")
    with (
        compared,
        st.expander(f"{len(found) or 'No'} pairs: each format against the vignette", icon=":material/table:"),
    ):
        if found:
            _table(pairs_table(found, adjusted, names), "accuracy-pairs")
        else:
            st.caption("Pairs need answers case by case, which published figures do not have.")


def draw_leaderboard() -> None:
    """Draw the authors' public leaderboard, all of it published."""
    st.caption(
        "**Published**: the authors’ public leaderboard of 2 January 2025, 2,004 cases, without intervals. "
        "Nothing here was computed from this database."
    )
    types = [q for q in QUESTION_TYPE if any(row.question_type == q for row in leaderboard())]
    columns = st.columns(len(types))
    for column, question_type in zip(columns, types, strict=True):
        rows = [row for row in leaderboard() if row.question_type == question_type]
        with column:
            words = f"Leaderboard · {QUESTION_TYPE[question_type]}"
            st.markdown(f"**{words}**")
            figure = leaderboard_chart(rows, dark=is_dark())
            st.plotly_chart(figure, key=f"acc_board_{question_type}", config=_config(words), alt=words)
    rows = sorted(leaderboard(), key=lambda row: types.index(row.question_type))
    _table(leaderboard_table(rows), "leaderboard-published")


def _table(table: Any, name: str) -> None:
    st.dataframe(table, hide_index=True, key=f"acc_table_{name}", column_config=three_decimals(table))
    st.download_button(
        "Download as CSV", table.to_csv(index=False), f"{name}.csv", "text/csv", icon=":material/download:",
        key=f"acc_csv_{name}",
    )  # fmt: skip
