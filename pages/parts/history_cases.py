"""One doctor's cases on the History taking page: a list, then the conversations of one with items and facts ledger."""

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from core.agents.base import Turn
from core.events import Utterance, Verdict
from core.measures.history.measures import LENGTHS, Measures, information_of, measure, stored_items, yardstick
from core.store.conditions import Condition
from core.store.database import Store
from core.store.queries.conversations import Conversation
from core.store.selection import McqRule
from core.text.case_items import ItemSet, items_by_rule
from pages.parts.case_facts import draw_facts_ledger
from pages.parts.figure_controls import keep_valid, three_decimals
from pages.parts.history_data import scoped
from pages.parts.history_shown import Shown
from pages.parts.history_tables import cases_table, decimal
from pages.parts.history_words import MEASURE
from pages.parts.look import badge, plain
from pages.parts.navigation import DEBUGGER, TRANSCRIPTS
from pages.parts.stored import case_conversations
from pages.parts.transcripts_data import Reading, reading

MOST_ROWS = 5_000
"""Rows of one table that are sent to a browser at most."""
_TASK = ("multi_turn", "mcq")
_METRICS = ("patient_recall", "patient_precision", "doctor_recall", "queries", "repetition_1", "honesty", "strictness")


def draw_cases(shown: Shown) -> None:
    """Ask for a doctor, list its cases, and draw the conversations of the chosen case."""
    table = scoped(shown.view)
    doctors = [key for key in shown.names if (table["model"] == key).any()]
    keep_valid("history_doctor", doctors)
    key = st.selectbox("Doctor", doctors, format_func=shown.names.__getitem__, key="history_doctor",
                       bind="query-params")  # fmt: skip
    if key is None:
        return
    own = cases_table(table[table["model"] == key])
    _draw_list(own, key)
    wanted = st.query_params.get("history_case")
    if wanted in set(own["Case"]):
        _draw_case(next(seat for seat in shown.seats if seat.name == key), str(wanted), shown.view.rule)


def _draw_list(table: pd.DataFrame, doctor: str) -> None:
    name = f"history_rows_{doctor}_{len(table)}"

    def choose() -> None:
        rows = st.session_state[name].selection.rows
        if rows and rows[0] < len(table):
            st.query_params["history_case"] = table["Case"].iloc[rows[0]]
            st.query_params.pop("history_trial", None)

    limit = f"; the first {MOST_ROWS:,} are listed" if len(table) > MOST_ROWS else ""
    st.caption(f"{len(table):,} cases{limit}, means over their conversations. Choose one to read its conversations.")
    helps = {label: st.column_config.NumberColumn(help=words, format="%.2f" if m in LENGTHS else "%.3f")
             for m, (label, words) in MEASURE.items()}  # fmt: skip
    st.dataframe(table.head(MOST_ROWS), hide_index=True, key=name, on_select=choose, selection_mode="single-row",
                 height=300, placeholder="–", column_config={**three_decimals(table), **helps,
                 "Items": st.column_config.NumberColumn(format="%d", help="Items of the case: what there is to ask.")},
                 )  # fmt: skip
    st.download_button("Download these cases as CSV", table.to_csv(index=False), "history-cases.csv", "text/csv",
                       icon=":material/download:", key="history_cases_csv")  # fmt: skip


def _draw_case(seat: Condition, case_key: str, rule: McqRule) -> None:
    talks = case_conversations(seat.runs, case_key)
    st.subheader(plain(case_key), anchor=False)
    if not talks:
        st.caption("No trial of this case is stored.")
        return
    talk = _ask_trial(talks)
    found = reading(talk.trial_id)
    with st.container(horizontal=True, vertical_alignment="center"):
        for page, label, icon in ((TRANSCRIPTS, "Read the transcript", "forum"),
                                  (DEBUGGER, "Open in the case debugger", "bug_report")):  # fmt: skip
            st.page_link(page, label=label, icon=f":material/{icon}:", query_params={"trial": talk.trial_id})
        verdict = _task_verdict(found, rule)
        if verdict:
            st.markdown(f"Task: {badge(verdict)}")
    if found is None or found.case is None:
        st.caption("The case of this trial is not stored, so there are no items to hold its conversation against.")
        return
    items = stored_items(Store(), found.case) or items_by_rule(found.case)
    said = [Turn(e.role, e.text) for e in found.events if isinstance(e, Utterance)]
    measured = measure(said, yardstick(information_of(found.case), items.items))
    _draw_measures(measured)
    _draw_items(items, measured)
    ledger = st.expander("Facts ledger: asked, volunteered, never elicited", icon=":material/fact_check:",
                         on_change="rerun", key="history_ledger")  # fmt: skip
    if ledger.open:
        with ledger:
            draw_facts_ledger(found.case, found.events, "history_facts")


def _task_verdict(found: Reading | None, rule: McqRule) -> Verdict | None:
    """Return the verdict on the task's answer by a rule, or ``None`` where it was not asked."""
    grades = found.grades if found else ()
    return next((g.verdict for g in grades if (g.format, g.question_type, g.rule) == (*_TASK, rule)), None)


def _ask_trial(talks: Sequence[Conversation]) -> Conversation:
    ids = [talk.trial_id for talk in talks]
    several = len({talk.run_id for talk in talks}) > 1
    labels = {
        talk.trial_id: f"Trial {talk.trial + 1}" + (f" · {talk.run_id[-8:]}" if several else "") for talk in talks
    }
    wanted = st.query_params.get("history_trial")
    st.session_state["history_trial_choice"] = wanted if wanted in ids else ids[0]

    def choose() -> None:
        if st.session_state["history_trial_choice"]:
            st.query_params["history_trial"] = st.session_state["history_trial_choice"]

    chosen = st.segmented_control("Conversation", ids, format_func=labels.__getitem__, required=True,
                                  key="history_trial_choice", on_change=choose)  # fmt: skip
    return next(talk for talk in talks if talk.trial_id == (chosen or ids[0]))


def _draw_measures(measured: Measures) -> None:
    with st.container(border=True, horizontal=True):
        for name in _METRICS:
            value = getattr(measured, name)
            label, words = MEASURE[name]
            text = "–" if value is None else str(value) if isinstance(value, int) else decimal(value, name)
            st.metric(label, text, help=words, width="content")


def _draw_items(items: ItemSet, measured: Measures) -> None:
    """Draw the case's items, each with the share of the dialogue at which its topic was first told."""
    table = pd.DataFrame(
        [
            {"Asked as": item.key, "What the case says": item.value, "First told at": _per_cent(told)}
            for item, told in ((item, measured.order.get(item.topic)) for item in items.items)
        ]
    )  # fmt: skip
    st.markdown(f"**Items of the case** :gray[· {plain(_maker(items.made_by))}]")
    st.dataframe(
        table, hide_index=True, key="history_items", placeholder="never", height="content",
        column_config={
            "What the case says": st.column_config.TextColumn(width="large"),
            "First told at": st.column_config.NumberColumn(
                format="%.0f %%", help="Share of the dialogue done when the patient first told something of the topic."
            ),
        },
    )  # fmt: skip


def _per_cent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _maker(made_by: str) -> str:
    """Return who made the items, in words; a model by its name."""
    kind = made_by.partition("-")[0]
    known = {"rules": "by rule, from the vignette", "profile": "by rule, from the profile", "mediq": "MediQ’s facts"}
    return known.get(kind, f"by {made_by}")
