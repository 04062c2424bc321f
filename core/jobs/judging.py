"""A model judges stored conversations one by one, as a job: size before it starts, budget, stop, resume, failures.

What is asked, how an answer is checked and where it is kept is the subject's: medical terms of patients
(``core.jobs.patient_judging``), what patients withheld and invented (``core.jobs.fact_judging``). What a model
writes is data: JSON is looked for in it, also between other words. What cannot be read is asked for again with what was
wrong; what stays unreadable, and a provider's failure, is kept as a failure and never as "nothing found".
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import orjson
from pydantic import BaseModel, ValidationError

from core.agents.ask import MAX_ASKS, fault_of
from core.agents.base import CallFailed, Said
from core.agents.calls import Voice, call
from core.errors import AnamnesisError, UsageError
from core.events import Called, CallRecord, new_id
from core.jobs.engine import Progress, Stop, fatal
from core.jobs.estimate import RoleEstimate
from core.jobs.regrade import GIVE_UP
from core.jobs.run import Options, check_budget, interrupts
from core.journal import JournalWriter, JudgedLine, JudgedTable
from core.models.base import Message, Sampling
from core.models.registry import Registry
from core.prompts import PromptPack
from core.store.database import Store
from core.store.fold import fold

TOGETHER = 10
"""Judgements between two writes: each has cost something."""
CHARACTERS_A_TOKEN = 4
_AGAIN = "again"
"""The prompt of a pack that asks once more."""
_STOP_EVERY_S = 0.2

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True)
class Found(Generic[T]):
    """What a model found in a conversation, in order; ``dropped`` findings are not where it says that they are."""

    things: tuple[T, ...] = ()
    dropped: int = 0


@dataclass(frozen=True)
class Task(Generic[T]):
    """A conversation to judge: what is asked, and what an answer holds; ``read`` raises ``ValueError`` for none."""

    trial_id: str
    prompt: str
    read: Callable[[str], Found[T]]


@dataclass(frozen=True)
class Done(Generic[T]):
    """What came of one conversation: ``things`` is ``None`` where it failed, with ``failure`` in words.

    ``calls`` is a JSON list of the records of its calls; ``cost_usd`` is ``None`` where a price is not known;
    ``judged_at`` is seconds since 1970.
    """

    trial_id: str
    things: tuple[T, ...] | None
    dropped: int
    failure: str
    calls: str
    tokens: int
    cost_usd: float | None
    judged_at: float

    def kept(self) -> dict[str, Any]:
        """Return what every table of judgements keeps beside the findings themselves."""
        return {name: value for name, value in vars(self).items() if name != "things"}


@dataclass(frozen=True)
class JudgingSize:
    """What a judging takes before it starts: conversations to judge, those judged before, calls, tokens and price."""

    conversations: int
    kept: int
    role: RoleEstimate


@dataclass(frozen=True)
class JudgingOutcome:
    """How a judging went.

    ``judged`` conversations came to a judgement, ``with_any`` of them with a finding; ``dropped`` findings were named
    that are not in the words that they name. ``failed`` have none, most often for ``failure``; ``kept`` were judged
    before; ``remaining`` were not reached. ``cost_usd`` counts the calls whose price is known; ``stopped`` says why it
    ended early.
    """

    model: str
    judged: int
    with_any: int
    dropped: int
    failed: int
    kept: int
    remaining: int
    calls: int
    tokens: int
    cost_usd: float
    failure: str = ""
    stopped: str | None = None


@dataclass
class Desk(Generic[T]):
    """One judging: ``save`` keeps what is judged, some conversations at a time."""

    voice: Voice
    pack: PromptPack
    options: Options
    stop: Stop
    save: Callable[[Sequence[Done[T]]], None]
    progress: Progress = field(default_factory=lambda: Progress(0))
    unsaved: list[Done[T]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    in_a_row: int = 0
    fatal: str | None = None

    def judge(self, registry: Registry, tasks: Iterable[Task[T]], planned: int, kept: int) -> JudgingOutcome:
        """Judge ``planned`` conversations, those under way at once taken as they are needed; what comes is kept.

        ``kept``: how many were judged before. Raises ``AnamnesisError`` where no call can ever succeed.
        """
        self.progress = Progress(planned)
        asyncio.run(self._work_off(registry, iter(tasks)))
        done, counts = self.progress, self.counts
        return JudgingOutcome(
            self.voice.model.name, counts["judged"], counts["with_any"], counts["dropped"], counts["failed"], kept,
            done.planned - done.done, done.calls, done.tokens, done.cost_usd,
            max(done.failures, key=done.failures.__getitem__, default=""),
            self.stop.reason if done.done < done.planned else None,
        )  # fmt: skip

    async def _work_off(self, registry: Registry, waiting: Iterator[Task[T]]) -> None:
        """Let so many workers take conversation after conversation; on a stop those under way are dropped."""
        async with registry:
            with interrupts(self.stop):
                tasks = {asyncio.create_task(self._work(waiting)) for _ in range(self.options.concurrency)}
                try:
                    await self._watch(tasks)
                finally:
                    for task in tasks:
                        task.cancel()
                    ends = await asyncio.gather(*tasks, return_exceptions=True)
                    self._save()
                    self.options.on_progress(self.progress)
        for end in ends:
            if isinstance(end, Exception):  # an unforeseen error is not to be lost behind a stop
                raise end
        if self.fatal is not None:
            kept = f" {self.counts['judged']:,} judgements came before and are kept." if self.counts["judged"] else ""
            raise AnamnesisError(f"{self.fatal.rstrip('.')}.{kept}")

    async def _watch(self, tasks: set[asyncio.Task[None]]) -> None:
        under_way = set(tasks)
        while under_way and self.stop.reason is None:
            self.options.on_progress(self.progress)
            finished, under_way = await asyncio.wait(
                under_way, timeout=_STOP_EVERY_S, return_when=asyncio.FIRST_COMPLETED
            )
            for task in finished:
                task.result()  # an unforeseen error ends the work
            if len(self.unsaved) >= TOGETHER:
                self._save()

    async def _work(self, waiting: Iterator[Task[T]]) -> None:
        while self.stop.reason is None and (task := next(waiting, None)) is not None:
            await self._judge(task)

    async def _judge(self, task: Task[T]) -> None:
        calls: list[CallRecord] = []
        try:
            async for item in ask(self.voice, self.pack, task):
                if isinstance(item, Called):
                    self._note(item, calls)
                else:
                    self.in_a_row = 0
                    found, failure = (None, item) if isinstance(item, str) else (item, "")
                    self._add(task.trial_id, found, failure, calls)
        except CallFailed as failed:
            self._note(failed.called, calls)
            self._add(task.trial_id, None, f"{failed.error.kind}: {failed.error}", calls)
            self.in_a_row += 1
            if self.in_a_row >= GIVE_UP:
                self.stop.ask(f"The provider failed {GIVE_UP} times in a row ({str(failed.error).rstrip('.')}).")

    def _note(self, called: Called, calls: list[CallRecord]) -> None:
        calls.append(called.call)
        self.progress.note_call(called)
        hopeless, budget = fatal(called), self.options.budget_usd
        if hopeless is not None:
            self.fatal = self.fatal or hopeless
            self.stop.ask(hopeless)
        if budget is not None and self.progress.cost_usd >= budget:
            self.stop.ask(f"The budget of ${budget:.2f} is used up.")

    def _add(self, trial_id: str, found: Found[T] | None, failure: str, calls: list[CallRecord]) -> None:
        self.progress.done += 1
        if found is None:
            self.progress.failures[failure] += 1
        things, dropped = (found.things, found.dropped) if found is not None else (None, 0)
        self.counts.update(judged=found is not None, with_any=bool(things), dropped=dropped, failed=found is None)
        costs = [one.cost_usd for one in calls if one.error is None]
        self.unsaved.append(
            Done(
                trial_id, things, dropped, failure,
                orjson.dumps([one.model_dump(mode="json") for one in calls]).decode(),
                sum(one.prompt_tokens + one.completion_tokens for one in calls),
                None if None in costs else sum(cost or 0.0 for cost in costs), time.time(),
            )
        )  # fmt: skip

    def _save(self) -> None:
        if self.unsaved:
            self.save(self.unsaved)
            self.unsaved = []


def desk(
    model: str, base_url: str | None, pack: PromptPack, registry: Registry, options: Options | None, stop: Stop | None,
    save: Callable[[Sequence[Done[T]]], None],
) -> Desk[T]:  # fmt: skip
    """Return a desk at which a model judges at temperature 0.

    Raises ``UsageError`` for an unknown model, a missing key, a budget without prices or no concurrency at all.
    """
    options = options or Options()
    check_budget(options.budget_usd, [registry.spec(model).name], registry)
    if options.concurrency < 1:
        raise UsageError("Conversations cannot be judged fewer than one at a time: give a concurrency of 1 or more.")
    voice = Voice(registry.open(model, base_url=base_url), Sampling(temperature=0.0))
    return Desk(voice, pack, options, stop or Stop(), save)


def journaled(store: Store, table: JudgedTable) -> Callable[[Sequence[dict[str, Any]]], None]:
    """Return what keeps rows of a table of judgements: in a journal of their own first, then in the database.

    So that folding the journals into an empty database brings back everything that was paid for.
    """
    path = store.journals / f"judging-{new_id()}" / "journal.jsonl"

    def keep(rows: Sequence[dict[str, Any]]) -> None:
        with JournalWriter(path) as journal:
            journal.append_all([JudgedLine(table=table, row=row) for row in rows])
        fold(store)

    return keep


async def ask(voice: Voice, pack: PromptPack, task: Task[T]) -> AsyncIterator[Called | Found[T] | str]:
    """Yield the calls, at most ``MAX_ASKS``, and what was found, or why nothing could be read.

    Raises ``CallFailed`` where the provider fails.
    """
    messages: list[Message] = [{"role": "user", "content": task.prompt}]
    fault = ""
    for _ in range(MAX_ASKS):
        text = ""
        async for item in call(voice, messages, "grader", "judge"):
            if isinstance(item, Called):
                yield item
            elif isinstance(item, Said):
                text = item.text
        try:
            yield task.read(text)
            return
        except ValueError as error:  # pydantic's ValidationError is one
            fault = fault_of(error)
        again: list[Message] = [
            {"role": "assistant", "content": text},
            {"role": "user", "content": pack.render(_AGAIN, fault=fault)},
        ]
        messages = messages[:1] + again
    yield f"{voice.model.name} gave no readable answer in {MAX_ASKS} tries: {fault}."


def last_object(text: str, form: type[M]) -> M:
    """Return the last JSON object of the form that was asked for: what comes before it may be thought aloud.

    Raises ``ValueError`` where there is none.
    """
    fault: ValueError = ValueError("it holds no JSON object")
    for piece in reversed(list(_objects(text))):
        try:
            return form.model_validate(piece)
        except ValidationError as error:
            fault = error
    raise fault


def _objects(text: str) -> Iterable[object]:
    """Yield the outermost JSON objects of a text."""
    position = text.find("{")
    while position >= 0:
        try:
            piece, position = json.JSONDecoder().raw_decode(text, position)
            yield piece
        except RecursionError:
            raise ValueError("its JSON is nested too deeply") from None
        except json.JSONDecodeError:
            position += 1
        position = text.find("{", position)
