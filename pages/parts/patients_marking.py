"""The bar that marks patients' replies: how many conversations are left, how long it takes, progress, stop."""

import streamlit as st

from core.measures.missing import seconds_for
from core.measures.patients.rules import PATIENT_MARKS
from pages.parts.look import duration, plain
from pages.parts.patients_data import View, begin_marking, marking, unmarked
from pages.parts.work_progress import draw_work


def draw_marking(view: View) -> None:
    """Draw the bar, or nothing where every conversation is marked."""
    work = marking()
    if work is not None and work.running:
        st.fragment(draw_work, run_every=1.0)(work, "Marking replies", "Starting…", "patients_mark")
        return
    if work is not None and work.error:
        st.error(plain(work.error))
    missing = unmarked(view)
    if not missing:
        return
    with st.container(border=True, horizontal=True, vertical_alignment="center"):
        st.markdown(
            f"**{missing:,} conversations are not marked yet** by the rules on patients’ replies. That takes about "
            f"{duration(seconds_for(PATIENT_MARKS, missing))} once; it is kept. The figures below "
            "leave these conversations out.",
            width="stretch",
        )
        st.button("Mark them", icon=":material/rule:", type="primary", on_click=begin_marking, args=(view,),
                  key="patients_mark")  # fmt: skip
