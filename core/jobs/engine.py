"""The local engine of all work that is paid for or long: pieces of work side by side on one asyncio loop.

Every reply of a model is journaled as it arrives, and what a piece of work came to when it is done. Stopped in any way
(Ctrl-C, the stop file, a budget, kill -9), the same job goes on where it was: only calls under way are made again.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import signal
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

import orjson

from core import access
from core.asking.memory import JobOver, JournaledReplies, ReplyCache, StoredReply, Unit
from core.errors import AnamnesisError
from core.events import PASSING, CallRecord, Event
from core.frameworks.base import Trial
from core.jobs.progress import STATUS, Progress, Stop
from core.journal import Journal, Line, RunHeader, TrialLine, journal_path
from core.models.limits import LEARNT, MOST
from core.models.registry import Registry

UNDER_WAY = 32
"""Pieces of work under way where providers have not yet shown that they take more at once, or no model is asked."""
_BETWEEN_CALLS = 1.25
"""So many times as many pieces as calls in the air: some of them are just between two calls."""
FOLD_EVERY_S = 3.0
"""Seconds between two folds of the journal into the database while a job goes on."""
GIVE_UP = 20
"""So many failures of the provider in a row end a job: it is down."""
REGRADING = "regrading "
"""Begins the names of units that grade stored answers again: what they cost is not the campaign's."""
_ABOUT_THE_REQUEST = ("refused", "picture", "thinking", "unspoken", "empty", "blank")
"""Failures that say nothing of whether the provider is up."""
_IN_A_BATCH = 50_000
"""Pieces of work under way at once where their calls wait for a batch; it takes no more."""
_STATUS_EVERY = 5
"""Looks at the stop file between two words on how far the job is."""

log = logging.getLogger(__name__)

U = TypeVar("U")
Given = Mapping[str, Mapping[str, list[StoredReply]]]
"""Piece of work → what was asked → the replies that it is given."""


@dataclass(frozen=True)
class Options:
    """How a job is carried out; none of it changes results. The budget holds across resumes.

    ``concurrency`` fixes how many pieces are under way; ``None`` lets it follow what the models' providers take at once
    (``core.models.limits.Concurrency``).
    """

    concurrency: int | None = None
    budget_usd: float | None = None
    on_progress: Callable[[Progress], None] = lambda progress: None
    calls_at_once: int | None = None
    """The most calls in the air where a piece of work may have several; ``None``: one call of it follows another."""

    def with_batches(self, registry: Registry, progress: Progress) -> Options:
        """Return how a job is carried out whose registry asks by batches: all of it side by side, to go together."""
        if not registry.batch:
            return self
        progress.batches = lambda: registry.batches.waiting() if registry.batches else None
        return replace(self, concurrency=_IN_A_BATCH, calls_at_once=_IN_A_BATCH)


@contextmanager
def _interrupts(stop: Stop) -> Iterator[None]:
    """Turn Ctrl-C and SIGTERM into a clean stop while the block runs; in another than the main thread, do nothing."""
    loop = asyncio.get_running_loop()
    main = threading.current_thread() is threading.main_thread()
    numbers = (signal.SIGINT, signal.SIGTERM) if main else ()
    for number in numbers:
        loop.add_signal_handler(number, stop.ask, "It was interrupted.")
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


