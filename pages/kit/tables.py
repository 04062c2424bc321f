"""A table on a page: its fractions line up, it can be taken away as CSV, and a click on a row opens what it is of."""

import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import pandas as pd
import streamlit as st
from pandas.io.formats.style import Styler

from core.spreadsheets import csv_of

MOST_ROWS = 5_000
"""Rows of one table that are sent to a browser at most; the download holds all."""
_WHOLE = 20
"""Rows up to which a table is shown at full height."""


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
) -> None:
    """Draw a table with its download; ``name`` is its key and the name of its file.

    ``columns`` are settings of columns that say more than that fractions have three decimals. A click anywhere on a row
    opens what it stands for: ``on_row`` is given its place, counted from 0. ``marked`` is the row of what is shown
    already. ``ids`` tell the rows from others where their words change by themselves. ``styled`` colours the rows that
    are shown. Without a word for its ``download`` there is none.
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
        offer_csv(table, name, download)


def offer_csv(
    table: pd.DataFrame | Callable[[], pd.DataFrame], name: str, label: str = "Download as CSV", *, key: str = ""
) -> None:
    """Offer a table, or what makes one, as CSV, which is written when it is asked for.

    A ``key`` is needed where a page has several of one name.
    """
    st.download_button(
        label,
        lambda: csv_of(table() if callable(table) else table),
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
    """Draw the figures of a chart, folded up; ``on_row`` as in ``draw_table``."""
    with st.expander("The figures as a table", icon=":material/table:"):
        draw_table(table, name, columns, on_row=on_row)


def percents(*names: str) -> dict[str, Any]:
    """Return the settings of columns that hold shares."""
    return dict.fromkeys(names, st.column_config.NumberColumn(format="percent"))
