"""Causes of wrong answers, facts that doctors never ask for, and beliefs during the conversation."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import plotly.graph_objects as go
import streamlit as st

from core.figures.curves import Point, curves
from core.figures.reliability import Bin, reliability
from core.figures.style import Axis
from core.measures.base import Result, Row
from core.measures.belief import CALIBRATION, CLOSURE, COURSE, MEANS, RELIABILITY, SETTLED, When
from core.measures.urgency.report import SECTIONS as URGENCY
from core.store.selection import Selection
from pages.failures.causes import draw_causes, draw_extract
from pages.failures.data import beliefs, believing
from pages.failures.topics import draw_topics
from pages.kit.controls import choose
from pages.kit.names import model_colours
from pages.kit.page import draw_sections, say_how_to_begin, show
from pages.kit.section import draw_result, draw_section
from pages.kit.view import ask_selection, in_words, names_on, offered

_FIGURES = {
    "ever_led": "Ever led", "leads_at_end": "Leads at the end", "lost": "Led and lost again",
    "premature": "Premature closure", "over_asked": "Needless questions",
    "first_led": "First led after message (greeting: 0)",
}  # fmt: skip
_WHEN: dict[When, str] = {"at the end": "At the end", "every probe": "After every reply"}
_CAPTION = (
    "Means over a case’s conversations, then over cases, with 95 % intervals, cases resampled. Conversations without a "
    "probe are left out."
)
_HELP = f"""
- **Ever led, leads at the end, led and lost again**: shares of conversations in which the right diagnosis did so.
- **Premature closure**: the doctor concluded or stopped asking although facts that the patient could tell were left,
  and its leading diagnosis was wrong or less likely than {CLOSURE:.0%}. Only conversations whose facts a model judged.
- **Needless questions** (over-asking): questions after the right diagnosis had settled at {SETTLED:.0%} or more.
- **Brier score**: mean squared distance of the leading diagnosis’s probability from 1 if it is right, from 0 if not.
  0 is best.
- **ECE**, expected calibration error: mean distance between the stated probability and the share of right diagnoses,
  over ten bins of probability.
"""


def draw_belief(selection: Selection) -> None:
    """Draw the beliefs of probed conversations, or how to probe some."""
    extract, work = believing(selection)
    job_words = ("Reading beliefs", "Reading the probes…", "conversations", "Read the beliefs")
    if not draw_extract(work, "failures_belief", *job_words, believing, selection):
        return
    results = beliefs(extract, selection)
    if not results[MEANS.title].rows:
        st.info(
            "No beliefs are stored for these cases and models. `python -m core run --doctor MODEL --probe` asks a "
            "doctor for its leading diagnoses after every reply; the reference doctor always reports them.",
            icon=":material/psychology:",
        )
        return
    names: dict[str, str] = {**names_on(selection), **_FIGURES, **dict(_WHEN.items())}
    about = f"{in_words(selection)}. {_CAPTION}"
    course, right = st.columns(2, gap="medium")
    with course:
        section = replace(COURSE, caption=about)
        draw_result(section, results[COURSE.title], names, name="belief_course", charts={"course": course_chart})
    with right:
        when = choose("When", list(_WHEN), "failures_when", names=_WHEN, shape="segments", hidden=True)
        heads = {row["model"]: row for row in results[CALIBRATION.title].figures if row["when"] == when}
        scored = {
            model: f"{names[model]}, Brier {row.estimate:.3f}, ECE {row['ece']:.3f}" for model, row in heads.items()
        }
        bins = tuple(row for row in results[RELIABILITY.title].figures if row["when"] == when)
        draw_result(
            replace(RELIABILITY, caption=f"{_WHEN[when]}. {about} {RELIABILITY.caption}"),
            Result(RELIABILITY.title, bins),
            {**names, **scored},
            name="reliability",
            charts={"reliability": reliability_chart},
        )
    st.caption(f"{_CAPTION} {RELIABILITY.caption}")
    for section, name in ((MEANS, "belief"), (CALIBRATION, "calibration")):
        st.markdown(f"**{section.title}**")
        draw_result(section, results[section.title], names, name=name)
    with st.expander("Definitions", icon=":material/help:"):
        st.markdown(_HELP)


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


def reliability_chart(rows: Sequence[Row], names: Mapping[str, str], dark: bool) -> go.Figure:
    """Return how often the leading diagnosis is right against how likely it was believed to be."""
    marks = [
        Bin(
            row["model"],
            row["probability"],
            row["right"],
            row["ci_low"],
            row["ci_high"],
            row["n_probes"],
            f"{row.n:,} cases, {row['n_probes']:,} beliefs",
        )
        for row in rows
    ]
    models = {model: words for model, words in names.items() if any(row["model"] == model for row in rows)}
    return reliability(marks, models, model_colours(list(names)), dark=dark)


def draw_urgency(selection: Selection) -> None:
    for section in URGENCY:
        name = f"urgency_{section.options.get('part', 'shares')}"
        if draw_section(section, selection, name=name) is None:
            return


def draw_failures() -> None:
    offers = offered()
    if not offers:
        say_how_to_begin("No answer is stored yet.", icon="troubleshoot")
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
