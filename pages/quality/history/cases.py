"""One doctor's cases on the part History taking: a list, then the conversations of one with items and facts ledger."""

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from core.agents.base import Turn
from core.events import Utterance
from core.measures.history.measures import LENGTHS, information_of, measure, stored_items, yardstick
from core.store.conditions import Condition
from core.store.database import Store
from core.text.case_items import items_by_rule
from pages.kit.case.facts import draw_facts_ledger
from pages.kit.cases import choose_case, choose_trial, draw_ways_on, forget
from pages.kit.controls import choose
from pages.kit.look import badge, plain
from pages.kit.stored import case_conversations, reading, runs_behind
from pages.kit.view import View
from pages.quality.history.tables import MEASURE, cases_table, decimal

_TASK = ("multi_turn", "mcq")
_METRICS = ("patient_recall", "patient_precision", "doctor_recall", "queries", "repetition_1", "honesty", "strictness")
_MADE_BY = {"rules": "by rule, from the vignette", "profile": "by rule, from the profile", "mediq": "MediQ’s facts"}


def draw_cases(view: View, table: pd.DataFrame, conditions: Sequence[Condition]) -> None:
    """Ask for a doctor, list its cases, and draw the conversations of the chosen case."""
    held = [key for key in view.names if (table["model"] == key).any()]
    doctor = choose("Doctor", held, "history_doctor", names=view.names)
    own = cases_table(table[table["model"] == doctor])
    st.caption(f"{len(own):,} cases, means over their conversations. Choose one to read its conversations.")
    columns = {
        label: st.column_config.NumberColumn(help=words, format="%.2f" if m in LENGTHS else "%.3f")
        for m, (label, words) in MEASURE.items()
    }
    columns["Items"] = st.column_config.NumberColumn(format="%d", help="Items of the case: what there is to ask.")
    case_key = choose_case(own, "history-cases", "history_case", columns)
    if case_key is None:
        return
    st.subheader(plain(f"{view.names[doctor]} · {case_key}"), anchor=False)
    talks = case_conversations(runs_behind(conditions, doctor), case_key)
    if not talks:
        st.caption("No trial of this case is stored.")
        return
    linked = st.query_params.get("history_trial")  # as addresses of former versions name a conversation
    if linked is not None:
        forget("history_trial")
        if any(talk.trial_id == linked for talk in talks):
            st.session_state["history_conversation"] = linked
    talk = choose_trial(talks, "history_conversation")
    found = reading(talk.trial_id)
    draw_ways_on(talk.trial_id)
    grades = found.grades if found else ()
    verdict = next((g.verdict for g in grades if (g.format, g.question_type, g.rule) == (*_TASK, view.rule)), None)
    if verdict:
        st.markdown(f"Task: {badge(verdict)}")
    if found is None or found.case is None:
        st.caption("The case of this trial is not stored, so there are no items to hold its conversation against.")
        return
    items = stored_items(Store(), found.case) or items_by_rule(found.case)
    said = [Turn(e.role, e.text) for e in found.events if isinstance(e, Utterance)]
    measured = measure(said, yardstick(information_of(found.case), items.items))
    with st.container(border=True, horizontal=True):
        for name in _METRICS:
            value = getattr(measured, name)
            label, words = MEASURE[name]
            text = "–" if value is None else str(value) if isinstance(value, int) else decimal(value, name)
            st.metric(label, text, help=words, width="content")
    made_by = _MADE_BY.get(items.made_by.partition("-")[0], f"by {items.made_by}")
    st.markdown(f"**Items of the case** :gray[· {plain(made_by)}]")
    told = [measured.order.get(item.topic) for item in items.items]
    st.dataframe(
        {
            "Asked as": [item.key for item in items.items],
            "What the case says": [item.value for item in items.items],
            "First told at": [None if share is None else 100 * share for share in told],
        },
        hide_index=True,
        key="history_items",
        placeholder="never",
        height="content",
        column_config={
            "What the case says": st.column_config.TextColumn(width="large"),
            "First told at": st.column_config.NumberColumn(
                format="%.0f %%", help="Share of the dialogue done when the patient first told something of the topic."
            ),
        },
    )
    ledger = st.expander(
        "Facts ledger: asked, volunteered, never elicited",
        icon=":material/fact_check:",
        on_change="rerun",
        key="history_ledger",
    )
    if ledger.open:
        with ledger:
            draw_facts_ledger(found.case, found.events, "history_facts")
