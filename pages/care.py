"""CARE: what conversations are worth in accuracy, efficiency, empathy and robustness, down to the message."""

import streamlit as st

from core.errors import AnamnesisError
from core.frameworks.base import publisher
from pages.parts.care_cases import draw_cases
from pages.parts.care_controls import ask_view
from pages.parts.care_data import doctors, scoped
from pages.parts.care_empathy import draw_empathy
from pages.parts.care_failures import draw_failures
from pages.parts.care_habits import draw_habits
from pages.parts.care_profile import draw_profile, draw_published
from pages.parts.care_scatter import draw_scatter
from pages.parts.care_shown import Shown
from pages.parts.figure_controls import dataset_name, unique_names
from pages.parts.figures import model_colours
from pages.parts.look import plain
from pages.parts.navigation import RUNS, require_app
from pages.parts.sections import draw_sections

require_app()

_SECTIONS = {
    "Profile": draw_profile,
    "Static and conversation": draw_scatter,
    "Failures": draw_failures,
    "Empathy": draw_empathy,
    "Habits": draw_habits,
    "Cases": draw_cases,
}


def draw_care() -> None:
    """Draw the page, or the published figures and what to do where nothing is stored."""
    held = doctors()
    names = unique_names(one.name for one in held)
    view = ask_view(names)
    if view is None:
        _say_how_to_begin()
        return
    table = scoped(view)
    if table.empty:
        st.info("No conversation fits these filters: take one away.", icon=":material/filter_alt_off:")
        return
    datasets = {name: dataset_name(name) for name in sorted(table["dataset"].dropna().unique())}
    seat_of = {run: one.name for one in held for run in one.runs}
    shown = Shown(view, held, names, model_colours(list(names)), datasets, seat_of)
    draw_sections(_SECTIONS, "care_tab", shown)


def _say_how_to_begin() -> None:
    care = publisher("care")
    st.info(
        f"These are the **published** figures; no conversation of {care.title} is stored yet. Run a doctor on the "
        "library, with the reference patient and staff no key is needed: "
        f"`python -m core run --protocol {care.name} --doctor reference/bayes`.",
        icon=":material/menu_book:",
    )
    st.page_link(RUNS, label="Start a campaign", icon=":material/play_arrow:")
    draw_published()


st.title("CARE", anchor=False)
st.caption(
    f"{publisher('care').title}’s conversations between a doctor, a patient and the clinical staff, in four parts: "
    "accuracy, conversational efficiency and strategy, empathy, robustness."
)
try:
    draw_care()
except AnamnesisError as error:
    st.error(plain(str(error)))
