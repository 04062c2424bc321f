"""How well histories are taken: what was uncovered, how the dialogue went, how the patient played, case by case."""

import pandas as pd
import streamlit as st

from core.agents.base import Turn
from core.events import Utterance
from core.frameworks.base import publisher
from core.frameworks.consultation.measures.history_taking import (
    HISTORY,
    LENGTHS,
    information_of,
    measure,
    stored_items,
    yardstick,
)
from core.frameworks.consultation.measures.summary import openings_note
from core.measures.missing import begin_measuring, measuring
from core.store.database import Store
from core.text.case_items import items_by_rule
from pages.kit.cached import cached_query
from pages.kit.case.facts import draw_facts_ledger
from pages.kit.cases import choose_case, choose_trial, draw_ways_on, forget
from pages.kit.controls import choose
from pages.kit.jobs import draw_missing
from pages.kit.look import badge, plain
from pages.kit.names import dataset_name, natural
from pages.kit.notes import draw_view_notes
from pages.kit.page import draw_sections, say_how_to_begin
from pages.kit.stored import case_conversations, history_conditions, reading, runs_behind
from pages.kit.view import View, ask_view, offers_in
from pages.quality.history.figures import (
    ask_published,
    draw_comparison,
    draw_course,
    draw_doctors,
    draw_overview,
    draw_patients,
    scoped,
    stored_history,
)
from pages.quality.history.tables import MEASURE, decimal

_TASK = ("multi_turn", "mcq")
_METRICS = ("patient_recall", "patient_precision", "doctor_recall", "queries", "repetition_1", "honesty", "strictness")
_LISTED = ("patient_recall", "patient_precision", "doctor_recall", "doctor_turns", "repetition_1", "accuracy")
_MADE_BY = {"rules": "by rule, from the vignette", "profile": "by rule, from the profile", "mediq": "MediQ’s facts"}


def draw_cases(view: View) -> None:
    """Ask for a doctor, list its cases, and draw the conversations of the chosen case."""
    table = scoped(view)
    held = [key for key in view.names if (table["model"] == key).any()]
    doctor = choose("Doctor", held, "history_doctor", names=view.names)
    mine = table[table["model"] == doctor]
    mine = mine.iloc[sorted(range(len(mine)), key=lambda i: natural(str(mine["case_key"].iloc[i])))]
    own = pd.DataFrame(
        {
            "Case": mine["case_key"],
            "Data set": mine["dataset"].map(dataset_name),
            "Specialty": mine["specialty"],
            "Items": mine["n_items"],
            **{MEASURE[m][0]: mine[m] for m in _LISTED},
            "Conversations": mine["conversations"],
        }
    ).reset_index(drop=True)
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
    talks = case_conversations(runs_behind(history_conditions(), doctor), case_key)
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
    rule = "mcq_strict" if view.rule == "mcq_strict" else "mcq_loose"
    verdict = next((g.verdict for g in grades if (g.format, g.question_type, g.rule) == (*_TASK, rule)), None)
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


@cached_query(spinner=False)
def _openings_note() -> str:
    return openings_note(Store())


_SECTIONS = {
    "Figures": draw_overview,
    "Course of the dialogue": draw_course,
    "Comparison": draw_comparison,
    "The patient": draw_patients,
    "Cases": draw_cases,
}


def draw_history() -> None:
    """Draw the page, or the published figures and what to do where nothing is stored."""
    table = stored_history("usual")
    if table.empty:
        say_how_to_begin(
            "These are the **published** figures; no conversation is stored yet. The release’s conversations are "
            "measured the same way as one’s own.",
            instead="Or run doctors on the library: "
            f"`python -m core run --protocol {publisher('history').name} --doctor reference/oracle-direct`.",
        )
        draw_doctors([], {}, [], ask_published(), bounds=False)
        return
    store = Store()
    unknown = table["dataset"].isna()
    lost = int(table.loc[unknown, "missing"].sum())
    if lost:
        talks = "1 conversation is" if lost == 1 else f"{lost:,} conversations are"
        st.caption(f"{talks} not to be measured because the case is not stored: import the cases first.")
    if words := _openings_note():
        st.caption(words)

    def start() -> None:
        begin_measuring(store, HISTORY)

    draw_missing(
        measuring(store, HISTORY),
        int(table.loc[~unknown, "missing"].sum()),
        HISTORY,
        start,
        "history",
        explains="what of the case’s items was uncovered, turns, lengths, repetition and the patient’s virtues",
    )
    sizes = table.groupby("case_set")["conversations"].sum().sort_values(ascending=False)
    view = ask_view(offers_in(table, sizes.index), "models", "datasets", "specialties", "rule")
    if scoped(view).empty:
        st.info("No conversation fits these filters: remove one.", icon=":material/filter_alt_off:")
        return
    draw_view_notes(view.names, view.models)
    draw_sections(_SECTIONS, "history_tab", view)
