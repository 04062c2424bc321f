"""Quality: history taking, CARE, rubrics, urgency, and measures without a page of their own."""

import streamlit as st

from core.measures.judge_check import CHECKS
from core.measures.registry import sections
from core.measures.repeatability import POWER, REPEATABILITY
from core.measures.spend import SPEND
from pages.kit.choice import draw_chosen
from pages.kit.page import draw_tabs, lead_from, show
from pages.quality.care.page import draw_care
from pages.quality.history.page import draw_history
from pages.quality.rubrics import draw_rubrics
from pages.quality.urgency import draw_urgency

_KEY = "quality_part"
_OTHERS = "Other measures"
TABS = {
    "History taking": draw_history,
    "CARE": draw_care,
    "Rubrics": draw_rubrics,
    "Urgency": draw_urgency,
    _OTHERS: lambda: draw_chosen(sections("")),
}


def draw_page() -> None:
    """Draw the open tab; an address of version 0.6 that names a measure leads to it."""
    for section in (REPEATABILITY, POWER, SPEND):
        lead_from("measure", section.title, "accuracy", acc_tab="Repeatability, power, cost", measure=section.title)
    lead_from("measure", CHECKS.title, "trust", trust="Checks")
    if "measure" in st.query_params and _KEY not in st.query_params:
        st.session_state.setdefault(_KEY, _OTHERS)
    draw_tabs(TABS, _KEY)


if __name__ == "__main__":
    show("Quality", draw_page)
