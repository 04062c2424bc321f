"""Cached data of the Failures page."""

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

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
from core.measures.paired import read_scores
from core.store.database import Store
from core.store.queries.answers import wrong_answers
from core.store.queries.judged_facts import FORM
from core.store.selection import Selection
from pages.kit.cached import cached_query, read
from pages.kit.case.why import CAUSE
from pages.kit.conversation_list import Line
from pages.kit.look import VERDICT, arm
from pages.kit.names import natural
from pages.kit.notes import basis, notes_on
from pages.kit.view import names_on

GROUPS: dict[str, tuple[Format, ...]] = {"talk": AFTER_CONVERSATION, "vignette": ("vignette",), "all": APPLIES}
"""Formats whose wrong answers can be looked at together."""
_LAST: dict[tuple[object, ...], Causes] = {}
"""Choices → the extract that was started last."""
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


def attributing(selection: Selection, judge: Judge | None, *, again: bool = False) -> tuple[Causes, Job[bool | None]]:
    """Return the attribution of a selection and its job, whose result is ``None`` if it was stopped.

    ``judge`` is the model whose judgements count. While a judging job runs, the last finished attribution is returned.
    """
    # what the filters narrow when the causes are read
    whole = replace(selection, conditions=None, question_types=None, datasets=None, specialties=None)
    extract, judging = Causes(Store().path, whole, judge), job_of(Judging, Judging(FORM).instance)
    key = (extract.path, str(access.visible_owner()), whole, judge)
    last = _LAST.get(key, extract)
    running = judging is not None and judging.running
    if not again and running and (work := job_at(last)) is not None and last.whole.exists():
        return last, work
    _LAST[key] = extract
    work = job_at(extract)
    if work is not None and (work.running or (not again and (work.result is None or extract.whole.exists()))):
        return extract, work
    return extract, begin(extract, lambda tell, stop: extract.make(tell, stop) or None)


@cached_query("Reading the wrong answers…", entries=4)
def unattributed(selection: Selection) -> pd.DataFrame:
    """Return the wrong answers of a selection before their causes are known, in columns of ``answers_behind``."""
    with Store().read() as cursor:
        wrong = [answer for answer in wrong_answers(cursor, selection, selection.mcq_rule) if answer.counted]
    columns = ("trial_id", "model", "format", "question_type", "response", "verdict", "extracted")
    rows = [(answer.case[0], *(getattr(answer, name) for name in columns)) for answer in wrong]
    return pd.DataFrame(rows, columns=["case_key", *columns])


@cached_query(entries=12)
def causes(extract: Causes, selection: Selection) -> AttributedAnswers:
    """Return the causes of the selected wrong answers, from a finished attribution."""
    answers = extract.read(_COLUMNS, within=selection)
    shares = cause_shares(answers)
    names = names_on(selection)
    models = {row["model"]: names[row["model"]] for row in shares}
    notes = left_out_notes(shares, lambda model: names[model])
    scores = read(read_scores, selection, selection.mcq_rule)
    result = Result("Causes", tuple(shares), notes_on(basis(selection), models, more=notes))
    return AttributedAnswers(answers, result, tuple(patient_effects(answers, scores)))


@cached_query(spinner=False, entries=4)
def answers_behind(extract: Causes, selection: Selection, model: str, cause: Cause) -> list[Line]:
    """Return the selected answers with a cause as ``lines_of``, ordered by case and trial."""
    lines, case_order = lines_of(extract.read(within=selection, model=model, cause=cause)), cache(natural)
    return sorted(lines, key=lambda line: (case_order(line["case_key"]), line["trial_id"]))


def lines_of(answers: pd.DataFrame) -> list[Line]:
    """Return answers as lines of a list, each with its verdict and, if it is known, its cause in words."""
    return [
        {
            **answer,  # type: ignore[dict-item]  # the names of columns are texts
            "case": answer["case_key"],
            "arm": f"{answer['format']}:{answer['question_type']}",
            "answer": arm(answer["format"], answer["question_type"]),
            "said": VERDICT[answer["verdict"]][0],
            **(
                {"cause_words": CAUSE[answer["cause"]][0], "turn": _number(answer["turn"])} if "cause" in answer else {}
            ),
        }
        for answer in answers.to_dict("records")
    ]


def _number(value: Any) -> int | None:
    return None if pd.isna(value) else int(value)
