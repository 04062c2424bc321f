"""History taking: information uncovered, course of the dialogue, the patient’s quality, and single cases."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import streamlit as st

from core.frameworks.base import publisher
from core.frameworks.consultation.measures.published import published_rows
from core.frameworks.consultation.measures.summary import read_history
from core.frameworks.starts import RELEASE, campaign_of
from core.store.selection import Selection, case_sets_played
from pages.kit.cached import ask, cached_query, read
from pages.kit.controls import choose
from pages.kit.empty import draw_empty, draw_no_match
from pages.kit.view import CaseSetOptions, FilterRow, SelectionPart, ask_selection, offer_in
from pages.quality.asked import draw_asked
from pages.quality.history.cases import draw_case_conversations
from pages.quality.history.figures import ask_published, draw_comparison, draw_course, draw_overview, draw_patients
from pages.quality.history.tables import draw_doctors


class StoredHistories(NamedTuple):
    """Case set → filters, most conversations first; ``lost`` conversations have no stored case to measure against."""

    offers: dict[str, CaseSetOptions]
    lost: int


@cached_query("Reading the measures…", entries=1)
def stored_histories() -> StoredHistories:
    """Return the filters by case set; conditions have their names on that case set."""
    tables = {name: read(read_history, Selection(case_sets=(name,))) for name in ask(case_sets_played)}
    order = sorted(tables, key=lambda name: -int(tables[name]["conversations"].sum()))
    offers = {name: offer_in(tables[name]) for name in order if len(tables[name])}
    lost = sum(int(table.loc[table["dataset"].isna(), "missing"].sum()) for table in tables.values())
    return StoredHistories(offers, lost)


_COMPARISON = "Comparison"
"""Asks for two doctors instead of models."""
_VIEWS: dict[str, Callable[[Selection, FilterRow], None]] = {
    "Figures": draw_overview,
    "Asked and missed": lambda selection, row: draw_asked(selection),
    "Course of the dialogue": draw_course,
    _COMPARISON: draw_comparison,
    "The patient": lambda selection, row: draw_patients(selection),
    "Cases": lambda selection, row: draw_case_conversations(selection),
}
"""Choice in the row of filters → what draws it, with further controls in the row."""


def draw_history() -> None:
    """Draw the chosen figures; without conversations, the published figures and how to begin."""
    stored = stored_histories()
    row = FilterRow(history_bounds=False)
    if not stored.offers:
        dataset = ask_published(row)
        draw_doctors(published_rows(dataset) if dataset else [], {}, (), bounds=False)
        draw_empty(
            "These are the **published** figures; no conversation is stored yet.",
            campaign_of(publisher("history").name, "reference/oracle-direct"),
            RELEASE,
            icon="menu_book",
        )
        return
    with row.own:
        shown = choose("Show", list(_VIEWS), "history_tab", width=176)
    whose: SelectionPart = "source" if shown == _COMPARISON else "models"
    selection = ask_selection(stored.offers, whose, "datasets", "specialties", "rule", row=row)
    if read(read_history, replace(selection, mcq_rule="usual")).empty:
        draw_no_match("No conversation fits these filters.")
        return
    _VIEWS[shown](selection, row)
    if stored.lost:
        lost = "1 conversation is" if stored.lost == 1 else f"{stored.lost:,} conversations are"
        st.caption(f"{lost} not measured because the case is not stored. Import the cases first.")
