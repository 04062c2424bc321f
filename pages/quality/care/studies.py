"""The parts of CARE as one figure with the weights of experts’ choices, and the paper’s studies by experts."""

from collections.abc import Callable
from dataclasses import replace

import streamlit as st

from core.frameworks.automedic.measures.composite import EQUAL, preference_reviews
from core.frameworks.automedic.measures.report import COMPOSITE, WEIGHTS
from core.frameworks.automedic.measures.studies import SECTIONS
from core.measures.base import Result
from core.measures.preferences import PREFERENCES
from core.store.selection import Selection
from pages.kit.cached import read
from pages.kit.controls import choose
from pages.kit.navigation import link
from pages.kit.section import draw_section
from pages.kit.view import FilterRow

_ALL = Selection()
_PLAN = {"section": "Plan a review"}


def draw_composite(draw: Callable[..., Result | None], row: FilterRow) -> None:
    """Draw the composite, unweighted unless a review is chosen, and the weights and abilities of that review.

    ``draw`` draws a section of CARE for the trials of the page, with further arguments of ``draw_section``.
    """
    reviews = read(preference_reviews)
    names = {EQUAL: "Equal for all parts", **{name: f"Choices in {name}" for name in reviews}}
    chosen = EQUAL
    if reviews:
        chosen = choose("Weights", list(names), "care_weights", names=names, where=row.popover())
    named = replace(
        COMPOSITE, axis=f"Composite, weights: {names[chosen].lower() if chosen == EQUAL else names[chosen]}"
    )
    draw(named, options={} if chosen == EQUAL else {"weights": chosen}, titled=False)
    if not reviews:
        st.caption("Experts who choose the better of two consultations on one case give the parts weights.")
        link("experts", "Plan a review of pairs", "rate_review", **_PLAN)
        return
    review = reviews[0] if chosen == EQUAL else chosen
    draw(WEIGHTS, options={"weights": review})
    draw_section(PREFERENCES, _ALL, options={"review": review}, name="care_preferences")


def draw_studies() -> None:
    """Draw the printed figures of the paper’s studies by experts next to those of reviews here."""
    for section in SECTIONS:
        draw_section(section, _ALL, name=f"care_studies_{section.options['part']}")
    link("experts", "Plan a review of your own", "rate_review", **_PLAN)