@dataclass(frozen=True)
class Engine(Generic[U]):
    """Work of one journal: ``do`` does a piece of it and returns the lines to keep, which end the piece.

    ``unit`` names a piece, the same whenever the job is taken up again; ``ours`` says which pieces in the journal are
    this job's. A new journal begins with ``header``. ``shared``: a grader's word holds in the whole job. ``folder``
    holds the journals, by default all of them; ``fold`` is called now and then to make the database follow. ``given``
    are replies of another run that hold in some of the pieces (``JournaledReplies.given``).
    """

    name: str
    unit: Callable[[U], str]
    do: Callable[[U, Unit], Awaitable[Sequence[Line]]]
    options: Options = field(default_factory=Options)
    stop: Stop = field(default_factory=Stop)
    progress: Progress = field(default_factory=lambda: Progress(0))
    header: RunHeader | None = None
    listed: Callable[[U], str | None] = lambda unit: None
    """Under which trial the calls of a piece are listed; ``None``: under the piece's own name."""
    ours: Callable[[str], bool] = lambda unit: True
    shared: bool = False
    resumed: bool = True
    """Whether earlier goes count in the budget."""
    folder: Path | None = None
    fold: Callable[[], Awaitable[object]] | None = None
    given: Given = field(default_factory=dict)

    async def run(self, pieces: Iterable[U], stop_file: Path | None = None) -> None:
        """Do the pieces; return when all are done or ``stop`` was asked for. What came is in the journal.

        A fault of ours costs its own piece, and is raised when the others are done.
        """
        access.require("run")
        self.progress.failed_in_a_row = 0
        path = journal_path(self.name, self.folder)
        memory = await asyncio.to_thread(JournaledReplies.of, path, self.ours)
        memory.given = self.given
        self.progress.spent_usd += memory.cost_usd if self.resumed else 0.0
        if memory.totals.pieces <= self.progress.done:  # else it counts what is to be done in this go only
            self.progress.first += memory.totals
        self._check_budget()
        broken = partial(self.stop.ask, at_once=False)  # what is in the air is paid for, and may still find room
        async with Journal(path, self.header, broken=broken) as journal:
            replies = ReplyCache(
                self.name,
                journal,
                memory,
                shared=self.shared,
                on_call=self._hear,
                over=lambda: bool(self.stop.reason),
                budget_left=self._left,
                at_once=self.options.calls_at_once,
                watched=False,
            )
            self.progress.replies = replies
            self.options.on_progress(self.progress)
            met = LEARNT.set(self.progress.learnt if self.options.concurrency is None else None)
            with _interrupts(self.stop):
                waiting = iter(pieces)
                workers: list[asyncio.Task[None]] = []

                def hire() -> None:
                    left = max(1, self.progress.planned - self.progress.done)
                    missing = min(self._at_once(), left) - sum(not worker.done() for worker in workers)
                    workers.extend(asyncio.create_task(self._work(waiting, replies)) for _ in range(missing))

                hire()
                beside = [
                    asyncio.create_task(self._watch(stop_file, workers, hire)),
                    asyncio.create_task(self._fold_now_and_then()),
                ]
                try:
                    while under_way := [worker for worker in workers if not worker.done()]:
                        await asyncio.wait(under_way)
                finally:
                    LEARNT.reset(met)
                    for task in [*beside, *workers]:
                        task.cancel()
                    await asyncio.gather(*beside, return_exceptions=True)
                failures = [error for one in workers if not one.cancelled() and (error := one.exception())]
                if failures:
                    raise failures[0]
            self.progress.replies = None
        self.options.on_progress(self.progress)

    def _at_once(self) -> int:
        """Return how many pieces are to be under way now."""
        if self.options.concurrency is not None:
            return max(1, self.options.concurrency)
        return max(UNDER_WAY, min(MOST, round(_BETWEEN_CALLS * sum(self.progress.at_once))))

    async def _work(self, waiting: Iterator[U], replies: ReplyCache) -> None:
        while self.stop.reason is None and (piece := next(waiting, None)) is not None:
            name = self.unit(piece)
            with replies.unit(name, self.listed(piece)) as unit:
                self.progress.begin(unit)
                try:
                    lines = await self.do(piece, unit)
                except JobOver:
                    return
                self.progress.done += 1
                self.progress.done_here += 1
                self.progress.end(unit)
                self.progress.remembered += unit.remembered
                self.progress.unused += unit.unused
                if unit.unused:
                    log.warning("%s: %d paid replies are no longer asked for and are left out.", name, unit.unused)
                if lines:
                    await replies.journal.append(*lines)  # written also where a stop cuts this short
            del piece, unit, lines  # else they would be held until the next piece is done
            self.options.on_progress(self.progress)
            await asyncio.sleep(0)  # rules never wait, and the others must get their turn

    async def _watch(self, stop_file: Path | None, workers: list[asyncio.Task[None]], hire: Callable[[], None]) -> None:
        """Show the progress, take up work where there is room, and cancel it once an immediate stop is asked for."""
        for tick in itertools.count():
            await asyncio.sleep(0.2)
            if self.options.concurrency is None and self.stop.reason is None:
                hire()
            if stop_file is not None and tick % _STATUS_EVERY == 0:
                # tell other processes how far the job is. What cannot be written is left out: it is news for a second
                path = stop_file.with_name(STATUS)
                with suppress(OSError):
                    path.with_suffix(".new").write_bytes(orjson.dumps(self.progress.told()))
                    path.with_suffix(".new").replace(path)
            if stop_file is not None and stop_file.exists():
                self.stop.ask("It was asked to stop.")
            if self.stop.at_once:
                for worker in workers:
                    worker.cancel()
                return
            self.options.on_progress(self.progress)

    async def _fold_now_and_then(self) -> None:
        """Make the database follow. Where it cannot, the job goes on: the journal is what counts."""
        told: str | None = None
        while self.fold is not None:
            await asyncio.sleep(FOLD_EVERY_S)
            try:
                await self.fold()
            except AnamnesisError as error:
                log.info("The database does not follow for now: %s", error)
            except Exception as error:  # a fault of ours must not cost a run, and must not go unseen: once each
                if told != repr(error):
                    told = repr(error)
                    log.exception("The database does not follow; what is paid for is in the journal.")

    def _left(self) -> float | None:
        """Return the US dollars that may still be spent, of the budget and of who began it today; ``None`` for all."""
        budget, today = self.options.budget_usd, access.left_today()
        of_budget = None if budget is None else budget - self.progress.spent_usd - self.progress.cost_usd
        return min((left for left in (of_budget, today) if left is not None), default=None)

    def _hear(self, call: CallRecord) -> None:
        """Count a call, and end the job where it has to: no money, no hope, or a provider that is down."""
        self.progress.note_call(call)
        self._check_budget()
        if call.error is None:
            self.progress.failed_in_a_row = 0
            return
        kind, _, words = call.error.partition(": ")
        self.progress.failed_in_a_row += kind not in _ABOUT_THE_REQUEST
        if kind == "auth" or (call.attempts == 0 and kind != "picture"):  # a picture breaks what is about its case only
            self.progress.hopeless = self.progress.hopeless or words
            self.stop.ask(words)
            raise JobOver
        if self.progress.failed_in_a_row >= GIVE_UP:
            self.stop.ask(f"The provider failed {GIVE_UP} times in a row ({words.rstrip('.')}).", at_once=False)

    def _check_budget(self) -> None:
        left = self._left()
        if left is not None and left <= 0:
            words = access.used_up() or f"The budget of ${self.options.budget_usd:.2f} is used up."
            self.stop.ask(words, at_once=False)


