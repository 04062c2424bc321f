"""Reads stored answers with choices anew by the present strict rule: no model, no cost, and what was said stays.

Verdicts carry the version of the rule (``core.agents.mcq.STRICT_VERSION``). New ones go into the journal of their run,
as those of a grader do; answers that this version has read are left alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from core import access
from core.agents.base import Judgement
from core.agents.mcq import STRICT_VERSION, judge_strict
from core.errors import AnamnesisError, UsageError
from core.events import Graded
from core.jobs.progress import running
from core.jobs.regrade import check_journal
from core.journal import GradesLine, JournalWriter, RunHeader, journal_path, read_header
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.failures import CaseKey
from core.store.queries.regrading import cases_answered, choices_to_read, count_read_before, runs_read_before
from core.store.runs import header_of
from core.store.selection import Selection


@dataclass(frozen=True)
class Reread:
    """How it went: ``answers`` were read anew, ``changed`` of them have another verdict now.

    ``left`` says of runs that could not be brought up to date why not.
    """

    runs: int
    answers: int
    changed: int
    left: tuple[str, ...] = ()


def reread(run_ids: Sequence[str] | None = None, store: Store | None = None) -> Reread:
    """Read the choices of runs anew, of all runs where none is named, and fold the verdicts into the database.

    Raises ``AnamnesisError`` where a run that is named cannot be brought up to date.
    """
    access.require("run", "read choices anew")
    store = store or Store()
    fold(store)
    wanted = run_ids
    if wanted is None:
        with store.read() as cursor:
            wanted = runs_read_before(cursor, STRICT_VERSION)
    answers, changed = 0, 0
    left: list[str] = []
    for run_id in wanted:
        try:
            read, other = _reread_run(run_id, store)
        except AnamnesisError as error:
            if run_ids is not None:
                raise
            left.append(str(error))
            continue
        answers, changed = answers + read, changed + other
    fold(store)
    return Reread(len(wanted) - len(left), answers, changed, tuple(left))


def count_outdated(store: Store, selection: Selection | None = None) -> int:
    """Return how many of the selected answers an earlier version of the strict rule has read."""
    with store.read() as cursor:
        return count_read_before(cursor, STRICT_VERSION, selection)


def _reread_run(run_id: str, store: Store) -> tuple[int, int]:
    """Read a run's choices anew and return how many there were, and how many verdicts are others now."""
    with store.read() as cursor:
        header = header_of(cursor, run_id)
    if header is None:
        raise UsageError(f"There is no run {run_id!r}; `python -m core runs` lists them.")
    with running(run_id):
        with store.read() as cursor:
            answers = choices_to_read(cursor, run_id, STRICT_VERSION)
            cases = cases_answered(cursor, run_id) if answers else {}
        if not answers:
            return 0, 0
        many = _many_choices(header) if any(answer.question_type == "mcq_answers" for answer in answers) else ()
        known: dict[tuple[CaseKey, str, str], Judgement] = {}
        changed = 0
        lines: list[RunHeader | GradesLine] = []
        for trial_id, of_trial in groupby(answers, key=lambda answer: answer.trial_id):
            grades = []
            for answer in of_trial:
                key = (answer.case, answer.question_type, answer.response)
                judged = known.get(key)
                if judged is None:
                    # as it was read where it was given: neither a release nor ``mcq_answers`` shows letters
                    case = cases[answer.case]
                    if answer.question_type == "mcq_answers":
                        judged = known[key] = judge_strict(answer.response, case.answer, many, lettered=False)
                    else:
                        judged = known[key] = judge_strict(
                            answer.response, case.answer, case.choices, lettered=header.source != "release"
                        )
                changed += judged.verdict != answer.verdict
                grades.append(
                    Graded(
                        format=answer.format,
                        question_type=answer.question_type,
                        grader="rule",
                        rule=judged.rule,
                        extracted=judged.extracted,
                        verdict=judged.verdict,
                        rule_version=judged.rule_version,
                    )
                )
            lines.append(GradesLine(run_id=run_id, trial_id=trial_id, grades=grades))
        check_journal(header)
        with JournalWriter(journal_path(run_id)) as journal:
            new = journal_path(run_id).stat().st_size == 0
            journal.append_all([header, *lines] if new else lines)
    return len(answers), changed


def _many_choices(header: RunHeader) -> list[str]:
    """Return the choices of ``mcq_answers``, which only the journal has."""
    path = journal_path(header.run_id)
    if not path.exists():
        raise UsageError(f"The journal of run {header.run_id} is gone, and the choices with it: restore {path} first.")
    return read_header(path).many_choices
