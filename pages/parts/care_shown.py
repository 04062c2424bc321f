"""What the sections of the CARE page share: what they draw, and a list of which a row is opened."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import streamlit as st

from core.store.conditions import Condition
from pages.parts.care_data import View

MOST_ROWS = 1_000
"""Rows of one table that are sent to a browser at most."""
_LOW = 12
"""Rows up to which a list is shown at full height."""


@dataclass(frozen=True)
class Shown:
    """What a section draws: the view, and the models with their names and colours.

    ``datasets``: the data sets in it → their names on the page. ``seat_of``: whose run it is.
    """

    view: View
    seats: Sequence[Condition]
    names: Mapping[str, str]
    colours: Mapping[str, str]
    datasets: Mapping[str, str]
    seat_of: Mapping[str, str]


def choose_row(
    table: pd.DataFrame, ids: Sequence[str], address: str, name: str, alt: str, config: Mapping[str, Any] | None = None
) -> str | None:
    """Draw a list with its download; return which of ``ids`` stands in the ``address``, where a chosen row puts it."""
    key = f"care_rows_{name}_{len(table)}_{ids[0] if ids else ''}"

    def choose() -> None:
        rows = st.session_state[key].selection.rows
        if rows and rows[0] < len(ids):
            st.query_params[address] = ids[rows[0]]

    limit = f"; the first {MOST_ROWS:,} are listed, the download holds all" if len(table) > MOST_ROWS else ""
    st.caption(f"{len(table):,} rows{limit}. Choose one to read its conversation.")
    st.dataframe(
        table.head(MOST_ROWS), hide_index=True, key=key, on_select=choose, selection_mode="single-row",
        height="content" if len(table) <= _LOW else 300, column_config=dict(config or {}), placeholder="–", alt=alt,
    )  # fmt: skip
    st.download_button(
        "Download as CSV", lambda: table.to_csv(index=False).encode(), f"{name}.csv", "text/csv",
        icon=":material/download:", on_click="ignore", key=f"{name}-csv",
    )  # fmt: skip
    wanted = st.query_params.get(address)
    return wanted if wanted in set(ids) else None
