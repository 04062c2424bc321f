"""How far to trust graders, experts, judges by rubrics and simulated patients, and which cases a model remembers."""

import streamlit as st

from core.measures.judge_check import CHECKS
from core.store.selection import Selection
from pages.kit.page import draw_tabs, show
from pages.kit.section import draw_filled
from pages.trust.experts.page import draw_experts
from pages.trust.experts.reviews import ANNOTATOR
from pages.trust.graders import draw_graders
from pages.trust.memorisation import draw_memorisation
from pages.trust.patients import draw_patients
from pages.trust.rubrics import draw_rubric_judges

TABS = {
    "Graders": (
        draw_graders,
        "A grader decides whether a free response is right. Do graders agree with each other and with themselves?",
    ),
    "Experts": (draw_experts, "People judge conversations and answers without seeing the name of the model."),
    "Rubric judges": (
        draw_rubric_judges,
        "Models judge conversations by a rubric. Are their quotations real, and do they agree?",
    ),
    "Checks": (
        lambda: draw_filled({"check": CHECKS}, Selection(), "judge"),
        "How judges answer about edited conversations, of which the right answer is known without people.",
    ),
    "Simulated patients": (
        draw_patients,
        "A simulated patient should say what the case says, in a patient’s words. Rules find replies that do not.",
    ),
    "Memorisation": (
        draw_memorisation,
        "A model reads the first half of a case and writes the second: a near copy was probably in its training data.",
    ),
}


_REVIEW_ALONE = (
    "<style>[data-testid='stSidebar'], [data-testid='stExpandSidebarButton'], [data-testid='stTabs'] [role='tablist'] "
    "{ display: none; }</style>"
)


def draw_trust() -> None:
    """Draw the tabs; the address of a review opens it without the rest of the program."""
    if ANNOTATOR in st.query_params:
        st.html(_REVIEW_ALONE)
    draw_tabs(TABS, "trust")


if __name__ == "__main__":
    show("Trust", draw_trust)
