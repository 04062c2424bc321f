"""The bar that measures stored conversations: how many are left, how long it takes, progress, stop."""

import pandas as pd
import streamlit as st

from core.measures.history.measures import HISTORY
from core.measures.missing import seconds_for
from pages.parts.history_data import begin_measuring, measuring
from pages.parts.look import duration, plain
from pages.parts.work_progress import draw_work


def draw_measuring(table: pd.DataFrame) -> None:
    """Draw the bar, or nothing where every conversation is measured."""
    work = measuring()
    if work is not None and work.running:
        st.fragment(draw_work, run_every=1.0)(work, "Measuring", "Making items…", "history")
        return
    if work is not None and work.error:
        st.error(plain(work.error))
    unknown = table["dataset"].isna()
    missing = int(table.loc[~unknown, "missing"].sum())
    lost = int(table.loc[unknown, "missing"].sum())
    if lost:
        st.caption(f"{_talks(lost)} not to be measured because the case is not stored: import the cases first.")
    if not missing:
        return
    how_long = duration(max(2.0, seconds_for(HISTORY, missing)))
    with st.container(border=True, horizontal=True, vertical_alignment="center"):
        st.markdown(
            f"**{_talks(missing)} not measured yet:** what of the case’s items was uncovered, turns, lengths, "
            f"repetition and the patient’s virtues. That takes about {how_long} once; it is kept. The figures below "
            "leave out what is not measured.",
            width="stretch",
        )
        st.button("Measure them", icon=":material/straighten:", type="primary", on_click=begin_measuring,
                  key="history_measure")  # fmt: skip


def _talks(number: int) -> str:
    return "1 conversation is" if number == 1 else f"{number:,} conversations are"
