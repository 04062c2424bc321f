"""All data sets at hand as a table; a click on a row opens one."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pandas as pd
import streamlit as st

from core.datasets.library import DATASET as LIBRARY
from core.frameworks.base import publisher
from pages.parts.data_published import PAPER, published_table
from pages.parts.data_sets import Overview
from pages.parts.data_words import counted
from pages.parts.figure_controls import dataset_name

_BUILT_IN = "Anamnesis"


def draw_list(held: Sequence[Overview]) -> None:
    """Draw the table of the data sets."""
    key = f"data_sets_{len(held)}"

    def choose() -> None:
        rows = st.session_state[key].selection.rows
        if rows and rows[0] < len(held):
            st.query_params["dataset"] = held[rows[0]].name

    table = sets_table(held)
    st.dataframe(
        table, hide_index=True, key=key, on_select=choose, selection_mode="single-row", placeholder="–",
        height="content" if len(held) <= 12 else 460, alt="Data sets at hand",
        column_config={
            "Data set": st.column_config.TextColumn(pinned=True),
            "Rejected": st.column_config.NumberColumn(
                format="localized", help="Rows of the file that could not be used."
            ),
            "Cases": st.column_config.NumberColumn(format="localized"),
            "With picture": st.column_config.NumberColumn(
                format="localized", help="Cases that have a picture at hand, which a doctor can be shown."
            ),
            "Source": st.column_config.TextColumn(width="medium"),
            "Findings": st.column_config.NumberColumn(
                format="localized",
                help="What the linter found: answers given away, answers that are no choice, duplicates, missing parts."
            ),
            "Suitable": st.column_config.NumberColumn(
                format="percent", help="Share that can be played as a consultation, of the cases that were looked at."
            ),
            "Looked at": st.column_config.NumberColumn(format="localized", help="Cases whose suitability is known."),
            "Imported": st.column_config.DatetimeColumn(format="YYYY-MM-DD HH:mm"),
        },
    )  # fmt: skip
    with st.container(horizontal=True, vertical_alignment="center"):
        st.download_button(
            "Download as CSV", table.to_csv(index=False), "data-sets.csv", "text/csv", icon=":material/download:",
            key="data_sets_csv",
        )  # fmt: skip
        total = sum(one.cases for one in held)
        st.caption(f"{counted(total, 'case')}. Choose a row to see its cases, suitability and record.")


def sets_table(held: Sequence[Overview]) -> pd.DataFrame:
    """Return a row for each data set."""
    return pd.DataFrame(
        [
            {
                "Data set": dataset_name(one.name),
                "Format": format_title(one),
                "Cases": None if one.trouble else one.cases,
                "Specialties": len(one.specialties) or None,
                "With picture": one.pictured or None,
                "Rejected": one.info.rejected_count if one.info else None,
                "Findings": None if one.trouble else one.findings,
                "Suitable": one.suitable / one.looked_at if one.looked_at else None,
                "Looked at": None if one.trouble else one.looked_at,
                "Source": one.source,
                "Licence": one.licence,
                "Imported": imported_at(one),
            }
            for one in held
        ]
    ).astype(dict.fromkeys(("Cases", "Specialties", "With picture", "Rejected", "Findings", "Looked at"), "Int64"))


def draw_published() -> None:
    """Draw what the paper says of the published data sets."""
    with st.expander(
        f"What the {publisher('care').title} paper reports of published data sets", icon=":material/menu_book:"
    ):
        st.dataframe(published_table(), hide_index=True, placeholder="–", key="data_published")
        st.caption(f"**Published** ({PAPER}), as the text words it; nothing here was computed from this database.")


def format_title(one: Overview) -> str:
    """Return the title of the format that a data set was read from."""
    if one.info is None:
        return _BUILT_IN if one.name == LIBRARY else ""
    return one.info.title


def imported_at(one: Overview) -> datetime | None:
    """Return when a data set was imported, in UTC; ``None`` where it is not known."""
    return None if one.info is None else datetime.fromtimestamp(one.info.imported_at, UTC)
