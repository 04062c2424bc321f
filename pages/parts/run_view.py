"""Runs as a list, and one run in full: progress, what it is, its figures and its conversations."""

import datetime
from collections.abc import Mapping

import pandas as pd
import streamlit as st

from core.errors import AnamnesisError
from core.frameworks.base import frameworks, title_of
from core.frameworks.settings import extra_of, options_of
from core.jobs.engine import ask_to_stop
from core.jobs.plan import HUMAN
from core.jobs.run import go_on, last_words
from core.store.queries.conversations import Conversation
from core.store.runs import RunProgress
from pages.parts.look import END_SHORT, STATE_ICON, VERDICT, arm, money, plain
from pages.parts.navigation import LIVE
from pages.parts.run_data import CARED_FOR, PAGE, run_conversations, state_of, tagged_failures
from pages.parts.run_figures import accuracy_table as accuracy_table
from pages.parts.run_figures import draw_facts, draw_figures

_LISTED = 8
"""Runs and conversations seen at once; more are reached by scrolling."""


def runs_table(runs: list[RunProgress]) -> pd.DataFrame:
    """Return the runs as a table with plain heads."""
    return pd.DataFrame(
        [
            {
                "State": state_of(run).capitalize(),
                "Done": run.done / run.planned if run.planned else None,
                "Protocol": title_of(run.protocol),
                "Doctor": run.doctor,
                "Cases": run.case_set,
                "Trials": f"{run.done} of {run.planned or '?'}",
                "Excluded": run.excluded,
                "Cost": "unknown" if run.cost_usd is None else money(run.cost_usd),
                "Started": datetime.datetime.fromtimestamp(run.created_at, tz=datetime.UTC),
                "Run": run.run_id,
            }
            for run in runs
        ]
    )


def draw_list(runs: list[RunProgress], shown: RunProgress) -> None:
    """Draw the list with the shown run marked; a click on another one puts that one into the address."""

    def choose() -> None:
        rows = st.session_state["runs_list"].selection.rows
        if rows and rows[0] < len(runs):
            st.query_params["run"] = runs[rows[0]].run_id

    # rows are known by number, and new runs come in on top: the mark follows the run
    marked, known = [runs.index(shown)], st.session_state.get("runs_list")
    if known is None or known["selection"]["rows"] != marked:
        st.session_state["runs_list"] = {"selection": {"rows": marked, "columns": [], "cells": []}}
    st.dataframe(
        runs_table(runs), hide_index=True, key="runs_list", on_select=choose, selection_mode="single-row",
        height="content" if len(runs) <= _LISTED else 35 * _LISTED,
        column_config={
            "Done": st.column_config.ProgressColumn(min_value=0, max_value=1, format="percent", width="small"),
            "Started": st.column_config.DatetimeColumn(format="YYYY-MM-DD HH:mm", help="Time in UTC."),
            "State": st.column_config.TextColumn(width="small"),
            "Excluded": st.column_config.NumberColumn(help="Answers that do not count, with their reasons below."),
        },
    )  # fmt: skip


def draw_run(run: RunProgress) -> None:
    """Draw one run."""
    state = state_of(run)
    st.subheader(f"{STATE_ICON[state]} {plain(run.doctor)} on {plain(run.case_set)}", anchor=False)
    st.progress(
        run.done / run.planned if run.planned else 0.0, text=f"{state.capitalize()}: {run.done} of {run.planned} trials"
    )
    _buttons(run, state)
    draw_facts(run)
    draw_figures(run)
    _conversations(run)


def _buttons(run: RunProgress, state: str) -> None:
    # by callbacks: a redraw that comes between a click and its button would lose the click
    with st.container(horizontal=True, vertical_alignment="center"):
        if state == "running":
            stopping = bool(st.session_state.get(f"stopping_{run.run_id}"))
            st.button(
                "Stopping…" if stopping else "Stop", icon=":material/stop:", key=f"stop_{run.run_id}",
                help="Finished trials are kept.", on_click=_stop, args=(run.run_id,), disabled=stopping,
            )  # fmt: skip
        elif state == "stopped" and run.doctor.startswith(f"{HUMAN}/"):
            st.caption("A human answers this run, on the Experts page; it goes on from there.")
        elif state == "stopped" and run.source == "local":
            st.session_state.pop(f"stopping_{run.run_id}", None)
            st.button(
                "Resume", icon=":material/play_arrow:", type="primary", key=f"resume_{run.run_id}",
                on_click=_resume, args=(run.run_id,),
            )  # fmt: skip
            words = st.session_state.get(f"refused_{run.run_id}") or last_words(run.run_id)
            if words:
                st.caption(plain(words))
        st.caption(f"`{run.run_id}`")


