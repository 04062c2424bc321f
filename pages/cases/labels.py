"""Answers to the questions about cases: by people, reviews, files and models, and their correction by people."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

import pandas as pd
import streamlit as st

from core import access
from core.datasets.select import without_specialty
from core.jobs.judge import Judging, asked_of_models
from core.judging.form import forms
from core.store.database import Store
from core.store.queries.case_labels import ALLOWED, LABEL_FIELDS, NO, YES, LabelField, add_labels, label_of
from core.store.tables import CaseLabelRow
from pages.cases.sets import CaseEntry
from pages.kit.controls import choose
from pages.kit.jobs import draw_judging
from pages.kit.look import LABEL_FIELD, counted, first_words, maker_words, plain, show_errors
from pages.kit.names import model_name
from pages.kit.visitor import only

_HELP: Mapping[LabelField, str] = {
    "accepted": "Further answers that are as right, separated by ;",
    "date": "When the case was published: 2024, 2024-10 or 2024-10-31.",
    "development": "These cases are left out of figures.",
    "urgency": "How soon the patient must be seen: 1 immediately to 5 no appointment.",
}
_WHOLE = 12
"""Rows up to which the editor is shown at full height."""
_FEW = 500
"""Most cases that are edited at once."""


def draw_labels_of(entry: CaseEntry) -> None:
    """Draw the answers about a case in words, with who gave them, when and why."""
    words = []
    for name, label in entry.labels.items():
        value = f"{LABEL_FIELD[name]}: {plain(label.value)}"
        if name == "accepted":  # the names would give the answer away
            value = counted(len(label.names), "accepted answer")
        elif name == "development" and label.value == YES:
            value = LABEL_FIELD[name]
        why = f": “{plain(label.note)}”" if label.note else ""
        if label.value:
            words.append(
                f"{value} ({plain(_maker(label))}, {datetime.fromtimestamp(label.made_at, UTC):%Y-%m-%d}{why})"
            )
    if words:
        st.caption(f":material/label: {' · '.join(words)}")


def draw_labels(name: str, entries: Sequence[CaseEntry]) -> None:
    """Draw the answers to one question about each case, a model that answers it, and people's corrections."""
    st.caption(
        "Answers group, filter and leave out cases in figures. A person’s answer takes precedence over a model’s.",
        help="Nothing that a patient or doctor is told changes. Every answer is stored with who gave it and when; the "
        "newest counts.",
    )
    question = ask_question()
    _draw_job(name, entries, question)
    by_model = [entry for entry in entries if _is_by_model(entry, question)]
    with st.container(horizontal=True, vertical_alignment="bottom"):
        only_models = by_model and st.toggle("Only by a model", key="cases_labels_by_model", bind="query-params")
        words = st.text_input(
            "Search", key="cases_labels_words", bind="query-params", placeholder="An id, or words in a case", width=320
        )
    shown = [
        entry
        for entry in (by_model if only_models else entries)
        if words.strip().lower() in f"{entry.case.case_key} {entry.specialty} {entry.case.vignette}".lower()
    ]
    if len(shown) > _FEW:
        st.caption(f"The first {_FEW:,} of {len(shown):,} cases: search for the others.")
    draw_editor(name, shown[:_FEW], question)


def _is_by_model(entry: CaseEntry, question: LabelField) -> bool:
    label = entry.labels.get(question)
    return label is not None and label.origin == "model" and bool(label.value)


def _draw_job(name: str, entries: Sequence[CaseEntry], question: LabelField) -> None:
    """Draw the job in which a model answers the form of a question, if it has a form."""
    cases = [entry.case for entry in entries]
    open_cases = without_specialty(cases) if question == "specialty" else cases
    filling = (f for f in forms().values() if any(q.fills == question for q in asked_of_models(f.questions)))
    form = next((form.name for form in filling if form.about == "case"), "")
    if form and open_cases:
        without = " without a specialty" if question == "specialty" else ""
        label = f"{counted(len(open_cases), 'case')}{without}: ask a model"
        with st.expander(label, icon=":material/category:", key="cases_labels_box"):
            draw_judging(Judging(form, data=name), f"cases_label_{question}")


