"""Who judges, and how far to trust it: graders of free responses, and experts who read without knowing the model."""

import streamlit as st

from pages.judges.experts.data import ANNOTATOR
from pages.judges.experts.page import draw_experts
from pages.judges.graders.page import draw_graders
from pages.kit.page import draw_parts, show

PARTS = {
    "Graders": (
        draw_graders,
        "A free response is right or wrong by the word of a grader. Here graders are measured: against one another, "
        "against themselves, and by what each makes of a model’s accuracy.",
    ),
    "Experts": (draw_experts, ""),
}

if __name__ == "__main__":
    if ANNOTATOR in st.query_params:  # whoever was sent a link to a review has nothing else to look for here
        st.html("<style>[data-testid='stSidebar'], [data-testid='stExpandSidebarButton'] { display: none; }</style>")
    show("Judges", lambda: draw_parts(PARTS, "judges_part"))
