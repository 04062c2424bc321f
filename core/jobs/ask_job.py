"""Jobs that ask models about stored items (conversations, cases, answers), each declared as an ``AskJob``.

A declaration says which items have no result yet, how an item becomes a request, and what is stored of the reply.
Everything else is shared: ``run_job`` with the reply cache, budget, stop, batches and progress of the engine,
``estimate_job``, ``begin_job`` for pages, and the command ``job NAME`` (``core.cli.job``). Declarations are found in
the modules of this package, in the folder ``jobs`` of an extension, and in the module or package ``jobs`` of a
framework's folder.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import inspect
import pkgutil
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Annotated, Any, ClassVar, Generic, NamedTuple, TypeVar, get_type_hints

import core.jobs
from core import access, frameworks
from core.asking.ask import Parsed, Request, ask, unreadable
from core.asking.calls import Voice
from core.asking.memory import JournaledReplies, Unit
from core.asking.parts import PromptPart
from core.asking.scene import CallFailed
from core.errors import AnamnesisError, UsageError
from core.events import Called, CallRecord, Event
from core.frameworks.casting import is_model
from core.jobs.background import Job, begin, job_at
from core.jobs.budget import budget_in_force, is_used_up, store_budget, stored_budget
from core.jobs.engine import Engine, Options
from core.jobs.estimate import SECONDS_BY_RULE, TOKENS_A_WORD, JobEstimate, check_budget, estimated
from core.jobs.progress import JobEnd, Progress, Stop, running
from core.journal import DoneLine, GradesLine, JournalLine, RowLine, RunHeader, journal_path
from core.models.base import Sampling
from core.models.registry import Registry, load_registry
from core.paths import extensions
from core.prompts import PromptPack
from core.store.database import Store
from core.store.fold import fold, following

_READ_AT_ONCE = 100
_SAMPLED = 50
"""Items whose requests are rendered for an estimate; the others are assumed to have the same average length."""
_LISTED = 200
"""Maximum of failures listed in an outcome."""

T = TypeVar("T")
Item = TypeVar("Item")


@dataclass(frozen=True)
class JournalWork:
    """The work of one journal: the items without a result.

    ``unit`` returns the name of the work on an item, which is the same after a resume; ``owns_unit`` tells which units
    of the journal count in this job's budget. Calls are ``listed`` under the journal's name by default. ``instead`` is
    called when the work is done and stored: what it returns is done instead of the next work of the plan, because the
    results tell that its requests are no good.
    """

    journal: str
    todo: Sequence[Any]
    unit: Callable[[Any], str]
    owns_unit: Callable[[str], bool]
    listed: Callable[[Any], str] | None = None
    header: RunHeader | None = None
    instead: Callable[[], JournalWork | None] = lambda: None


@dataclass(frozen=True)
class JobPlan:
    """The work of a job, according to what is stored now.

    ``by`` is the name under which results are stored; ``kept`` items have a result under the same key already.
    ``models`` are all models that the job may call. ``left_out`` is reason → number of items that nobody can
    be asked about.
    """

    by: str
    parts: Sequence[JournalWork]
    kept: int
    models: Sequence[str]
    left_out: Mapping[str, int] = field(default_factory=dict)

    @property
    def todo(self) -> list[Any]:
        return list(chain.from_iterable(part.todo for part in self.parts))


class JobSize(NamedTuple):
    """Role → model with calls, prompt tokens and reply tokens of all items.

    ``counts`` replace the usual counts of an estimate (items to do, items done before).
    """

    roles: Mapping[str, tuple[str, tuple[int, float, float]]]
    counts: Mapping[str, int] | None = None


@dataclass(frozen=True)
class ItemResult:
    """The result of one item, and the ``lines`` to store.

    ``failure`` says why the item has no result. The next run of the job asks about it again: from the start if the
    answer is ``final``, otherwise with the replies already paid for. ``remark`` is listed for an item with a result.
    ``counts`` are added up over all items; ``events`` are those of a trial, for the progress.
    """

    lines: Sequence[RowLine | GradesLine] = ()
    failure: str = ""
    remark: str = ""
    final: bool = True
    counts: Mapping[str, int] = field(default_factory=dict)
    events: Sequence[Event] = ()


@dataclass(frozen=True, kw_only=True)
class AskOutcome(JobEnd):
    """How a job ended: ``done`` items have a result now, ``failed`` items have none, ``kept`` items had one before.

    ``counts`` are specific to the job; ``remarks`` are the first failures as (item, reason).
    """

    by: str
    done: int
    failed: int
    kept: int
    counts: Mapping[str, int] = field(default_factory=dict)
    remarks: tuple[tuple[str, str], ...] = ()
    again: bool = False
    """Whether the job also asked about items that had a result."""


@dataclass(frozen=True)
class AskJob(ABC, Generic[Item]):
    """A job that asks models about stored items. A subclass is a frozen dataclass; its fields are the options.

    An option is ``Annotated[type, "help"]``. Fields called ``conversations`` (a ``Selection``), ``cases`` and
    ``run_ids`` use the options that other commands have for them. The docstring is the help of the command. Results are
    stored under a key (model, prompt hash, item); an item with a result is skipped.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    items: ClassVar[str] = "conversations"
    """Name of the items, in the plural."""
    verb: ClassVar[str] = "judge"
    participle: ClassVar[str] = "judged"
    lack: ClassVar[str] = "have no result and count nowhere; the same again asks about them"
    """Predicate of failed items in the summary."""
    report: ClassVar[str] = ""
    """Arguments of the command ``report`` that shows the results."""
    asks_models: ClassVar[bool] = True
    """Whether the job may call a model: a job by rules has no options for address, budget, batches or concurrency."""
    shared: ClassVar[bool] = False
    """Whether a grader's reply to one item is reused for another item with the same request."""
    seconds_by_rule: ClassVar[float] = SECONDS_BY_RULE

    base_url: Annotated[str | None, "Address of an OpenAI-compatible server."] = field(default=None, kw_only=True)

    @classmethod
    def options(cls) -> list[inspect.Parameter]:
        """Return the fields as parameters, with their annotations resolved in the module of each class."""
        types = get_type_hints(cls, include_extras=True)
        fields = inspect.signature(cls).parameters.values()
        return [field.replace(annotation=types[field.name]) for field in fields]

    @property
    def again(self) -> bool:
        """Whether the job also asks about items with a result; earlier costs then do not count in the budget.

        A job with this option has a field of this name.
        """
        return False

    @property
    def instance(self) -> str:
        """Distinguishes this job from others of its kind that may run at the same time in one process."""
        return ""

    @abstractmethod
    def plan(self, store: Store, registry: Registry) -> JobPlan:
        """Plan the work. Raises ``UsageError`` for impossible options, ``AnamnesisError`` if no item fits."""

    def load(self, store: Store, todo: Sequence[Any]) -> Iterable[Item]:
        return todo

    @abstractmethod
    def key(self, item: Any) -> str:
        """Return a key that identifies an item in its journal, whether the item is loaded or not."""

    def label(self, item: Any) -> str:
        return self.key(item)

    @abstractmethod
    def seats(self, registry: Registry, plan: JobPlan, store: Store) -> Any:
        """Open the models; raise ``UsageError`` if a key is missing."""

    @abstractmethod
    async def ask(self, item: Item, seats: Any) -> ItemResult:
        """Ask about an item, in any number of requests. ``CallFailed`` is a failure that is not final."""

    @abstractmethod
    def size(self, plan: JobPlan, store: Store) -> JobSize: ...

    @classmethod
    def summary(cls, outcome: AskOutcome) -> Iterable[str]:
        """Return the results in sentences, without kept items, cost and failures, which every job reports."""
        return [f"{outcome.done:,} {cls.items} {cls.participle} by {outcome.by}."]

    @classmethod
    def shortfall(cls, outcome: AskOutcome) -> list[str]:
        sentences = []
        if outcome.failed:
            sentences.append(f"{outcome.failed:,} {cls.items} {cls.lack}. Most often: {outcome.failure}")
        if outcome.stopped is not None:
            progress = f"What was {cls.participle} is kept, {outcome.remaining:,} {cls.items} are left"
            more = " with a larger --budget-usd" if is_used_up(outcome.stopped) else ""
            resumable = "" if outcome.again else f"; the same again{more} goes on"
            sentences.append(f"{outcome.stopped} {progress}{resumable}.")
        return sentences

    def findings(self, store: Store, outcome: AskOutcome) -> Iterable[str]:
        """Return the last sentences of the command's output, on all stored results."""
        return ()

    def part(self, journal: str, todo: Sequence[Any], before: Sequence[Any] = ()) -> JournalWork:
        """Return the work of a journal that belongs to this job alone; ``before`` are the items with a result."""

        def unit(item: Any) -> str:
            return f"{journal} {self.key(item)}"

        return JournalWork(journal, todo, unit, {unit(item) for item in (*todo, *before)}.__contains__)


