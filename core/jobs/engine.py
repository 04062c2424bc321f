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
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Generic, TypeVar

import orjson
from filelock import FileLock, Timeout

from core import access, paths
from core.agents.memory import Memory, Over, Remembered, Replies, Took, Unit
from core.errors import AnamnesisError
from core.events import PASSING, Answered, CallRecord, Event, Failed, Graded
from core.frameworks.base import Trial
from core.journal import Journal, Line, RunHeader, TrialLine, in_use, journal_path, writable
from core.models.limits import LEARNT, MOST, Concurrency
from core.models.registry import Registry
from core.store.database import Store
from core.store.fold import fold, following
from core.work import Progress as Told
from core.work import Stop as Asked

UNDER_WAY = 32
"""Pieces of work under way where providers have not yet shown that they take more at once, or no model is asked."""
_BETWEEN_CALLS = 1.25
"""So many times as many pieces as calls in the air: some of them are just between two calls."""
FOLD_EVERY_S = 3.0
"""Seconds between two folds of the journal into the database while a job goes on."""
UNREADABLE_OF = 10
"""From so many verdicts of a grader on it is said that most of them cannot be read, if so."""
GIVE_UP = 20
"""So many failures of the provider in a row end a job: it is down."""
REGRADING = "regrading "
"""Begins the names of units that grade stored answers again: what they cost is not the campaign's."""
_ABOUT_THE_REQUEST = ("refused", "picture", "thinking", "unspoken", "empty")
"""Failures that say nothing of whether the provider is up."""
_ASKED_AFTER_S = 0.5
"""Who only asks whether a job is under way holds its lock for a moment: it is waited for."""
_IN_A_BATCH = 50_000
"""Pieces of work under way at once where their calls wait for a batch; it takes no more."""
_RATE_OVER_S = 15.0
_FORECAST_FROM = 3
"""Pieces from which on something is said of all."""
_STATUS = "status.json"
_STATUS_EVERY = 5
"""Looks at the stop file between two words on how far the job is."""
_STATUS_LISTS = 100
"""Calls in the air, and pieces under way, that are told of: in a batch there are tens of thousands."""
_STATUS_HOLDS_S = 5.0

log = logging.getLogger(__name__)

U = TypeVar("U")
Given = Mapping[str, Mapping[str, list[Remembered]]]
"""Piece of work → what was asked → the replies that it is given."""


