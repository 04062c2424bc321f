"""Conversation quality: history taking, the four parts of CARE, and rubrics."""

from core.frameworks.base import publisher
from pages.kit.page import draw_parts, show
from pages.quality.care.page import draw_care
from pages.quality.history.page import draw_history
from pages.quality.rubrics import draw_rubrics

PARTS = {
    "History taking": (
        draw_history,
        "How much of the patient’s information the doctor’s questions uncovered, with the benchmark’s measures.",
    ),
    "CARE": (
        draw_care,
        f"{publisher('care').title}’s conversations between a doctor, a patient and the clinical staff, in four parts: "
        "accuracy, conversational efficiency and strategy, empathy, robustness.",
    ),
    "Rubrics": (
        draw_rubrics,
        "Was the encounter right? Models judge each criterion of a rubric with quotations, which are checked.",
    ),
}

if __name__ == "__main__":
    show("Conversation quality", lambda: draw_parts(PARTS, "quality_part"))
