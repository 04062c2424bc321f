"""What the Accuracy page shows: cells and pairs, computed once for each state of the database and each rule."""

from dataclasses import dataclass, replace

import streamlit as st

from core.datasets.published import inferred_single_diagnosis, printed_sets
from core.frameworks.base import released
from core.jobs.reread import count_outdated
from core.measures.accuracy import (
    Cell,
    Split,
    group_of,
    own_cells,
    published_cells,
    scores_of,
    with_published,
)
from core.measures.compare import FormatPair, format_pairs
from core.questions import AsksFor
from core.store.database import Store
from core.store.queries.accuracy import CaseScore
from core.store.queries.cases import kinds_asked_for, single_diagnosis_keys
from pages.parts.figure_controls import Statistics
from pages.parts.figures import case_sets, label_of, scores


@dataclass(frozen=True)
class View:
    """Which cases are looked at, split how, under which statistics; those alone whose questions ask for these kinds."""

    case_set: str
    split: Split
    statistics: Statistics
    pooled: bool = False
    """Whether a model's conditions are put together on purpose."""
    asks_for: tuple[AsksFor, ...] = ()


def known_case_sets() -> dict[str, int]:
    """Return case set → cases played, the largest first; those with published figures are always there."""
    found = case_sets()
    return {**found, **{name: 0 for name in printed_sets() if name not in found}}


def kinds_asked(case_set: str) -> list[AsksFor]:
    """Return what the questions of a case set ask for, the most frequent first."""
    store = Store()
    return _kinds(str(store.path), store.version, case_set)


def viewed_scores(view: View) -> list[CaseScore]:
    """Return the scores that a view is about."""
    single = single_diagnosis() if view.split == "single" else frozenset()
    held = scores(view.statistics.rule, view.case_set, view.asks_for, pooled=view.pooled)
    return scores_of(held, view.case_set, view.split, single)


def cells(view: View) -> list[Cell]:
    """Return the cells of a view, with the published ones where nothing of ours covers them.

    What is published is about every question, whatever it asks for: beside some of them it has no place.
    """
    store = Store()
    return _cells(str(store.path), store.version, _without_correction(view))


def pairs(view: View) -> list[FormatPair]:
    """Return each format against the same model's vignette."""
    store = Store()
    return _pairs(str(store.path), store.version, _without_correction(view))


def read_before() -> int:
    """Return how many answers with choices an earlier version of the strict rule read."""
    store = Store()
    return _read_before(str(store.path), store.version)


def single_diagnosis() -> frozenset[str]:
    """Return the cases with one single most likely diagnosis, by key."""
    store = Store()
    return _single(str(store.path), store.version)


def _without_correction(view: View) -> View:
    """Return the view as far as cells and pairs depend on it: p-values are corrected over what is shown of them."""
    return replace(view, statistics=replace(view.statistics, correction="none"))


@st.cache_resource(max_entries=8, show_spinner=False)
def _kinds(path: str, version: str, case_set: str) -> list[AsksFor]:
    with Store().read() as cursor:
        return kinds_asked_for(cursor, case_set)


@st.cache_resource(max_entries=48, show_spinner=False)
def _cells(path: str, version: str, view: View) -> list[Cell]:
    own = own_cells(viewed_scores(view), view.split, view.statistics.interval)
    published = [] if view.asks_for else published_cells(view.case_set, view.split)
    return with_published(own, published, label_of)


@st.cache_resource(max_entries=48, show_spinner=False)
def _pairs(path: str, version: str, view: View) -> list[FormatPair]:
    return format_pairs(viewed_scores(view), group_of(view.split), view.statistics.interval)


@st.cache_resource(max_entries=4, show_spinner=False)
def _read_before(path: str, version: str) -> int:
    return count_outdated(Store())


@st.cache_resource(max_entries=4, show_spinner=False)
def _single(path: str, version: str) -> frozenset[str]:
    with Store().read() as cursor:
        stored = single_diagnosis_keys(cursor)
    inferred = {f"{released('accuracy').name}/{case}" for case, single in inferred_single_diagnosis().items() if single}
    return frozenset(stored | inferred)