@dataclass
class Progress:
    """How far a job is: what was done before it was resumed counts as done too, but not in calls, tokens and costs.

    ``spent_usd`` is what was spent on it in earlier goes. ``remembered`` replies were not paid for again; ``unused``
    ones were, and are no longer asked for, because the program or its prompts have changed since.
    """

    planned: int
    done: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    """What providers said where they broke an answer."""
    tokens: int = 0
    cost_usd: float = 0.0
    calls: int = 0
    started_at: float = field(default_factory=time.time)
    done_here: int = 0
    spent_usd: float = 0.0
    remembered: int = 0
    unused: int = 0
    hopeless: str | None = None
    """Why no call can ever succeed (a wrong key, a server that cannot be started), if so."""
    read: Counter[bool] = field(default_factory=Counter)
    """Verdicts on free responses in this go: those that could be read, and those that could not."""
    replies: Replies | None = None
    """The calls in the air and the work under way, while the job runs."""
    batches: Callable[[], dict[str, Any] | None] = lambda: None
    """What is in batches (``core.models.batches.Batches.waiting``)."""
    thought: Took | None = None
    """What all pieces were thought to take before any was done."""
    first: Took = field(default_factory=Took)
    """What the pieces took that were begun first, up to the first that is not done: short ones are done sooner."""
    _begun: deque[Unit] = field(default_factory=deque)
    learnt: set[Concurrency] = field(default_factory=set)
    """What was learnt of the providers it has met, where nobody fixed how much is under way."""
    _samples: deque[tuple[float, int]] = field(default_factory=deque)

    def note(self, events: Sequence[Event]) -> None:
        """Take the verdicts and failures of a finished trial into account."""
        for event in events:
            if isinstance(event, Graded):
                self.verdicts[event.verdict] += 1
                if event.rule in ("frq", "frq_top3") and event.verdict != "provider_error":
                    self._note_grader(event)
            elif isinstance(event, Answered) and event.reason:
                self.verdicts[event.reason] += 1
                if event.reason in ("provider_error", "refused"):
                    self.failures[event.detail] += 1
            elif isinstance(event, Failed) and event.where.startswith("grader"):
                self.failures[event.message] += 1

    def _note_grader(self, event: Graded) -> None:
        told = bool(self.trouble)
        self.read[event.verdict != "ungradable"] += 1
        if self.trouble and not told:
            log.warning("%s (%s)", self.trouble, event.grader)

    @property
    def trouble(self) -> str:
        """Say that what the grader writes cannot be read, as soon as that is plain; else empty."""
        given = self.read.total()
        if given < UNREADABLE_OF or 2 * self.read[False] < given:
            return ""
        return (
            f"The grader cannot be read: {self.read[False]} of {given} verdicts are ungradable and count in no figure. "
            "Stop here and name another grader; the answers are kept, and regrade judges them."
        )

    def note_call(self, call: CallRecord) -> None:
        """Take a call into account as soon as it is made."""
        self.calls += 1
        self.tokens += call.prompt_tokens + call.completion_tokens
        self.cost_usd += call.cost_usd or 0.0

    def begin(self, unit: Unit) -> None:
        """Take note that a piece is begun."""
        self._begun.append(unit)

    def end(self, unit: Unit) -> None:
        """Take note that a piece is done."""
        unit.done = True
        while self._begun and self._begun[0].done:
            self.first += self._begun.popleft().took

    @property
    def forecast(self) -> str:
        """Say what all pieces will take by what the first ones took, once a twentieth is done; else empty."""
        done = self.first.pieces
        if done < max(_FORECAST_FROM, self.planned / 20) or done >= self.planned or not self.first.calls:
            return ""
        before = f"; at first thought {self.thought.in_words}" if self.thought else ""
        all_of_it = self.first.scaled(self.planned).in_words
        return f"By what the first {done:,} of {self.planned:,} took: about {all_of_it} in all{before}."

    def tokens_a_second(self) -> float | None:
        """Return how fast text comes, over the last moments in which somebody asked; ``None`` before it is known."""
        if self.replies is None:
            return None
        now, streamed = time.monotonic(), self.replies.streamed
        self._samples.append((now, streamed))
        while now - self._samples[0][0] > _RATE_OVER_S:
            self._samples.popleft()
        began, before = self._samples[0]
        return (streamed - before) / (now - began) if now - began >= 1.0 else None

    @property
    def at_once(self) -> list[int]:
        """How many calls may be in the air now, by provider, where that is learnt from them."""
        return sorted((one.limit for one in set(self.learnt)), reverse=True)

    def in_words(self) -> str:
        """Return calls, tokens, cost, speed, and who is waited for and how long, in one line; empty without calls."""
        air = list(self.replies.air) if self.replies else []
        if not self.calls and not air:
            return ""
        words = [f"{self.calls:,} calls, {self.tokens:,} tokens"]
        if speed := self.tokens_a_second():
            words[0] += f" ({speed:.0f} a second)"
        if self.cost_usd + self.spent_usd:
            words.append(f"${self.cost_usd + self.spent_usd:.2f}")
        if air and not self.batches():
            seats = ", ".join(f"{count} {role}" for role, count in Counter(one.role for one in air).most_common())
            words.append(f"waiting for {seats}, up to {time.time() - air[0].since:.0f} s")
        if waiting := self.batches():
            words.append(waiting["words"])
        elif self.replies and self.replies.under_way:
            steps = [unit.calls for unit in list(self.replies.under_way.values())]
            words.append(f"{len(steps)} under way at call {min(steps)} to {max(steps)}")
        if self.at_once:
            words.append(f"at most {' + '.join(map(str, self.at_once))} at once")
        return "; ".join(words)


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


@dataclass
class Stop:
    """Why a job stopped before it was complete; set by whoever wants it to stop.

    ``at_once`` says that calls in the air are not waited for, as they are where a budget is used up.
    """

    reason: str | None = None
    at_once: bool = False

    def ask(self, reason: str, *, at_once: bool = True) -> None:
        """Ask the job to stop; the first reason stands."""
        self.reason = self.reason or reason
        self.at_once = self.at_once or at_once


def watched(
    told: Told, asked_to_stop: Asked, stop: Stop, on_progress: Callable[[Progress], None] = lambda progress: None
) -> Callable[[Progress], None]:
    """Return what shows a job's progress to work in the background (``core.work``), and takes its stop to the job.

    ``on_progress`` is shown the whole of it.
    """

    def show(progress: Progress) -> None:
        told(progress.done, progress.planned)
        if asked_to_stop():
            stop.ask("It was asked to stop.")
        on_progress(progress)

    return show


@contextmanager
def running(run_id: str, folder: Path | None = None) -> Iterator[Path]:
    """Hold the run or job for this process, so that two never do it at once; yields the file that stops it."""
    place = journal_path(run_id, folder).parent
    with writable(place):
        place.mkdir(parents=True, exist_ok=True)
    stop_file = place / "stop"
    lock = FileLock(place / "running.lock")
    try:
        with writable(place):
            lock.acquire(timeout=_ASKED_AFTER_S)
    except Timeout as error:
        raise AnamnesisError(f"Run {run_id} is already under way in another process: stop it there first.") from error
    try:
        stop_file.unlink(missing_ok=True)
        yield stop_file
    finally:
        lock.release()


