"""What the Failures page shows: read once for each state of the database, computed once for each choice."""

from dataclasses import dataclass

import pandas as pd

from core import access
from core.events import Format
from core.jobs.judging import judging
from core.measures.attribution import AFTER_TALK, APPLIES, Attribution
from core.measures.base import Row
from core.measures.belief import Calibration, Course, belief_rows, calibrations, courses, curves
from core.measures.failures import Attributed, attributions, cause_shares, patient_effects
from core.measures.ledger.kept import LEDGER, TalkRow, talk_rows, topic_rows
from core.measures.missing import Measured, begin_measuring, measuring
from core.store.database import Store
from core.store.queries.facts import Judge, judged_sums, talk_sums, topic_sums
from core.store.selection import McqRule, Selection
from core.work import Work, begin, work_at
from pages.kit.cached import cached_query
from pages.kit.stored import scores
from pages.kit.view import View

GROUPS: dict[str, tuple[Format, ...]] = {"talk": AFTER_TALK, "vignette": ("vignette",), "all": APPLIES}
"""Formats whose wrong answers can be looked at together."""
_LAST: dict[tuple[str, ...], str] = {}
"""Attribution → the state of the database that it was begun on."""


@dataclass(frozen=True)
class Causes:
    """The causes of the wrong answers in view, and what they do to accuracies."""

    answers: tuple[Attribution, ...]
    shares: tuple[Row, ...]
    effects: tuple[Row, ...]


@dataclass(frozen=True)
class Beliefs:
    """What the probed conversations in view say."""

    rows: tuple[Row, ...]
    curves: tuple[Row, ...]
    calibrations: tuple[Calibration, ...]


def marking() -> Work[Measured] | None:
    """Return the marking of this database that is under way or was the last, or ``None``."""
    return measuring(Store(), LEDGER)


def begin_marking() -> None:
    """Start to mark every conversation that is not marked."""
    begin_measuring(Store(), LEDGER)


def attributing(group: str, rule: McqRule, judge: Judge | None, *, again: bool = False) -> Work[Attributed]:
    """Return the attribution of a group's wrong answers, which is started where it was not yet.

    ``judge`` says whose word on patients counts. While conversations are being marked or judged, the last finished one
    goes on to be shown.
    """
    store, busy = Store(), (marking(), judging())
    place = ("causes", str(store.path), access.sees(), group, rule, *(judge or ()))
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


@cached_query("Reading the marks…", 2)
def talks() -> pd.DataFrame:
    """Return the conversations by model and case, with what the marked ones hold; never to be changed."""
    with Store().read() as cursor:
        return talk_sums(cursor, LEDGER)


@cached_query("Reading the marks…", 2)
def _topics() -> pd.DataFrame:
    with Store().read() as cursor:
        return topic_sums(cursor, LEDGER)


@cached_query(entries=32)
def talk_figures(view: View, judge: Judge | None) -> list[TalkRow]:
    """Return the figures of the conversations in view, by model; ``judge`` says whose word on patients counts."""
    if judge is None:
        return talk_rows(view.rows(talks()))
    with Store().read() as cursor:
        judged = judged_sums(cursor, judge)
    return talk_rows(view.rows(talks()), view.rows(judged))


@cached_query(entries=32)
def topic_figures(view: View) -> list[Row]:
    """Return what became of the facts of each topic, by model and mark, in view."""
    return topic_rows(view.rows(_topics()))


def causes(work: Work[Attributed], view: View, types: tuple[str, ...], rule: McqRule) -> Causes:
    """Return the causes in view of an attribution that is over; of all ``types`` of questions where there is none."""
    return _causes(work.started_at, view, types, rule, work.result)


@cached_query(entries=12)
def _causes(started_at: float, view: View, types: tuple[str, ...], rule: McqRule, _found: Attributed | None) -> Causes:
    places = {score.case_key: (score.dataset, score.specialty) for score in scores(rule)}
    held = [s for s in scores(rule) if view.has(s.model, s.case_key, s.dataset, s.specialty)]
    listed = tuple(
        one
        for one in (_found.answers if _found else ())
        if view.has(one.answer.model, one.answer.case[0], *places.get(one.answer.case[0], (None, None)))
        and (not types or one.answer.question_type in types)
    )
    return Causes(listed, tuple(cause_shares(listed)), tuple(patient_effects(listed, held)))


def believing(*, again: bool = False) -> Work[list[Course]]:
    """Return the reading of what was believed in every probed conversation, which is started where it was not yet."""
    store = Store()
    place = ("beliefs", str(store.path), access.sees(), store.version)
    known = work_at(place)
    if known is not None and not (again and not known.running):
        return known
    return begin(place, lambda tell, stop: courses(store, on_progress=tell, stop=stop))


def beliefs(work: Work[list[Course]], view: View) -> Beliefs:
    """Return what was believed in the probed conversations in view, of a reading that is over."""
    return _beliefs(work.started_at, view, work.result)


@cached_query(entries=12)
def _beliefs(started_at: float, view: View, _found: list[Course] | None) -> Beliefs:
    places = {score.case_key: (score.dataset, score.specialty) for score in scores()}
    held = [one for one in _found or () if view.has(one.model, one.case_key, *places.get(one.case_key, (None, None)))]
    return Beliefs(tuple(belief_rows(held)), tuple(curves(held)), tuple(calibrations(held)))
