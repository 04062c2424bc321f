"""Causes of wrong answers, facts that doctors never ask for, and beliefs during the conversation."""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from core.figures.curves import Point, curves
from core.figures.style import Axis
from core.frameworks.starts import CAMPAIGN, RELEASE
from core.measures.base import Row
from core.measures.belief import CALIBRATION, COURSE
from pages.failures.causes import draw_causes
from pages.failures.topics import draw_topics
from pages.kit.empty import draw_empty
from pages.kit.names import model_colours
from pages.kit.page import draw_sections as draw_tabs
from pages.kit.page import lead_from, show
from pages.kit.section import draw_section
from pages.kit.view import ask_selection, offered

_WORDS = {"at the end": "At the end", "every probe": "After every reply"}
_TABS = "failures_tab"


def draw_belief() -> None:
    selection = ask_selection(offered(), "models", "datasets", "specialties")
    if draw_section(
        COURSE, selection, charts={"course": course_chart}, names=_WORDS, name="belief_course", titled=False
    ):
        draw_section(CALIBRATION, selection, names=_WORDS, name="calibration")


def course_chart(rows: Sequence[Row], names: Mapping[str, str], dark: bool) -> go.Figure:
    """Return the probability of the right diagnosis over the course of the conversation, a curve for each model."""
    likely = [row for row in rows if row["quantity"] == "right"]
    cases = {row["model"]: row.n for row in reversed(likely)}
    return curves(
        [Point(row["model"], row["per_cent"] / 100, row["mean"], row.low, row.high) for row in likely],
        {model: f"{names[model]}, n = {n:,} cases" for model, n in cases.items()},
        model_colours(list(names)),
        Axis("Share of the patient’s replies", (0.07, 1.03), ".0%", 0.1, ".0%"),
        Axis("Probability of the right diagnosis", (0, 1.02), ".0%", None, ".1%"),
        dark=dark,
    )


def draw_page() -> None:
    lead_from(_TABS, "Urgency", "quality", quality_part="Urgency")
    if not offered():
        draw_empty("No answer is stored yet.", CAMPAIGN, RELEASE, icon="troubleshoot")
        return
    draw_tabs({"Causes": draw_causes, "Never asked": draw_topics, "Belief": draw_belief}, _TABS)


if __name__ == "__main__":
    show("Failures", draw_page)
