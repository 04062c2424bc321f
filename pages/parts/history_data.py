"""What the History taking page shows: read once for each state of the database, computed once for each choice."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
import streamlit as st

from core.measures.history.figures import (
    MEASURES,
    ComparisonRow,
    CurvePoint,
    GroupRow,
    MeasureRow,
    OrderRow,
    accuracy_counted,
    compare_models,
    curve_points,
    group_rows,
    measure_rows,
    order_rows,
    read_doctors,
)
from core.measures.history.measures import HISTORY
from core.measures.missing import measure_missing
from core.stats.corrections import Correction
from core.store.conditions import Condition
from core.store.database import Store
from core.store.fold import fold_if_free
from core.store.selection import McqRule, Selection
from core.work import Work, begin, work_at
from pages.parts.failures_filters import Scope
from pages.parts.figures import conditions
from pages.parts.run_data import CARED_FOR


@dataclass(frozen=True)
class View:
    """The conversations in scope, and the rule by which the task's answers are judged."""

    scope: Scope
    rule: McqRule


def doctors() -> list[Condition]:
    """Return the conditions of all campaigns and releases whose history is measured, by doctor, the newest first."""
    fold_if_free(Store())
    return [one for one in conditions() if one.newest.protocol not in CARED_FOR]


def stored_history(rule: McqRule) -> pd.DataFrame:
    """Return a row for each doctor and case; a shared table, never to be changed."""
    return _stored(*_key(), rule)


def measuring() -> Work[object] | None:
    """Return the measuring of this database that is under way or was the last, or ``None``."""
    return work_at(("history", str(Store().path)))


def begin_measuring() -> None:
    """Start to measure every conversation that is not measured."""
    store = Store()
    begin(("history", str(store.path)), lambda tell, stop: measure_missing(store, HISTORY, progress=tell, stop=stop))


def scoped(view: View) -> pd.DataFrame:
    """Return the rows of ``stored_history`` in scope; a shared table."""
    return _scoped(*_key(), view)


def figures(view: View) -> list[MeasureRow]:
    """Return every measure of every doctor in scope."""
    return _figures(*_key(), view)


def curves(view: View) -> list[CurvePoint]:
    """Return the measures against the share of the dialogue done."""
    return _curves(*_key(), view)


def order(view: View) -> list[OrderRow]:
    """Return when which topic comes up."""
    return _order(*_key(), view)


def groups(view: View) -> list[GroupRow]:
    """Return the measures in three groups of cases by number of items."""
    return _groups(*_key(), view)


def comparison(view: View, first: str, second: str, correction: Correction) -> list[ComparisonRow]:
    """Return first minus second in every measure that both have on some case."""
    return _comparison(*_key(), view, first, second, correction)


def by_measure(rows: Sequence[MeasureRow]) -> Mapping[tuple[str, str], MeasureRow]:
    """Return (doctor, measure) → row."""
    return {(row.model, row.measure): row for row in rows}


def _key() -> tuple[str, str]:
    store = Store()
    return str(store.path), store.version


@st.cache_resource(max_entries=4, show_spinner="Reading the measures…")
def _stored(path: str, version: str, rule: McqRule) -> pd.DataFrame:
    return read_doctors(Store(), Selection(mcq_rule=rule))


@st.cache_resource(max_entries=16, show_spinner=False)
def _scoped(path: str, version: str, view: View) -> pd.DataFrame:
    return view.scope.rows(_stored(path, version, view.rule))


@st.cache_resource(max_entries=32, show_spinner="Computing intervals…")
def _figures(path: str, version: str, view: View) -> list[MeasureRow]:
    table = _scoped(path, version, view)
    return [accuracy_counted(row, table) for row in measure_rows(table, MEASURES)]


@st.cache_resource(max_entries=32, show_spinner="Computing intervals…")
def _curves(path: str, version: str, view: View) -> list[CurvePoint]:
    return curve_points(_scoped(path, version, view))


@st.cache_resource(max_entries=32, show_spinner="Computing intervals…")
def _order(path: str, version: str, view: View) -> list[OrderRow]:
    return order_rows(_scoped(path, version, view))


@st.cache_resource(max_entries=32, show_spinner="Computing intervals…")
def _groups(path: str, version: str, view: View) -> list[GroupRow]:
    return group_rows(_scoped(path, version, view), MEASURES)


@st.cache_resource(max_entries=64, show_spinner="Comparing…")
def _comparison(
    path: str, version: str, view: View, first: str, second: str, correction: Correction
) -> list[ComparisonRow]:
    table = _scoped(path, version, view)
    sides = [table[table["model"] == key].set_index("case_key")[list(MEASURES)] for key in (first, second)]
    both = sides[0].notna() & sides[1].notna().reindex(sides[0].index, fill_value=False)
    shared = [m for m in MEASURES if both[m].sum() > 1]
    return compare_models(table, first, second, shared, correction) if shared else []
