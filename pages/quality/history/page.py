"""How well histories are taken: what was uncovered, how the dialogue went, how the patient played, case by case."""

import streamlit as st

from core.frameworks.base import publisher
from core.measures.history.measures import HISTORY
from core.measures.missing import begin_measuring, measuring
from core.store.database import Store
from pages.kit.jobs import draw_missing
from pages.kit.page import draw_sections, say_how_to_begin
from pages.kit.stored import history_conditions
from pages.kit.view import ask_view, offers_in
from pages.quality.history.cases import draw_cases
from pages.quality.history.figures import (
    ask_published,
    draw_comparison,
    draw_course,
    draw_doctors,
    draw_overview,
    draw_patients,
    scoped,
    stored_history,
)


def draw_history() -> None:
    """Draw the page, or the published figures and what to do where nothing is stored."""
    table = stored_history("mcq_loose")
    if table.empty:
        say_how_to_begin(
            "These are the **published** figures; no conversation is stored yet. The release’s conversations are "
            "measured the same way as one’s own.",
            instead="Or run doctors on the library: "
            f"`python -m core run --protocol {publisher('history').name} --doctor reference/oracle-direct`.",
        )
        draw_doctors([], {}, [], ask_published(), bounds=False)
        return
    store = Store()
    unknown = table["dataset"].isna()
    lost = int(table.loc[unknown, "missing"].sum())
    if lost:
        talks = "1 conversation is" if lost == 1 else f"{lost:,} conversations are"
        st.caption(f"{talks} not to be measured because the case is not stored: import the cases first.")

    def start() -> None:
        begin_measuring(store, HISTORY)

    draw_missing(
        measuring(store, HISTORY),
        int(table.loc[~unknown, "missing"].sum()),
        HISTORY,
        start,
        "history",
        explains="what of the case’s items was uncovered, turns, lengths, repetition and the patient’s virtues",
    )
    sizes = table.groupby("case_set")["conversations"].sum().sort_values(ascending=False)
    view = ask_view(offers_in(table, sizes.index), "models", "datasets", "specialties", "rule")
    if scoped(view).empty:
        st.info("No conversation fits these filters: remove one.", icon=":material/filter_alt_off:")
        return
    sections = {
        "Figures": draw_overview,
        "Course of the dialogue": draw_course,
        "Comparison": draw_comparison,
        "The patient": draw_patients,
        "Cases": lambda view: draw_cases(view, scoped(view), history_conditions()),
    }
    draw_sections(sections, "history_tab", view)
