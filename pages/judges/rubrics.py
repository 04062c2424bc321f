"""The part Rubrics of Judges: quotations, consistency and agreement of the models that judge by a rubric."""

import streamlit as st

from core.judging.form import RUBRIC
from core.measures.agreement import ANSWERS, BETWEEN, WORDS
from core.measures.rubrics.calibration import AGAINST_EXPERTS, SECTIONS
from core.reviews.rubrics import rubric_entries
from core.store.selection import Selection
from pages.kit.cached import read
from pages.kit.controls import choose
from pages.kit.navigation import link
from pages.kit.section import draw_section


def draw_rubric_judges() -> None:
    rubrics = {entry.rubric.name: entry.rubric.title for entry in read(rubric_entries)}
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        name = choose("Rubric", list(rubrics), "rubric", names=lambda name: rubrics[name] or name, width=360)
        link("rubrics", "Scores under this rubric", "rule", rubric=name)
    for section in (ANSWERS, BETWEEN, WORDS):
        part = section.options.get("part", "judges")
        draw_section(section, Selection(), options={"form": f"{RUBRIC}{name}"}, name=f"rubric_{part}")
    nothing = (
        "People judged none of these criteria: plan a review *Criteria of a rubric* under Experts, and unblind it."
    )
    for section in SECTIONS:
        draw_section(
            section,
            Selection(),
            options={"rubric": name},
            name=f"calibration_{section.options.get('part', 'scores')}",
            empty=nothing if section is AGAINST_EXPERTS else "",
        )
