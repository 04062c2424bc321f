"""What the Failures page shows: read once for each state of the database, computed once for each choice."""

from dataclasses import dataclass, replace

import pandas as pd

from core import access
from core.events import Format
from core.jobs.ask_job import job_of
from core.jobs.background import Job, begin, job_at
from core.jobs.judging import FactsJudging
from core.measures.attribution import AFTER_TALK, APPLIES, Cause
from core.measures.base import Result, Row
from core.measures.belief import (
    CALIBRATION,
    COURSE,
    MEANS,
    RELIABILITY,
    Beliefs,
    belief_rows,
    calibrations,
    closure_notes,
    curves,
)
from core.measures.extracts import Extract
from core.measures.failures import Causes, cause_shares, left_out_notes, patient_effects
from core.measures.ledger import read_conversations
from core.measures.paired import read_scores
from core.store.database import Store
from core.store.queries.fact_judgements import Judge
from core.store.selection import Selection
from pages.kit.cached import cached_query, read
from pages.kit.names import natural
from pages.kit.notes import basis, notes_on
from pages.kit.view import names_on

GROUPS: dict[str, tuple[Format, ...]] = {"talk": AFTER_TALK, "vignette": ("vignette",), "all": APPLIES}
"""Formats whose wrong answers can be looked at together."""
_LAST: dict[tuple[object, ...], Causes] = {}
"""Choices → the extract that was begun last for them."""
_FEW = 2_000
"""Up to so many conversations, starting a process takes longer than reading them here."""
_DRAWN = [
    "trial_id", "model", "case_key", "format", "question_type", "cause", "counted", "judged",
]  # fmt: skip


@dataclass(frozen=True)
class Found:
    """The wrong answers in view with their causes, and what these do to accuracies."""

    answers: pd.DataFrame
    """In the columns that bars are made of; ``answers_behind`` reads the others."""
    shares: Result
    effects: tuple[Row, ...]


@cached_query("Counting the conversations…", entries=8)
def _conversations(selection: Selection) -> int:
    return int(read_conversations(Store(), selection, None)[["whole", "broken"]].sum().sum())


def _made(extract: Extract, selection: Selection, *, again: bool = False) -> Job[bool | None]:
    """Return the work on an extract, begun if it was not yet; its result is ``None`` if it was stopped."""
    work = job_at(extract)
    stays = work is not None and (work.running or (not again and (work.result is None or extract.whole.exists())))
    if work is not None and stays:
        return work
    few = _conversations(selection) <= _FEW
    return begin(extract, lambda tell, stop: extract.make(tell, stop, few=few) or None)


def attributing(selection: Selection, judge: Judge | None, *, again: bool = False) -> tuple[Causes, Job[bool | None]]:
    """Return the attribution of the wrong answers on a selection's case sets, which is started if it was not yet.

    ``judge`` says whose word on conversations counts. While conversations are being judged, the last finished one goes
    on to be shown.
    """
    whole = _whole(selection)
    extract, judging = Causes(Store().path, whole, judge), job_of(FactsJudging)
    place = (extract.path, str(access.visible_owner()), whole, judge)
    last = _LAST.get(place, extract)
    running = judging is not None and judging.running
    if not again and running and (work := job_at(last)) is not None and last.whole.exists():
        return last, work
    _LAST[place] = extract
    return extract, _made(extract, whole, again=again)


def believing(selection: Selection, *, again: bool = False) -> tuple[Beliefs, Job[bool | None]]:
    """Return the reading of what was believed on a selection's case sets, which is started if it was not yet."""
    whole = replace(_whole(selection), formats=None)
    extract = Beliefs(Store().path, whole)
    return extract, _made(extract, whole, again=again)


def _whole(selection: Selection) -> Selection:
    """Return a selection without what an extract is narrowed by when it is read."""
    return replace(selection, conditions=None, question_types=None, datasets=None, specialties=None)


@cached_query(entries=12)
def causes(extract: Causes, selection: Selection) -> Found:
    """Return the causes of an attribution that is over, of the wrong answers in a selection."""
    answers = extract.read(_DRAWN, within=selection)
    shares = cause_shares(answers)
    names = names_on(selection)
    models = {row["model"]: names[row["model"]] for row in shares}
    notes = left_out_notes(shares, lambda model: names[model])
    scores = read(read_scores, selection, selection.mcq_rule)
    result = Result("Causes", tuple(shares), notes_on(basis(selection), models, more=notes))
    return Found(answers, result, tuple(patient_effects(answers, scores)))


def answers_behind(extract: Causes, selection: Selection, model: str, cause: Cause) -> pd.DataFrame:
    """Return the selected answers that a cause stands for, in all columns, in the order of cases and trials."""
    listed = extract.read(within=selection, model=model, cause=cause)
    keys = [(natural(case), trial) for case, trial in zip(listed["case_key"], listed["trial_id"], strict=True)]
    return listed.iloc[sorted(range(len(keys)), key=keys.__getitem__)]


@cached_query(entries=12)
def beliefs(extract: Beliefs, selection: Selection) -> dict[str, Result]:
    """Return title of a section → its rows, of a reading that is over and the conversations in a selection."""
    table = extract.read(within=selection)
    names = names_on(selection)
    models = {model: words for model, words in names.items() if model in set(table["model"])}
    calibrated = calibrations(table)
    rows = {
        COURSE.title: curves(table),
        RELIABILITY.title: [row for _, bins in calibrated for row in bins if row["n_probes"]],
        MEANS.title: belief_rows(table),
        CALIBRATION.title: [row for row, _ in calibrated],
    }
    notes = {COURSE.title: notes_on(basis(selection), models), MEANS.title: tuple(closure_notes(table))}
    return {title: Result(title, tuple(of), notes.get(title, ())) for title, of in rows.items()}