def ask_question() -> LabelField:
    return choose("Question", LABEL_FIELDS, "cases_label", names=LABEL_FIELD, shape="segments")


def draw_editor(name: str, entries: Sequence[CaseEntry], question: LabelField) -> None:
    """Draw the answers to a question about each case, to be changed."""
    before = []
    for entry in entries:
        label = entry.labels.get(question)
        answered = label if label and label.value else None
        before.append(
            {
                "Case": entry.case.case_key.partition("/")[2],
                "Answer": answer_of(entry, question) or None,
                "By": _maker(answered) if answered else "data set",
                "Because": answered.note if answered else "",
                "Vignette": first_words(entry.case.vignette, 120),
            }
        )
    column, allowed = st.column_config, ALLOWED.get(question)
    if allowed is None:
        answer = column.TextColumn(help=_HELP.get(question))
    else:
        others = sorted({cells["Answer"] for cells in before if cells["Answer"]} - set(allowed))
        options = [*allowed, *others]
        answer = column.SelectboxColumn(options=options, required=question == "specialty", help=_HELP.get(question))
    config = {
        "Case": column.TextColumn(pinned=True, disabled=True),
        "Answer": answer,
        "By": column.TextColumn(disabled=True, help="Who answered; without an answer, what the data set states."),
        "Because": column.TextColumn(disabled=True, help="The words of the case that a model quotes, or a reason."),
        "Vignette": column.TextColumn(width="medium", disabled=True),
    }
    # the key changes with the answers, so that saved changes are not applied a second time
    state = hash((question, *map(str, before)))
    height: int | Literal["content"] = 480 if len(before) > _WHOLE else "content"
    with st.form(f"cases_labels_{name}", border=False):
        edited = st.data_editor(
            pd.DataFrame(before),
            column_config=config,
            hide_index=True,
            height=height,
            key=f"cases_labels_{name}_{state}",
        )
        left, right = st.columns(2)
        by = left.text_input("Your name", access.visitor().name, key="cases_labels_by")
        reason = right.text_input("Reason", key="cases_labels_reason", help="Stored with every changed answer.")
        save = st.form_submit_button("Save changes", icon=":material/save:", **only("run"))
        by_model = sum(_is_by_model(entry, question) for entry in entries)
        confirm = bool(by_model) and st.form_submit_button(
            f"Save, and confirm the other {counted(by_model, 'answer')} by a model",
            icon=":material/done_all:",
            **only("run"),
        )
    if not (save or confirm):
        return
    with show_errors(icon=":material/error:"):
        after = edited["Answer"].astype(object).where(edited["Answer"].notna(), None)
        saved = add_labels(Store(), changes(entries, question, list(after), by.strip(), reason, confirm=confirm))
        st.session_state["cases_told"] = f"Saved {counted(saved, 'answer')}."
        st.rerun()


def answer_of(entry: CaseEntry, question: LabelField) -> str:
    """Return the answer that counts, else what the data set states; several accepted answers are separated by ;."""
    if question == "single_diagnosis":
        return {True: YES, False: NO, None: ""}[entry.single_diagnosis]
    return entry.specialty if question == "specialty" else entry.value(question).replace("\n", "; ")


def _maker(label: CaseLabelRow) -> str:
    model, _, prompt = label.made_by.partition(" ")
    if label.origin == "model":
        return f"{model_name(model)} (prompt {prompt})"
    return maker_words(label.made_by) if label.made_by else "a person"


def changes(
    entries: Sequence[CaseEntry],
    question: LabelField,
    answers: Sequence[Any],
    by: str,
    reason: str,
    *,
    confirm: bool = False,
) -> list[CaseLabelRow]:
    """Return a person's label for each changed answer, and with ``confirm`` for each one by a model, with its words."""
    changed = []
    for entry, cell in zip(entries, answers, strict=True):
        answer = str(cell or "")
        value = answer.replace(";", "\n") if question == "accepted" else answer
        if answer != answer_of(entry, question):
            changed.append(label_of(entry.case, question, value, "person", by, reason))
        elif confirm and _is_by_model(entry, question):
            changed.append(label_of(entry.case, question, value, "person", by, entry.labels[question].note))
    return changed
