"""Experts judge conversations and diagnoses without knowing the model, answer vignettes, and are compared."""

import streamlit as st

from core.errors import AnamnesisError
from pages.parts.experts_exchange import draw_exchange
from pages.parts.experts_grader import draw_flips
from pages.parts.experts_list import draw_list
from pages.parts.experts_plan import draw_plan
from pages.parts.experts_release import draw_release
from pages.parts.experts_results import draw_results
from pages.parts.experts_review import draw_review
from pages.parts.experts_words import ANNOTATOR, REVIEW
from pages.parts.figure_controls import RELEASED
from pages.parts.look import plain
from pages.parts.navigation import require_app
from pages.parts.sections import draw_sections

require_app()

_SECTIONS = {
    "Reviews": draw_list,
    "Plan a review": draw_plan,
    "Results": draw_results,
    "Graders": draw_flips,
    f"The {RELEASED.title} release": draw_release,
    "Import and export": draw_exchange,
}


def draw_experts() -> None:
    """Draw the review in the address for the annotator in it, or everything about reviews."""
    review, annotator = st.query_params.get(REVIEW), st.query_params.get(ANNOTATOR)
    if review and annotator:
        draw_review(review, annotator)
        return
    draw_sections(_SECTIONS, "experts_tab")


st.title("Experts", anchor=False)
try:
    draw_experts()
except AnamnesisError as error:
    st.error(plain(str(error)))
