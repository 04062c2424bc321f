"""The list of wrong answers, with causes as soon as these are known, and the conversation of the chosen answer."""

from collections.abc import Callable, Mapping

import pandas as pd
import streamlit as st

from core.events import reasoning_of
from core.measures.attribution import Cause
from core.measures.base import Result, Section
from core.measures.failures import CAUSES_SECTION
from pages.failures.data import lines_of
from pages.kit.case.why import CAUSE, cause_words
from pages.kit.cases import clear_parameters
from pages.kit.controls import choose
from pages.kit.conversation import draw_answer
from pages.kit.conversation_list import Line, draw_rows
from pages.kit.look import badge, plain
from pages.kit.navigation import link
from pages.kit.stored import ConversationRecord

ORDER: tuple[Cause, ...] = (
    "doctor_never_asked",
    "doctor_concluded_wrongly",
    "doctor_refused",
    "patient",
    "not_judged",
    "grader",
    "case",
)
"""Order of the stacked causes; the provider’s failures are excluded."""
ANSWER = "failures_answer"
"""URL parameter of the chosen answer."""
ANSWERS = Section(
    "Wrong answers",
    CAUSES_SECTION.metric,
    kind="table",
    columns=("case", "answer", "said", "extracted", "rule", "turn", "model", "cause_words", "trial_id"),
    heads={"said": "Verdict", "extracted": "Read as", "rule": "Why", "turn": "Message", "cause_words": "Cause"},
)


def draw_answers(
    answers: pd.DataFrame, names: Mapping[str, str], read_behind: Callable[[str, Cause], list[Line]] | None = None
) -> None:
    """Ask for a model and a cause, list its wrong answers, and draw the chosen answer.

    Args:
        answers: Wrong answers with at least the columns model and, if causes are known, cause.
        names: Condition → its name on the page.
        read_behind: Returns the lines of a model and cause; ``None`` while causes are unknown.
    """
    if answers.empty:
        return
    with_answers = set(answers["model"].unique())
    models = [model for model in names if model in with_answers]
    model_column, cause_column = st.columns(2)
    model = choose("Model", models, "failures_model", names=names, where=model_column)
    listed = answers[answers["model"] == model]
    if read_behind is not None:
        # older URLs have this value
        if st.query_params.get("failures_cause") == "Patient, suspected":
            st.session_state["failures_cause"] = "patient"
        present = set(listed["cause"].unique())
        causes: list[Cause] = [cause for cause in (*ORDER, "provider") if cause in present]
        cause = choose("Cause", causes, "failures_cause", names=lambda c: CAUSE[c][0], where=cause_column)
    rows = lines_of(listed) if read_behind is None else read_behind(model, cause)
    lines = {f"{line['trial_id']}|{line['arm']}": line for line in rows}

    def draw_side(record: ConversationRecord) -> None:
        line = lines[st.query_params[ANSWER]]
        answer = record.answers[line["format"], line["question_type"]]
        draw_answer(answer, record.grades, reasoning_of(record.events))
        cell = f"{record.conversation.trial + 1}:{line['arm']}"
        link("debugger", "Open in the case debugger", "bug_report", trial=line["trial_id"], view="why", cell=cell)

    result = Result(ANSWERS.title, tuple(lines.values()))
    chosen = draw_rows(ANSWERS, result, names, ANSWER, ("trial_id", "arm"), _note, draw_side=draw_side)
    if chosen is None and read_behind is not None:
        clear_parameters(ANSWER)


def _note(line: Line, names: Mapping[str, str]) -> str:
    name = f"**{plain(names[line['model']])}** · {line['answer']}"
    if "cause" not in line:
        return f"{name} {badge(line['verdict'])}"
    return cause_words(name, line["cause"], line["verdict"], line["rule"])
