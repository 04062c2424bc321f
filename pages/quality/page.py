"""Quality: what frameworks declare, such as history taking and CARE, rubrics, urgency, and other measures."""

from functools import partial

import streamlit as st

from core.measures.registry import qualities, sections
from core.measures.repeatability import POWER, REPEATABILITY
from core.measures.spend import SPEND
from pages.kit.choice import draw_chosen
from pages.kit.navigation import go_to
from pages.kit.page import draw_tabs, lead_from, show
from pages.quality.declared import draw_quality
from pages.quality.rubrics import draw_rubrics
from pages.quality.urgency import draw_urgency

_KEY = "quality_part"
_OTHERS = "Other measures"
_FORMER = {
    "care_how": "care_by",
    "care_questions": "care_question_type",
    "care_failure": "care_failures",
    "care_causes": "care_failures_cause",
    "care_failed_models": "care_failures_model",
    "care_rating": "care_ratings",
    "care_ratings_given": "care_ratings_rating",
    "care_rated_models": "care_ratings_model",
    "history_who": "history_speaker",
    "history_group_measure": "history_measure",
}
"""URL parameter of version 0.6 → the same today."""
_FORMER_CASES = {"care_case": ("care_model", "care_items"), "history_case": ("history_doctor", "history_cases")}
"""URL parameter of version 0.6 with the chosen case → the parameter with its model, and the line of both today."""


def draw_page() -> None:
    """Draw the open tab; an address of version 0.6 leads to what it showed."""
    for section in (REPEATABILITY, POWER, SPEND):
        lead_from("measure", section.title, "accuracy", acc_tab="Repeatability, power, cost", measure=section.title)
    lead_from("measure", "Judge check", "trust", trust="Checks")
    if "measure" in st.query_params and _KEY not in st.query_params:
        st.session_state.setdefault(_KEY, _OTHERS)
    # the page is opened again under the present parameters, because controls read the address at the start of a run
    query = {name: st.query_params.get_all(name) for name in st.query_params}
    today = {_FORMER.get(name, name): values for name, values in query.items()}
    for case, (model, line) in _FORMER_CASES.items():
        if case in today and model in today:
            today[line] = [f"{today.pop(model)[0]}|{today.pop(case)[0]}"]
    if today.keys() != query.keys():
        go_to("quality", **today)
    tabs = {quality.title: partial(draw_quality, quality) for quality in qualities()}
    others = {"Rubrics": draw_rubrics, "Urgency": draw_urgency, _OTHERS: lambda: draw_chosen(sections(""))}
    draw_tabs({**tabs, **others}, _KEY)


if __name__ == "__main__":
    show("Quality", draw_page)
