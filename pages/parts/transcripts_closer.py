"""A closer look at one conversation: why an answer is wrong, the ledger of facts, what the doctor believed."""

from collections.abc import Callable, Sequence

import streamlit as st

from core.case import Case
from core.events import Event
from pages.parts.case_belief import draw_belief
from pages.parts.case_facts import draw_facts_ledger
from pages.parts.case_why import draw_why
from pages.parts.navigation import CARE
from pages.parts.run_data import CARED_FOR
from pages.parts.transcripts_data import Reading

_LOOKS: dict[str, Callable[[Case, Sequence[Event], str], None]] = {
    "Why it is wrong": draw_why, "Facts ledger": draw_facts_ledger, "Belief": draw_belief,
}  # fmt: skip


def draw_closer(shown: Reading) -> None:
    """Draw what a closer look tells, one at a time and only when it is asked for.

    Causes, ledger and belief are read by rules for a conversation of two, so that what CARE measures gets a link.
    """
    if shown.case is None:
        return
    if shown.talk.protocol in CARED_FOR:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.caption(
                "Causes of wrong answers, the ledger of facts and the course of belief are read by rules for a doctor "
                "and a patient alone; what this conversation is measured by stands under CARE."
            )
            st.page_link(CARE, label="CARE of all models", icon=":material/volunteer_activism:")
        return
    chosen = st.segmented_control("A closer look", list(_LOOKS), key="read_closer", bind="query-params")
    if chosen:
        _LOOKS[chosen](shown.case, shown.events, f"closer_{shown.talk.trial_id}")
