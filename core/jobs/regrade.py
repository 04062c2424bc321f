"""Grades stored free responses again, with another grader or other prompts; earlier verdicts stay as history.

Any stored run can be graded again, also one that came with a release: its new verdicts go into a journal of its own,
which holds nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from core.agents.base import Grader
from core.agents.grader import Memory
from core.errors import AnamnesisError, UsageError
from core.events import Called, CallRecord, Failed, Graded
from core.frameworks.answering import grade_answer
from core.frameworks.casting import Casting, is_model
from core.jobs.engine import Progress, Stop, fatal, running
from core.jobs.regrade_memory import Said, memory_of
from core.jobs.regrade_plan import Judge, Key, Packs, Regrading, RunPlan, check, nothing_to_grade, plan_of
from core.jobs.run import Options, check_budget, interrupts
from core.journal import GradesLine, JournalWriter, RunHeader, journal_path
from core.models.registry import Registry
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.regrading import AnswerToGrade

GIVE_UP = 20
"""So many failures of the provider in a row end a re-grading: it is down."""
_TOGETHER = 500
"""Lines of the journal that cost nothing to get again are written so many at a time."""


@dataclass(frozen=True)
class Regraded:
    """How a re-grading went. ``grader`` is the name under which verdicts are stored (of the first run).

    ``answers`` were graded, and ``changed`` of them now have another verdict than the one before; ``saved`` of them
    were not asked about, because the same was judged already. ``judged`` answers had this grader's verdict before.
    ``failed`` keep the verdict they had because the provider failed, at last with ``failure``. ``stopped`` says why
    it ended early. ``cost_usd`` counts the calls whose price is known.
    """

    grader: str
    runs: int
    answers: int
    changed: int
    saved: int
    judged: int
    failed: int
    calls: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    failure: str = ""
    stopped: str | None = None


def regrade(
    wanted: Regrading, registry: Registry, options: Options | None = None, store: Store | None = None,
    stop: Stop | None = None,
) -> Regraded:  # fmt: skip
    """Grade the free responses of runs again and fold the new verdicts into the database.

    Answers whose verdict that counts is this grader's already are left alone, and of equal ones one is asked about,
    unless ``wanted.fresh``. Stopped at any point, the same again goes on. Raises ``UsageError`` for what cannot be done
    as asked, and ``AnamnesisError`` where a run is under way elsewhere, or no call can ever succeed.
    """
    store, stop = store or Store(), stop or Stop()
    check(wanted)
    fold(store)
    desk = _Desk(wanted, registry, options or Options(), store, stop)
    outcome = asyncio.run(desk.grade())
    fold(store)
    return outcome


@dataclass
class _Desk:
    """One re-grading under way."""

    wanted: Regrading
    registry: Registry
    options: Options
    store: Store
    stop: Stop
    progress: Progress = field(default_factory=lambda: Progress(0))
    changed: int = 0
    saved: int = 0
    failed: int = 0
    in_a_row: int = 0
    fatal: str | None = None
    packs: Packs = field(default_factory=Packs)
    memories: dict[str, Memory[Key, Said]] = field(default_factory=dict)
    makers: dict[str, Callable[[], Grader]] = field(default_factory=dict)
    graders: dict[str, Grader] = field(default_factory=dict)

    async def grade(self) -> Regraded:
        """Grade run after run."""
        plans = [plan for run_id in self.wanted.run_ids if (plan := self._plan(run_id)).answers]
        if not plans:
            raise nothing_to_grade(self.wanted)
        judge, judged = plans[0].judge, sum(plan.judged for plan in plans)
        check_budget(self.options.budget_usd, [judge.model] if is_model(judge.model) else [], self.registry)
        self.progress.planned = sum(len(plan.todo) for plan in plans)
        pending = [plan.header.run_id for plan in plans if plan.todo]
        count = len(plans)
        del plans  # a release's answers are many: they are read again when their run's turn comes
        async with self.registry:
            with interrupts(self.stop):
                for run_id in pending:
                    if self.stop.reason is None:
                        await self._run(run_id)
        self._raise_if_hopeless()
        return self._outcome(judge.stored_name, count, judged)

    def _plan(self, run_id: str) -> RunPlan:
        return plan_of(self.store, run_id, self.wanted, self.registry, self.packs)

    def _outcome(self, grader: str, runs: int, judged: int) -> Regraded:
        done = self.progress
        failure = max(done.failures, key=done.failures.__getitem__, default="")
        return Regraded(
            grader, runs, done.verdicts.total(), self.changed, self.saved, judged, self.failed, done.calls, done.tokens,
            done.cost_usd, failure, self.stop.reason if done.done < done.planned else None,
        )  # fmt: skip

    def _raise_if_hopeless(self) -> None:
        if self.fatal is not None:
            graded = self.progress.verdicts.total()
            kept = f" {graded:,} answers were graded before and are kept." if graded else ""
            raise AnamnesisError(f"{self.fatal.rstrip('.')}.{kept}")

    async def _run(self, run_id: str) -> None:
        """Grade one run, which nobody else does meanwhile."""
        with running(run_id) as stop_file:
            plan = self._plan(run_id)
            self._open(plan.judge)
            with grades_of(plan.header) as out:
                await self._work_off(plan, out, stop_file)
        self.options.on_progress(self.progress)

    def _open(self, judge: Judge) -> None:
        """Make the grader ready, and what it said before; graders under the same prompts are one."""
        if judge.prompt_hash not in self.makers:
            casting = Casting(self.registry, judge.pack, base_url=self.wanted.base_url)
            self.makers[judge.prompt_hash] = make = casting.graders(judge.model)
            self.graders[judge.prompt_hash] = make()
            self.memories[judge.prompt_hash] = memory_of(self.store, judge)

    async def _work_off(self, plan: RunPlan, out: GradesWriter, stop_file: Path) -> None:
        """Let so many workers take trial after trial; on a stop those under way are cut short."""
        trials = [list(answers) for _, answers in groupby(plan.todo, key=lambda answer: answer.trial_id)]
        waiting = iter(trials)
        many = max(1, min(self.options.concurrency, len(trials)))
        workers = [asyncio.create_task(self._work(plan, waiting, out)) for _ in range(many)]
        watch = asyncio.create_task(self._watch(stop_file, workers))
        try:
            await asyncio.wait(workers, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for task in (watch, *workers):
                task.cancel()
            outcomes = await asyncio.gather(watch, *workers, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome

    async def _watch(self, stop_file: Path, workers: Sequence[asyncio.Task[None]]) -> None:
        """Show the progress, and cancel what is under way once a stop is asked for."""
        while True:
            self.options.on_progress(self.progress)
            if stop_file.exists():
                self.stop.ask("It was asked to stop.")
            if self.stop.reason is not None:
                for worker in workers:
                    worker.cancel()
                return
            await asyncio.sleep(0.2)

    async def _work(self, plan: RunPlan, waiting: Iterator[list[AnswerToGrade]], out: GradesWriter) -> None:
        for answers in waiting:
            if self.stop.reason is not None:
                return
            grades: list[Graded] = []
            calls: list[CallRecord] = []
            try:
                for answer in answers:
                    await self._grade(plan, answer, grades, calls)
            finally:  # cut short, what was paid for is kept
                if grades or calls:
                    trial_id = answers[0].trial_id
                    out.add(GradesLine(run_id=plan.header.run_id, trial_id=trial_id, grades=grades, calls=calls))
            await asyncio.sleep(0)  # rules never wait, and the others must get their turn

    async def _grade(self, plan: RunPlan, answer: AnswerToGrade, grades: list[Graded], calls: list[CallRecord]) -> None:
        """Judge one answer; a provider that fails now does not take the place of a verdict that was given before."""
        judge, key = plan.judge, plan.key(answer)
        memory: Memory[Key, Said] = Memory() if self.wanted.fresh else self.memories[judge.prompt_hash]
        async with memory.turn(key) as asking:
            if asking and self.stop.reason is not None:  # it came to its turn because another's call failed for good
                return
            heard = await self._ask(plan, answer, calls) if asking else None
            if heard is not None:
                memory.known[key] = heard
        said = memory.known.get(key)
        self.progress.done += 1
        if said is None:
            self.failed += 1
            return
        self.saved += not asking
        self.changed += said.verdict != answer.verdict
        self.progress.verdicts[said.verdict] += 1
        grades.append(
            Graded(
                format=answer.format, question_type=answer.question_type,
                rule="frq" if answer.question_type == "frq" else "frq_top3", grader=judge.stored_name,
                extracted=said.extracted, verdict=said.verdict, call_ids=said.call_ids, prompt_hash=judge.prompt_hash,
            )
        )  # fmt: skip

    async def _ask(self, plan: RunPlan, answer: AnswerToGrade, calls: list[CallRecord]) -> Said | None:
        """Return what the grader says, or ``None`` where its provider fails."""
        hash_ = plan.judge.prompt_hash
        grader = self.makers[hash_]() if self.wanted.fresh else self.graders[hash_]
        said: Said | None = None
        arm = (answer.format, answer.question_type)
        async for event in grade_answer(plan.cases[answer.case], grader, arm, answer.response, ()):
            if isinstance(event, Called):
                calls.append(event.call)
                self._note(event)
            elif isinstance(event, Failed):
                self._note_failure(event.message)
            elif isinstance(event, Graded) and event.verdict != "provider_error":
                self.in_a_row = 0
                said = Said(event.extracted, event.verdict, event.call_ids)
        return said

    def _note(self, event: Called) -> None:
        self.progress.note_call(event)
        hopeless = fatal(event)
        if hopeless is not None:
            self.fatal = self.fatal or hopeless
            self.stop.ask(hopeless)
        budget = self.options.budget_usd
        if budget is not None and self.progress.cost_usd >= budget:
            self.stop.ask(f"The budget of ${budget:.2f} is used up.")

    def _note_failure(self, message: str) -> None:
        self.progress.failures[message] += 1
        self.in_a_row += 1
        if self.in_a_row >= GIVE_UP:
            self.stop.ask(f"The provider failed {GIVE_UP} times in a row ({message.rstrip('.')}).")


class GradesWriter:
    """Writes lines of a journal: at once where they were paid for, else many together."""

    def __init__(self, writer: JournalWriter) -> None:
        self._writer = writer
        self._waiting: list[GradesLine] = []

    def add(self, line: GradesLine) -> None:
        """Take a line."""
        self._waiting.append(line)
        if line.calls or len(self._waiting) >= _TOGETHER:
            self.flush()

    def flush(self) -> None:
        """Write what waits."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            self._writer.append_all(waiting)


@contextmanager
def grades_of(header: RunHeader) -> Iterator[GradesWriter]:
    """Open a run's journal for new verdicts; a release gets one, which holds nothing else.

    Raises ``UsageError`` where a run of our own has lost its journal: one without its trials would mislead.
    """
    path = journal_path(header.run_id)
    if header.source != "release" and not path.exists():
        raise UsageError(
            f"The journal of run {header.run_id} is gone, and new verdicts are kept there: restore {path} first."
        )
    with JournalWriter(path) as writer:
        if path.stat().st_size == 0:
            writer.append(header)
        out = GradesWriter(writer)
        try:
            yield out
        finally:
            out.flush()
