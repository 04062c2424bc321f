"""What the Endings page shows: read once for each state of the database, computed once for each choice."""

from dataclasses import dataclass

import pandas as pd
import streamlit as st

from core.measures.endings import RULES, Arm, EndingRow, Rescored, TurnRow, chosen_rows, endings, rescore, turn_rows
from core.store.database import Store
from core.store.fold import fold_if_free
from core.store.queries.accuracy import conversation_endings, ending_outcomes


@dataclass(frozen=True)
class Scope:
    """Which conversations are looked at; empty is no restriction."""

    case_set: str
    models: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()
    specialties: tuple[str, ...] = ()

    def rows(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of a table that are in scope."""
        return chosen_rows(
            table, case_sets=(self.case_set,), models=self.models, datasets=self.datasets, specialties=self.specialties
        )


def stored_endings() -> pd.DataFrame:
    """Return every trial with its ending; a shared table, never to be changed."""
    store = Store()
    fold_if_free(store)
    return _stored(str(store.path), store.version)


def ending_rows(scope: Scope) -> list[EndingRow]:
    """Return how the conversations in scope ended, by model."""
    return endings(scope.rows(stored_endings()))


def turns(scope: Scope) -> list[TurnRow]:
    """Return the distribution of doctor turns in scope, by model."""
    return turn_rows(scope.rows(stored_endings()))


def arms_held(case_set: str) -> list[Arm]:
    """Return the arms with answers on these cases."""
    table = _outcomes(*_key())
    rows = table[table["case_set"] == case_set]
    return list(rows[["format", "question_type"]].drop_duplicates().astype(str).itertuples(index=False, name=None))


def rescored(scope: Scope, arms: tuple[Arm, ...]) -> list[Rescored]:
    """Return accuracy of the arms in scope under every rule."""
    return [row for arm in arms for row in _rescored(*_key(), scope, arm)]


def _key() -> tuple[str, str]:
    store = Store()
    return str(store.path), store.version


@st.cache_resource(max_entries=2, show_spinner="Reading the conversations…")
def _stored(path: str, version: str) -> pd.DataFrame:
    with Store().read() as cursor:
        return conversation_endings(cursor)


@st.cache_resource(max_entries=2, show_spinner="Reading the answers…")
def _outcomes(path: str, version: str) -> pd.DataFrame:
    with Store().read() as cursor:
        return ending_outcomes(cursor)


@st.cache_resource(max_entries=256, show_spinner=False)
def _rescored(path: str, version: str, scope: Scope, arm: Arm) -> list[Rescored]:
    return rescore(scope.rows(_outcomes(path, version)), RULES, [arm])
