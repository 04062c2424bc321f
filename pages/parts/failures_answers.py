"""The wrong answers of one cause: a list; of the chosen one the rule, the message to look at, and where to go on."""

from collections.abc import Mapping, Sequence

import pandas as pd
import streamlit as st

from core.events import Started, Utterance
from core.measures.attribution import Attribution, Cause
from pages.parts.case_why import CAUSE
from pages.parts.failures_causes_charts import ORDER
from pages.parts.failures_show import download
from pages.parts.figure_controls import chosen_point, keep_valid, natural
from pages.parts.look import VERDICT, arm, badge, plain
from pages.parts.navigation import DEBUGGER, TRANSCRIPTS
from pages.parts.stored import events_of, stored_case
from pages.parts.transcript import message

MOST_ROWS = 1_000
"""Rows that are sent to a browser at most."""
_ADDRESS = "failures_answer"
_BEFORE = "Patient, suspected"
"""How the patient was named in addresses while rules suspected it."""
_LONG = 400
"""Characters of an answer that are shown."""
_SHOWN = 2
"""Messages that are shown: the one to look at, and the one before it."""


def take_click(chart: str) -> None:
    """Choose the part of a bar that was clicked."""
    point = chosen_point(st.session_state.get(chart))
    if point:
        st.session_state["failures_model"], st.session_state["failures_cause"] = point[1], point[2]
        st.query_params.pop(_ADDRESS, None)


def draw_answers(found: Sequence[Attribution], names: Mapping[str, str]) -> None:
    """Ask for model and cause, list the answers, and draw the chosen one."""
    st.subheader("The answers behind a cause", anchor=False)
    listed = _ask(found, names)
    table = answers_table(listed, names)
    limit = f"; the first {MOST_ROWS:,} are listed, the download holds all" if len(listed) > MOST_ROWS else ""
    st.caption(f"{len(listed):,} answers{limit}. Choose a row to see why, and where to look.")
    key = f"failures_rows_{len(listed)}"

    def choose() -> None:
        rows = st.session_state[key].selection.rows
        if rows and rows[0] < len(listed):
            st.query_params[_ADDRESS] = address_of(listed[rows[0]])

    st.dataframe(
        table[:MOST_ROWS], hide_index=True, key=key, on_select=choose, selection_mode="single-row", height=290,
        alt="Wrong answers with their causes",
    )  # fmt: skip
    download(table, "wrong_answers")
    wanted = st.query_params.get(_ADDRESS)
    chosen = next((one for one in found if wanted and address_of(one) == wanted), None)
    if chosen is not None:
        _draw_answer(chosen)


def _ask(found: Sequence[Attribution], names: Mapping[str, str]) -> list[Attribution]:
    """Return the answers of the chosen model and cause, by case."""
    held = {one.answer.model for one in found}
    models = [model for model in names if model in held]
    if st.query_params.get("failures_cause") == _BEFORE:
        st.session_state["failures_cause"] = "patient"
    keep_valid("failures_model", models)
    left, right = st.columns(2)
    model = left.selectbox(
        "Model", models, format_func=names.__getitem__, key="failures_model", bind="query-params"
    )  # fmt: skip
    own = {one.cause for one in found if one.answer.model == model}
    known: list[Cause] = [cause for cause in (*ORDER, "provider") if cause in own]
    keep_valid("failures_cause", known)
    cause = right.selectbox(
        "Cause", known, format_func=lambda c: CAUSE[c][0], key="failures_cause", bind="query-params"
    )  # fmt: skip
    fitting = [one for one in found if (one.answer.model, one.cause) == (model, cause)]
    return sorted(fitting, key=lambda one: (natural(one.answer.case[0]), one.answer.trial_id))


def address_of(one: Attribution) -> str:
    """Return how an answer is named in the address."""
    return f"{one.answer.trial_id}|{one.answer.format}:{one.answer.question_type}"


def answers_table(found: Sequence[Attribution], names: Mapping[str, str]) -> pd.DataFrame:
    """Return wrong answers as rows; messages are counted from 1."""
    columns = ["Case", "Arm", "Verdict", "Read as", "Why", "Message", "Model", "Cause", "Trial"]
    rows = [
        (
            one.answer.case[0].partition("/")[2] or one.answer.case[0],
            arm(one.answer.format, one.answer.question_type),
            VERDICT[one.answer.verdict][0], one.answer.extracted, one.rule,
            None if one.turn is None else one.turn + 1, names[one.answer.model], CAUSE[one.cause][0],
            one.answer.trial_id,
        )
        for one in found
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=columns).astype({"Message": "Int64"})


def _draw_answer(one: Attribution) -> None:
    answer, (label, colour) = one.answer, CAUSE[one.cause]
    case = stored_case(answer.case[0])
    open_ = "  \n:gray[No model has judged the patient: it may still be the patient’s.]" if one.provisional else ""
    with st.container(border=True):
        st.markdown(
            f"**{plain(answer.case[0])}** · {arm(answer.format, answer.question_type)} {badge(answer.verdict)} "
            f":{colour}-badge[{label}]  \n{plain(one.rule)}{open_}"
        )
        read = (answer.extracted or answer.response or "nothing").replace("**", "").strip(" .")[:_LONG]
        st.markdown(f":gray[Answered: {plain(read)}. Right answer:] **{plain(case.answer if case else 'unknown')}**")
        if one.turn is not None:
            _draw_messages(answer.trial_id, one.turn)
        with st.container(horizontal=True):
            st.page_link(TRANSCRIPTS, label="The whole conversation", icon=":material/forum:",
                         query_params={"trial": answer.trial_id})  # fmt: skip
            st.page_link(
                DEBUGGER, label="Open it in the case debugger", icon=":material/troubleshoot:",
                query_params={"trial": answer.trial_id, "view": "why", **_cell(one)},
            )  # fmt: skip


def _cell(one: Attribution) -> dict[str, str]:
    """Return where the case debugger shows an answer: the trial counted from 1, and the arm."""
    started = next((event for event in events_of(one.answer.trial_id) if isinstance(event, Started)), None)
    if started is None:
        return {}
    return {"cell": f"{started.trial + 1}:{one.answer.format}:{one.answer.question_type}"}


def _draw_messages(trial_id: str, turn: int) -> None:
    said = [event for event in events_of(trial_id) if isinstance(event, Utterance) and event.turn <= turn]
    for spoken in said[-_SHOWN:]:
        st.caption(f"Message {spoken.turn + 1}")
        message(spoken.role, spoken.text)
