"""Grades stored free responses again, with another grader or other prompts; earlier verdicts stay as history.

Any stored run can be graded again, also one that came with a release: its new verdicts go into a journal of its own,
which holds nothing else. What graders said in earlier re-gradings is known, so that nothing is asked twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from core.agents.base import Grader
from core.agents.grader import READING_VERSION, Memory
from core.agents.memory import Memory as Replies
from core.agents.memory import Unit
from core.case import Case
from core.errors import AnamnesisError, UsageError
from core.events import GRADED_TYPES, Failed, Graded, QuestionType, Verdict, grader_rule
from core.frameworks.answering import grade_answer
from core.frameworks.base import default_pack, framework, grades_itself
from core.frameworks.casting import REFERENCE, Casting, full_name, is_model
from core.jobs.engine import REGRADING, Job, Options, in_background
from core.jobs.estimate import TOKENS_A_WORD, Estimate, check_budget, estimated
from core.jobs.plan import HUMAN
from core.jobs.progress import Ended, Progress, Stop, running
from core.journal import GradesLine, RunHeader, journal_path
from core.models.registry import Registry, load_registry
from core.prompts import PromptPack, grader_hash
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.failures import CaseKey
from core.store.queries.regrading import AnswerToGrade, answers_to_grade, cases_answered, given_verdicts
from core.store.runs import header_of
from core.work import Work, work_at

FREE = GRADED_TYPES
"""Question types that graders judge."""

Key = tuple[QuestionType, str, str]
"""What is judged once only: question type, what the response is held against, and the response."""
_NAME_TOKENS = 8
_REPLY_TOKENS = 4
_LISTED = 3
"""Diagnoses of a list that are judged one by one, at most."""
_SECONDS_BY_RULE = 1 / 5_000


@dataclass(frozen=True)
class Regrading:
    """What is to be graded again, by whom, and under which prompt pack (``None``: each run's own).

    ``limit`` takes the first so many answers of each run. ``fresh`` asks about every answer, whatever is known:
    so a grader is measured on repeats.
    """

    run_ids: tuple[str, ...]
    grader: str
    prompts: str | None = None
    question_types: tuple[QuestionType, ...] = FREE
    limit: int | None = None
    base_url: str | None = None
    fresh: bool = False


@dataclass(frozen=True)
class Judge:
    """A grader as it judges one run: full name, the name that is stored, its prompts and their hash.

    The reference grader has neither prompts nor hash. ``own_unchanged`` says that the prompts are those under which
    the run itself was graded, so that its verdicts without a hash are verdicts under these.
    """

    model: str
    stored_name: str
    pack: PromptPack
    prompt_hash: str = ""
    own_unchanged: bool = True

    @property
    def units(self) -> str:
        """How the names of its pieces of work begin in the journals of the runs that it grades."""
        return f"{REGRADING}{self.stored_name} {self.prompt_hash} "

    def asked_in(self, unit: str) -> bool:
        """Say whether a piece of work is one of its own."""
        return unit.startswith(self.units)

    def has_judged(self, answer: AnswerToGrade) -> bool:
        """Say whether the verdict that counts now is already this grader's under these prompts."""
        if answer.verdict in (None, "provider_error"):  # a provider's failure is no judgement
            return False
        if answer.verdict == "ungradable" and is_model(self.model) and (answer.rule_version or 1) < READING_VERSION:
            return False  # what an earlier version could not read this one may
        under_these = answer.prompt_hash == self.prompt_hash or (self.own_unchanged and not answer.prompt_hash)
        return under_these and (answer.grader or "").partition(" [")[0] == self.model

    def key(self, case: Case, answer: AnswerToGrade) -> Key:
        """Return what the verdict depends on: a model is told the right answer only, the rules know the whole case."""
        held_against = case.answer if is_model(self.model) else case.content_hash
        return answer.question_type, held_against, answer.response


@dataclass(frozen=True)
class RunPlan:
    """One run: the answers that are to be graded, and how many of all ``answers`` the grader has judged already."""

    header: RunHeader
    judge: Judge
    todo: Sequence[AnswerToGrade]
    cases: Mapping[CaseKey, Case]
    answers: int

    @property
    def judged(self) -> int:
        """Answers whose verdict that counts is this grader's already."""
        return self.answers - len(self.todo)

    def key(self, answer: AnswerToGrade) -> Key:
        """Return what the verdict on an answer depends on."""
        return self.judge.key(self.cases[answer.case], answer)


Packs = Callable[[str], PromptPack]
"""Gives prompt packs as they were when first looked at: one re-grading has one state of them."""


def plan_of(store: Store, run_id: str, wanted: Regrading, registry: Registry, packs: Packs) -> RunPlan:
    """Return what there is to do in a run; raise ``UsageError`` where it cannot be done as asked."""
    with store.read() as cursor:
        header = header_of(cursor, run_id)
        if header is None:
            raise UsageError(f"There is no run {run_id!r}; `python -m core runs` lists them.")
        judge = judge_of(header, wanted, registry, packs)
        answers = answers_to_grade(cursor, run_id, wanted.question_types, wanted.limit)
        cases = cases_answered(cursor, run_id) if answers else {}
    todo = answers if wanted.fresh else [answer for answer in answers if not judge.has_judged(answer)]
    return RunPlan(header, judge, todo, cases, len(answers))


def plans_of(store: Store, wanted: Regrading, registry: Registry, packs: Packs) -> list[RunPlan]:
    """Return what there is to do in the runs with free responses.

    Raises ``UsageError`` for what no re-grading can be, and ``AnamnesisError`` where no run has any.
    """
    foreign = [name for name in wanted.question_types if name not in FREE]
    if foreign or not wanted.question_types:
        raise UsageError(
            f"Graders judge free responses and many choices, so the types are {', '.join(FREE)}, not "
            f"{', '.join(foreign) or 'none'}."
        )
    if wanted.limit is not None and wanted.limit < 1:
        raise UsageError("--limit must be at least 1.")
    if wanted.prompts is not None and not is_model(wanted.grader):
        raise UsageError(f"{wanted.grader} judges by names and reads no prompts: leave --prompts out.")
    plans = [plan for run_id in wanted.run_ids if (plan := plan_of(store, run_id, wanted, registry, packs)).answers]
    if not plans:
        runs = f"Run {wanted.run_ids[0]} has" if len(wanted.run_ids) == 1 else "These runs have"
        types = "" if set(wanted.question_types) == set(FREE) else f" of the type {' or '.join(wanted.question_types)}"
        raise AnamnesisError(f"{runs} no free response{types} to grade.")
    return plans


def judge_of(header: RunHeader, wanted: Regrading, registry: Registry, packs: Packs) -> Judge:
    """Return the grader of a run; raise ``UsageError`` for an unknown one, or without prompts for it."""
    name = full_name("grader", wanted.grader, registry, (REFERENCE["grader"],))
    if not is_model(name):
        return Judge(name, name, packs(framework().name))
    # the pack that a run is graded under
    without = (
        not grades_itself(framework(header.protocol))
        or header.source == "release"
        or header.doctor.startswith(f"{HUMAN}/")
    )
    place = framework().name if without else header.prompt_pack
    pack = packs(wanted.prompts or place)
    own = pack if wanted.prompts is None else _if_there(place, packs)
    prompts = grader_hash(pack)
    if own is None or prompts != grader_hash(own):
        return Judge(name, f"{name} [{pack.name}]", pack, prompts, own_unchanged=False)
    held = header.prompt_hash if grades_itself(framework(header.protocol)) else header.settings.get("grading_prompts")
    return Judge(name, name, pack, prompts, own_unchanged=held == own.hash)


def _if_there(place: str, packs: Packs) -> PromptPack | None:
    """Return a run's own pack, ``None`` where it is gone: then any other is another one."""
    try:
        return packs(place)
    except UsageError:
        return None


@dataclass(frozen=True)
class Said:
    """A grader's word on a response, and the calls that led to it: a copy of it keeps them, so it is known as one."""

    extracted: str | None
    verdict: Verdict
    call_ids: tuple[str, ...] = ()


def memory_of(store: Store, judge: Judge) -> Memory[Key, Said]:
    """Return what a model said under these prompts in earlier re-gradings; rules are quicker than looking it up."""
    if not judge.prompt_hash:
        return Memory()
    with store.read() as cursor:
        given = given_verdicts(cursor, judge.model, judge.prompt_hash, READING_VERSION)
    return Memory(
        {(g.question_type, g.answer, g.response): Said(g.extracted, g.verdict, tuple(g.call_ids)) for g in given}
    )


@dataclass(frozen=True)
class Regraded(Ended):
    """How a re-grading went. ``grader`` is the name under which verdicts are stored (of the first run).

    ``answers`` were graded, and ``changed`` of them now have another verdict than the one before; ``saved`` of them
    were not asked about, because the same was judged already. ``judged`` answers had this grader's verdict before.
    ``failed`` keep the verdict they had because the provider failed.
    """

    grader: str
    runs: int
    answers: int
    changed: int
    saved: int
    judged: int
    failed: int


def regrade(
    wanted: Regrading,
    registry: Registry,
    options: Options | None = None,
    store: Store | None = None,
    stop: Stop | None = None,
) -> Regraded:
    """Grade the free responses of runs again and fold the new verdicts into the database.

    Answers whose verdict that counts is this grader's already are left alone, and of equal ones one is asked about,
    unless ``wanted.fresh``. Stopped at any point, the same again goes on. Raises ``UsageError`` for what cannot be done
    as asked, and ``AnamnesisError`` where a run is under way elsewhere, or no call can ever succeed.
    """
    store, stop = store or Store(), stop or Stop()
    fold(store)
    desk = _Desk(wanted, registry, options or Options(), store, stop)
    outcome = asyncio.run(desk.grade())
    fold(store)
    return outcome


@dataclass
class _Desk:
    """One re-grading under way. Graders under the same prompts are one, and know what was said under them before."""

    wanted: Regrading
    registry: Registry
    options: Options
    store: Store
    stop: Stop
    progress: Progress = field(default_factory=lambda: Progress(0))
    changed: int = 0
    saved: int = 0
    failed: int = 0
    packs: Packs = field(default_factory=lambda: cache(default_pack))
    memories: dict[str, Memory[Key, Said]] = field(default_factory=dict)
    makers: dict[str, Callable[[], Grader]] = field(default_factory=dict)
    graders: dict[str, Grader] = field(default_factory=dict)

    async def grade(self) -> Regraded:
        """Grade run after run."""
        plans = plans_of(self.store, self.wanted, self.registry, self.packs)
        judge, judged = plans[0].judge, sum(plan.judged for plan in plans)
        models = [judge.model] if is_model(judge.model) else []
        check_budget(self.options.budget_usd, [self.registry.spec(m, base_url=self.wanted.base_url) for m in models])
        self.progress.planned = sum(len(plan.todo) for plan in plans)
        if self.options.budget_usd is not None and not self.wanted.fresh:  # also in runs that are graded by now
            for plan in plans:
                before = Replies.of(journal_path(plan.header.run_id), plan.judge.asked_in)
                self.progress.spent_usd += before.cost_usd
        pending = [plan.header.run_id for plan in plans if plan.todo]
        count = len(plans)
        del plans  # a release's answers are many: they are read again when their run's turn comes
        self.options = self.options.with_batches(self.registry, self.progress)
        async with self.registry:
            for run_id in pending:
                if self.stop.reason is None:
                    await self._run(run_id)
        graded = self.progress.verdicts.total()
        kept = f" {graded:,} answers were graded before and are kept." if graded else ""
        return Regraded(
            judge.stored_name,
            count,
            graded,
            self.changed,
            self.saved,
            judged,
            self.failed,
            **self.progress.ended(self.stop, kept),
        )

    async def _run(self, run_id: str) -> None:
        """Grade one run, which nobody else does meanwhile."""
        with running(run_id) as stop_file:
            plan = plan_of(self.store, run_id, self.wanted, self.registry, self.packs)
            judge = plan.judge
            check_journal(plan.header)
            if judge.prompt_hash not in self.makers:
                casting = Casting(self.registry, judge.pack, base_url=self.wanted.base_url)
                self.makers[judge.prompt_hash] = make = casting.graders(judge.model)
                self.graders[judge.prompt_hash] = make()
                self.memories[judge.prompt_hash] = memory_of(self.store, judge)
            job = Job[AnswerToGrade](
                run_id,
                lambda answer: f"{judge.units}{answer.trial_id} {answer.format}:{answer.question_type}",
                lambda answer, unit: self._grade(plan, answer, unit),
                self.options,
                self.stop,
                self.progress,
                plan.header,
                listed=lambda answer: answer.trial_id,
                ours=judge.asked_in,
                resumed=not self.wanted.fresh and self.options.budget_usd is None,
            )
            await job.run(plan.todo, stop_file)

    async def _grade(self, plan: RunPlan, answer: AnswerToGrade, unit: Unit) -> list[GradesLine]:
        """Judge one answer; a provider that fails now does not take the place of a verdict that was given before."""
        judge, key = plan.judge, plan.key(answer)
        memory: Memory[Key, Said] = Memory() if self.wanted.fresh else self.memories[judge.prompt_hash]
        async with memory.turn(key) as asking:
            heard = await self._ask(plan, answer) if asking else None
            if heard is not None:
                memory.known[key] = heard
        said = memory.known.get(key)
        if said is None:
            self.failed += 1
            return []
        self.saved += not asking
        self.changed += said.verdict != answer.verdict
        self.progress.verdicts[said.verdict] += 1
        grade = Graded(
            format=answer.format,
            question_type=answer.question_type,
            rule=grader_rule(answer.question_type) or "frq",
            grader=judge.stored_name,
            extracted=said.extracted,
            verdict=said.verdict,
            call_ids=said.call_ids,
            prompt_hash=judge.prompt_hash,
            rule_version=READING_VERSION if is_model(judge.model) else 1,
        )
        name = unit.unit_id if unit.paid else ""
        return [GradesLine(run_id=plan.header.run_id, trial_id=answer.trial_id, grades=[grade], unit=name)]

    async def _ask(self, plan: RunPlan, answer: AnswerToGrade) -> Said | None:
        """Return what the grader says, or ``None`` where its provider fails."""
        hash_ = plan.judge.prompt_hash
        grader = self.makers[hash_]() if self.wanted.fresh else self.graders[hash_]
        said: Said | None = None
        arm = (answer.format, answer.question_type)
        async for event in grade_answer(plan.cases[answer.case], grader, arm, answer.response, ()):
            if isinstance(event, Failed):
                self.progress.failures[event.message] += 1
            elif isinstance(event, Graded) and event.rule in FREE and event.verdict != "provider_error":
                said = Said(event.extracted, event.verdict, event.call_ids)
        return said


def check_journal(header: RunHeader) -> None:
    """Raise ``UsageError`` where a run of our own has lost its journal: one without its trials would mislead.

    A release has none until it is graded again, and then one that holds nothing but new verdicts.
    """
    path = journal_path(header.run_id)
    if header.source != "release" and not path.exists():
        raise UsageError(
            f"The journal of run {header.run_id} is gone, and new verdicts are kept there: restore {path} first."
        )


def begin_regrading(wanted: Regrading, *, budget_usd: float | None = None) -> Work[Regraded]:
    """Start a re-grading in the background of this process, or return the one that is under way in it."""
    return in_background(
        _place(),
        lambda options, stop: regrade(wanted, load_registry(), options, stop=stop),
        "grade again",
        "Grading again",
        budget_usd,
    )


def regrading() -> Work[Regraded] | None:
    """Return the re-grading that is under way or was the last of this process, or ``None``."""
    return work_at(_place())


def _place() -> tuple[str, str]:
    return "regrading", str(Store().path)


def estimate(wanted: Regrading, registry: Registry, store: Store, concurrency: int | None = None) -> Estimate:
    """Estimate a re-grading of what the database holds; raise ``UsageError`` where it cannot be done as asked.

    Of equal responses one is judged, and none that this grader has judged elsewhere; rules judge every one.
    """
    plans = plans_of(store, wanted, registry, cache(default_pack))
    model, answers, todo = plans[0].judge.model, sum(plan.answers for plan in plans), sum(len(p.todo) for p in plans)
    counts = {"free responses": answers, "judged before": answers - todo}
    known: dict[str, set[Key]] = {}
    asked, calls, prompt = 0, 0, 0.0
    for plan in plans if is_model(model) else ():
        judge = plan.judge
        if judge.prompt_hash not in known:
            known[judge.prompt_hash] = set(memory_of(store, judge).known)
        keys = [plan.key(one) for one in plan.todo]
        if not wanted.fresh:
            keys = [key for key in dict.fromkeys(keys) if key not in known[judge.prompt_hash]]
            known[judge.prompt_hash].update(keys)
        for key in keys:
            # calls and prompt tokens of judging one response
            question_type, answer, response = key
            compare = _tokens(judge.pack.render("grader_judge", answer=answer, extracted="")) + _NAME_TOKENS
            if question_type == "frq_top3":
                steps, tokens = _LISTED, _LISTED * compare
            else:
                steps, tokens = 2, _tokens(judge.pack.render("grader_extract", response=response)) + compare
            asked, calls, prompt = asked + 1, calls + steps, prompt + tokens
    counts |= {"equal to others": todo - asked, "to judge": asked} if is_model(model) else {"to judge": todo}
    sizes = {"grader": (model, (calls, prompt, calls * _REPLY_TOKENS))}
    return estimated(counts, todo, sizes, registry, concurrency, lambda role: wanted.base_url, _SECONDS_BY_RULE)


def _tokens(text: str) -> float:
    return len(text.split()) * TOKENS_A_WORD
