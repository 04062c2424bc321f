"""The list of wrong answers, with causes as soon as these are known, and the conversation of the chosen answer."""

from collections.abc import Callable, Mapping

import pandas as pd
import streamlit as st

from core.events import reasoning_of
from core.measures.attribution import Cause
from pages.kit.case.why import CAUSE, cause_words
from pages.kit.cases import clear_parameters
from pages.kit.controls import choose
from pages.kit.conversation import draw_answer
from pages.kit.conversation_list import draw_chosen
from pages.kit.look import VERDICT, arm, badge, plain
from pages.kit.navigation import link
from pages.kit.stored import ConversationRecord
from pages.kit.tables import draw_table

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
_FEW = 7
"""Up to this number of answers, the table has no empty rows."""


def draw_answers(
    answers: pd.DataFrame, names: Mapping[str, str], read_behind: Callable[[str, Cause], pd.DataFrame] | None = None
) -> None:
    """Ask for a model and a cause, list its wrong answers, and draw the chosen answer.

    Args:
        answers: Wrong answers with at least the columns model and, if causes are known, cause.
        names: Condition → its name on the page.
        read_behind: Returns the listed answers of a model and cause in all columns; ``None`` while causes are unknown.
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
        listed = read_behind(model, cause)
    st.caption(f"{len(listed):,} wrong answers." if read_behind else f"{len(listed):,} wrong answers; causes follow.")
    parts = (listed[name].tolist() for name in ("trial_id", "format", "question_type"))
    places = [f"{trial}|{format_}:{question_type}" for trial, format_, question_type in zip(*parts, strict=True)]

    def choose_answer(row: int) -> None:
        st.query_params[ANSWER] = places[row]

    draw_table(
        answers_table(listed, names),
        "wrong_answers",
        on_row=choose_answer,
        height=290 if len(listed) > _FEW else "content",
        alt="Wrong answers with their causes" if read_behind else "Wrong answers",
    )
    if (chosen := st.query_params.get(ANSWER, "")) in places:
        _draw_answer(listed.iloc[places.index(chosen)], names[model])
    elif read_behind is not None:
        clear_parameters(ANSWER)


def answers_table(listed: pd.DataFrame, names: Mapping[str, str]) -> pd.DataFrame:
    """Return the listed answers with heads in words; without causes, their columns are left out."""
    table = {
        "Case": listed["case_key"].str.partition("/")[2].where(lambda keys: keys != "", listed["case_key"]),
        "Answer": [arm(*of) for of in zip(listed["format"], listed["question_type"], strict=True)],
        "Verdict": [VERDICT[verdict][0] for verdict in listed["verdict"]],
        "Read as": listed["extracted"],
    }
    if "cause" in listed:
        table |= {"Why": listed["rule"], "Message": listed["turn"] + 1}  # messages are counted from 1
    table["Model"] = listed["model"].map(names)
    if "cause" in listed:
        table["Cause"] = [CAUSE[cause][0] for cause in listed["cause"]]
    return pd.DataFrame({**table, "Trial": listed["trial_id"]})


def _draw_answer(answer: pd.Series, model_name: str) -> None:
    """Draw an answer with its cause, and the conversation around the decisive message."""
    arm_of = (answer["format"], answer["question_type"])
    name = f"**{plain(model_name)}** · {arm(*arm_of)}"
    decisive = answer.get("turn")

    def draw_side(record: ConversationRecord) -> None:
        draw_answer(record.answers[arm_of], record.grades, reasoning_of(record.events))
        cell = f"{record.conversation.trial + 1}:{':'.join(arm_of)}"
        link("debugger", "Open in the case debugger", "bug_report", trial=answer["trial_id"], view="why", cell=cell)

    draw_chosen(
        answer["trial_id"],
        "failures",
        draw_side,
        note=cause_words(name, answer["cause"], answer["verdict"], answer["rule"])
        if "cause" in answer
        else f"{name} {badge(answer['verdict'])}",
        at=None if decisive is None or pd.isna(decisive) else int(decisive),
        here=":material/arrow_downward: The decisive message",
    )