def is_running(run_id: str) -> bool:
    """Say whether some process is running this run right now."""
    return in_use(journal_path(run_id))


def status(run_id: str) -> dict[str, Any] | None:
    """Return how far a run of any process is, as of the last second; ``None`` where nothing was told lately.

    ``done`` of ``planned`` pieces, ``done_here`` of them since ``started_at``, ``calls``, ``tokens``, ``cost_usd`` (of
    all its goes), ``tokens_a_second`` (or ``None``), ``waiting`` as [seat, purpose, seconds] with the longest first,
    ``batch`` where it waits for one (``core.models.batches.Batches.waiting``), ``under_way`` as piece → calls so far,
    ``at_once`` as ``Progress`` has it, and all of it in ``words``; ``forecast``: what all of it will take, by what the
    first pieces took, in a sentence; ``trouble``: its grader cannot be read.
    """
    path = journal_path(run_id).with_name(_STATUS)
    try:
        told: dict[str, Any] = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return None
    return told if time.time() - told["at"] < _STATUS_HOLDS_S else None


def under_way() -> dict[str, dict[str, Any]]:
    """Return run → how far it is (``status``), of all runs and jobs that some process works on."""
    fresh = time.time() - _STATUS_HOLDS_S
    found = {}
    for place in paths.journals_folder().glob(f"*/{_STATUS}"):
        with suppress(OSError):
            if place.stat().st_mtime > fresh and is_running(place.parent.name):
                told = status(place.parent.name)
                if told is not None:
                    found[place.parent.name] = told
    return found


def ask_to_stop(run_id: str) -> None:
    """Ask a run of any process to stop; it does so within a second and keeps its finished trials."""
    access.require("run", f"stop {run_id}")
    (journal_path(run_id).parent / "stop").touch()


class interrupts:
    """Turns Ctrl-C and SIGTERM into a clean stop while the block runs; in another than the main thread, nothing."""

    def __init__(self, stop: Stop) -> None:
        self._stop = stop
        main = threading.current_thread() is threading.main_thread()
        self._signals = (signal.SIGINT, signal.SIGTERM) if main else ()

    def __enter__(self) -> None:
        loop = asyncio.get_running_loop()
        for number in self._signals:
            loop.add_signal_handler(number, self._stop.ask, "It was interrupted.")

    def __exit__(self, *_: object) -> None:
        loop = asyncio.get_running_loop()
        for number in self._signals:
            loop.remove_signal_handler(number)


