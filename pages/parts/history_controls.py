"""What the History taking page asks: which cases, doctors, data sets and specialties, and the rule for choices."""

from collections.abc import Mapping

import pandas as pd
import streamlit as st

from core.store.selection import McqRule
from pages.parts.failures_filters import Scope
from pages.parts.figure_controls import RULES, ask_several, dataset_name, keep_valid
from pages.parts.history_data import View
from pages.parts.look import RULE


def chosen_rule() -> McqRule:
    """Return the rule that ``ask_view`` last asked for."""
    return st.session_state.get("history_rule") or "mcq_loose"


def ask_view(table: pd.DataFrame, names: Mapping[str, str]) -> View:
    """Ask which conversations to look at, and by which rule the task's answers are judged."""
    sets = list(table.groupby("case_set")["conversations"].sum().sort_values(ascending=False).index)
    keep_valid("history_cases", sets)
    columns = st.columns([2, 3, 3, 3, 3], vertical_alignment="bottom")
    case_set = columns[0].selectbox(
        "Cases", sets, format_func=dataset_name, key="history_cases", bind="query-params",
        help="Figures on different cases are never mixed.",
    ) or sets[0]  # fmt: skip
    held = table[table["case_set"] == case_set]
    doctors = [key for key in names if (held["model"] == key).any()]
    chosen = ask_several(columns[1], "Doctors", "history_doctors", doctors, names)
    datasets = sorted(held["dataset"].dropna().unique())
    in_sets = ask_several(columns[2], "Data sets", "history_datasets", datasets, {d: dataset_name(d) for d in datasets})
    specialties = sorted(held["specialty"].dropna().unique())
    wanted = ask_several(columns[3], "Specialties", "history_specialties", specialties, {s: s for s in specialties})
    rule = columns[4].selectbox(
        "Right answer to the task", RULES, format_func=RULE.__getitem__, key="history_rule",
        bind="query-params",
        help="Accuracy stands beside the history: the question with its choices, answered after the conversation. The "
        "substring rule counts every response in which the right answer occurs.",
    )  # fmt: skip
    return View(Scope(case_set, chosen, in_sets, wanted), rule)
