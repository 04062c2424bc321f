"""The cases of one doctor, and the measures and items of a chosen conversation."""

import streamlit as st

from core.asking.scene import Turn
from core.events import Utterance
from core.frameworks.consultation.measures.history_taking import LENGTHS, Measures, information_of, measure, yardstick
from core.frameworks.consultation.measures.sections import MEASURE
from core.frameworks.consultation.measures.summary import read_doctors, report
from core.measures.base import Result, Section
from core.measures.notes import sample_notes
from core.store.database import Store
from core.store.queries.history_items import stored_items
from core.store.selection import McqRule, Selection
from core.text.case_items import ItemSet, items_by_rule
from pages.kit.cached import read
from pages.kit.case.facts import draw_facts_ledger
from pages.kit.controls import choose
from pages.kit.conversation_list import Line, draw_rows, trial_of_case
from pages.kit.look import badge, plain
from pages.kit.names import dataset_name, natural
from pages.kit.notes import basis, draw_notes, notes_on
from pages.kit.stored import ConversationRecord, reading
from pages.kit.view import names_on
from pages.quality.history.tables import decimal

_TASK = ("multi_turn", "mcq")
_METRICS = ("patient_recall", "patient_precision", "doctor_recall", "queries", "repetition_1", "honesty", "strictness")
CASES = Section(
    "Cases",
    report,
    kind="table",
    columns=(
        "case_key", "dataset", "specialty", "n_items", "patient_recall", "patient_precision", "doctor_recall",
        "doctor_turns", "repetition_1", "accuracy", "conversations",
    ),
    heads={
        "case_key": "Case", "dataset": "Data set", "n_items": "Items", **{m: name for m, (name, _) in MEASURE.items()},
    },
)  # fmt: skip
_MADE_BY = {"rules": "by rule, from the vignette", "profile": "by rule, from the profile", "mediq": "MediQ’s facts"}


def draw_case_conversations(selection: Selection) -> None:
    """Ask for a doctor, list its cases, and draw a conversation of the chosen case with its measures and facts."""
    table = read(read_doctors, selection)
    names = {model: name for model, name in names_on(selection).items() if (table["model"] == model).any()}
    doctor = choose("Doctor", list(names), "history_doctor", names=names)
    more = sample_notes(read, selection)
    draw_notes(notes_on(basis(selection), {doctor: names[doctor]}, compared=False, more=more))
    lines = ({str(name): cell for name, cell in line.items()} for line in table.to_dict("records"))
    of_doctor = (line for line in lines if line["model"] == doctor)
    rows = tuple(sorted(of_doctor, key=lambda line: natural(str(line["case_key"]))))

    def trial_of(line: Line) -> str:
        return trial_of_case(basis(selection).conditions, doctor, line["case_key"], "history_conversation")

    trial_id = draw_rows(
        CASES,
        Result(CASES.title, rows),
        {**names, **{str(name): dataset_name(str(name)) for name in table["dataset"].unique()}},
        "history_case",
        ("case_key",),
        trial_of=trial_of,
        draw_side=lambda record: _draw_measures(record, selection.mcq_rule),
        columns={
            label: st.column_config.NumberColumn(help=words, format="%.2f" if m in LENGTHS else "%.3f")
            for m, (label, words) in MEASURE.items()
        },
    )
    stored = reading(trial_id) if trial_id else None
    if stored is None or stored.case is None:
        return
    ledger = st.expander(
        "Facts: asked, volunteered, withheld, never asked",
        icon=":material/fact_check:",
        on_change="rerun",
        key="history_ledger",
    )
    if ledger.open:
        with ledger:
            draw_facts_ledger(stored.case, stored.events, "history_facts")


def _draw_measures(stored: ConversationRecord, mcq_rule: McqRule) -> None:
    """Draw the verdict on the task, the measures of a conversation and the case’s items."""
    if stored.case is None:
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
