"""Quality: what frameworks declare, such as history taking and CARE, rubrics, urgency, and other measures."""

from functools import partial

import streamlit as st

from core.measures.registry import qualities, sections
from pages.kit.choice import draw_chosen
from pages.kit.page import draw_tabs, show
from pages.quality.declared import draw_quality
from pages.quality.rubrics import draw_rubrics
from pages.quality.urgency import draw_urgency

_KEY = "quality_part"
_OTHERS = "Other measures"


def draw_page() -> None:
    if "measure" in st.query_params and _KEY not in st.query_params:
        st.session_state.setdefault(_KEY, _OTHERS)
    tabs = {quality.title: partial(draw_quality, quality) for quality in qualities()}
    others = {"Rubrics": draw_rubrics, "Urgency": draw_urgency, _OTHERS: lambda: draw_chosen(sections(""))}
    draw_tabs({**tabs, **others}, _KEY)


if __name__ == "__main__":
    show("Quality", draw_page)
