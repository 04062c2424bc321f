"""What the Failures page shows: read once for each state of the database, computed once for each choice."""

from dataclasses import dataclass

import pandas as pd

from core import access
from core.events import Format
from core.jobs.ask_job import job_work
from core.jobs.judging import FactsJudging
from core.measures.attribution import AFTER_TALK, APPLIES, Cause
from core.measures.base import Row
from core.measures.belief import Beliefs, Calibration, belief_rows, calibrations, curves
from core.measures.extracts import Extract
from core.measures.failures import Causes, cause_shares, patient_effects
from core.measures.ledger.kept import LEDGER, TalkRow, talk_rows, topic_rows
from core.measures.missing import Measured, begin_measuring, measuring
from core.store.database import Store
from core.store.queries.fact_judgements import Judge, judged_sums
from core.store.queries.scores_of_ledgers import talk_sums, topic_sums
from core.store.selection import McqRule
from core.work import Work, begin, work_at
from pages.kit.cached import cached_query
from pages.kit.names import natural
from pages.kit.stored import scores
from pages.kit.view import View

GROUPS: dict[str, tuple[Format, ...]] = {"talk": AFTER_TALK, "vignette": ("vignette",), "all": APPLIES}
"""Formats whose wrong answers can be looked at together."""
_LAST: dict[tuple[str, ...], Causes] = {}
"""Choices → the extract that was begun last for them."""
_FEW = 2_000
"""Up to so many conversations, starting a process takes longer than reading them here."""
_DRAWN = [
    "trial_id", "model", "case_key", "dataset", "specialty", "format", "question_type", "cause", "counted", "judged",
    "provisional",
]  # fmt: skip


@dataclass(frozen=True)
class Found:
    """The wrong answers in view with their causes, and what these do to accuracies."""

    answers: pd.DataFrame
    """In the columns that bars are made of; ``answers_behind`` reads the others."""
    shares: tuple[Row, ...]
    effects: tuple[Row, ...]


def marking() -> Work[Measured] | None:
    """Return the marking of this database that is under way or was the last, or ``None``."""
    return measuring(Store(), LEDGER)


def begin_marking() -> None:
    """Start to mark every conversation that is not marked."""
    begin_measuring(Store(), LEDGER)


def _made(extract: Extract, columns: list[str] | None = None, *, again: bool = False) -> Work[pd.DataFrame | None]:
    """Return the work on an extract, begun where it was not yet; its result is ``None`` where it was stopped."""
    known = work_at(extract)
    if known is not None and not (again and not known.running):
        return known
    few = int(talks()[["marked", "missing", "broken"]].sum().sum()) <= _FEW
    return begin(extract, lambda tell, stop: extract.read(columns) if extract.make(tell, stop, few=few) else None)


def attributing(
    group: str, rule: McqRule, judge: Judge | None, *, again: bool = False
) -> tuple[Causes, Work[pd.DataFrame | None]]:
    """Return the attribution of a group's wrong answers, which is started where it was not yet.

    ``judge`` says whose word on patients counts. While conversations are being marked or judged, the last finished one
    goes on to be shown.
    """
    extract, busy = Causes(Store().path, GROUPS[group], rule, judge), (marking(), job_work(FactsJudging))
    place = ("causes", str(extract.path), str(access.sees()), group, rule, *(judge or ()))
    last = _LAST.get(place, extract)
    if not again and any(work is not None and work.running for work in busy) and (known := work_at(last)) is not None:
        return last, known
    _LAST[place] = extract
    return extract, _made(extract, _DRAWN, again=again)


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


@cached_query(entries=12)
def causes(extract: Causes, view: View, types: tuple[str, ...], _found: pd.DataFrame) -> Found:
    """Return the causes in view of an attribution that is over; of all ``types`` of questions where there is none."""
    held = [s for s in scores(extract.rule) if view.has(s.model, s.case_key, s.dataset, s.specialty)]
    listed = _in_view(_found, view, types)
    return Found(listed, tuple(cause_shares(listed)), tuple(patient_effects(listed, held)))


def answers_behind(extract: Causes, view: View, types: tuple[str, ...], model: str, cause: Cause) -> pd.DataFrame:
    """Return the answers in view that a cause stands for, in all columns, in the order of cases and trials."""
    listed = _in_view(extract.read(model=model, cause=cause), view, types)
    keys = [(natural(case), trial) for case, trial in zip(listed["case_key"], listed["trial_id"], strict=True)]
    return listed.iloc[sorted(range(len(keys)), key=keys.__getitem__)]


def _in_view(table: pd.DataFrame, view: View, types: tuple[str, ...]) -> pd.DataFrame:
    listed = view.rows(table)
    return listed[listed["question_type"].isin(types)] if types else listed


def believing(*, again: bool = False) -> Work[pd.DataFrame | None]:
    """Return the reading of what was believed in every probed conversation, which is started where it was not yet."""
    return _made(Beliefs(Store().path), again=again)


@cached_query(entries=12)
def beliefs(view: View, _found: pd.DataFrame) -> tuple[list[Row], list[Row], list[Calibration]]:
    """Return means, curves and calibrations of the probed conversations in view, of a reading that is over."""
    held = view.rows(_found)
    return belief_rows(held), curves(held), calibrations(held)
