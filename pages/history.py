"""How well histories are taken: what was uncovered, how the dialogue went, how the patient played, case by case."""

import streamlit as st

from core.errors import AnamnesisError
from core.frameworks.base import publisher
from pages.parts.figure_controls import IMPORT_COMMAND, unique_names
from pages.parts.figures import model_colours
from pages.parts.history_cases import draw_cases
from pages.parts.history_controls import ask_view, chosen_rule
from pages.parts.history_course import draw_course
from pages.parts.history_data import doctors, scoped, stored_history
from pages.parts.history_measuring import draw_measuring
from pages.parts.history_shown import Shown
from pages.parts.history_view import ask_published, draw_comparison, draw_doctors, draw_overview, draw_patients
from pages.parts.look import plain
from pages.parts.navigation import RUNS, require_app
from pages.parts.sections import draw_sections

require_app()

_SECTIONS = {
    "Figures": draw_overview,
    "Course of the dialogue": draw_course,
    "Comparison": draw_comparison,
    "The patient": draw_patients,
    "Cases": draw_cases,
}


def draw_history() -> None:
    """Draw the page, or the published figures and what to do where nothing is stored."""
    held = doctors()
    table = stored_history(chosen_rule())
    if table.empty:
        _say_how_to_begin()
        return
    draw_measuring(table)
    names = unique_names(one.name for one in held)
    view = ask_view(table, names)
    if scoped(view).empty:
        st.info("No conversation fits these filters: take one away.", icon=":material/filter_alt_off:")
        return
    shown = Shown(view, held, names, model_colours(list(names)))
    draw_sections(_SECTIONS, "history_tab", shown)


def _say_how_to_begin() -> None:
    st.info(
        "These are the **published** figures; no conversation is stored yet. Run doctors on the library: "
        f"`python -m core run --protocol {publisher('history').name} --doctor reference/oracle-direct`. Or import the "
        f"authors’ release, whose conversations are measured the same way: `{IMPORT_COMMAND}`, where PATH is a folder "
        "or archive of their repository.",
        icon=":material/menu_book:",
    )
    st.page_link(RUNS, label="Start a campaign", icon=":material/play_arrow:")
    draw_doctors([], {}, [], ask_published(), bounds=False)


st.title("History taking", anchor=False)
st.caption(
    "What the doctor’s questions uncovered of what there was to know (the benchmark’s measures), on "
    "every stored conversation."
)
try:
    draw_history()
except AnamnesisError as error:
    st.error(plain(str(error)))
