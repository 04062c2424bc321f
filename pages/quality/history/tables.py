"""The table of doctors, stored and published, one row each with all measures."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from core.frameworks.consultation.measures.history_taking import LENGTHS
from core.frameworks.consultation.measures.published import HISTORY_DOCTORS
from core.frameworks.consultation.measures.sections import MEASURE
from core.frameworks.consultation.measures.summary import VIRTUES
from core.measures.base import Row
from core.store.conditions import Condition
from pages.kit.tables import draw_table

_FIRST = ("accuracy", "doctor_turns")
TABLE_2 = (*_FIRST, *(name for name in MEASURE if name not in (*_FIRST, *VIRTUES, "queries")))
"""The measures of the paper's tables 2 and 3, outcome first."""
_COUNTS = {
    "Cases": "Cases with a measured conversation or a counted answer.",
    "Conversations": "Measured conversations; the upper bound has none by design.",
    "Broke off": "Left out because a failure or refusal ended them.",
    "Not measured": "Left out because they are not measured yet.",
    "Answers": "Answers that count in accuracy; choices by the rule chosen above.",
    "Answers excluded": "Answers excluded because of a provider’s failure or a refusal.",
}


def draw_doctors(
    rows: Sequence[Row], names: Mapping[str, str], conditions: Sequence[Condition], *, bounds: bool
) -> None:
    """Draw one row for each doctor, stored doctors first, and a caption."""
    columns: dict[str, Any] = {
        name: st.column_config.TextColumn(help=words)
        if bounds
        else st.column_config.NumberColumn(help=words, format="%.2f" if measure in LENGTHS else "%.3f")
        for measure, (name, words) in MEASURE.items()
    }
    columns |= {name: st.column_config.NumberColumn(format="localized", help=words) for name, words in _COUNTS.items()}
    columns["Doctor"] = st.column_config.TextColumn(pinned=True, width="medium")
    draw_table(overview_table(rows, names, conditions, bounds=bounds), "history-taking", columns, height="content")
    st.caption(
        "ROUGE-1 of stemmed words: the patient’s against the values of the case’s items, the doctor’s questions "
        "against their keys. Means over a case’s conversations, then over cases; a dash: no conversation to measure."
    )


def overview_table(
    rows: Sequence[Row], names: Mapping[str, str], conditions: Sequence[Condition], *, bounds: bool = False
) -> pd.DataFrame:
    """Return one row for each doctor, ``names`` first; with ``bounds`` the figures are texts with intervals."""
    by_model: dict[str, dict[str, Row]] = {}
    for row in rows:
        by_model.setdefault(row.label["model"], {})[row.label["measure"]] = row
    condition_of = {condition.name: condition for condition in conditions}
    order = [*(name for name in names if name in by_model), *(name for name in by_model if name not in names)]
    table: list[dict[str, Any]] = []
    for model in order:
        measures = by_model[model]
        task = measures["accuracy"]
        figures = {MEASURE[m][0]: _value_with_bounds(measures.get(m), m, bounds=bounds) for m in TABLE_2}
        if task.source:
            source_columns = {"Doctor": HISTORY_DOCTORS[model], "From": f"published, {task.label['cases']}"}
            table.append({**source_columns, **figures})
            continue
        condition = condition_of[model]
        turns = measures["doctor_turns"]
        source = "release" if condition.newest.source == "release" else "run here"
        table.append(
            {
                "Doctor": names[model],
                "From": f"{condition.parts['framework']}, {source}",
                **figures,
                "Cases": max(turns.n or 0, task.n or 0),
                "Conversations": turns.more["n_conversations"],
                "Broke off": turns.excluded["broke_off"],
                "Not measured": turns.excluded["not_measured"],
                "Answers": task.more["n_conversations"],
                "Answers excluded": task.excluded["not_counted"],
            }
        )
    return pd.DataFrame(table)


def _value_with_bounds(row: Row | None, measure: str, *, bounds: bool) -> float | str | None:
    value = None if row is None else row.estimate
    if not bounds:
        return value
    if row is None or value is None:
        return "–"
    if row.source:
        return decimal(value, measure)
    if row.low is None or row.high is None:
        return f"{decimal(value, measure)} (no interval)"
    return f"{decimal(value, measure)} ({decimal(row.low, measure)}–{decimal(row.high, measure)})"


def decimal(value: float, measure: str) -> str:
    return f"{value:.2f}" if measure in LENGTHS else f"{value:.3f}"
