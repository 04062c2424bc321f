"""The bar that marks the facts of stored conversations: how many are left, how long it takes, progress, stop."""

import streamlit as st

from core.measures.ledger.kept import LEDGER
from core.measures.missing import seconds_for
from pages.parts.failures_data import begin_marking, marking, talks
from pages.parts.look import duration, plain
from pages.parts.work_progress import draw_work


def draw_marking() -> None:
    """Draw the bar, or nothing where every conversation is marked."""
    work = marking()
    if work is not None and work.running:
        st.fragment(draw_work, run_every=1.0)(work, "Marking facts", "Starting…", "failures_mark")
        return
    if work is not None and work.error:
        st.error(plain(work.error))
    missing = int(talks()["unmarked"].sum())
    if not missing:
        return
    with st.container(border=True, horizontal=True, vertical_alignment="center"):
        st.markdown(
            f"**{missing:,} conversations are not marked yet:** which facts were asked, volunteered or never "
            f"elicited. That takes about {duration(seconds_for(LEDGER, missing))} once; it is kept. The figures "
            "below leave these conversations out.",
            width="stretch",
        )
        st.button("Mark them", icon=":material/fact_check:", type="primary", on_click=begin_marking,
                  key="failures_mark")  # fmt: skip
