"""Grades stored answers with choices again by the present strict rule, without a model; earlier verdicts stay.

Verdicts store the version of the rule (``core.agents.mcq.STRICT_VERSION``). New ones go into the journal of their run,
like those of a grader; answers that the present version has read are skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

from core.agents.base import GraderResult
from core.agents.mcq import STRICT_VERSION, judge_strict
from core.case import Case
from core.errors import AnamnesisError, UsageError
from core.events import Graded
from core.jobs.ask_job import AskJob, AskOutcome, ItemResult, JobPlan, JobSize, JournalWork
from core.jobs.regrade import check_journal
from core.journal import GradesLine, RunHeader, journal_path, read_header
from core.models.registry import Registry
from core.store.database import Store
from core.store.queries.cases import CaseKey, cases_answered
from core.store.queries.grades import AnswerToGrade, choices_to_read, count_read_before, runs_read_before
from core.store.queries.runs import header_of
from core.store.selection import Selection


class ToRead(NamedTuple):
    """The answers of one trial; ``problem`` says why they cannot be read again."""

    header: RunHeader
    many: Sequence[str]
    cases: dict[CaseKey, Case]
    answers: Sequence[AnswerToGrade]
    problem: str = ""


@dataclass(frozen=True)
class Rereading(AskJob[ToRead]):
    """Read answers with choices again by the present strict rule, at no cost; earlier verdicts are kept as history.

    Without --run the answers of all runs are read. Answers that the present rule has read are skipped.
    """

    name = "reread"
    title = "Reading choices again"
    items = "trials"
    verb, participle = "read", "read"
    lack = "keep their verdicts"
    asks_models = False

    run_ids: tuple[str, ...] = ()

    def key(self, item: ToRead) -> str:
        return item.answers[0].trial_id

    def label(self, item: ToRead) -> str:
        return item.header.run_id

    def plan(self, store: Store, registry: Registry) -> JobPlan:
        with store.read() as cursor:
            run_ids = self.run_ids or runs_read_before(cursor, STRICT_VERSION)
        return JobPlan(
            f"version {STRICT_VERSION} of the strict rule", [self._part(store, run) for run in run_ids], 0, []
        )

    def _part(self, store: Store, run_id: str) -> JournalWork:
        with store.read() as cursor:
            header = header_of(cursor, run_id)
            if header is None:
                raise UsageError(f"There is no run {run_id!r}; `python -m core runs` lists them.")
            answers = choices_to_read(cursor, run_id, STRICT_VERSION)
            cases, problem, many = dict[CaseKey, Case](), "", list[str]()
            try:
                if answers:
                    check_journal(header)
                    cases = cases_answered(cursor, run_id)
                if any(answer.question_type == "mcq_answers" for answer in answers):
                    many = _many_choices(header)
            except AnamnesisError as error:
                if self.run_ids:
                    raise
                problem = str(error)
        trials = [ToRead(header, many, cases, list(of), problem) for _, of in groupby(answers, attrgetter("trial_id"))]
        return replace(self.part(run_id, trials), header=header)

    def seats(self, registry: Registry, plan: JobPlan, store: Store) -> dict[Any, GraderResult]:
        """Return a cache of judgements: equal responses to one case are read once."""
        return {}

    async def ask(self, item: ToRead, seats: dict[Any, GraderResult]) -> ItemResult:
        if item.problem:
            return ItemResult(failure=item.problem)
        grades, changed = [], 0
        for answer in item.answers:
            key = (item.header.run_id, answer.case, answer.question_type, answer.response)
            if key not in seats:
                case, many = item.cases[answer.case], answer.question_type == "mcq_answers"
                # the question showed no letters in a release or under ``mcq_answers``
                lettered = not many and item.header.source != "release"
                choices = item.many if many else case.choices
                seats[key] = judge_strict(answer.response, case.answer, choices, lettered=lettered)
            judged = seats[key]
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
        line = GradesLine(run_id=item.header.run_id, trial_id=self.key(item), grades=grades)
        return ItemResult([line], counts={"answers": len(grades), "changed": changed})

    def size(self, plan: JobPlan, store: Store) -> JobSize:
        return JobSize({})

    @classmethod
    def summary(cls, outcome: AskOutcome) -> Iterable[str]:
        answers, changed = outcome.counts.get("answers", 0), outcome.counts.get("changed", 0)
        yield f"Read {answers:,} answers with choices by {outcome.by}: {changed:,} verdicts changed."


def count_outdated(store: Store, selection: Selection | None = None) -> int:
    """Count the selected answers that only an earlier version of the strict rule has read."""
    with store.read() as cursor:
        return count_read_before(cursor, STRICT_VERSION, selection)


def _many_choices(header: RunHeader) -> list[str]:
    """Return the choices of ``mcq_answers``, which only the journal contains."""
    path = journal_path(header.run_id)
    if not path.exists():
        raise UsageError(f"The journal of run {header.run_id} is gone, and the choices with it: restore {path} first.")
    return read_header(path).many_choices
