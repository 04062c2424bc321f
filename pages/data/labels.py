"""Labels of cases: specialties by a model and their review, accepted answers, and cases used to write prompts."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pandas as pd
import streamlit as st

from core import access
from core.case import SPECIALTIES
from core.datasets.select import without_specialty
from core.errors import AnamnesisError
from core.jobs.judge import Judging
from core.store.database import Store
from core.store.queries.case_labels import ALLOWED, NO, YES, CaseLabel, LabelField, add_labels, label_of
from pages.data.sets import CaseEntry
from pages.kit.controls import choose
from pages.kit.jobs import draw_judging
from pages.kit.look import LABEL_FIELD, counted, maker_words, plain
from pages.kit.names import model_name
from pages.kit.visitor import only

_COLUMNS: dict[str, LabelField] = {words: name for name, words in LABEL_FIELD.items() if name != "answer_in_vignette"}
_SHOWN = {"all": "All", "model": "By a model", "development": "Used to write prompts", "labelled": "Labelled"}
_FEW = 500
"""Most cases that are edited at once."""


def draw_labels_of(entry: CaseEntry) -> None:
    """Draw the labels of a case in words, with who gave them, when and why."""
    words = []
    for name, label in entry.labels.items():
        if label.value and name != "accepted":  # accepted answers would give the answer away
            value = "" if name == "development" and label.value == YES else f": {plain(label.value)}"
            words.append(f"{LABEL_FIELD[name]}{value} ({_said(label)})")
        elif label.value:
            words.append(f"{counted(len(label.names), 'accepted answer')} ({_said(label)})")
    if words:
        st.caption(f":material/label: {' · '.join(words)}")


def _said(label: CaseLabel) -> str:
    who = {
        "model": f"by the model {plain(label.made_by)}",
        "review": f"review {plain(label.made_by)}",
        "file": f"file {plain(label.made_by)}",
        "person": plain(label.made_by) or "a person",
    }[label.origin]
    note = f": “{plain(label.note)}”" if label.note and label.origin == "model" else ""
    by = f", {plain(label.note)}" if label.note and label.origin != "model" else ""
    return f"{who}{by}, {datetime.fromtimestamp(label.made_at, UTC):%Y-%m-%d}{note}"


def draw_labels(name: str, entries: Sequence[CaseEntry]) -> None:
    """Draw the job that asks a model for specialties, then the table in which people review and correct labels."""
    st.caption(
        "Labels group, filter and leave out cases in figures. Nothing that a patient or doctor is told changes, and a "
        "person’s label takes precedence over a model’s.",
        help="Every label is kept with who gave it and when; the newest counts.",
    )
    _draw_job(name, entries)
    options = [key for key in _SHOWN if key == "all" or any(_is_shown(entry, key) for entry in entries)]
    shown = "all"
    with st.container(horizontal=True, vertical_alignment="bottom"):
        if len(options) > 1:
            shown = choose("Show", options, "data_labels_shown", names=_SHOWN, shape="segments")
        words = st.text_input(
            "Search", key="data_labels_words", bind="query-params", placeholder="An id, or words in a case", width=320
        )
    chosen = [entry for entry in entries if _is_shown(entry, shown) and _contains(entry, words.strip().lower())]
    if len(chosen) > _FEW:
        st.caption(f"The first {_FEW:,} of {len(chosen):,} cases: search for the others.")
        chosen = chosen[:_FEW]
    _draw_editor(name, chosen)


def _contains(entry: CaseEntry, words: str) -> bool:
    return words in f"{entry.case.case_key} {entry.specialty} {entry.case.vignette}".lower()


def _is_shown(entry: CaseEntry, shown: str) -> bool:
    match shown:
        case "model":
            return any(label.origin == "model" and label.value for label in entry.labels.values())
        case "development":
            return entry.value("development") == YES
        case "labelled":
            return any(label.value for label in entry.labels.values())
    return True


def _draw_job(name: str, entries: Sequence[CaseEntry]) -> None:
    cases = without_specialty([entry.case for entry in entries])
    if cases:
        label = f"{counted(len(cases), 'case')} without a specialty: ask a model"
        with st.expander(label, icon=":material/category:", key="data_specialties_box"):
            draw_judging(
                Judging,
                lambda model, address: Judging("specialty", (model,), data=name, base_url=address),
                "data_specialties",
                Judging("specialty").instance,
            )


def _draw_editor(name: str, entries: Sequence[CaseEntry]) -> None:
    before = [_cells(entry) for entry in entries]
    foreign = sorted({entry.specialty for entry in entries} - set(SPECIALTIES))
    column = st.column_config
    config = {
        "Case": column.TextColumn(pinned=True, disabled=True),
        "Vignette": column.TextColumn(width="medium", disabled=True),
        "Specialty": column.SelectboxColumn(options=[*SPECIALTIES, *foreign], required=True),
        "Said by": column.TextColumn(disabled=True, help="Who labelled the specialty; the data set otherwise."),
        "Because": column.TextColumn(disabled=True, help="The words of the case that a model quotes, or a reason."),
        "One likely diagnosis": column.SelectboxColumn(options=[YES, NO]),
        "Accepted answers": column.TextColumn(help="Further answers that are as right, separated by ;"),
        "Used to write prompts": column.CheckboxColumn(),
        "Date": column.TextColumn(help="When the case was published: 2024, 2024-10 or 2024-10-31."),
        "Urgency": column.SelectboxColumn(
            options=ALLOWED["urgency"], help="How soon the patient must be seen: 1 immediately to 5 no appointment."
        ),
    }
    # the key changes with the labels, so that saved changes are not applied a second time
    state = hash(tuple(str(cells) for cells in before))
    with st.form(f"data_labels_{name}", border=False):
        edited = st.data_editor(
            pd.DataFrame(before), column_config=config, hide_index=True, height=480, key=f"data_labels_{name}_{state}"
        )
        left, right = st.columns(2)
        by = left.text_input("Your name", access.visitor().name, key="data_labels_by")
        reason = right.text_input("Reason", key="data_labels_reason", help="Stored with every changed label.")
        save = st.form_submit_button("Save changes", icon=":material/save:", **only("run"))
        by_model = [label for entry in entries if (label := entry.labels.get("specialty")) and label.origin == "model"]
        confirm = bool(by_model) and st.form_submit_button(
            f"Save, and confirm the other {counted(len(by_model), 'specialty', 'specialties')} by a model",
            icon=":material/done_all:",
            **only("run"),
        )
    if not (save or confirm):
        return
    try:
        after = edited.astype(object).where(edited.notna(), None).to_dict("records")
        changes = _changes(
            entries, before, [{str(name): cell for name, cell in row.items()} for row in after], by.strip(), reason
        )
        saved = add_labels(Store(), [*changes, *(_confirmed(entries, changes, by.strip()) if confirm else ())])
    except AnamnesisError as error:
        st.error(plain(str(error)), icon=":material/error:")
        return
    st.session_state["data_told"] = f"Saved {counted(saved, 'label')}."
    st.rerun()


def _cells(entry: CaseEntry) -> dict[str, Any]:
    label = entry.labels.get("specialty")
    stated = label if label and label.value else None
    single = entry.single_diagnosis
    return {
        "Case": entry.case.case_key.partition("/")[2],
        "Specialty": entry.specialty,
        "Said by": _maker(stated) if stated else "data set",
        "Because": stated.note if stated else "",
        "One likely diagnosis": None if single is None else YES if single else NO,
        "Accepted answers": "; ".join(entry.labels["accepted"].names) if "accepted" in entry.labels else "",
        "Used to write prompts": entry.value("development") == YES,
        "Date": entry.value("date") or "",
        "Urgency": entry.value("urgency") or None,
        "Vignette": " ".join(entry.case.vignette.split())[:120],
    }


def _maker(label: CaseLabel) -> str:
    model, _, prompt = label.made_by.partition(" ")
    return f"{model_name(model)} (prompt {prompt})" if label.origin == "model" else maker_words(label.made_by)


def _changes(
    entries: Sequence[CaseEntry],
    before: Sequence[Mapping[str, Any]],
    after: Sequence[Mapping[str, Any]],
    by: str,
    reason: str,
) -> list[CaseLabel]:
    """Return a label of a person for each changed cell."""
    changed = []
    for entry, old, new in zip(entries, before, after, strict=True):
        for words, name in _COLUMNS.items():
            if (old[words] or None) != (new[words] or None):
                changed.append(label_of(entry.case, name, _stored_value(name, new[words]), "person", by, reason))
    return changed


def _confirmed(entries: Sequence[CaseEntry], changes: Sequence[CaseLabel], by: str) -> list[CaseLabel]:
    """Return a person's label for each specialty by a model that is not changed."""
    changed = {label.case_key for label in changes if label.field == "specialty"}
    return [
        label_of(entry.case, "specialty", label.value, "person", by, label.note)
        for entry in entries
        if (label := entry.labels.get("specialty")) and label.origin == "model" and entry.case.case_key not in changed
    ]


def _stored_value(name: LabelField, cell: Any) -> str:
    if name == "development":
        return YES if cell else NO
    text = str(cell or "")
    return text.replace(";", "\n") if name == "accepted" else text
