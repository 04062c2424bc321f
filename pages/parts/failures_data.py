"""What the Failures page shows: read once for each state of the database, computed once for each choice."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
import streamlit as st

from core.events import Format
from core.jobs.judging import judging
from core.measures.attribution import AFTER_TALK, APPLIES, Attribution
from core.measures.belief import BeliefRow, Calibration, Course, CurvePoint, belief_rows, calibrations, courses, curves
from core.measures.failures import Attributed, CauseShare, PatientEffect, attributions, cause_shares, patient_effects
from core.measures.ledger.kept import LEDGER, TalkRow, talk_rows, topic_rows
from core.measures.ledger.marks import TopicRow
from core.measures.missing import measure_missing
from core.store.database import Store
from core.store.queries.accuracy import CaseScore
from core.store.queries.facts import Judge, judged_sums, talk_sums, topic_sums
from core.store.selection import McqRule, Selection
from core.work import Work, begin, work_at
from pages.parts.failures_filters import Scope
from pages.parts.figures import scores

GROUPS: dict[str, tuple[Format, ...]] = {"talk": AFTER_TALK, "vignette": ("vignette",), "all": APPLIES}
"""Formats whose wrong answers can be looked at together."""


@dataclass(frozen=True)
class Causes:
    """The causes of the wrong answers in scope, and what they do to accuracies."""

    answers: tuple[Attribution, ...]
    shares: tuple[CauseShare, ...]
    effects: tuple[PatientEffect, ...]


@dataclass(frozen=True)
class Beliefs:
    """What the probed conversations in scope say."""

    rows: tuple[BeliefRow, ...]
    curves: tuple[CurvePoint, ...]
    calibrations: tuple[Calibration, ...]


def answered(rule: McqRule = "mcq_loose") -> list[CaseScore]:
    """Return the scores of all campaigns and releases, which also say what can be filtered by."""
    return scores(rule)


def marking() -> Work[object] | None:
    """Return the marking of this database that is under way or was the last, or ``None``."""
    return work_at(("marking", str(Store().path)))


def begin_marking() -> None:
    """Start to mark every conversation that is not marked."""
    store = Store()
    begin(("marking", str(store.path)), lambda tell, stop: measure_missing(store, LEDGER, progress=tell, stop=stop))


def attributing(group: str, rule: McqRule, judge: Judge | None, *, again: bool = False) -> Work[Attributed]:
    """Return the attribution of a group's wrong answers, which is started where it was not yet.

    ``judge`` says whose word on patients counts. While conversations are being marked or judged, the last finished one
    goes on to be shown.
    """
    store, busy = Store(), (marking(), judging())
    place = ("causes", str(store.path), group, rule, *(judge or ()))
    known = work_at((*place, store.version))
    if known is None and any(work is not None and work.running for work in busy):
        known = work_at((*place, _LAST.get(place, "")))
    if known is not None and not (again and not known.running):
        return known
    _LAST[place] = store.version
    selection = Selection(formats=GROUPS[group])
    return begin(
        (*place, store.version),
        lambda tell, stop: attributions(
            store, selection, rule, on_progress=tell, stop=stop, marked_only=True, judge=judge
        ),
    )


def talks() -> pd.DataFrame:
    """Return the conversations by model and case, with what the marked ones hold; never to be changed."""
    return _talks(*_key())


def unmarked_in(scope: Scope) -> int:
    """Return how many conversations in scope are not marked."""
    return int(scope.rows(talks())["unmarked"].sum())


def talk_figures(scope: Scope, judge: Judge | None) -> list[TalkRow]:
    """Return the figures of the conversations in scope, by model; ``judge`` says whose word on patients counts."""
    return _talk_figures(*_key(), scope, judge)


def topic_figures(scope: Scope) -> dict[str, list[TopicRow]]:
    """Return model → what became of the facts of each topic, in scope."""
    return _topic_figures(*_key(), scope)


def causes(work: Work[Attributed], scope: Scope, types: tuple[str, ...], group: str, rule: McqRule) -> Causes:
    """Return the causes in scope of an attribution that is over."""
    return _causes(str(Store().path), work.started_at, scope, types, group, rule, work.result)


def beliefs(scope: Scope) -> Beliefs:
    """Return what was believed in the probed conversations in scope."""
    return _beliefs(*_key(), scope)


def _key() -> tuple[str, str]:
    store = Store()
    return str(store.path), store.version


_LAST: dict[tuple[str, ...], str] = {}
"""Attribution → the state of the database that it was begun on."""


@st.cache_resource(max_entries=2, show_spinner="Reading the marks…")
def _talks(path: str, version: str) -> pd.DataFrame:
    with Store().read() as cursor:
        return talk_sums(cursor, LEDGER)


@st.cache_resource(max_entries=2, show_spinner="Reading the marks…")
def _topics(path: str, version: str) -> pd.DataFrame:
    with Store().read() as cursor:
        return topic_sums(cursor, LEDGER)


@st.cache_resource(max_entries=32, show_spinner=False)
def _talk_figures(path: str, version: str, scope: Scope, judge: Judge | None) -> list[TalkRow]:
    if judge is None:
        return talk_rows(scope.rows(_talks(path, version)))
    with Store().read() as cursor:
        judged = judged_sums(cursor, judge)
    return talk_rows(scope.rows(_talks(path, version)), scope.rows(judged))


@st.cache_resource(max_entries=32, show_spinner=False)
def _topic_figures(path: str, version: str, scope: Scope) -> dict[str, list[TopicRow]]:
    return topic_rows(scope.rows(_topics(path, version)))


@st.cache_resource(max_entries=12, show_spinner=False)
def _causes(
    path: str, started_at: float, scope: Scope, types: tuple[str, ...], group: str, rule: McqRule,
    _found: Attributed | None,
) -> Causes:  # fmt: skip
    places = {score.case_key: (score.dataset, score.specialty) for score in answered(rule)}
    listed = tuple(one for one in (_found.answers if _found else ()) if _fits(one, scope, types, places))
    held = [s for s in answered(rule) if scope.has(s.model, s.case_key, s.dataset, s.specialty)]
    return Causes(listed, tuple(cause_shares(listed)), tuple(patient_effects(listed, held)))


def _fits(
    one: Attribution, scope: Scope, types: Sequence[str], places: dict[str, tuple[str | None, str | None]]
) -> bool:
    case_key = one.answer.case[0]
    in_scope = scope.has(one.answer.model, case_key, *places.get(case_key, (None, None)))
    return in_scope and (not types or one.answer.question_type in types)


@st.cache_resource(max_entries=2, show_spinner="Reading the beliefs…")
def _courses(path: str, version: str) -> list[Course]:
    return courses(Store())


@st.cache_resource(max_entries=12, show_spinner=False)
def _beliefs(path: str, version: str, scope: Scope) -> Beliefs:
    places = {score.case_key: (score.dataset, score.specialty) for score in answered()}
    held = [
        one for one in _courses(path, version)
        if scope.has(one.model, one.case_key, *places.get(one.case_key, (None, None)))
    ]  # fmt: skip
    return Beliefs(tuple(belief_rows(held)), tuple(curves(held)), tuple(calibrations(held)))
