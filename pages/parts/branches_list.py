"""The newest families of branches, and how to make a first one."""

import pandas as pd
import streamlit as st

from core.store.queries.forks import Family
from pages.parts.branches_data import newest_families
from pages.parts.figures import model_name
from pages.parts.navigation import LIVE, TRANSCRIPTS


def draw_families() -> None:
    """List the families with the newest branches; a click opens one."""
    held = newest_families()
    if not held:
        st.info(
            "No conversation has branched yet. Open any conversation and choose “Fork from here”: what was said before "
            "that message is kept, and from there on you can change the words, the doctor, the patient, the persona or "
            "the prompts and run on. The branches are then drawn here as a tree.",
            icon=":material/account_tree:",
        )
        with st.container(horizontal=True):
            st.page_link(TRANSCRIPTS, label="Choose a conversation", icon=":material/forum:")
            st.page_link(LIVE, label="Start a consultation", icon=":material/play_arrow:")
        return
    st.caption("Conversations that have branches, the newest branch first. Choose a row to see its tree.")
    key = f"branches_families_{held[0].newest}_{len(held)}"

    def choose() -> None:
        rows = st.session_state[key].selection.rows
        if rows and rows[0] < len(held) and "trial" not in st.query_params:
            st.query_params["trial"] = held[rows[0]].newest

    table = families_table(held)
    st.dataframe(
        table, hide_index=True, key=key, on_select=choose, selection_mode="single-row",
        height="content" if len(held) <= 15 else 560, alt="Conversations that have branches",
        column_config={"Newest branch": st.column_config.DatetimeColumn(format="YYYY-MM-DD HH:mm")},
    )  # fmt: skip
    st.download_button(
        "Download as CSV", table.to_csv(index=False), "families.csv", "text/csv", icon=":material/download:",
        key="branches_families_csv", on_click="ignore",
    )  # fmt: skip


def families_table(held: list[Family]) -> pd.DataFrame:
    """Return the families as rows; the time is UTC."""
    return pd.DataFrame(
        [
            {
                "Case": family.case_key,
                "Doctor of the original": model_name(family.doctor) if family.doctor else "not stored",
                "Branches": family.branches,
                "Newest branch": pd.Timestamp(family.finished_at, unit="s").floor("s"),
            }
            for family in held
        ]
    )
