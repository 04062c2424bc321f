"""How good conversations are: what of the history was uncovered and how, and CARE's four parts."""

from core.frameworks.base import publisher
from pages.kit.page import draw_parts, show
from pages.quality.care.page import draw_care
from pages.quality.history.page import draw_history

PARTS = {
    "History taking": (
        draw_history,
        "What the doctor’s questions uncovered of what there was to know (the benchmark’s measures), on every stored "
        "conversation.",
    ),
    "CARE": (
        draw_care,
        f"{publisher('care').title}’s conversations between a doctor, a patient and the clinical staff, in four parts: "
        "accuracy, conversational efficiency and strategy, empathy, robustness.",
    ),
}

if __name__ == "__main__":
    show("Conversation quality", lambda: draw_parts(PARTS, "quality_part"))
