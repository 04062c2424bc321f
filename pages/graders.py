"""Graders of free responses measured: who agrees with whom, what accuracy each gives, where they differ, who wavers."""

import streamlit as st

from core.errors import AnamnesisError
from pages.parts.figure_controls import IMPORT_COMMAND
from pages.parts.graders_accuracy import draw_accuracy
from pages.parts.graders_again import draw_again
from pages.parts.graders_agreement import draw_agreement
from pages.parts.graders_controls import ask_view
from pages.parts.graders_data import graders
from pages.parts.graders_differences import draw_differences
from pages.parts.graders_flips import draw_flips
from pages.parts.look import plain
from pages.parts.navigation import RUNS, require_app
from pages.parts.sections import draw_sections

require_app()

_SECTIONS = {
    "Agreement": draw_agreement,
    "Accuracy by grader": draw_accuracy,
    "Differences": draw_differences,
    "Contradictions": draw_flips,
    "Grade again": draw_again,
}


def draw_graders() -> None:
    """Draw the page, or what to do where nobody has judged a free response."""
    held = graders()
    if not held:
        _say_how_to_begin()
        return
    view = ask_view(held)
    draw_sections(_SECTIONS, "graders_tab", view)


def _say_how_to_begin() -> None:
    st.info(
        "No free response has been judged yet. Run a campaign with an arm such as multi-turn free response "
        "(`python -m core run --doctor reference/bayes --arms multi_turn:frq`), or import the "
        f"release: `{IMPORT_COMMAND}`, where PATH is a folder or archive of their repository.",
        icon=":material/rule:",
    )
    st.page_link(RUNS, label="Start a campaign", icon=":material/play_arrow:")


st.title("Graders", anchor=False)
st.caption(
    "A free response is right or wrong by the word of a grader. Here graders are measured: against one another, "
    "against themselves, and by what each makes of a model’s accuracy."
)
try:
    draw_graders()
except AnamnesisError as error:
    st.error(plain(str(error)))