class OfCases:
    """Mixin for jobs that ask about cases; it comes before the job's base class."""

    items: ClassVar[str] = "cases"

    def key(self, item: Any) -> str:
        return f"{item.case_key} {item.content_hash}"

    def label(self, item: Any) -> str:
        return str(item.case_key)


class ModelSeat(NamedTuple):
    """A model, and the prompts for it."""

    voice: Voice
    pack: PromptPack


@dataclass(frozen=True)
class ParsedReply(Generic[T]):
    """The ``value`` read from a reply, or ``none``: the reason why it has none. ``broken``: the provider failed."""

    value: T | None
    none: str
    broken: bool
    calls: tuple[CallRecord, ...]

    def answer(self, *lines: RowLine, **counts: int) -> ItemResult:
        """Return the item's answer with these lines; it is a failure if the reply has no value."""
        return ItemResult(lines, self.none, final=not self.broken, counts=counts)


async def reply_to(seat: ModelSeat, request: Request[T]) -> ParsedReply[T]:
    """Send one request, and repeat it with the reader's error if the reply cannot be read."""
    calls, value, none = list[CallRecord](), None, ""
    try:
        async for item in ask(seat.voice, seat.pack, request):
            if isinstance(item, Called):
                calls.append(item.call)
            elif isinstance(item, Parsed):
                value, none = item.value, "" if item.value is not None else unreadable(seat.voice, item)
    except CallFailed as failed:
        return ParsedReply(None, failure_of(failed), broken=True, calls=(*calls, failed.called.call))
    return ParsedReply(value, none, broken=False, calls=tuple(calls))


