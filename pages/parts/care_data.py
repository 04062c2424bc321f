"""What the CARE page shows: read once for each state of the database, computed once for each choice."""

from dataclasses import dataclass

import pandas as pd
import streamlit as st

from core.measures.care.profile import CareProfile, Habits, habits_of, item_rows, profiles, read_care
from core.measures.endings import chosen_rows
from core.store.conditions import Condition
from core.store.database import Store
from core.store.fold import fold_if_free
from core.store.queries.care import CareQuestion, Failure, Rating, failures, ratings
from pages.parts.figures import conditions
from pages.parts.run_data import CARED_FOR


@dataclass(frozen=True)
class View:
    """Which conversations are looked at, and by which answers; empty is no restriction."""

    question_type: CareQuestion
    seats: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()
    specialties: tuple[str, ...] = ()

    def rows(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of a table of trials that are in scope."""
        held = chosen_rows(table, datasets=self.datasets, specialties=self.specialties)
        return held[held["seat"].isin(self.seats)] if self.seats else held


def doctors() -> list[Condition]:
    """Return the conditions of all campaigns that CARE reports, by doctor, the newest first."""
    fold_if_free(Store())
    return [one for name in sorted(CARED_FOR) for one in conditions(framework=name)]


def stored_trials(question_type: CareQuestion) -> pd.DataFrame:
    """Return a row for each trial of each seat; a shared table, never to be changed."""
    return _stored(*_key(), question_type)


def scoped(view: View) -> pd.DataFrame:
    """Return the trials in scope; a shared table."""
    return _scoped(*_key(), view)


def care_profiles(view: View, *, by_dataset: bool) -> list[CareProfile]:
    """Return the profile of every seat in scope, over all or by data set."""
    return _profiles(*_key(), view, by_dataset)


def habits(view: View) -> list[Habits]:
    """Return how every doctor in scope converses."""
    return _habits(*_key(), view)


def items(view: View) -> pd.DataFrame:
    """Return a row for each seat and case in scope; a shared table."""
    return _items(*_key(), view)


def failed(view: View) -> list[Failure]:
    """Return every failure in scope, by model and case."""
    return _failed(*_key(), view)


def rated(view: View) -> list[Rating]:
    """Return every rating in scope, the worst first."""
    return _rated(*_key(), view)


def _key() -> tuple[str, str]:
    store = Store()
    return str(store.path), store.version


@st.cache_resource(max_entries=4, show_spinner="Reading the conversations…")
def _stored(path: str, version: str, question_type: CareQuestion) -> pd.DataFrame:
    return read_care(Store(), question_type)


@st.cache_resource(max_entries=16, show_spinner=False)
def _scoped(path: str, version: str, view: View) -> pd.DataFrame:
    return view.rows(_stored(path, version, view.question_type))


@st.cache_resource(max_entries=32, show_spinner="Computing intervals…")
def _profiles(path: str, version: str, view: View, by_dataset: bool) -> list[CareProfile]:
    return profiles(_scoped(path, version, view), "dataset" if by_dataset else None)


@st.cache_resource(max_entries=32, show_spinner=False)
def _habits(path: str, version: str, view: View) -> list[Habits]:
    return habits_of(_scoped(path, version, view))


@st.cache_resource(max_entries=16, show_spinner=False)
def _items(path: str, version: str, view: View) -> pd.DataFrame:
    return item_rows(_scoped(path, version, view))


@st.cache_resource(max_entries=16, show_spinner="Reading the failures…")
def _failed(path: str, version: str, view: View) -> list[Failure]:
    with Store().read() as cursor:
        return failures(cursor, _scoped(path, version, view))


@st.cache_resource(max_entries=16, show_spinner="Reading the ratings…")
def _rated(path: str, version: str, view: View) -> list[Rating]:
    with Store().read() as cursor:
        return ratings(cursor, _scoped(path, version, view))
