"""How an answer was judged: what was read out of it, the verdict of each rule, and all that the grader said."""

from collections.abc import Sequence

import streamlit as st

from core.debugger.run import Cell
from core.debugger.steps import Step
from core.frameworks.casting import is_model
from pages.parts.debug_messages import draw_response, draw_sent
from pages.parts.figures import model_name
from pages.parts.look import RULE, badge, plain

_STEP = {"extract": "The grader reads the answer", "judge": "The grader compares it with the right answer"}
_CHOICES = ("mcq", "mcq_many")


def draw_grading(cell: Cell, steps: Sequence[Step]) -> None:
    """Draw the judging of a cell's answer."""
    if not cell.verdicts and cell.reason is None:
        st.caption("This answer has not been judged yet.")
        return
    if cell.reason is not None:
        st.markdown(f"{badge(cell.reason)} {plain(cell.detail)}")
        st.caption("This answer is excluded: it counts neither as right nor as wrong.")
    for rule, verdict in cell.verdicts.items():
        st.markdown(f"{badge(verdict)} {RULE[rule]}")
    if cell.extracted:
        st.markdown(f"Read out of the answer: **{plain(cell.extracted)}**")
    if cell.question_type in _CHOICES:
        st.caption("Answers with choices are judged by two stated rules; no grader is asked.")
        return
    if cell.grader:
        by = plain(model_name(cell.grader)) if is_model(cell.grader) else "the reference grader, by names and synonyms"
        st.caption(f"Judged by {by}")
    for step in steps:
        mine = (step.format, step.question_type) == (cell.format, cell.question_type)
        if mine and step.kind in ("extract", "judge"):
            _draw_step(step)


def _draw_step(step: Step) -> None:
    with st.container(border=True):
        st.markdown(f"**{_STEP[step.kind]}**")
        draw_sent(step, figures=False)
        st.caption("What came back")
        draw_response(step)
