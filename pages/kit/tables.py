"""Tables with CSV download and clickable rows, and long lists in pages whose position is stored in the URL."""

import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import pandas as pd
import streamlit as st

from core.spreadsheets import csv_of
from pages.kit.messages import MESSAGE
from pages.kit.names import case_name
from pages.kit.notes import warnings_shown
from pages.kit.visitor import draw_button

MOST_ROWS = 5_000
"""Maximum number of rows sent to a browser; the download has all rows."""
_WHOLE = 20
"""Rows up to which a table is shown at full height."""
_CASE = "Case"
"""The column of case keys: a page shows their display names, the download has the keys."""
_NUMBER, _NARROWEST = "No.", 50
"""Head and width in pixels of the column that numbers the rows of a table that opens something."""
_DIGITS = 9
"""A page number in the URL has fewer digits than this."""


def draw_table(
    table: pd.DataFrame,
    name: str,
    columns: Mapping[str, Any] | None = None,
    *,
    on_row: Callable[[int], object] | None = None,
    on_cell: Callable[[int, str], object] | None = None,
    marked: int | None = None,
    ids: Sequence[str] | None = None,
    height: int | Literal["auto", "content"] | None = None,
    download: str = "Download as CSV",
    alt: str | None = None,
    noted: bool = True,
) -> None:
    """Draw a table with its download.

    Args:
        table: The rows.
        name: Key of the table and name of its file.
        columns: Column settings; by default fractions have three decimals.
        on_row: Called with the position (from 0) of a clicked row.
        on_cell: Called with the position of the row and the column of a clicked cell.
        marked: Position of the selected row.
        ids: Identify the rows if their texts change over time.
        height: Height as for ``st.dataframe``; by default short tables show all rows.
        download: Label of the download; empty for none.
        alt: Description for screen readers.
        noted: Whether the file ends with a column of severe notes.
    """
    fractions = table.select_dtypes("float").columns
    decimals = dict.fromkeys(fractions, st.column_config.NumberColumn(format="%.3f"))
    shown_rows = table.head(MOST_ROWS).copy()
    if len(fractions):  # the format prints what rounds to zero from below as -0.000
        values = shown_rows[fractions]
        shown_rows[fractions] = values.mask((values > -0.0005) & (values < 0), 0.0)
    # A selection belongs to these rows: the key changes with them, so other rows start without a selection.
    identities = ids or (shown_rows.iloc[:, :1] if on_row is None else shown_rows).to_numpy().ravel()
    rows = zlib.crc32("\0".join(map(str, identities)).encode())
    key = f"{name}_rows_{rows:08x}"

    def forward_click() -> None:
        picked = st.session_state[key].selection
        if on_cell is not None:
            for row, column in picked.cells:
                on_cell(row, column)
            return
        # A cell or the box of the row was clicked.
        place = next((row for row, _ in picked.cells), next(iter(picked.rows), None))
        if on_row is not None and place is not None and place < len(shown_rows):
            on_row(place)

    # The caller says which row is selected, also after Back. A cell is never: it would hide a later click on a box.
    rows_selected = [] if marked is None else [marked]
    selected = st.session_state.get(key, {"selection": {"rows": [], "cells": []}})["selection"]
    if selected["rows"] != rows_selected or selected["cells"]:
        st.session_state[key] = {"selection": {"rows": rows_selected, "columns": [], "cells": []}}
    opens = on_row is not None or on_cell is not None
    choosing: Any = forward_click if opens else "ignore"
    if _CASE in shown_rows:
        names = shown_rows[_CASE].map(case_name, na_action="ignore")
        if names.nunique() == shown_rows[_CASE].nunique():  # otherwise two cases would have one name
            shown_rows = shown_rows.assign(**{_CASE: names})
            decimals[_CASE] = st.column_config.Column(help="Links and files have the full id: data set/case.")
    numbered: dict[str, Any] = {}
    if on_cell is not None:
        shown_rows = shown_rows.set_index(shown_rows.columns[0])
    elif opens:
        shown_rows = shown_rows.set_axis(range(1, len(shown_rows) + 1)).rename_axis(_NUMBER)
        numbered["_index"] = st.column_config.NumberColumn(width=_NARROWEST)
    # A table that gets the focus, by the tab key or a click on a header, selects its first cell. Streamlit does not
    # report a cell of the index, so that only a click on another cell opens something.
    st.dataframe(
        shown_rows,
        hide_index=not opens,
        key=key,
        column_config={**decimals, **numbered, **(columns or {})},
        placeholder="–",
        height=height or ("content" if len(table) <= _WHOLE else "auto"),
        alt=alt,
        on_select=choosing,
        selection_mode=["single-row", "single-cell"] if on_cell is None else "single-cell",
    )
    if len(table) > MOST_ROWS:
        st.caption(f"The first {MOST_ROWS:,} of {len(table):,} rows are shown; the download has all.")
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
    """Draw a download button for a table, or a function that makes one; the CSV is written on download.

    The last column has the severe notes of the page if ``noted``. ``key`` is needed for a second file of one name.
    """
    notes = " ".join(warnings_shown()) if noted else ""  # read now: the file is made in another thread
    st.download_button(
        label,
        lambda: csv_of((table() if callable(table) else table).assign(**({"Notes": notes} if notes else {}))),
        f"{name.replace('_', '-')}.csv",
        "text/csv",
        icon=":material/download:",
        on_click="ignore",
        key=key or f"{name}_csv",
    )


