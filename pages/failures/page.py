"""Causes of wrong answers, facts that doctors never ask for, and beliefs during the conversation."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import plotly.graph_objects as go
import streamlit as st

from core.figures.curves import Point, curves
from core.figures.style import Axis
from core.frameworks.starts import CAMPAIGN, RELEASE
from core.jobs.judge import Judging
from core.measures.base import Row
from core.measures.belief import CALIBRATION, COURSE
from core.measures.urgency import FORCED, IN_WORDS, OF_CHOICE, WORDS
from core.store.selection import Selection
from pages.failures.causes import draw_causes
from pages.failures.topics import draw_topics
from pages.kit.empty import draw_empty
from pages.kit.jobs import ask_budget, draw_job, draw_judging, draw_start
from pages.kit.names import model_colours
from pages.kit.page import draw_sections, show
from pages.kit.section import draw_section
from pages.kit.view import ask_selection, in_words, offered

_CAPTION = (
    "Means over a case’s conversations, then over cases, with 95 % intervals, cases resampled. Conversations without a "
    "probe are left out."
)
_WORDS = {"at the end": "At the end", "every probe": "After every reply"}


def draw_belief(selection: Selection) -> None:
    course = replace(COURSE, caption=f"{in_words(selection)}. {_CAPTION}")
    if draw_section(course, selection, charts={"course": course_chart}, names=_WORDS, name="belief_course"):
        st.caption(_CAPTION)
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


def draw_urgency(selection: Selection) -> None:
    asking = Judging(FORCED, conversations=selection.of_conversations)
    if not draw_job(Judging, "urgency", asking.instance):
        with st.expander("Ask the doctors’ models how urgent they are", icon=":material/e911_emergency:"):
            budget = ask_budget("urgency_budget")
            draw_start(asking, "Ask", "e911_emergency", "urgency_go", budget)
    for section in OF_CHOICE:
        name = f"urgency_{section.options.get('part', 'shares')}"
        if draw_section(section, selection, name=name) is None:
            break
    with st.expander("Have a model read what the doctors advised in their own words", icon=":material/gavel:"):
        draw_judging(Judging(WORDS, conversations=selection.of_conversations), WORDS)
    draw_section(IN_WORDS, selection, name=WORDS)


def draw_failures() -> None:
    offers = offered()
    if not offers:
        draw_empty("No answer is stored yet.", CAMPAIGN, RELEASE, icon="troubleshoot")
        return
    selection = ask_selection(offers, "models", "datasets", "specialties")
    tabs = {"Causes": draw_causes, "Never asked": draw_topics, "Belief": draw_belief, "Urgency": draw_urgency}
    draw_sections(tabs, "failures_tab", selection)


if __name__ == "__main__":
    show(
        "Failures",
        draw_failures,
        "Causes of wrong answers, facts that were never asked for, beliefs during the conversation, and urgency.",
    )