def failure_of(failed: CallFailed) -> str:
    return f"{failed.error.kind}: {failed.error}"


@dataclass(frozen=True)
class RequestJob(AskJob[Item]):
    """A job with one request for each item, to the model of its field ``model``, at temperature 0."""

    role: ClassVar[str] = "grader"
    reply_tokens: ClassVar[int] = 50
    """Tokens of a usual reply."""

    @property
    @abstractmethod
    def pack(self) -> PromptPack: ...

    @abstractmethod
    def request(self, item: Item, pack: PromptPack) -> Request[Any]:
        """Return the request about an item, including the function that reads the reply."""

    @abstractmethod
    def answer(self, item: Item, reply: ParsedReply[Any], seat: ModelSeat) -> ItemResult:
        """Return the answer to store; also called for a reply without a value."""

    def seats(self, registry: Registry, plan: JobPlan, store: Store) -> ModelSeat:
        opened = registry.open(plan.models[0], base_url=self.base_url)
        return ModelSeat(Voice(opened, Sampling(temperature=0.0)), self.pack)

    async def ask(self, item: Item, seats: ModelSeat) -> ItemResult:
        return self.answer(item, await reply_to(seats, self.request(item, seats.pack)), seats)

    def size(self, plan: JobPlan, store: Store) -> JobSize:
        pack, n = self.pack, len(plan.todo)

        def prompt_tokens(item: Item) -> float:
            parts = self.request(item, pack).messages
            return sum(estimated_tokens(part.content) for part in parts if isinstance(part, PromptPart))

        prompts = sampled(self, plan, store, prompt_tokens)
        return JobSize({self.role: (plan.models[0], (n, prompts, self.replies(plan)))})

    def replies(self, plan: JobPlan) -> float:
        return len(plan.todo) * self.reply_tokens


