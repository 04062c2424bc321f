"""Causes of wrong answers, facts that doctors never ask for, and beliefs during the conversation."""

from core.frameworks.starts import CAMPAIGN, RELEASE
from core.measures.belief import CALIBRATION, COURSE
from pages.failures.causes import draw_causes
from pages.failures.topics import draw_topics
from pages.kit.empty import draw_empty
from pages.kit.page import draw_tabs, show
from pages.kit.section import draw_section
from pages.kit.view import ask_selection, offered


def draw_belief() -> None:
    selection = ask_selection(offered(), "models", "datasets", "specialties")
    if draw_section(COURSE, selection, name="belief_course", titled=False):
        draw_section(CALIBRATION, selection, name="calibration")


def draw_page() -> None:
    if not offered():
        draw_empty("No answer is stored yet.", CAMPAIGN, RELEASE, icon="troubleshoot")
        return
    draw_tabs({"Causes": draw_causes, "Never asked": draw_topics, "Belief": draw_belief}, "failures_tab")


if __name__ == "__main__":
    show("Failures", draw_page)