async def run_trials(
    header: RunHeader,
    play: Callable[[Trial], AsyncIterator[Event]],
    missing: Sequence[Trial],
    progress: Progress,
    stop: Stop,
    stop_file: Path | None = None,
    options: Options | None = None,
    *,
    fold: Callable[[], Awaitable[object]] | None = None,
    given: Given | None = None,
) -> Progress:
    """Run the missing trials of one run: ``play`` gives the events of a trial, which depend on the framework.

    Returns when all are done or ``stop`` was asked for. Finished trials are in the journal.
    """

    async def do(trial: Trial, unit: Unit) -> list[Line]:
        events = [event async for event in play(trial) if not isinstance(event, PASSING)]
        progress.note(events)
        return [
            TrialLine(
                run_id=header.run_id,
                trial_id=trial.trial_id,
                case_key=trial.case.case_key,
                trial=trial.number,
                seed=trial.seed,
                events=events,
                finished_at=time.time(),
                paid=frozenset(unit.paid),
            )
        ]

    progress.done = progress.planned - len(missing)
    engine = Engine[Trial](
        header.run_id,
        lambda trial: trial.trial_id,
        do,
        options or Options(),
        stop,
        progress,
        header,
        ours=lambda unit: not unit.startswith(REGRADING),
        shared=True,
        fold=fold,
        given=given or {},
    )
    await engine.run(missing, stop_file)
    return progress
