"""The tab Rubric judges: quotations, consistency and agreement of the models that judge by a rubric."""

import streamlit as st

from core.frameworks.starts import REVIEW, RUBRICS
from core.judging.form import RUBRIC
from core.measures.agreement import ANSWERS, BETWEEN, BY_AXIS, BY_CONDITION, WORDS
from core.measures.calibration import AUDIT, DIFFERENCES, FORECAST, TOGETHER
from core.reviews.rubrics import rubric_entries
from core.store.selection import Selection
from pages.kit.cached import read
from pages.kit.controls import choose
from pages.kit.navigation import link
from pages.kit.section import draw_filled

_SECTIONS = {
    "judges": ANSWERS, "between": BETWEEN, "words": WORDS, "status": BY_AXIS, "conditions": BY_CONDITION,
    "scores": TOGETHER, "differences": DIFFERENCES, "plan": FORECAST, "audit": AUDIT,
}  # fmt: skip


def draw_rubric_judges() -> None:
    rubrics = {name: entry.form.title for name, entry in read(rubric_entries).items()}
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        name = choose("Rubric", list(rubrics), "rubric", names=rubrics, width=360)
        link("rubrics", "Scores under this rubric", "rule", rubric=name)
    draw_filled(
        _SECTIONS,
        Selection(),
        "rubric",
        options={"form": f"{RUBRIC}{name}"},
        empty="No model has judged by this rubric yet.",
        starts=(RUBRICS, REVIEW),
    )
