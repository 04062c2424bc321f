"""Which simulated patients can be trusted: what they do wrong, how often, where, and the rule beside experts."""

import streamlit as st

from core.errors import AnamnesisError
from pages.parts.figure_controls import IMPORT_COMMAND
from pages.parts.look import plain
from pages.parts.navigation import RUNS, require_app
from pages.parts.patients_controls import ask_view
from pages.parts.patients_data import on_offer
from pages.parts.patients_experts import draw_experts
from pages.parts.patients_hits import draw_hits
from pages.parts.patients_marking import draw_marking
from pages.parts.patients_rates import draw_rates
from pages.parts.patients_rules import draw_rules
from pages.parts.sections import draw_sections

require_app()

_SECTIONS = {"Rates": draw_rates, "Hits": draw_hits, "Against experts": draw_experts, "Rules": draw_rules}


def draw_patients() -> None:
    """Draw the page, or what to do where no patient has said anything."""
    held = on_offer()
    if not held.patients:
        _say_how_to_begin()
        return
    view = ask_view(held)
    draw_marking(view)
    draw_sections(_SECTIONS, "patients_tab", view)


def _say_how_to_begin() -> None:
    st.info(
        "No conversation with a patient is stored yet. Start a campaign, which the reference cast plays without a key "
        "(`python -m core run --doctor reference/bayes`), or import the authors’ public release: "
        f"`{IMPORT_COMMAND}`, where PATH is a folder or archive of their repository.",
        icon=":material/personal_injury:",
    )
    st.page_link(RUNS, label="Start a campaign", icon=":material/play_arrow:")


st.title("Patients", anchor=False)
st.caption(
    "A simulated patient should say what the case says, in a patient’s words. Stated rules find replies that do not."
)
try:
    draw_patients()
except AnamnesisError as error:
    st.error(plain(str(error)))
