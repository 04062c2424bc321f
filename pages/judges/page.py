"""Judges and how far to trust them: graders of free responses, and experts who review without knowing the model."""

import streamlit as st

from core.measures.judge_check import CHECKS
from core.store.selection import Selection
from pages.judges.experts.data import ANNOTATOR
from pages.judges.experts.page import draw_experts
from pages.judges.graders import draw_graders
from pages.judges.rubrics import draw_rubric_judges
from pages.kit.page import draw_parts, show
from pages.kit.section import draw_section


def draw_checks() -> None:
    draw_section(CHECKS, Selection(), name="judge_check")


PARTS = {
    "Graders": (
        draw_graders,
        "A grader decides whether a free response is right. This part measures graders: agreement with each other and "
        "with themselves, and the accuracy that each gives a model.",
    ),
    "Experts": (draw_experts, ""),
    "Rubrics": (
        draw_rubric_judges,
        "Models that judge conversations by a rubric: are their quotations real, do they agree with themselves and "
        "with each other?",
    ),
    "Checks": (
        draw_checks,
        "How judges answer about edited conversations, of which the right answer is known without people.",
    ),
}

if __name__ == "__main__":
    if ANNOTATOR in st.query_params:  # a link to a review opens it without the rest of the program
        st.html("<style>[data-testid='stSidebar'], [data-testid='stExpandSidebarButton'] { display: none; }</style>")
    show("Judges", lambda: draw_parts(PARTS, "judges_part"))
