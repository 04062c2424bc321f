"""Tables and long lists on a page.

The fractions of a table line up, it can be taken away as CSV, and a click on a row opens what it is of. A long list is
seen by pages, with the way along what it holds; where one is stands in the address.
"""

import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import pandas as pd
import streamlit as st
from pandas.io.formats.style import Styler

from core.spreadsheets import csv_of
from pages.kit.notes import warnings_shown

MOST_ROWS = 5_000
"""Rows of one table that are sent to a browser at most; the download holds all."""
_WHOLE = 20
"""Rows up to which a table is shown at full height."""
_DIGITS = 9
"""Digits from which on a number in the address is no page."""


def draw_table(
    table: pd.DataFrame,
    name: str,
    columns: Mapping[str, Any] | None = None,
    *,
    on_row: Callable[[int], object] | None = None,
    marked: int | None = None,
    ids: Sequence[str] | None = None,
    styled: Callable[[pd.DataFrame], Styler] | None = None,
    height: int | Literal["auto", "content"] | None = None,
    download: str = "Download as CSV",
    alt: str | None = None,
    noted: bool = True,
) -> None:
    """Draw a table with its download; ``name`` is its key and the name of its file.

    ``columns`` are settings of columns that say more than that fractions have three decimals. A click anywhere on a row
    opens what it stands for: ``on_row`` is given its place, counted from 0. ``marked`` is the row of what is shown
    already. ``ids`` tell the rows from others where their words change by themselves. ``styled`` colours the rows that
    are shown. Without a word for its ``download`` there is none; ``noted`` files end with a column of severe notes.
    """
    # fractions line up
    decimals = dict.fromkeys(table.select_dtypes("float").columns, st.column_config.NumberColumn(format="%.3f"))
    shown = table.head(MOST_ROWS)
    # a choice of a row belongs to these rows: other rows are another table
    known_by = ids or (shown.iloc[:, :1] if on_row is None else shown).to_numpy().ravel()
    rows = zlib.crc32("\0".join(map(str, known_by)).encode())
    key = f"{name}_rows_{rows:08x}"

    def mark(place: int) -> None:
        st.session_state[key] = {"selection": {"rows": [place], "columns": [], "cells": []}}

    def take() -> None:
        picked = st.session_state[key].selection
        # a cell or the box before the row: the cell is not kept, so that it never hides a later choice of a box
        place = next((row for row, _ in picked.cells), next(iter(picked.rows), None))
        if on_row is not None and place is not None and place < len(shown):
            mark(place)
            on_row(place)

    if marked is not None and ((held := st.session_state.get(key)) is None or held["selection"]["rows"] != [marked]):
        mark(marked)
    choosing: Any = "ignore" if on_row is None else take
    st.dataframe(
        shown if styled is None else styled(shown),
        hide_index=True,
        key=key,
        column_config={**decimals, **(columns or {})},
        placeholder="–",
        height=height or ("content" if len(table) <= _WHOLE else "auto"),
        alt=alt,
        on_select=choosing,
        selection_mode=["single-row", "single-cell"],
    )
    if len(table) > MOST_ROWS:
        st.caption(f"The first {MOST_ROWS:,} of {len(table):,} rows are shown; the download holds all.")
    if download:
        offer_csv(table, name, download, noted=noted)


def offer_csv(
    table: pd.DataFrame | Callable[[], pd.DataFrame],
    name: str,
    label: str = "Download as CSV",
    *,
    key: str = "",
    noted: bool = True,
) -> None:
    """Offer a table, or what makes one, as CSV, which is written when it is asked for.

    Its last column holds the severe notes that the page shows, unless it is a list and not ``noted``.

    A ``key`` is needed where a page has several of one name.
    """
    notes = warnings_shown() if noted else ""  # read now: the file is made in another thread
    st.download_button(
        label,
        lambda: csv_of(_with_notes(table() if callable(table) else table, notes)),
        f"{name.replace('_', '-')}.csv",
        "text/csv",
        icon=":material/download:",
        on_click="ignore",
        key=key or f"{name}_csv",
    )


def _with_notes(table: pd.DataFrame, notes: str) -> pd.DataFrame:
    return table.assign(Notes=notes) if notes else table


def draw_as_table(
    table: pd.DataFrame,
    name: str,
    columns: Mapping[str, Any] | None = None,
    on_row: Callable[[int], object] | None = None,
) -> None:
    """Draw the figures of a chart, folded up; ``on_row`` as in ``draw_table``."""
    with st.expander("The figures as a table", icon=":material/table:"):
        draw_table(table, name, columns, on_row=on_row)


def percents(*names: str) -> dict[str, Any]:
    """Return the settings of columns that hold shares."""
    return dict.fromkeys(names, st.column_config.NumberColumn(format="percent"))


def page_asked(name: str) -> int:
    """Return the page, counted from 1, that the address asks for under ``name``; the first where it asks for none."""
    asked = st.query_params.get(name, "1")
    return max(1, int(asked)) if asked.isdecimal() and asked.isascii() and len(asked) < _DIGITS else 1


def draw_pager(name: str, page: int, pages: int) -> None:
    """Let another page be chosen, where there are several; the address says which, so that filters can begin anew."""
    key = f"{name}s_{pages}_{page}"

    def turn() -> None:
        st.query_params[name] = str(st.session_state[key])

    if pages > 1:
        st.pagination(pages, default=page, key=key, on_change=turn)


def draw_steps(found: Sequence[str], shown: str, name: str, page_name: str, rows: int) -> None:
    """Draw the way back to the list, at the page of so many ``rows`` that holds what is shown, and the ways along it.

    What is ``shown`` stands in the address under ``name``, the page under ``page_name``.
    """
    place = found.index(shown) if shown in found else None

    def back() -> None:
        st.query_params.pop(name, None)
        if place is not None:
            st.query_params[page_name] = str(place // rows + 1)

    st.button("Back to the list", icon=":material/arrow_back:", on_click=back)
    step_buttons(found, place, name)
    words = f"{place + 1:,} of {len(found):,} found" if place is not None else "Not among those found"
    st.markdown(f":gray[{words}]", width="content")


def step_buttons(
    found: Sequence[str], place: int | None, name: str, *, more: Sequence[tuple[str, str, str, str | None]] = ()
) -> None:
    """Draw the buttons that lead from a place to what comes before and after it, which letters press as well.

    ``more`` are further ones: label, icon, letter, and what is put into the address under ``name``.
    """
    before = found[place - 1] if place else None
    after = found[place + 1] if place is not None and place + 1 < len(found) else None

    def go(target: str) -> None:
        st.query_params[name] = target

    steps = (("Previous", "keyboard_arrow_up", "k", before), ("Next", "keyboard_arrow_down", "j", after), *more)
    for label, icon, letter, target in steps:
        st.button(
            label, icon=f":material/{icon}:", shortcut=letter, disabled=target is None, on_click=go, args=(target,)
        )
