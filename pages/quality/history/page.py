"""History taking: information uncovered, course of the dialogue, the patient’s quality, and single cases."""

from dataclasses import replace
from typing import NamedTuple

import pandas as pd
import streamlit as st

from core.asking.scene import Turn
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
from core.frameworks.consultation.measures.published import published_rows
from core.frameworks.consultation.measures.sections import MEASURE
from core.frameworks.consultation.measures.summary import read_doctors, read_history
from core.jobs.background import begin_measuring, measuring
from core.store.database import Store
from core.store.selection import Selection, case_sets_played
from core.text.case_items import items_by_rule
from pages.kit.cached import ask, cached_query, read
from pages.kit.case.facts import draw_facts_ledger
from pages.kit.cases import choose_case, choose_trial, draw_ways_on
from pages.kit.controls import choose
from pages.kit.jobs import draw_missing
from pages.kit.look import badge, plain
from pages.kit.names import dataset_name, natural
from pages.kit.notes import basis, draw_notes, notes_on
from pages.kit.page import draw_sections as draw_tabs
from pages.kit.page import say_how_to_begin
from pages.kit.stored import case_conversations, reading, runs_behind
from pages.kit.view import CaseSetOptions, ask_selection, names_on, offer_in
from pages.quality.history.figures import ask_published, draw_comparison, draw_course, draw_overview, draw_patients
from pages.quality.history.tables import decimal, draw_doctors

_TASK = ("multi_turn", "mcq")
_METRICS = ("patient_recall", "patient_precision", "doctor_recall", "queries", "repetition_1", "honesty", "strictness")
_LISTED = ("patient_recall", "patient_precision", "doctor_recall", "doctor_turns", "repetition_1", "accuracy")
_MADE_BY = {"rules": "by rule, from the vignette", "profile": "by rule, from the profile", "mediq": "MediQ’s facts"}


def draw_case_conversations(selection: Selection) -> None:
    """Ask for a doctor, list its cases, and draw a conversation of the chosen case."""
    table = read(read_doctors, selection)
    names = {model: name for model, name in names_on(selection).items() if (table["model"] == model).any()}
    doctor = choose("Doctor", list(names), "history_doctor", names=names)
    draw_notes(notes_on(basis(selection), {doctor: names[doctor]}, compared=False))
    table = table[table["model"] == doctor]
    cases = table.iloc[sorted(range(len(table)), key=lambda place: natural(str(table["case_key"].iloc[place])))]
    listed = pd.DataFrame(
        {
            "Case": cases["case_key"],
            "Data set": cases["dataset"].map(dataset_name),
            "Specialty": cases["specialty"],
            "Items": cases["n_items"],
            **{MEASURE[m][0]: cases[m] for m in _LISTED},
            "Conversations": cases["conversations"],
        }
    ).reset_index(drop=True)
    st.caption(f"{len(listed):,} cases, with means over conversations. Choose a case to read its conversations.")
    columns = {
        label: st.column_config.NumberColumn(help=words, format="%.2f" if m in LENGTHS else "%.3f")
        for m, (label, words) in MEASURE.items()
    }
    columns["Items"] = st.column_config.NumberColumn(format="%d", help="Items of information in the case.")
    case_key = choose_case(listed, "history-cases", "history_case", columns)
    if case_key is None:
        return
    st.header(plain(f"{names[doctor]} · {case_key}"), anchor=False)
    conversations = case_conversations(runs_behind(basis(selection).conditions, doctor), case_key)
    if not conversations:
        st.caption("No trial of this case is stored.")
        return
    conversation = choose_trial(conversations, "history_conversation")
    stored = reading(conversation.trial_id)
    draw_ways_on(conversation.trial_id)
    grades = stored.grades if stored else ()
    rule = "mcq_strict" if selection.mcq_rule == "mcq_strict" else "mcq_loose"
    verdict = next((g.verdict for g in grades if (g.format, g.question_type, g.rule) == (*_TASK, rule)), None)
    if verdict:
        st.markdown(f"Task: {badge(verdict)}")
    if stored is None or stored.case is None:
        st.caption("The case of this trial is not stored, so its conversation has no items to compare with.")
        return
    items = stored_items(Store(), stored.case) or items_by_rule(stored.case)
    messages = [Turn(e.role, e.text) for e in stored.events if isinstance(e, Utterance)]
    measured = measure(messages, yardstick(information_of(stored.case), items.items))
    with st.container(border=True, horizontal=True):
        for name in _METRICS:
            value = getattr(measured, name)
            label, words = MEASURE[name]
            text = "–" if value is None else str(value) if isinstance(value, int) else decimal(value, name)
            st.metric(label, text, help=words, width="content")
    made_by = _MADE_BY.get(items.made_by.partition("-")[0], f"by {items.made_by}")
    st.markdown(f"**Items of the case** :gray[· {plain(made_by)}]")
    first_told = [measured.order.get(item.topic) for item in items.items]
    st.dataframe(
        {
            "Asked as": [item.key for item in items.items],
            "What the case says": [item.value for item in items.items],
            "First told at": [None if share is None else 100 * share for share in first_told],
        },
        hide_index=True,
        key="history_items",
        placeholder="never",
        height="content",
        column_config={
            "What the case says": st.column_config.TextColumn(width="large"),
            "First told at": st.column_config.NumberColumn(
                format="%.0f %%", help="Share of the dialogue before the patient first mentioned the topic."
            ),
        },
    )
    ledger = st.expander(
        "Facts: asked, volunteered, withheld, never asked",
        icon=":material/fact_check:",
        on_change="rerun",
        key="history_ledger",
    )
    if ledger.open:
        with ledger:
            draw_facts_ledger(stored.case, stored.events, "history_facts")