def _stop(run_id: str) -> None:
    st.session_state[f"stopping_{run_id}"] = True
    ask_to_stop(run_id)


def _resume(run_id: str) -> None:
    st.session_state.pop(f"refused_{run_id}", None)
    try:
        go_on(run_id, 32)
    except AnamnesisError as error:
        st.session_state[f"refused_{run_id}"] = str(error)


def _conversations(run: RunProgress) -> None:
    st.subheader("Conversations", anchor=False)
    page = st.pagination(max(1, -(-run.done // PAGE)), key=f"page_{run.run_id}") if run.done > PAGE else 1
    found = run_conversations(run, (page or 1) - 1)
    if not found:
        st.caption("None is finished yet.")
        return
    cared = run.protocol in CARED_FOR
    event = st.dataframe(
        conversations_table(found, run.protocol, tagged_failures(run.run_id) if cared else None), hide_index=True,
        key=f"talks_{run.run_id}_{page}", on_select="rerun", selection_mode="single-row",
        height="content" if len(found) <= _LISTED else 35 * _LISTED,
    )  # fmt: skip
    rows = event.selection.rows
    if rows and rows[0] < len(found):
        chosen = found[rows[0]]
        st.page_link(
            LIVE, label=f"Watch {chosen.case_key}, trial {chosen.trial + 1}", icon=":material/smart_display:",
            query_params={"trial": chosen.trial_id},
        )  # fmt: skip
    else:
        st.caption("Choose a row to watch its conversation.")


def conversations_table(
    found: list[Conversation], protocol: str = "", failed: Mapping[str, str] | None = None
) -> pd.DataFrame:
    """Return conversations of a framework with what each came to; ``failed`` says what failed in CARE's."""
    arms = sorted({name for talk in found for name in talk.verdicts if name in _SHOWN}, key=_SHOWN.index)
    return pd.DataFrame(
        [
            {
                "Case": talk.case_key.partition("/")[2],
                **({} if failed is not None else {"Specialty": talk.specialty}),  # failures take its room
                "Trial": talk.trial + 1,
                "Right answer": talk.answer,
                **{_arm_words(name): _verdict_words(talk, name) for name in arms},
                "Doctor's turns": talk.doctor_turns,
                "Ended by": _ended_by(talk, protocol),
                **({} if failed is None else {"Failure": failed.get(talk.trial_id, "")}),
            }
            for talk in found
        ]
    )


def _ended_by(talk: Conversation, protocol: str) -> str:
    if talk.end_reason is None:
        return "No conversation"
    known = frameworks().get(protocol)
    if known is None or talk.end_reason != "turn_cap":
        return END_SHORT[talk.end_reason]
    labels = (extra_of(info, "label") for info in options_of(known.settings).values())
    return next((label for label in labels if label.startswith("Cap")), END_SHORT["turn_cap"])


def recent_table(found: list[Conversation]) -> pd.DataFrame:
    """Return consultations that were watched, newest first."""
    return pd.DataFrame(
        [
            {
                "When": datetime.datetime.fromtimestamp(talk.finished_at, tz=datetime.UTC).strftime("%Y-%m-%d %H:%M"),
                "Case": talk.case_key,
                "Doctor": talk.doctor,
                "Patient": talk.patient,
                "Doctor's turns": talk.doctor_turns,
                "Verdicts": ", ".join(f"{_arm_words(a)}: {_verdict_words(talk, a)}" for a in talk.verdicts),
            }
            for talk in found
        ]
    )


_SHOWN = ["vignette:mcq", "vignette:frq", "multi_turn:mcq", "multi_turn:frq"]


def _arm_words(name: str) -> str:
    format_, _, question_type = name.partition(":")
    return arm(format_, question_type)  # type: ignore[arg-type]


def _verdict_words(talk: Conversation, name: str) -> str:
    verdict = talk.verdicts.get(name)
    return VERDICT[verdict][0] if verdict in VERDICT else "–"