@dataclass(frozen=True)
class Job(Generic[U]):
    """Work of one journal: ``do`` does a piece of it and returns the lines to keep, which end the piece.

    ``unit`` names a piece, the same whenever the job is taken up again; ``ours`` says which pieces in the journal are
    this job's. A new journal begins with ``header``. ``shared``: a grader's word holds in the whole job. ``folder``
    holds the journals, by default all of them; ``fold`` is called now and then to make the database follow. ``given``
    are replies of another run that hold in some of the pieces (``Memory.given``).
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
        path = journal_path(self.name, self.folder)
        memory = await asyncio.to_thread(Memory.of, path, self.ours)
        memory.given = self.given
        self.progress.spent_usd += memory.cost_usd if self.resumed else 0.0
        if memory.took.pieces <= self.progress.done:  # else it counts what is to be done in this go only
            self.progress.first += memory.took
        self._check_budget()
        async with Journal(path, self.header) as journal:
            replies = Replies(
                self.name,
                journal,
                memory,
                shared=self.shared,
                heard=_Heard(self),
                over=lambda: bool(self.stop.reason),
                left=self._left,
                at_once=self.options.calls_at_once,
                watched=False,
            )
            self.progress.replies = replies
            self.options.on_progress(self.progress)
            met = LEARNT.set(self.progress.learnt if self.options.concurrency is None else None)
            with interrupts(self.stop):
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

    async def _work(self, waiting: Iterator[U], replies: Replies) -> None:
        while self.stop.reason is None and (piece := next(waiting, None)) is not None:
            name = self.unit(piece)
            with replies.unit(name, self.listed(piece)) as unit:
                self.progress.begin(unit)
                try:
                    lines = await self.do(piece, unit)
                except Over:
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
                path = stop_file.with_name(_STATUS)
                now, replies = time.time(), self.progress.replies
                told = {
                    "at": now,
                    "done": self.progress.done,
                    "planned": self.progress.planned,
                    "done_here": self.progress.done_here,
                    "started_at": self.progress.started_at,
                    "calls": self.progress.calls,
                    "tokens": self.progress.tokens,
                    "cost_usd": self.progress.spent_usd + self.progress.cost_usd,
                    "tokens_a_second": self.progress.tokens_a_second(),
                    "waiting": [
                        [one.role, one.purpose, now - one.since]
                        for one in (islice(replies.air, _STATUS_LISTS) if replies else ())
                    ],
                    "under_way": {
                        name: unit.calls
                        for name, unit in (islice(replies.under_way.items(), _STATUS_LISTS) if replies else ())
                    },
                    "batch": self.progress.batches(),
                    "at_once": self.progress.at_once,
                    "words": self.progress.in_words(),
                    "forecast": self.progress.forecast,
                    "trouble": self.progress.trouble,
                }
                with suppress(OSError):
                    path.with_suffix(".new").write_bytes(orjson.dumps(told))
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

    def _check_budget(self) -> None:
        left = self._left()
        if left is not None and left <= 0:
            words = access.used_up() or f"The budget of ${self.options.budget_usd:.2f} is used up."
            self.stop.ask(words, at_once=False)


class _Heard:
    """Counts the calls of a job and ends it where it has to: no money, no hope, or a provider that is down."""

    def __init__(self, job: Job[U]) -> None:
        self._job, self._in_a_row = job, 0

    def __call__(self, call: CallRecord) -> None:
        job, error = self._job, call.error
        job.progress.note_call(call)
        job._check_budget()
        if error is None:
            self._in_a_row = 0
            return
        kind, _, words = error.partition(": ")
        self._in_a_row += kind not in _ABOUT_THE_REQUEST
        if kind == "auth" or (call.attempts == 0 and kind != "picture"):  # a picture breaks what is about its case only
            job.progress.hopeless = job.progress.hopeless or words
            job.stop.ask(words)
            raise Over
        if self._in_a_row >= GIVE_UP:
            job.stop.ask(f"The provider failed {GIVE_UP} times in a row ({words.rstrip('.')}).", at_once=False)


def carry_out(job: Job[U], pieces: Iterable[U], registry: Registry, store: Store) -> None:
    """Do a job of a database's from here to its end, with nobody else at it; the registry's models are closed then.

    The database follows, also where the job breaks off. Raises ``AnamnesisError`` where it is under way elsewhere.
    """
    options = job.options.with_batches(registry, job.progress)
    job = replace(job, folder=store.journals, options=options)

    async def main() -> None:
        async with registry, following(store) as follow:
            if job.progress.done >= job.progress.planned:
                return job.options.on_progress(job.progress)
            with running(job.name, job.folder) as stop_file:
                await replace(job, fold=follow).run(pieces, stop_file)

    try:
        asyncio.run(main())
    finally:
        fold(store)


@dataclass(frozen=True)
class Engine:
    """Runs the missing trials of one run: ``play`` gives the events of a trial, which depend on the framework.

    ``fold`` is called now and then to make the database follow.
    """

    header: RunHeader
    play: Callable[[Trial], AsyncIterator[Event]]
    concurrency: int | None = None
    budget_usd: float | None = None
    fold: Callable[[], Awaitable[object]] | None = None
    on_progress: Callable[[Progress], None] = lambda progress: None
    calls_at_once: int | None = None
    given: Given = field(default_factory=dict)

    async def run(
        self,
        missing: Sequence[Trial],
        planned: int,
        stop: Stop,
        stop_file: Path | None = None,
        progress: Progress | None = None,
    ) -> Progress:
        """Run the trials; return when all are done or ``stop`` was asked for. Finished trials are in the journal."""
        progress = progress or Progress(planned)
        progress.done = planned - len(missing)
        job = Job[Trial](
            self.header.run_id,
            lambda trial: trial.trial_id,
            lambda trial, unit: self._trial(trial, unit, progress),
            Options(self.concurrency, self.budget_usd, self.on_progress, self.calls_at_once),
            stop,
            progress,
            self.header,
            ours=lambda unit: not unit.startswith(REGRADING),
            shared=True,
            fold=self.fold,
            given=self.given,
        )
        await job.run(missing, stop_file)
        return progress

    async def _trial(self, trial: Trial, unit: Unit, progress: Progress) -> list[Line]:
        events = [event async for event in self.play(trial) if not isinstance(event, PASSING)]
        progress.note(events)
        return [
            TrialLine(
                run_id=self.header.run_id,
                trial_id=trial.trial_id,
                case_key=trial.case.case_key,
                trial=trial.number,
                seed=trial.seed,
                events=events,
                finished_at=time.time(),
                paid=frozenset(unit.paid),
            )
        ]
