"""The local engine of all paid or long work: it runs many pieces of work concurrently on one asyncio loop.

Every reply of a model is journaled when it arrives, and the result of a piece of work when the piece is done. After a
stop of any kind (Ctrl-C, the stop file, a budget, kill -9) the same job resumes: only unanswered calls are repeated.
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
from core.jobs.budget import used_up
from core.jobs.progress import STATUS, Progress, Stop
from core.journal import Journal, JournalLine, RunHeader, TrialLine, journal_path
from core.models.limits import LEARNT, MOST
from core.models.registry import Registry

UNDER_WAY = 32
"""Pieces of work that run at once if no model is called, or until a provider has answered more requests at once."""
_BETWEEN_CALLS = 1.25
"""Running pieces for each call in flight: some pieces are between two calls."""
FOLD_EVERY_S = 3.0
"""Seconds between two folds of the journal into the database while a job runs."""
GIVE_UP = 20
"""Consecutive provider failures after which a job ends: the provider is down."""
REGRADING = "regrading "
"""Prefix of the names of units that grade stored answers again; their cost is not part of the campaign's."""
_ABOUT_THE_REQUEST = ("refused", "picture", "thinking", "unspoken", "empty", "blank")
"""Failures that do not tell whether the provider is up."""
_IN_A_BATCH = 50_000
"""Pieces of work that run at once if their calls go into a batch: the largest size of a batch."""
_STATUS_EVERY = 5
"""Checks of the stop file for each write of the status file."""

log = logging.getLogger(__name__)

U = TypeVar("U")
GivenReplies = Mapping[str, Mapping[str, list[StoredReply]]]
"""Piece of work → request → replies of another run that the piece reuses."""


@dataclass(frozen=True)
class Options:
    """How a job runs; no option changes results.

    The budget holds across resumes, which keep it (``core.jobs.budget``); ``math.inf`` removes it.
    ``concurrency`` fixes the number of running pieces; ``None`` adapts it to what the models' providers accept
    (``core.models.limits.Concurrency``).
    """

    concurrency: int | None = None
    budget_usd: float | None = None
    on_progress: Callable[[Progress], None] = lambda progress: None
    calls_at_once: int | None = None
    """Maximum of calls in flight if a piece of work may have several; ``None``: a piece makes one call at a time."""

    def with_batches(self, registry: Registry, progress: Progress) -> Options:
        """Return options for a registry that sends batches: all pieces run at once, so that their calls share one."""
        if not registry.batch:
            return self
        progress.batches = lambda: registry.batches.waiting() if registry.batches else None
        return replace(self, concurrency=_IN_A_BATCH, calls_at_once=_IN_A_BATCH)


