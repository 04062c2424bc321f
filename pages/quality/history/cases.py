"""The cases of one doctor, and the measures and items of a chosen conversation."""

import pandas as pd
import streamlit as st

from core.asking.scene import Turn
from core.events import Utterance
from core.frameworks.consultation.measures.history_taking import LENGTHS, Measures, information_of, measure, yardstick
from core.frameworks.consultation.measures.sections import MEASURE
from core.frameworks.consultation.measures.summary import read_doctors
from core.measures.notes import sample_notes
from core.store.database import Store
from core.store.queries.history_items import stored_items
from core.store.selection import McqRule, Selection
from core.text.case_items import ItemSet, items_by_rule
from pages.kit.cached import read
from pages.kit.case.facts import draw_facts_ledger
from pages.kit.cases import choose_case, choose_trial, draw_ways_on
from pages.kit.controls import choose
from pages.kit.look import badge, plain
from pages.kit.names import case_name, dataset_name, natural
from pages.kit.notes import basis, draw_notes, notes_on
from pages.kit.stored import case_conversations, reading, runs_behind
from pages.kit.view import names_on
from pages.quality.history.tables import decimal

_TASK = ("multi_turn", "mcq")
_METRICS = ("patient_recall", "patient_precision", "doctor_recall", "queries", "repetition_1", "honesty", "strictness")
_LISTED = ("patient_recall", "patient_precision", "doctor_recall", "doctor_turns", "repetition_1", "accuracy")
_MADE_BY = {"rules": "by rule, from the vignette", "profile": "by rule, from the profile", "mediq": "MediQ’s facts"}


def draw_case_conversations(selection: Selection) -> None:
    """Ask for a doctor, list its cases, and draw a conversation of the chosen case."""
    table = read(read_doctors, selection)
    names = {model: name for model, name in names_on(selection).items() if (table["model"] == model).any()}
    doctor = choose("Doctor", list(names), "history_doctor", names=names)
    more = sample_notes(read, selection)
    draw_notes(notes_on(basis(selection), {doctor: names[doctor]}, compared=False, more=more))
    case_key = _choose_case(table[table["model"] == doctor])
    if case_key is None:
        return
    st.header(plain(f"{names[doctor]} · {case_name(case_key)}"), anchor=False)
    conversations = case_conversations(runs_behind(basis(selection).conditions, doctor), case_key)
    if not conversations:
        st.caption("No trial of this case is stored.")
        return
    trial_id = choose_trial(conversations, "history_conversation").trial_id
    draw_ways_on(trial_id)
    _draw_conversation(trial_id, selection.mcq_rule)


def _choose_case(table: pd.DataFrame) -> str | None:
    """List the cases of a doctor with their means, and return the key of the clicked one."""
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
    st.caption(f"{len(listed):,} cases, means over conversations. Choose a case to read its conversations.")
    columns = {
        label: st.column_config.NumberColumn(help=words, format="%.2f" if m in LENGTHS else "%.3f")
        for m, (label, words) in MEASURE.items()
    }
    columns["Items"] = st.column_config.NumberColumn(format="%d", help="Items of information in the case.")
    return choose_case(listed, "history-cases", "history_case", columns)


def _draw_conversation(trial_id: str, mcq_rule: McqRule) -> None:
    """Draw the verdict on the task, the measures of a conversation, the case’s items and the facts ledger."""
    stored = reading(trial_id)
    if stored is None or stored.case is None:
        st.caption("The case of this trial is not stored, so there are no items to compare with.")
        return
    rule = "mcq_strict" if mcq_rule == "mcq_strict" else "mcq_loose"
    verdict = next((g.verdict for g in stored.grades if (g.format, g.question_type, g.rule) == (*_TASK, rule)), None)
    if verdict:
        st.markdown(f"Answer: {badge(verdict)}")
    items = stored_items(Store(), stored.case) or items_by_rule(stored.case)
    messages = [Turn(event.role, event.text) for event in stored.events if isinstance(event, Utterance)]
    measures = measure(messages, yardstick(information_of(stored.case), items.items))
    with st.container(border=True, horizontal=True):
        for name in _METRICS:
            value = getattr(measures, name)
            label, words = MEASURE[name]
            text = "–" if value is None else str(value) if isinstance(value, int) else decimal(value, name)
            st.metric(label, text, help=words, width="content")
    _draw_items(items, measures)
    ledger = st.expander(
        "Facts: asked, volunteered, withheld, never asked",
        icon=":material/fact_check:",
        on_change="rerun",
        key="history_ledger",
    )
    if ledger.open:
        with ledger:
            draw_facts_ledger(stored.case, stored.events, "history_facts")


def _draw_items(items: ItemSet, measures: Measures) -> None:
    made_by = _MADE_BY.get(items.made_by.partition("-")[0], f"by {items.made_by}")
    st.markdown(f"**Items of the case** :gray[· {plain(made_by)}]")
    first_told = [measures.order.get(item.topic) for item in items.items]
    st.dataframe(
        {
            "Asked as": [item.key for item in items.items],
            "In the case": [item.value for item in items.items],
            "First told at": [None if share is None else 100 * share for share in first_told],
        },
        hide_index=True,
        key="history_items",
        placeholder="never",
        height="content",
        column_config={
            "In the case": st.column_config.TextColumn(width="large"),
            "First told at": st.column_config.NumberColumn(
                format="%.0f %%", help="Share of the dialogue before the patient first mentioned the topic."
            ),
        },
    )
