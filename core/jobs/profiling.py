"""Makes profiles for many cases, by rule or with a model, and saves them in batches: a stop or a crash loses little.

What fails is kept by case with the reason; a provider's failure says nothing about a case, and leaves it as it was.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from core.agents.base import CallFailed
from core.agents.calls import Voice
from core.case import Case
from core.errors import UsageError
from core.events import Called
from core.frameworks.automedic.profile_model import PROMPTS, LLMProfiler, Profiled
from core.frameworks.consultation.items_model import ProfilingError
from core.jobs.estimate import RoleEstimate, price_of
from core.models.base import Sampling
from core.models.registry import Registry, load_registry
from core.prompts import load_pack
from core.store.database import Store
from core.store.queries.cases import add_profiles, profiled_by
from core.text.profile_rules import MADE_BY, profile_by_rule
from core.text.profiles import Generated, Reason
from core.work import Progress, Stop, Work, begin

PACK = "automedic"
BY_RULE_AT_ONCE = 100
"""Profiles by rule between two writes."""
BY_MODEL_AT_ONCE = 10
"""Profiles by a model between two writes: each has cost something."""
GIVE_UP = 10
"""So many failures of the provider in a row end the work: it is down, or the key is wrong."""
_STOP_EVERY_S = 0.2
_TOKENS_A_WORD = 4 / 3
_PROMPT_TOKENS = 1_000
"""Of both prompts without the case."""


@dataclass(frozen=True)
class Failure:
    """A case without a word of the maker on it, and why, in one sentence."""

    case_key: str
    why: str


@dataclass(frozen=True)
class Made:
    """What came of it: cases judged now, how many of them are suitable, the reasons of the others.

    ``skipped`` had the maker's word already (or, by rule, a profile of their own); ``remaining`` were not reached;
    ``dropped`` facts did not hold; ``gave_up`` says why the work ended early; ``cost_usd`` is ``None`` where a price is
    unknown.
    """

    made_by: str
    made: int
    suitable: int
    reasons: Mapping[Reason, int]
    skipped: int
    remaining: int
    failures: tuple[Failure, ...] = ()
    dropped: int = 0
    calls: int = 0
    cost_usd: float | None = 0.0
    gave_up: str | None = None


def begin_making(
    store: Store, name: str, cases: Sequence[Case], model: str | None = None, *, again: bool = False,
    base_url: str | None = None, pack: str = PACK, concurrency: int = 8,
) -> Work[Made]:  # fmt: skip
    """Start making profiles in the background; ``core.work.work_at(work_key(name))`` finds the work again."""

    def do(progress: Progress, stop: Stop) -> Made:
        return make_profiles(
            store, cases, model, again=again, base_url=base_url, pack=pack, concurrency=concurrency,
            progress=progress, stop=stop,
        )  # fmt: skip

    return begin(work_key(name), do)


def work_key(name: str) -> tuple[str, str]:
    """Return under which name the work on a data set is known."""
    return "profiles", name


def make_profiles(
    store: Store, cases: Sequence[Case], model: str | None = None, *, again: bool = False,
    base_url: str | None = None, pack: str = PACK, concurrency: int = 8,
    progress: Progress = lambda done, planned: None, stop: Stop = lambda: False,
) -> Made:  # fmt: skip
    """Make and save the profiles of cases: by rule, or with a model.

    Cases on which this maker has a word are skipped unless ``again``; by rule also those that came with a profile.
    ``stop`` is asked all the time, and what was made until then stays. Raises ``UsageError`` for an unknown model, a
    missing key, or a pack without the prompts.
    """
    registry = None if model is None else load_registry()
    maker = MADE_BY if registry is None or model is None else registry.spec(model).name
    todo = pending(store, cases, maker, again=again)
    work = _Making(store, maker, len(todo), progress)
    if registry is None or model is None:
        _by_rule(work, todo, stop)
    else:
        if concurrency < 1:
            raise UsageError("Profiles cannot be made fewer than one at a time: give a concurrency of 1 or more.")
        prompts = load_pack(pack, PROMPTS)
        voice = Voice(registry.open(model, base_url=base_url), Sampling(temperature=0.0))
        asyncio.run(_by_model(work, registry, LLMProfiler(voice, prompts), todo, concurrency, stop))
    return work.outcome(skipped=len(cases) - len(todo))


def pending(store: Store, cases: Sequence[Case], maker: str, *, again: bool = False) -> list[Case]:
    """Return the cases on which a maker has no word yet; ``again``: all of them."""
    if again:
        return list(cases)
    with store.read() as cursor:
        known = profiled_by(cursor, maker)
    own = maker == MADE_BY
    return [c for c in cases if (c.case_key, c.content_hash) not in known and not (own and c.profile is not None)]


def estimate(cases: Sequence[Case], model: str, registry: Registry) -> RoleEstimate:
    """Return what profiles by a model take before it starts: two calls a case, each with the vignette."""
    words = sum(len(case.vignette.split()) for case in cases) * _TOKENS_A_WORD
    prompt = 2 * words + len(cases) * _PROMPT_TOKENS
    return price_of("profiler", model, 2 * len(cases), prompt, 2.5 * words + 50 * len(cases), registry)


@dataclass
class _Making:
    """The state of one piece of work: what is made and not yet saved, and the counts."""

    store: Store
    maker: str
    planned: int
    progress: Progress
    unsaved: list[tuple[Case, Generated]] = field(default_factory=list)
    words: Counter[Reason | None] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    dropped: int = 0
    calls: int = 0
    cost_usd: float | None = 0.0
    in_a_row: int = 0
    gave_up: str | None = None

    @property
    def done(self) -> int:
        return self.words.total() + len(self.failures)

    def add(self, case: Case, generated: Generated) -> None:
        self.unsaved.append((case, generated))
        self.words[generated.reason] += 1
        self.in_a_row = 0
        self.progress(self.done, self.planned)

    def fail(self, case: Case, why: str, *, provider: bool) -> None:
        self.failures.append(Failure(case.case_key, why))
        self.in_a_row = self.in_a_row + 1 if provider else 0
        if self.in_a_row >= GIVE_UP:
            self.gave_up = f"The provider failed {GIVE_UP} times in a row ({why})."
        self.progress(self.done, self.planned)

    def count(self, called: Called) -> None:
        cost = called.call.cost_usd
        self.calls += 1
        self.cost_usd = None if cost is None or self.cost_usd is None else self.cost_usd + cost

    def save(self) -> None:
        if self.unsaved:
            with self.store.write() as connection:
                add_profiles(connection, self.unsaved)
            self.unsaved = []

    def outcome(self, skipped: int) -> Made:
        reasons = {reason: n for reason, n in self.words.items() if reason is not None}
        return Made(
            self.maker, self.words.total(), self.words[None], reasons, skipped, self.planned - self.done,
            tuple(self.failures), self.dropped, self.calls, self.cost_usd, self.gave_up,
        )  # fmt: skip


def _by_rule(work: _Making, todo: Sequence[Case], stop: Stop) -> None:
    try:
        for case in todo:
            if stop():
                return
            work.add(case, profile_by_rule(case))
            if len(work.unsaved) >= BY_RULE_AT_ONCE:
                work.save()
    finally:
        work.save()


async def _by_model(
    work: _Making, registry: Registry, profiler: LLMProfiler, todo: Sequence[Case], concurrency: int, stop: Stop
) -> None:
    """Let so many workers take case after case; on a stop those under way are dropped."""
    waiting = iter(todo)
    async with registry:
        tasks = {asyncio.create_task(_worker(work, profiler, waiting)) for _ in range(min(concurrency, len(todo)))}
        try:
            while tasks and not stop() and work.gave_up is None:
                finished, tasks = await asyncio.wait(tasks, timeout=_STOP_EVERY_S)
                for task in finished:
                    task.result()  # an unforeseen error ends the work
                if len(work.unsaved) >= BY_MODEL_AT_ONCE:
                    work.save()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            work.save()


async def _worker(work: _Making, profiler: LLMProfiler, waiting: Iterator[Case]) -> None:
    for case in waiting:
        try:
            async for item in profiler.generate(case):
                if isinstance(item, Called):
                    work.count(item)
                elif isinstance(item, Profiled):
                    work.dropped += len(item.dropped)
                    work.add(case, item.generated)
        except CallFailed as failure:
            work.count(failure.called)
            work.fail(case, str(failure), provider=True)
        except ProfilingError as error:
            work.fail(case, str(error), provider=False)
        if work.gave_up is not None:
            return
