"""Cached data of the Failures page."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import pandas as pd

from core import access
from core.events import Format
from core.jobs.ask_job import job_of
from core.jobs.background import Job, begin, job_at
from core.jobs.judge import Judging
from core.judging.judgement import Judge
from core.measures.attribution import AFTER_CONVERSATION, APPLIES, Cause
from core.measures.base import Result, Row
from core.measures.failures import Causes, cause_shares, left_out_notes, patient_effects
from core.measures.ledger import read_conversations
from core.measures.notes import sample_notes
from core.measures.paired import read_scores
from core.store.database import Store
from core.store.queries.answers import wrong_answers
from core.store.queries.judged_facts import FORM
from core.store.selection import Selection, conditions
from pages.kit.cached import cached_query, read
from pages.kit.names import natural
from pages.kit.notes import basis, notes_on
from pages.kit.view import names_on

GROUPS: dict[str, tuple[Format, ...]] = {"talk": AFTER_CONVERSATION, "vignette": ("vignette",), "all": APPLIES}
"""Formats whose wrong answers can be looked at together."""
_LAST: dict[tuple[object, ...], Causes] = {}
"""Choices → the extract that was started last."""
_IN_PROCESS = 2_000
"""Up to this many conversations are read here; starting a process would take longer."""
_SECONDS_EACH = 0.003
"""Approximate seconds to find the causes of a conversation’s wrong answers."""
_SAMPLE = 500
"""Conversations of a sample, over all conditions."""
_LEAST = 20
"""Conversations of each condition, if so many share the sample that it would have fewer."""
_COLUMNS = [
    "trial_id", "model", "case_key", "format", "question_type", "cause", "counted", "judged",
]  # fmt: skip


@dataclass(frozen=True)
class AttributedAnswers:
    """The selected wrong answers with their causes, and the effect of causes on accuracy."""

    answers: pd.DataFrame
    """Only the columns for bars; ``answers_behind`` reads all."""
    shares: Result
    effects: tuple[Row, ...]


@cached_query("Counting the conversations…", entries=8)
def _conversations(selection: Selection) -> int:
    return int(read_conversations(Store(), selection, None)[["whole", "broken"]].sum().sum())


def _work_on(extract: Causes, few: bool, *, again: bool = False) -> Job[bool | None]:
    """Return the job of an extract, started if necessary; its result is ``None`` if it was stopped."""
    work = job_at(extract)
    reusable = work is not None and (work.running or (not again and (work.result is None or extract.whole.exists())))
    if work is not None and reusable:
        return work
    return begin(extract, lambda tell, stop: extract.make(tell, stop, few=few) or None)


class Attributing(NamedTuple):
    """The extract that the page shows, its job, and the selection that it is about.

    If ``selection`` is a sample, ``all_answers`` is the extract of all answers, which is not computed yet.
    """

    extract: Causes
    work: Job[bool | None]
    selection: Selection
    all_answers: Causes | None = None


def attributing(selection: Selection, judge: Judge | None, *, again: bool = False) -> Attributing:
    """Return the attribution of a selection, started if necessary; of a large selection that of a sample.

    ``judge`` is the model whose judgements count. While a judging job runs, the last finished attribution is returned.
    """
    whole = _whole(selection)
    extract, judging = Causes(Store().path, whole, judge), job_of(Judging, Judging(FORM).instance)
    key = (extract.path, str(access.visible_owner()), whole, judge)
    last = _LAST.get(key, extract)
    running = judging is not None and judging.running
    if not again and running and (work := job_at(last)) is not None and last.whole.exists():
        return Attributing(last, work, selection)
    few = _conversations(whole) <= _IN_PROCESS
    if few or extract.whole.exists():
        _LAST[key] = extract
        return Attributing(extract, _work_on(extract, few, again=again), selection)
    share = round(_SAMPLE / max(1, len(read(conditions, selection))))
    shown = replace(selection, sample=max(_LEAST, share))
    part = Causes(Store().path, replace(shown, question_types=None), judge)
    return Attributing(part, _work_on(part, few=True, again=again), shown, extract)


def seconds_for_all(selection: Selection) -> float:
    return _SECONDS_EACH * _conversations(_whole(selection))


def begin_all_causes(extract: Causes) -> Job[bool | None]:
    """Start the attribution of all answers, or return the job that does so."""
    access.require("run")
    return _work_on(extract, few=False, again=True)


@cached_query("Reading the wrong answers…", entries=4)
def unattributed(selection: Selection) -> pd.DataFrame:
    """Return the wrong answers of a selection before their causes are known, in columns of ``answers_behind``."""
    with Store().read() as cursor:
        wrong = [answer for answer in wrong_answers(cursor, selection, selection.mcq_rule) if answer.counted]
    columns = ("trial_id", "model", "format", "question_type", "response", "verdict", "extracted")
    rows = [(answer.case[0], *(getattr(answer, name) for name in columns)) for answer in wrong]
    return pd.DataFrame(rows, columns=["case_key", *columns])


def _whole(selection: Selection) -> Selection:
    """Return a selection without the filters that are applied when an extract is read."""
    return replace(selection, conditions=None, question_types=None, datasets=None, specialties=None)


@cached_query(entries=12)
def causes(extract: Causes, selection: Selection) -> AttributedAnswers:
    """Return the causes of the selected wrong answers, from a finished attribution."""
    answers = extract.read(_COLUMNS, within=selection)
    shares = cause_shares(answers)
    names = names_on(selection)
    models = {row["model"]: names[row["model"]] for row in shares}
    notes = left_out_notes(shares, lambda model: names[model])
    scores = read(read_scores, selection, selection.mcq_rule)
    notes = [*sample_notes(read, selection), *notes]
    result = Result("Causes", tuple(shares), notes_on(basis(selection), models, more=notes))
    return AttributedAnswers(answers, result, tuple(patient_effects(answers, scores)))


def answers_behind(extract: Causes, selection: Selection, model: str, cause: Cause) -> pd.DataFrame:
    """Return the selected answers with a cause, in all columns, ordered by case and trial."""
    listed = extract.read(within=selection, model=model, cause=cause)
    keys = [(natural(case), trial) for case, trial in zip(listed["case_key"], listed["trial_id"], strict=True)]
    return listed.iloc[sorted(range(len(keys)), key=keys.__getitem__)]
