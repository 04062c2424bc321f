"""What the Failures page asks: which cases, models, data sets and specialties; all in the address."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
import streamlit as st

from core.measures.accuracy import case_set_of, case_sets
from core.store.queries.accuracy import CaseScore
from pages.parts.figure_controls import ask_several, dataset_name, keep_valid, unique_names


@dataclass(frozen=True)
class Scope:
    """Which answers and conversations are looked at; empty is no restriction."""

    case_set: str
    models: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()
    specialties: tuple[str, ...] = ()

    def has(self, model: str, case_key: str, dataset: str | None, specialty: str | None) -> bool:
        """Say whether something is in scope."""
        return (
            case_key.partition("/")[0] == self.case_set
            and (not self.models or model in self.models)
            and (not self.datasets or dataset in self.datasets)
            and (not self.specialties or specialty in self.specialties)
        )

    def rows(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of a table that are in scope."""
        columns = zip(table["model"], table["case_key"], table["dataset"], table["specialty"], strict=True)
        return table[[self.has(*row) for row in columns]]


def ask_scope(found: Sequence[CaseScore]) -> tuple[Scope, dict[str, str]]:
    """Ask what to look at; returns it with the names of its conditions."""
    sets = case_sets(found)
    keep_valid("failures_cases", sets)
    columns = st.columns([2, 3, 3, 3], vertical_alignment="bottom")
    case_set = columns[0].selectbox(
        "Cases", list(sets), format_func=dataset_name, key="failures_cases", bind="query-params",
        help="Figures on different cases are never mixed.",
    ) or next(iter(sets))  # fmt: skip
    held = [score for score in found if case_set_of(score) == case_set]
    names = unique_names((score.model for score in held), case_set)
    models = ask_several(columns[1], "Models", "failures_models", list(names), names)
    datasets = sorted({score.dataset for score in held if score.dataset})
    chosen = ask_several(columns[2], "Data sets", "failures_datasets", datasets, {d: dataset_name(d) for d in datasets})
    specialties = sorted({score.specialty for score in held if score.specialty})
    wanted = ask_several(columns[3], "Specialties", "failures_specialties", specialties, {s: s for s in specialties})
    return Scope(case_set, models, chosen, wanted), names
