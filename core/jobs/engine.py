"""The local engine: trials side by side on one asyncio loop, each journaled whole when it is finished.

Stopping it in any way (Ctrl-C, the stop file, kill -9) loses at most the trials that were under way.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from filelock import FileLock, Timeout

from core.errors import AnamnesisError
from core.events import PASSING, Answered, Called, Event, Failed, Graded
from core.frameworks.base import Trial
from core.journal import JournalWriter, RunHeader, TrialLine, journal_path

FOLD_EVERY_S = 3.0
"""Seconds between two folds of the journal into the database while a run goes on."""
_ASKED_AFTER_S = 0.5
"""Who only asks whether a run is under way holds its lock for a moment: it is waited for."""

log = logging.getLogger(__name__)


@dataclass
class Progress:
    """How far a run is: what was done before it was resumed counts as done too."""

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

    def note(self, events: Sequence[Event]) -> None:
        """Take a finished trial into account."""
        self.done += 1
        self.done_here += 1
        for event in events:
            if isinstance(event, Graded):
                self.verdicts[event.verdict] += 1
            elif isinstance(event, Answered) and event.reason:
                self.verdicts[event.reason] += 1
                if event.reason in ("provider_error", "refused"):
                    self.failures[event.detail] += 1
            elif isinstance(event, Failed) and event.where.startswith("grader"):
                self.failures[event.message] += 1

    def note_call(self, event: Called) -> None:
        """Take a call into account as soon as it is made, so that a budget holds within trials too."""
        self.calls += 1
        self.tokens += event.call.prompt_tokens + event.call.completion_tokens
        self.cost_usd += event.call.cost_usd or 0.0


@dataclass
class Stop:
    """Why a run stopped before it was complete; set by whoever wants it to stop."""

    reason: str | None = None

    def ask(self, reason: str) -> None:
        """Ask the run to stop; the first reason stands."""
        self.reason = self.reason or reason


@contextmanager
def running(run_id: str) -> Iterator[Path]:
    """Hold the run for this process, so that two never run it at once; yields the file that stops it."""
    folder = journal_path(run_id).parent
    folder.mkdir(parents=True, exist_ok=True)
    stop_file = folder / "stop"
    lock = FileLock(folder / "running.lock")
    try:
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
    path = journal_path(run_id).parent / "running.lock"
    if not path.exists():
        return False
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return True
    lock.release()
    return False


def ask_to_stop(run_id: str) -> None:
    """Ask a run of any process to stop; it does so within a second and keeps its finished trials."""
    (journal_path(run_id).parent / "stop").touch()


@dataclass(frozen=True)
class Engine:
    """Runs the missing trials of one run: ``play`` gives the events of a trial, which depend on the protocol.

    ``fold`` is called now and then to make the database follow.
    """

    header: RunHeader
    play: Callable[[Trial], AsyncIterator[Event]]
    concurrency: int = 16
    budget_usd: float | None = None
    fold: Callable[[], Awaitable[None]] | None = None
    on_progress: Callable[[Progress], None] = lambda progress: None

    async def run(self, missing: Sequence[Trial], planned: int, stop: Stop, stop_file: Path | None = None) -> Progress:
        """Run the trials; return when all are done or ``stop`` was asked for. Finished trials are in the journal."""
        progress = Progress(planned, done=planned - len(missing))
        waiting = iter(missing)
        with JournalWriter(journal_path(self.header.run_id)) as journal:
            workers = [
                asyncio.create_task(self._work(waiting, journal, progress, stop))
                for _ in range(max(1, min(self.concurrency, len(missing))))
            ]
            beside = [
                asyncio.create_task(self._watch(progress, stop, stop_file, workers)),
                asyncio.create_task(self._fold_now_and_then()),
            ]
            try:
                outcomes = await asyncio.gather(*workers, return_exceptions=True)
            finally:
                for task in [*beside, *workers]:
                    task.cancel()
                await asyncio.gather(*beside, return_exceptions=True)
        failures = [o for o in outcomes if isinstance(o, Exception)]
        if failures:
            raise failures[0]
        self.on_progress(progress)
        return progress

    async def _work(self, waiting: Iterator[Trial], journal: JournalWriter, progress: Progress, stop: Stop) -> None:
        for trial in waiting:
            if stop.reason is not None:
                return
            events = await self._trial(trial, progress, stop)
            if events is None:
                return
            journal.append(self._line(trial, events))
            progress.note(events)
            self.on_progress(progress)
            await asyncio.sleep(0)  # the reference cast never waits, and the others must get their turn

    async def _trial(self, trial: Trial, progress: Progress, stop: Stop) -> list[Event] | None:
        """Return the trial's events, or ``None`` where the whole run has to stop."""
        events: list[Event] = []
        async for event in self.play(trial):
            if isinstance(event, PASSING):
                continue
            events.append(event)
            if isinstance(event, Called):
                progress.note_call(event)
                reason = fatal(event)
                if reason is not None:
                    stop.ask(reason)
                    return None
                if self.budget_usd is not None and progress.cost_usd >= self.budget_usd:
                    stop.ask(f"The budget of ${self.budget_usd:.2f} is used up.")
        return events

    def _line(self, trial: Trial, events: list[Event]) -> TrialLine:
        return TrialLine(
            run_id=self.header.run_id,
            trial_id=trial.trial_id,
            case_key=trial.case.case_key,
            trial=trial.number,
            seed=trial.seed,
            events=events,
            finished_at=time.time(),
        )

    async def _watch(
        self, progress: Progress, stop: Stop, stop_file: Path | None, workers: list[asyncio.Task[None]]
    ) -> None:
        """Show the progress, and cancel what is under way once a stop is asked for."""
        while True:
            await asyncio.sleep(0.2)
            if stop_file is not None and stop_file.exists():
                stop.ask("It was asked to stop.")
            if stop.reason is not None:
                for worker in workers:
                    worker.cancel()
                return
            self.on_progress(progress)

    async def _fold_now_and_then(self) -> None:
        """Make the database follow. Where it cannot, the run goes on: the journal is what counts."""
        while self.fold is not None:
            await asyncio.sleep(FOLD_EVERY_S)
            try:
                await self.fold()
            except Exception as error:
                log.info("The database does not follow for now: %s", error)


def fatal(called: Called) -> str | None:
    """Return why no call of this model can ever succeed (a wrong key, a server that cannot be started), if so.

    A picture that is gone breaks the trials of its own case only.
    """
    error = called.call.error
    if error is None or error.startswith("picture:") or not (error.startswith("auth:") or called.call.attempts == 0):
        return None
    return error.partition(": ")[2]
