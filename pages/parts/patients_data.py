"""What the Patients page shows: read once for each state of the database, computed once for each choice."""

from dataclasses import dataclass, field
from typing import Any

import streamlit as st

from core.measures.missing import count_missing, measure_missing
from core.measures.patients.figures import (
    By,
    PatientRate,
    TermsAgreement,
    patient_rates,
    terms_against_experts,
    trial_marks,
)
from core.measures.patients.rules import PATIENT_MARKS
from core.store.database import Store
from core.store.fold import fold_if_free
from core.store.queries.patients import KINDS, Hit, Kind, Mark, PatientOffer, hits, offer
from core.store.queries.transcripts import stored_trial
from core.store.selection import Selection
from core.work import Work, begin, work_at

PAGE = 50
"""Hits on one page of the list."""


@dataclass(frozen=True)
class View:
    """Which conversations and kinds of hits are looked at; the names of models, doctors first, are the page's."""

    wanted: Selection
    kinds: tuple[Kind, ...] = KINDS
    patients: dict[str, str] = field(default_factory=dict, compare=False, hash=False)
    doctors: dict[str, str] = field(default_factory=dict, compare=False, hash=False)
    runs: dict[str, str] = field(default_factory=dict, compare=False, hash=False)


def on_offer() -> PatientOffer:
    """Return what there is to choose from, with what the journals hold by now."""
    fold_if_free(Store())
    return _offer(*_key())


def unmarked(view: View) -> int:
    """Return how many conversations of the view's runs are still to be marked."""
    return _unmarked(*_key(), _marked_together(view))


def marking() -> Work[Any] | None:
    """Return the marking of this database that is under way or was the last, or ``None``."""
    return work_at(("patients", str(Store().path)))


def begin_marking(view: View) -> None:
    """Start to mark what is not marked: the runs that are chosen, or every campaign and release."""
    store, wanted = Store(), _marked_together(view)
    begin(
        ("patients", str(store.path)),
        lambda tell, stop: measure_missing(store, PATIENT_MARKS, wanted, progress=tell, stop=stop),
    )


def rates(view: View, by: By, *, pooled: bool = False) -> list[PatientRate]:
    """Return the rates of the marked conversations in view, of every kind, grouped."""
    return _rates(*_key(), view.wanted, by, pooled)


def page_of(view: View, words: str, page: int) -> tuple[int, list[Hit]]:
    """Return how many hits are in view, and one page of them, from 0; behind the last there is none and it is 0."""
    return _page_of(*_key(), view.wanted, view.kinds, words, page)


def every_hit(view: View, words: str) -> list[Hit]:
    """Return all hits in view, for a download."""
    with Store().read() as cursor:
        return hits(cursor, PATIENT_MARKS, view.kinds, view.wanted, words=words or None, limit=None)[1]


def is_stored(trial_id: str) -> bool:
    """Say whether there is such a conversation."""
    with Store().read() as cursor:
        return stored_trial(cursor, trial_id) is not None


def marks_of_trial(trial_id: str) -> tuple[Mark, ...]:
    """Return everything the rules find wrong in one conversation, in the order of its words."""
    return _marks_of_trial(*_key(), trial_id)


def against_experts() -> list[TermsAgreement]:
    """Return the rule for medical terms beside the experts; raises ``AnamnesisError`` without the release."""
    return _against_experts(*_key())


def _marked_together(view: View) -> Selection:
    return Selection(runs=view.wanted.runs)


def _key() -> tuple[str, str]:
    store = Store()
    return str(store.path), store.version


@st.cache_resource(max_entries=2, show_spinner=False)
def _offer(path: str, version: str) -> PatientOffer:
    with Store().read() as cursor:
        return offer(cursor)


@st.cache_resource(max_entries=8, show_spinner=False)
def _unmarked(path: str, version: str, wanted: Selection) -> int:
    return count_missing(Store(), PATIENT_MARKS, wanted)


@st.cache_resource(max_entries=32, show_spinner="Resampling the cases…")
def _rates(path: str, version: str, wanted: Selection, by: By, pooled: bool) -> list[PatientRate]:
    return patient_rates(Store(), by, wanted, pooled=pooled)


@st.cache_resource(max_entries=32, show_spinner=False)
def _page_of(
    path: str, version: str, wanted: Selection, kinds: tuple[Kind, ...], words: str, page: int
) -> tuple[int, list[Hit]]:
    with Store().read() as cursor:
        return hits(cursor, PATIENT_MARKS, kinds, wanted, words=words or None, limit=PAGE, offset=page * PAGE)


@st.cache_resource(max_entries=32, show_spinner=False)
def _marks_of_trial(path: str, version: str, trial_id: str) -> tuple[Mark, ...]:
    return trial_marks(Store(), trial_id)


@st.cache_resource(max_entries=2, show_spinner="Reading the experts’ workbooks…")
def _against_experts(path: str, version: str) -> list[TermsAgreement]:
    return terms_against_experts(Store())