@contextmanager
def _interrupts(stop: Stop) -> Iterator[None]:
    """Turn Ctrl-C and SIGTERM into a clean stop while the block runs; do nothing outside the main thread."""
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
    """The work of one journal: ``do`` does a piece and returns the lines to store, which end the piece.

    ``unit`` returns the name of a piece, which is the same after a resume; ``owns_unit`` tells which units of the
    journal belong to this job. A new journal begins with ``header``. With ``shared`` a grader's reply counts in the
    whole job. ``folder`` contains the journals (default: the usual folder); ``fold`` is called regularly to update the
    database. ``given`` are replies of another run that some pieces reuse (``JournaledReplies.given``).
    """

    name: str
    unit: Callable[[U], str]
    do: Callable[[U, Unit], Awaitable[Sequence[JournalLine]]]
    options: Options = field(default_factory=Options)
    stop: Stop = field(default_factory=Stop)
    progress: Progress = field(default_factory=lambda: Progress(0))
    header: RunHeader | None = None
    listed: Callable[[U], str | None] = lambda unit: None
    """The trial under which the calls of a piece are listed; ``None``: under the piece's name."""
    owns_unit: Callable[[str], bool] = lambda unit: True
    shared: bool = False
    resumed: bool = True
    """Whether the cost of earlier runs of the job counts in the budget."""
    continued: bool = False
    """Whether the journal holds work that the progress of this job counts already."""
    folder: Path | None = None
    fold: Callable[[], Awaitable[object]] | None = None
    given: GivenReplies = field(default_factory=dict)

    async def run(self, pieces: Iterable[U], stop_file: Path | None = None) -> None:
        """Do the pieces; return when all are done or a stop was requested. Results are in the journal.

        An unexpected exception ends its own piece, and is raised after the other pieces are done.
        """
        access.require("run")
        self.progress.failed_in_a_row = 0
        path = journal_path(self.name, self.folder)
        memory = await asyncio.to_thread(JournaledReplies.of, path, self.owns_unit)
        memory.given = self.given
        if not self.continued:
            self.progress.spent_usd += memory.cost_usd if self.resumed else 0.0
            self.progress.stored_replies += memory.replies
            if memory.totals.pieces <= self.progress.done:  # otherwise ``done`` counts this run of the job only
                self.progress.first += memory.totals
                self.progress.finished += memory.totals
        self._check_budget()
        broken = partial(self.stop.ask, at_once=False)  # calls in flight are paid for; the disk may still take them
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
                first=self.header.first_request if self.header else None,
            )
            self.progress.replies = replies
            self.options.on_progress(self.progress)
            token = LEARNT.set(self.progress.learnt if self.options.concurrency is None else None)
            with _interrupts(self.stop):
                waiting = iter(pieces)
                workers: list[asyncio.Task[None]] = []

                def hire() -> None:
                    remaining = max(1, self.progress.planned - self.progress.done)
                    missing = min(self._at_once(), remaining) - sum(not worker.done() for worker in workers)
                    workers.extend(asyncio.create_task(self._work(waiting, replies)) for _ in range(missing))

                hire()
                helpers = [
                    asyncio.create_task(self._watch(stop_file, workers, hire)),
                    asyncio.create_task(self._fold_now_and_then()),
                ]
                try:
                    while active := [worker for worker in workers if not worker.done()]:
                        await asyncio.wait(active)
                finally:
                    LEARNT.reset(token)
                    for task in [*helpers, *workers]:
                        task.cancel()
                    await asyncio.gather(*helpers, return_exceptions=True)
                failures = [error for worker in workers if not worker.cancelled() and (error := worker.exception())]
                if failures:
                    raise failures[0]
            self.progress.replies = None
            self._write_status(stop_file)
        self.options.on_progress(self.progress)

    def _at_once(self) -> int:
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
                self._count(unit)
                if lines:
                    await replies.journal.append(*lines)  # the lines are written even if a stop cancels this await
            del piece, unit, lines  # otherwise they stay in memory until the next piece is done
            self.options.on_progress(self.progress)
            await asyncio.sleep(0)  # rules never wait, so the other workers would not get a turn

    def _count(self, unit: Unit) -> None:
        self.progress.done += 1
        self.progress.done_here += 1
        self.progress.end(unit)
        self.progress.remembered += unit.remembered
        self.progress.unused += unit.unused
        if unit.unused:
            log.warning("%s: %d paid replies are no longer asked for and are left out.", unit.unit_id, unit.unused)

    async def _watch(self, stop_file: Path | None, workers: list[asyncio.Task[None]], hire: Callable[[], None]) -> None:
        """Report the progress, start workers when there is room, and cancel them at an immediate stop."""
        for tick in itertools.count():
            await asyncio.sleep(0.2)
            if self.options.concurrency is None and self.stop.reason is None:
                hire()
            if tick % _STATUS_EVERY == 0:
                self._write_status(stop_file)
            if stop_file is not None and stop_file.exists():
                self.stop.ask("It was asked to stop.")
            if self.stop.at_once:
                for worker in workers:
                    worker.cancel()
                return
            self.options.on_progress(self.progress)

    def _write_status(self, stop_file: Path | None) -> None:
        """Write the progress next to the stop file, for other processes; a failed write is made good in a second."""
        if stop_file is not None:
            path = stop_file.with_name(STATUS)
            with suppress(OSError):
                path.with_suffix(".new").write_bytes(orjson.dumps(self.progress.status()))
                path.with_suffix(".new").replace(path)

    async def _fold_now_and_then(self) -> None:
        """Update the database regularly. If an update fails, the job continues: the journal is what counts."""
        logged: str | None = None
        while self.fold is not None:
            await asyncio.sleep(FOLD_EVERY_S)
            try:
                await self.fold()
            except AnamnesisError as error:
                log.info("The database does not follow for now: %s", error)
            except Exception as error:  # a bug in the fold must not end a paid run; each kind is logged once
                if logged != repr(error):
                    logged = repr(error)
                    log.exception("The database does not follow; what is paid for is in the journal.")

    def _left(self) -> float | None:
        """Return the US dollars that remain of the job's budget; ``None`` without one."""
        budget = self.options.budget_usd
        return None if budget is None else budget - self.progress.spent_usd - self.progress.cost_usd

    def _hear(self, call: CallRecord) -> None:
        """Count a call, and end the job if the budget is used up, no call can succeed, or the provider is down."""
        self.progress.note_call(call)
        self._check_budget()
        if call.error is None:
            self.progress.failed_in_a_row = 0
            return
        kind, _, words = call.error.partition(": ")
        self.progress.failed_in_a_row += kind not in _ABOUT_THE_REQUEST
        if kind == "auth" or (call.attempts == 0 and kind != "picture"):  # a faulty picture concerns its own case only
            self.progress.hopeless = self.progress.hopeless or words
            self.stop.ask(words)
            raise JobOver
        if self.progress.failed_in_a_row >= GIVE_UP:
            self.stop.ask(f"The provider failed {GIVE_UP} times in a row ({words.rstrip('.')}).", at_once=False)

    def _check_budget(self) -> None:
        usd = self._left()
        if usd is not None and usd <= 0:
            self.stop.ask(used_up(self.options.budget_usd or 0.0), at_once=False)


def trial_line(run_id: str, trial: Trial, events: Sequence[Event], paid: Iterable[str]) -> TrialLine:
    """Return the line of a trial that has just finished; ``paid`` are the ids of its calls with a reply line."""
    return TrialLine(
        run_id=run_id,
        trial_id=trial.trial_id,
        case_key=trial.case.case_key,
        trial=trial.number,
        seed=trial.seed,
        events=list(events),
        finished_at=time.time(),
        paid=frozenset(paid),
    )


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
    given: GivenReplies | None = None,
    folder: Path | None = None,
) -> Progress:
    """Run the missing trials of one run; ``play`` yields the events of a trial.

    Returns when all are done or a stop was requested. Finished trials are in the journal, which is in ``folder``.
    """

    async def do(trial: Trial, unit: Unit) -> list[JournalLine]:
        events = [event async for event in play(trial) if not isinstance(event, PASSING)]
        progress.note(events)
        return [trial_line(header.run_id, trial, events, unit.paid)]

    progress.done = progress.planned - len(missing)
    engine = Engine[Trial](
        header.run_id,
        lambda trial: trial.trial_id,
        do,
        options or Options(),
        stop,
        progress,
        header,
        owns_unit=lambda unit: not unit.startswith(REGRADING),
        shared=True,
        folder=folder,
        fold=fold,
        given=given or {},
    )
    await engine.run(missing, stop_file)
    return progress
