"""Grades the diagnosis with which stored conversations ended, without another question to the doctor.

The answers and verdicts go into the journals of the runs, those of releases too, as the arm ``closing:frq``. A
conversation without a diagnosis counts as not correct and costs nothing. A verdict of another grader is a re-grading.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, NamedTuple

from core.errors import AnamnesisError, UsageError
from core.events import Answered
from core.frameworks.answering import CLOSING, closing_answer
from core.frameworks.base import default_pack, framework, frameworks
from core.jobs.ask_job import AskJob, AskOutcome, ItemResult, JobPlan, JobSize, JournalWork
from core.jobs.regrade import OpenGraders, Packs, Regrading, RunPlan, ToGrade, check_journal, judge_of
from core.journal import GradesLine
from core.models.registry import Registry
from core.store.database import Store
from core.store.queries.cases import cases_answered
from core.store.queries.conversation_ends import ConversationEnd, ends_without_answer
from core.store.queries.grades import AnswerToGrade
from core.store.queries.runs import campaign_ids, header_of


class ClosingItem(NamedTuple):
    """The end of a conversation as an answer to grade; one that is ``given`` as invalid is not graded."""

    run: RunPlan
    answer: AnswerToGrade
    given: Answered


@dataclass(frozen=True)
class ClosingDiagnoses(AskJob[ClosingItem]):
    """Grade the diagnosis with which stored conversations ended, as the arm closing:frq, without asking the doctor.

    Stopped by Ctrl-C or its budget, the same command goes on. Without --run all campaigns and releases are graded. A
    conversation that ended without a diagnosis is not correct; one that a provider broke off is excluded.
    """

    name = "closing"
    title = "Closing diagnoses"
    verb, participle = "grade", "graded"
    lack = "have no closing diagnosis because the provider failed; the same again asks about them"
    report = "accuracy --formats closing"
    seconds_by_rule = Regrading.seconds_by_rule

    run_ids: tuple[str, ...]
    grader: Annotated[str, "Who grades: a model, or reference/names."]
    prompts: Annotated[str | None, "Another prompt pack for the grader: its name or folder."] = None
    limit: Annotated[int | None, "Only the first N conversations of each run."] = None

    @property
    def _regrading(self) -> Regrading:
        return Regrading(self.run_ids, self.grader, self.prompts, (CLOSING[1],), self.limit, base_url=self.base_url)

    def key(self, item: ClosingItem) -> str:
        return f"{item.answer.trial_id} {':'.join(CLOSING)}"

    def plan(self, store: Store, registry: Registry) -> JobPlan:
        self._regrading.check()
        with store.read() as cursor:
            run_ids = self.run_ids or tuple(campaign_ids(cursor))
        packs: Packs = cache(default_pack)
        runs, before = list[tuple[RunPlan, list[ConversationEnd]]](), 0
        for run_id in run_ids:
            with store.read() as cursor:
                header = header_of(cursor, run_id)
                if header is None:
                    raise UsageError(f"There is no run {run_id!r}; `python -m core runs` lists them.")
                if header.protocol not in frameworks() or CLOSING not in framework(header.protocol).arms:
                    continue
                ends, graded = ends_without_answer(cursor, run_id, self.limit)
                cases = cases_answered(cursor, run_id) if ends else {}
            before += graded
            if ends:
                check_journal(header)
            if ends or graded:
                judge = judge_of(header, self._regrading, registry, packs)
                runs.append((RunPlan(header, judge, (), cases, len(ends)), ends))
        if not runs:
            raise AnamnesisError(
                "There is no conversation whose closing diagnosis can be graded: run a campaign with an arm such as "
                "multi_turn:frq, or import a release."
            )
        judge = runs[0][0].judge
        return JobPlan(judge.stored_name, [self._part(run, ends) for run, ends in runs], before, [judge.model])

    def _part(self, run: RunPlan, ends: Iterable[ConversationEnd]) -> JournalWork:
        return JournalWork(
            run.header.run_id,
            [_item(run, end) for end in ends if end.case in run.cases],
            lambda item: f"{run.judge.units}{self.key(item)}",
            run.judge.owns_unit,
            lambda item: item.answer.trial_id,
            run.header,
        )

    def seats(self, registry: Registry, plan: JobPlan, store: Store) -> OpenGraders:
        return self._regrading.seats(registry, plan, store)

    async def ask(self, item: ClosingItem, seats: OpenGraders) -> ItemResult:
        line = GradesLine(run_id=item.run.header.run_id, trial_id=item.answer.trial_id, grades=[], answers=[item.given])
        if item.given.response is None:
            return ItemResult([line], counts={str(item.given.reason): 1})
        graded = await self._regrading.ask(ToGrade(item.run, item.answer), seats)
        if graded.failure:
            return graded
        (verdict,) = graded.lines
        assert isinstance(verdict, GradesLine)
        lines = [line.model_copy(update={"grades": verdict.grades})]
        return replace(graded, lines=lines, counts={verdict.grades[0].verdict: 1})

    def size(self, plan: JobPlan, store: Store) -> JobSize:
        items: list[ClosingItem] = plan.todo
        gradable = [ToGrade(item.run, item.answer) for item in items if item.answer.response]
        part = JournalWork("", gradable, str, lambda unit: False)
        size = self._regrading.size(replace(plan, parts=[part], kept=0), store)
        counts = {"conversations": len(items) + plan.kept, "graded before": plan.kept}
        without = len(items) - len(gradable)
        return JobSize(size.roles, {**counts, "without a diagnosis": without, "to judge": len(gradable)})

    @classmethod
    def summary(cls, outcome: AskOutcome) -> Iterable[str]:
        counts = ", ".join(f"{n:,} {verdict.replace('_', ' ')}" for verdict, n in sorted(outcome.counts.items()))
        yield f"Graded the ends of {outcome.done:,} conversations by {outcome.by}{f': {counts}' if counts else ''}."


def _item(run: RunPlan, end: ConversationEnd) -> ClosingItem:
    given = closing_answer(end.ended, end.last)
    answer = AnswerToGrade(end.trial_id, *end.case, *CLOSING, given.response or "", None)
    return ClosingItem(run, answer, given)