class StoredHistories(NamedTuple):
    """Case set → filters, most conversations first; and the numbers of conversations that are not measured.

    ``lost`` conversations have no stored case; ``missing`` conversations can still be measured.
    """

    offers: dict[str, CaseSetOptions]
    lost: int
    missing: int


@cached_query("Reading the measures…", entries=1)
def stored_histories() -> StoredHistories:
    """Return the filters by case set; conditions have their names on that case set."""
    tables = {name: read_history(Store(), Selection(case_sets=(name,))) for name in ask(case_sets_played)}
    order = sorted(tables, key=lambda name: -int(tables[name]["conversations"].sum()))
    offers = {name: offer_in(tables[name]) for name in order if len(tables[name])}
    lost = sum(int(table.loc[table["dataset"].isna(), "missing"].sum()) for table in tables.values())
    missing = sum(int(table["missing"].sum()) for table in tables.values()) - lost
    return StoredHistories(offers, lost, missing)


_TABS = {
    "Figures": draw_overview,
    "Course of the dialogue": draw_course,
    "Comparison": draw_comparison,
    "The patient": draw_patients,
    "Cases": draw_case_conversations,
}


def draw_history() -> None:
    """Draw the tabs; without conversations, the published figures and how to begin."""
    stored = stored_histories()
    if not stored.offers:
        say_how_to_begin(
            "These are the **published** figures; no conversation is stored yet.",
            instead="Or run doctors on the library: "
            f"`python -m core run --protocol {publisher('history').name} --doctor reference/oracle-direct`.",
        )
        dataset = ask_published()
        draw_doctors(published_rows(dataset) if dataset else [], {}, (), bounds=False)
        return
    store = Store()
    if stored.lost:
        talks = "1 conversation is" if stored.lost == 1 else f"{stored.lost:,} conversations are"
        st.caption(f"{talks} not measured because the case is not stored. Import the cases first.")

    def start() -> None:
        begin_measuring(store, HISTORY)

    draw_missing(
        measuring(store, HISTORY),
        stored.missing,
        HISTORY,
        start,
        "history",
        explains="items uncovered, turns, lengths, repetition and the patient’s virtues",
    )
    selection = ask_selection(stored.offers, "models", "datasets", "specialties", "rule")
    if read(read_history, replace(selection, mcq_rule="usual")).empty:
        st.info("No conversation fits these filters: remove one.", icon=":material/filter_alt_off:")
        return
    draw_tabs(_TABS, "history_tab", selection)