def draw_as_table(
    table: pd.DataFrame,
    name: str,
    columns: Mapping[str, Any] | None = None,
    on_row: Callable[[int], object] | None = None,
) -> None:
    """Draw the values of a figure as a folded table; ``on_row`` as in ``draw_table``."""
    with st.expander("The figures as a table", icon=":material/table:"):
        draw_table(table, name, columns, on_row=on_row)


def page_asked(name: str) -> int:
    """Return the page number (from 1) in the URL parameter ``name``; 1 if it is missing or not a number."""
    text = st.query_params.get(name, "1")
    return max(1, int(text)) if text.isdecimal() and text.isascii() and len(text) < _DIGITS else 1


def draw_pager(name: str, page: int, pages: int) -> None:
    """Draw page numbers if there are several pages; the URL stores the page, so that filters can reset it."""
    key = f"{name}s_{pages}_{page}"

    def turn() -> None:
        st.query_params[name] = str(st.session_state[key])

    if pages > 1:
        st.pagination(pages, default=page, key=key, on_change=turn)
        st.caption("A click on a column’s head sorts this page.", width="content")


def draw_steps(ids: Sequence[str], current: str, name: str, page_name: str, rows: int) -> None:
    """Draw a button back to the list and buttons to the previous and next item.

    Args:
        ids: Ids of the listed items.
        current: Id of the current item, stored in the URL parameter ``name``.
        name: URL parameter of the item.
        page_name: URL parameter of the page of the list.
        rows: Rows on each page of the list.
    """
    place = ids.index(current) if current in ids else None

    def return_to_list() -> None:
        st.query_params.pop(name, None)
        st.query_params.pop(MESSAGE, None)
        if place is not None:
            st.query_params[page_name] = str(place // rows + 1)

    st.button("Back to the list", icon=":material/arrow_back:", on_click=return_to_list)
    step_buttons(ids, place, name)
    if place is not None:
        st.markdown(f":gray[{place + 1:,} of {len(ids):,} found]", width="content")


def step_buttons(
    ids: Sequence[str], place: int | None, name: str, *, more: Sequence[tuple[str, str, str, str | None]] = ()
) -> None:
    """Draw buttons to the previous and the next item, also reached by the keys k and j.

    ``more`` are further buttons: label, icon, key, and the value for the URL parameter ``name``.
    """
    before = ids[place - 1] if place else None
    after = ids[place + 1] if place is not None and place + 1 < len(ids) else None

    def go(target: str) -> None:
        st.query_params.pop(MESSAGE, None)  # it belongs to the item before
        st.query_params[name] = target

    outside = "" if place is not None else "Not in the list."
    steps = (
        ("Previous", "keyboard_arrow_up", "k", before, outside or "This is the first."),
        ("Next", "keyboard_arrow_down", "j", after, outside or "This is the last."),
        *((*button, "There is none.") for button in more),
    )
    for label, icon, letter, target, why_not in steps:
        draw_button(
            label,
            why_not if target is None else "",
            icon=f":material/{icon}:",
            shortcut=letter,
            on_click=go,
            args=(target,),
        )