def estimated_tokens(text: str) -> float:
    return len(text.split()) * TOKENS_A_WORD


def sampled(job: AskJob[Item], plan: JobPlan, store: Store, measure: Callable[[Item], float]) -> float:
    """Estimate the sum of a measure over all items of a plan from an evenly spread sample."""
    todo = plan.todo
    sample = todo[:: max(1, len(todo) // _SAMPLED)]
    return sum(map(measure, job.load(store, sample))) * len(todo) / max(1, len(sample))


def journal_of(prefix: str, *key: str) -> str:
    """Return the name of a job's journal, which depends on the key alone."""
    return f"{prefix}-{hashlib.sha256(' '.join(key).encode()).hexdigest()[:16]}"


def estimate_job(job: AskJob[Any], store: Store, registry: Registry, concurrency: int | None = None) -> JobEstimate:
    """Estimate calls, tokens and cost, without retries of unreadable replies; raises as ``AskJob.plan``."""
    plan = job.plan(store, registry)
    size, todo = job.size(plan, store), len(plan.todo)
    counts = size.counts or {f"{job.items} to {job.verb}": todo, f"{job.participle} before": plan.kept}
    counts = {**counts, **{f"left out, {reason}": n for reason, n in plan.left_out.items()}}
    return estimated(counts, todo, size.roles, registry, concurrency, lambda role: job.base_url, job.seconds_by_rule)


def run_job(
    job: AskJob[Any], store: Store, registry: Registry, options: Options | None = None, stop: Stop | None = None
) -> AskOutcome:
    """Ask about the items without a result, and close the registry's models. Results up to a stop are stored.

    Raises ``UsageError`` for an unknown model, a missing key or a budget without prices, and ``AnamnesisError`` if no
    item fits, if the job is running elsewhere, or if no call can ever succeed.
    """
    options, stop = options or Options(), stop or Stop()
    fold(store)
    plan = job.plan(store, registry)
    specs = [registry.spec(name, base_url=job.base_url) for name in plan.models if is_model(name)]
    journals = list(dict.fromkeys(part.journal for part in plan.parts))
    earlier = [] if job.again else [stored_budget(journal, job.name, store.journals) for journal in journals]
    earlier_usd = max((usd for usd in earlier if usd is not None), default=None)
    options = replace(options, budget_usd=budget_in_force(options.budget_usd, earlier_usd))
    check_budget(options.budget_usd, specs)
    seats = job.seats(registry, plan, store)
    progress, counts, remarks = Progress(len(plan.todo)), Counter[str](), list[tuple[str, str]]()
    options = options.with_batches(registry, progress)
    several = options.budget_usd is not None and len(plan.parts) > 1
    if several and not job.again:  # the costs in all journals count from the start, not only in the present one
        for journal, part in {part.journal: part for part in plan.parts}.items():
            progress.spent_usd += JournaledReplies.of(journal_path(journal, store.journals), part.owns_unit).cost_usd

    async def do(item: Any, unit: Unit) -> list[JournalLine]:
        try:
            answer = await job.ask(item, seats)
        except CallFailed as failed:
            answer = ItemResult(failure=failure_of(failed), final=False)
        progress.note(answer.events)
        if answer.failure:
            progress.failures[answer.failure] += 1
        if (answer.failure or answer.remark) and len(remarks) < _LISTED:
            remarks.append((job.label(item), answer.failure or answer.remark))
        counts.update(answer.counts, done=not answer.failure, failed=bool(answer.failure))
        ended = unit.unit_id if answer.final and unit.paid else ""
        lines: list[JournalLine] = [line.model_copy(update={"unit": ended}) for line in answer.lines]
        return lines or ([DoneLine(run_id=unit.replies.run_id, unit=ended)] if ended else [])

    async def work() -> None:
        async with registry, following(store) as follow:
            options.on_progress(progress)
            parts, begun = list(plan.parts), set[str]()
            while parts and stop.reason is None:
                part = parts.pop(0)
                if not part.todo:
                    continue
                before = counts["failed"], progress.failures.copy(), len(remarks)
                engine = Engine[Any](
                    part.journal,
                    part.unit,
                    do,
                    options,
                    stop,
                    progress,
                    part.header,
                    listed=part.listed or (lambda item, name=part.journal: name),  # type: ignore[misc]
                    owns_unit=part.owns_unit,
                    shared=job.shared,
                    resumed=not job.again and not several,
                    continued=part.journal in begun,
                    folder=store.journals,
                    fold=follow,
                )
                with running(part.journal, store.journals) as stop_file:
                    await engine.run(_loaded(job, store, part.todo), stop_file)
                begun.add(part.journal)
                if stop.reason is None and (other := await asyncio.to_thread(part.instead)) is not None:
                    progress.planned += len(other.todo) - len(parts[0].todo)
                    parts[0] = other
                    counts["failed"], progress.failures, listed = before  # the same items are asked about once more
                    del remarks[listed:]

    for journal in journals:
        store_budget(journal, options.budget_usd, job.name, store.journals)
    try:
        asyncio.run(work())
    finally:
        fold(store)
    if progress.done >= progress.planned:  # a later start of a finished job is about other items
        for journal in journals:
            store_budget(journal, None, job.name, store.journals)
    before = f" {counts['done']:,} {job.items} were {job.participle} before and are kept." if counts["done"] else ""
    return AskOutcome(
        by=plan.by,
        done=counts.pop("done", 0),
        failed=counts.pop("failed", 0),
        kept=plan.kept,
        counts=counts,
        remarks=tuple(remarks),
        again=job.again,
        **progress.ended(stop, before),
    )


def _loaded(job: AskJob[Item], store: Store, todo: Sequence[Any]) -> Iterator[Item]:
    for start in range(0, len(todo), _READ_AT_ONCE):
        yield from job.load(store, todo[start : start + _READ_AT_ONCE])


def begin_job(job: AskJob[Any], *, budget_usd: float | None = None) -> Job[AskOutcome]:
    """Start a job in the background of this process, or return one of the same kind that is running.

    If it cannot start (an unknown model, a missing key), its ``error`` says why in a sentence.
    """
    access.require("run")

    def do(tell: Callable[[int, int], None], stop: Stop) -> AskOutcome:
        options = Options(budget_usd=budget_usd, on_progress=lambda progress: tell(progress.done, progress.planned))
        return run_job(job, Store(), load_registry(), options, stop)

    return begin(_job_key(type(job), job.instance), do, job.title)


def job_of(kind: type[AskJob[Any]], apart: str = "") -> Job[AskOutcome] | None:
    """Return the running or last job of a kind in this process, or ``None``."""
    return job_at(_job_key(kind, apart))


def _job_key(kind: type[AskJob[Any]], apart: str) -> tuple[str, ...]:
    return ("job", kind.name, str(Store().path), apart)


def jobs() -> dict[str, type[AskJob[Any]]]:
    """Return name → declaration; raise ``UsageError`` if an extension's module cannot be imported."""
    for folder in extensions():
        if (place := str(folder / "jobs")) not in core.jobs.__path__:
            core.jobs.__path__.append(place)
    kinds: dict[str, type[AskJob[Any]]] = {}
    of_frameworks = pkgutil.walk_packages(frameworks.__path__, f"{frameworks.__name__}.")
    for info in chain(
        pkgutil.iter_modules(core.jobs.__path__, "core.jobs."),
        (info for info in of_frameworks if info.name.split(".")[3:4] == ["jobs"]),
    ):
        try:
            module = importlib.import_module(info.name)
        except AnamnesisError:
            raise
        except Exception as error:
            raise UsageError(f"The jobs in {info.name} cannot be read: {type(error).__name__}: {error}.") from error
        for kind in vars(module).values():
            declared_here = isinstance(kind, type) and issubclass(kind, AskJob) and kind.__module__ == module.__name__
            if declared_here and hasattr(kind, "name") and not inspect.isabstract(kind):
                kinds.setdefault(kind.name, kind)
    return dict(sorted(kinds.items()))
