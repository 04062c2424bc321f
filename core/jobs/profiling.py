"""Makes profiles for many cases, by rule or with a model: what a model was paid for is never asked for again.

What fails is kept by case with the reason; a provider's failure says nothing about a case, and leaves it as it was.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from core import access, work
from core.agents.base import CallFailed
from core.agents.calls import Voice
from core.agents.memory import Unit
from core.agents.profiler import PROMPTS, LLMProfiler, Profiled
from core.case import Case
from core.errors import ProfilingError
from core.events import Called
from core.frameworks.base import frameworks
from core.jobs.engine import Job, Options, carry_out
from core.jobs.estimate import TOKENS_A_WORD, Estimate, check_budget, estimated
from core.jobs.progress import Progress, Stop, watched
from core.journal import DoneLine, Line, RowLine
from core.models.base import Sampling
from core.models.registry import Registry, load_registry
from core.prompts import load_pack
from core.store.database import Store
from core.store.queries.cases import newest_versions, profile_row, profiled_by
from core.store.tables import SCHEMAS
from core.text.profile_rules import MADE_BY, profile_by_rule
from core.text.profiles import Generated, Reason

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
    store: Store,
    name: str,
    cases: Sequence[Case],
    model: str | None = None,
    *,
    again: bool = False,
    base_url: str | None = None,
) -> work.Work[Made]:
    """Start making profiles in the background; ``core.work.work_at(work_key(name))`` finds the work again."""
    access.require("run", "make profiles")
    access.check_money()
    return work.begin(
        work_key(name),
        lambda progress, stop: make_profiles(
            store, cases, model, again=again, base_url=base_url, progress=progress, stop=stop
        ),
        "Making profiles",
    )


def work_key(name: str) -> tuple[str, str]:
    """Return under which name the work on a data set is known."""
    return "profiles", name


def make_profiles(
    store: Store,
    cases: Sequence[Case],
    model: str | None = None,
    *,
    again: bool = False,
    base_url: str | None = None,
    pack: str = "",
    concurrency: int | None = None,
    budget_usd: float | None = None,
    batch: bool = False,
    progress: work.Progress = lambda done, planned: None,
    stop: work.Stop = lambda: False,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> Made:
    """Make and save the profiles of cases: by rule, or with a model.

    Cases on which this maker has a word are skipped unless ``again``; by rule also those that came with a profile.
    ``stop`` is asked all the time, and what was made until then stays. Raises ``UsageError`` for an unknown model, a
    missing key, a budget without prices, or a pack without the prompts.
    """
    registry = load_registry(batch=batch)
    maker = MADE_BY if model is None else registry.spec(model).name
    check_budget(budget_usd, [registry.spec(model, base_url=base_url)] if model else [])
    todo = pending(store, cases, maker, again=again)
    # the pack of the framework that plays cases with a profile only: it says what a profile must be
    profiled = next(known.name for known in frameworks().values() if known.cases.needs_profile)
    prompts = load_pack(pack or profiled, PROMPTS) if model else None
    profiler: LLMProfiler | None = None
    if model and prompts:
        profiler = LLMProfiler(Voice(registry.open(model, base_url=base_url), Sampling(temperature=0.0)), prompts)
    with store.read() as cursor:
        versions = {case: version for case, (version, _) in newest_versions(cursor).items()}
    words, failures, dropped, known = Counter[Reason | None](), list[Failure](), Counter[str](), set[bool]()

    async def do(case: Case, unit: Unit) -> list[Line]:
        generated: Generated | None = profile_by_rule(case) if profiler is None else None
        done = unit.unit_id
        try:
            if profiler is not None:
                async for item in profiler.generate(case):
                    if isinstance(item, Called):
                        known.add(item.call.cost_usd is not None)
                    elif isinstance(item, Profiled):
                        dropped.update(facts=len(item.dropped))
                        generated = item.generated
        except (CallFailed, ProfilingError) as failure:
            failures.append(Failure(case.case_key, str(failure)))
            # what a provider broke goes on with what was said before; what was no use is asked for anew
            return [] if isinstance(failure, CallFailed) else [DoneLine(run_id=name, unit=done)]
        if generated is None:
            return []
        words[generated.reason] += 1
        version = versions[case.case_key, case.content_hash] = versions.get((case.case_key, case.content_hash), 0) + 1
        row = profile_row(case, generated, time.time(), version)
        return [RowLine(table="profiles", row=dict(zip(SCHEMAS["profiles"].names, row, strict=True)), unit=done)]

    asked_to_stop, far = Stop(), Progress(len(todo))

    under = f"{maker} {prompts.hash if prompts else '-'}"
    name = f"profiles-{hashlib.sha256(under.encode()).hexdigest()[:16]}"
    units = {case: f"{name} {case.case_key} {case.content_hash}" for case in cases}
    job = Job[Case](
        name,
        units.__getitem__,
        do,
        Options(concurrency if model else 1, budget_usd, watched(progress, stop, asked_to_stop, on_progress)),
        asked_to_stop,
        far,
        listed=lambda case: name,
        ours=set(units.values()).__contains__,
        resumed=not again,
    )
    carry_out(job, todo, registry, store)
    reasons = {reason: n for reason, n in words.items() if reason is not None}
    return Made(
        maker,
        words.total(),
        words[None],
        reasons,
        len(cases) - len(todo),
        far.planned - far.done,
        tuple(failures),
        dropped["facts"],
        far.calls,
        None if False in known else far.cost_usd,
        far.hopeless or (asked_to_stop.reason if not stop() else None) if far.done < far.planned else None,
    )


def pending(store: Store, cases: Sequence[Case], maker: str, *, again: bool = False) -> list[Case]:
    """Return the cases on which a maker has no word yet; ``again``: all of them."""
    if again:
        return list(cases)
    with store.read() as cursor:
        known = profiled_by(cursor, maker)
    own = maker == MADE_BY
    return [c for c in cases if (c.case_key, c.content_hash) not in known and not (own and c.profile is not None)]


def estimate(
    todo: Sequence[Case],
    model: str,
    registry: Registry,
    *,
    of: int,
    base_url: str | None = None,
    concurrency: int | None = None,
) -> Estimate:
    """Estimate profiles by a model for the cases that are ``pending`` of so many: two calls, each with the vignette."""
    words = sum(len(case.vignette.split()) for case in todo) * TOKENS_A_WORD
    n = len(todo)
    sizes = {"profiler": (model, (2 * n, 2 * words + n * _PROMPT_TOKENS, 2.5 * words + 50 * n))}
    counts = {"cases to judge": n, "judged before": of - n}
    return estimated(counts, n, sizes, registry, concurrency, lambda role: base_url)
