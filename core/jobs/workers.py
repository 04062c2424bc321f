"""Plays the trials of a run in several worker processes, with one journal, budget and progress: the driver's.

A worker keeps nothing. Each reply goes to the driver as it arrives and is acted on once it is journaled there, so that
a worker that dies costs the calls that it had in the air: its trials are played again elsewhere, from their replies.
Trials of a case go to the same worker, as far as the load allows, so that what a grader said of it is not asked twice;
what one was told the others learn with their next trial. How worker and driver reach each other is a ``Pipe``: of
processes on this machine here, of a Ray cluster in ``core.jobs.cluster``.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import socket
import sys
import time
from asyncio import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, cast

from core import __version__, paths
from core.asking.memory import Asked, Over, Remembered, Replies, Unit, unit_at_work
from core.errors import AnamnesisError, UsageError
from core.events import PASSING, Called, CallRecord, Event
from core.frameworks.base import Campaign, Trial
from core.jobs.plan import branch_of, campaign_of, check_pictures, models_of, trials_of
from core.jobs.run import Play, Players, player_of
from core.jobs.wire import Lost, Pipe, Stream, Wire
from core.journal import Line, ReplyLine, RunHeader
from core.models.keys import environment
from core.models.limits import LEARNT, Concurrency
from core.models.registry import Registry
from core.models.tickets import Ask, Places, Tickets, hold_elsewhere

_REPORTS_EVERY_S = 1.0
_ENDS_WITHIN_S = 5.0
_BEGIN_WITHIN_S = 30.0
"""So long all workers are waited for; the others join those that are there by then."""
_LOST_AT_MOST = 3
"""So often a trial is given to another worker: more often, it may well be what the workers die of."""
_ROOM = 1.5
"""So many times its share of the trials under way a worker takes of cases that it knows."""

log = logging.getLogger(__name__)


# in the worker


@dataclass(frozen=True)
class _Played:
    """What came of a trial: its events, with the ids only of calls that were ``paid`` and are journaled."""

    events: Sequence[Event]
    paid: frozenset[str]
    unused: frozenset[str]
    remembered: int


class _Calls(Replies):
    """The calls of a worker, for which the driver has the money."""

    def __init__(self, run_id: str, station: Station, wire: Wire, **more: Any) -> None:
        super().__init__(run_id, cast(Any, station), **more)  # all that is asked of a journal is to append
        self._wire = wire

    async def afford(self, asked: Asked, most_usd: float) -> None:
        await self._wire.ask("afford", asked.unit.unit_id, asked.key, asked.number, most_usd)

    def charge(self, call: CallRecord) -> None:
        """Leave it to the driver, which keeps the call."""

    def free(self, asked: Asked) -> None:
        if self.left() is not None:
            self._wire.ask("free", asked.unit.unit_id, asked.key, asked.number)


class Station:
    """What stands in a worker: plays trials of one run, and has the driver keep every reply.

    ``tickets`` is who hands out places under the providers' limits; by default the driver.
    """

    def __init__(self, pipe: Pipe, tickets: Ask | None = None) -> None:
        self._wire = Wire(pipe, self)
        self._tickets = tickets or self._wire.ask
        self._over, self._left = False, cast(float | None, None)
        self._open = AsyncExitStack()

    async def serve(self) -> None:
        """Work until the driver is gone."""
        async with self._open:
            await self._wire.serve()

    async def open(self, header: RunHeader, registry: Registry, version: str) -> None:
        """Open the cast; raises ``UsageError`` where a key or a prompt is not the same here, or a picture lacks."""
        if version != __version__:
            raise UsageError(f"{socket.gethostname()} has Anamnesis {__version__}, not {version}: bring them together.")
        hold_elsewhere(self._tickets, self._wire.ask)
        await self._open.enter_async_context(registry)
        campaign = campaign_of(header)
        check_pictures(campaign, registry)
        self._play = player_of(campaign, registry, branch=branch_of(header))
        self._trials = {trial.trial_id: trial for trial in trials_of(header)}
        self._replies = _Calls(
            header.run_id,
            self,
            self._wire,
            shared=True,
            over=lambda: self._over,
            left=lambda: self._left,
            watched=False,
        )
        reports = asyncio.create_task(self._report())
        self._open.callback(reports.cancel)

    async def append(self, *lines: Line) -> None:
        """Have the driver keep lines; they are on its disk when this returns."""
        for line in lines:
            await self._wire.ask("keep", line)

    async def play(
        self,
        trial_id: str,
        known: dict[str, list[Remembered]],
        said: list[tuple[str, CallRecord]],
        learns: bool,
        left: float | None,
    ) -> _Played:
        """Play a trial with the replies that are ``known``; ``said`` is what graders said elsewhere meanwhile.

        ``learns``: how much is in the air is left to the providers. ``left``: there is a budget.
        """
        self._left = left
        LEARNT.set(set() if learns else None)
        memory = self._replies.memory
        for key, call in said:
            memory.others.setdefault(key, []).append(Remembered(call))
        for reply in chain.from_iterable(known.values()):
            reply.used = False
        memory.units[trial_id] = known
        with self._replies.unit(trial_id) as unit:
            events = [event async for event in self._play(self._trials[trial_id]) if not isinstance(event, PASSING)]
        for number, event in enumerate(events):
            if isinstance(event, Called) and event.call.call_id in unit.paid:
                call = event.call
                bare = CallRecord(call_id=call.call_id, role=call.role, purpose=call.purpose, model=call.model)
                events[number] = Called(call=bare)
        unused = frozenset(one.call.call_id for one in chain.from_iterable(known.values()) if not one.used)
        return _Played(events, frozenset(unit.paid), unused, unit.remembered)

    async def over(self) -> None:
        """Ask for nothing more."""
        self._over = True

    async def _report(self) -> None:
        while True:
            await asyncio.sleep(_REPORTS_EVERY_S)
            now, replies = time.time(), self._replies
            air = [(one.unit.unit_id, one.role, one.purpose, now - one.since) for one in replies.air]
            self._wire.ask("far", air, {name: unit.calls for name, unit in replies.under_way.items()})


# at the driver

Hired = tuple[Pipe, Callable[[], Awaitable[None]]]
"""The way to a worker that was started, and what ends it."""


@dataclass(eq=False)
class _Worker:
    """A worker as the driver sees it, and what the worker asks of the driver."""

    crew: Crew
    end: Callable[[], Awaitable[None]]
    units: dict[str, Unit] = field(default_factory=dict)
    air: list[Asked] = field(default_factory=list)
    afforded: dict[tuple[str, str, int], Asked] = field(default_factory=dict)
    """Calls for which money of the budget is kept back."""
    told: int = 0
    """How much of what graders said it knows."""
    played: int = 0

    def __post_init__(self) -> None:
        self.places = Places(lambda: self.crew.learnt)

    async def keep(self, line: ReplyLine) -> None:
        """Journal a reply, and remember it for the case that the worker dies. Raises ``Over`` as the job does."""
        unit, call = self.units[line.unit], line.call
        asked = self.afforded.pop((line.unit, line.key, line.number), None) or _asked(unit, line.key, line.number)
        asked.place = line.place
        try:
            await asked.keep(call)
        finally:
            if call.error is None:
                unit.known.setdefault(line.key, []).append(Remembered(call, used=True))
                if call.role == "grader":
                    self.crew.said.append((self, line.key, call.model_copy(update={"request": {}, "parts": ()})))
            if unit.replies.over():
                self.crew.end_all()

    async def afford(self, name: str, key: str, number: int, most_usd: float) -> None:
        """Wait until the budget has what a call may cost at most."""
        self.afforded[name, key, number] = asked = _asked(self.units[name], key, number)
        await asked.unit.replies.afford(asked, most_usd)

    async def free(self, name: str, key: str, number: int) -> None:
        """Give the money back for a call that was not made."""
        if (asked := self.afforded.pop((name, key, number), None)) is not None:
            asked.unit.replies.free(asked)

    async def far(self, air: list[tuple[str, str, Any, float]], calls: Mapping[str, int]) -> None:
        """Take note of what is in the air there, and of how many calls each trial has made."""
        now = time.time()
        for name, count in calls.items():
            if name in self.units:
                self.units[name].asked = Counter({"": count})
        self.air = [
            Asked(self.units[name], role, purpose, "", 0, 0, None, False, now - age)
            for name, role, purpose, age in air
            if name in self.units
        ]
        self.crew.show_air()


def _asked(unit: Unit, key: str, number: int) -> Asked:
    return Asked(unit, "", "dialogue", key, number, 0, None, False)


class Crew:
    """The workers of one run. ``hire`` starts one; one that ends is replaced, unless it never finished a trial."""

    def __init__(
        self, header: RunHeader, registry: Registry, hire: Callable[[], Awaitable[Hired]], workers: int
    ) -> None:
        self._header, self._registry, self._hire, self._size = header, registry, hire, workers
        self._workers: dict[_Worker, Wire] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._begun = asyncio.Condition()
        self._coming = 0
        self._owner: dict[str, _Worker] = {}
        self._tickets = Tickets()
        self._replies: Replies | None = None
        self.learnt: set[Concurrency] | None = None
        self.said: list[tuple[_Worker | None, str, CallRecord]] = []
        """What graders said, in order, and to which worker."""

    async def __aenter__(self) -> Play:
        """Begin with whoever is there; raises what keeps a worker from beginning, and goes on waiting for the first."""
        if self._registry.batch:
            raise UsageError("What goes in batches is asked by one process: leave --workers and --engine out.")
        starting = {self._begin() for _ in range(self._size)}
        try:
            while starting and not self._workers:
                done, starting = await asyncio.wait(
                    starting, timeout=_BEGIN_WITHIN_S, return_when=asyncio.FIRST_EXCEPTION
                )
                for task in done:
                    task.result()
                if not done:
                    log.warning("No worker could be started yet: there may be no room for one.")
        except BaseException:
            await self.__aexit__()
            raise
        for task in starting:
            task.add_done_callback(_tell_of)
        return self.play

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, *(worker.end() for worker in self._workers), return_exceptions=True)
        self._workers.clear()

    async def play(self, trial: Trial) -> AsyncIterator[Event]:
        """Have a worker play a trial, another one where that is lost; yields the events at its end."""
        unit = unit_at_work()
        assert unit is not None, "workers play the trials of a job"
        if self._replies is None:
            self._replies, self.learnt = unit.replies, LEARNT.get()
            others = unit.replies.memory.others.items()
            self.said += [(None, key, one.call) for key, kept in others for one in kept]
        paid_before = list(chain.from_iterable(unit.known.values()))
        for _ in range(_LOST_AT_MOST):
            worker = await self._worker_for(trial.case.case_key)
            if unit.replies.over():
                raise Over
            said = [(key, call) for by, key, call in self.said[worker.told :] if by is not worker]
            worker.told = len(self.said)
            worker.units[unit.unit_id] = unit
            try:
                played: _Played = await self._workers[worker].ask(
                    "play", trial.trial_id, unit.known, said, self.learnt is not None, unit.replies.left()
                )
            except Lost:
                continue
            finally:
                del worker.units[unit.unit_id]
            worker.played += 1
            unit.paid.update(played.paid)
            unit.remembered = played.remembered
            for reply in chain.from_iterable(unit.known.values()):
                reply.used = reply.call.call_id not in played.unused
            for reply in paid_before:
                if reply.used:
                    unit.took.add(reply.call)
            for event in played.events:
                yield event
            return
        raise AnamnesisError(
            f"A trial of {trial.case.case_key} was lost {_LOST_AT_MOST} times with the worker that played it: see what "
            "the workers wrote, then resume the run with fewer of them; what was paid for is kept."
        )

    def end_all(self) -> None:
        """Have nothing more asked for."""
        for wire in self._workers.values():
            wire.ask("over")

    def show_air(self) -> None:
        """Show what all workers have in the air."""
        if self._replies is not None:
            air = chain.from_iterable(worker.air for worker in self._workers)
            self._replies.air.clear()
            self._replies.air.update(dict.fromkeys(sorted(air, key=lambda one: one.since)))

    async def _worker_for(self, case: str) -> _Worker:
        """Return the worker that knows a case, unless it has far more to do than others."""
        async with self._begun:
            await self._begun.wait_for(lambda: self._workers or not self._coming)
        if not self._workers:
            raise AnamnesisError("All workers of the run have died: see what they wrote, then resume it.")
        under_way = sum(len(worker.units) for worker in self._workers)
        room = math.ceil(_ROOM * (under_way + 1) / len(self._workers))
        owner = self._owner.get(case)
        if owner in self._workers and len(owner.units) < room:
            return owner
        chosen = min(self._workers, key=lambda worker: len(worker.units))
        if owner not in self._workers:
            self._owner[case] = chosen
        return chosen

    def _begin(self) -> asyncio.Task[None]:
        self._coming += 1
        self._tasks.add(task := asyncio.create_task(self._start()))
        return task

    async def _start(self) -> None:
        """Start a worker, which is then looked after until it ends."""
        try:
            pipe, end = await self._hire()
            worker = _Worker(self, end)
            wire = Wire(pipe, worker, worker.places, self._tickets)
            looked_after = asyncio.create_task(self._look_after(worker, wire))
            self._tasks.add(looked_after)
            try:
                await wire.ask("open", self._header, self._registry, __version__)
            except BaseException as error:
                looked_after.cancel()
                await end()
                if isinstance(error, Lost):
                    raise AnamnesisError("A worker ended before it could begin: see what it wrote.") from None
                raise
            self._workers[worker] = wire
        finally:
            self._coming -= 1
            async with self._begun:
                self._begun.notify_all()

    async def _look_after(self, worker: _Worker, wire: Wire) -> None:
        try:
            await wire.serve(finish="keep")
        except Exception:
            log.exception("What a worker said cannot be understood.")
        worker.places.leave_all()
        if self._workers.pop(worker, None) is None:
            return
        self.show_air()
        for asked in worker.afforded.values():
            asked.unit.replies.free(asked)
        log.warning("A worker died: %d trials are played again from their replies.", len(worker.units))
        if worker.played:
            self._begin().add_done_callback(_tell_of)
        await worker.end()


def _tell_of(start: asyncio.Task[None]) -> None:
    if not start.cancelled() and (error := start.exception()) is not None:
        log.warning("A worker could not be started: %s", error)


def in_processes(workers: int) -> Players:
    """Return what plays the trials of a run in so many processes of this machine."""

    @asynccontextmanager
    async def players(header: RunHeader, registry: Registry) -> AsyncIterator[Play]:
        if name := served_here(campaign_of(header), registry):
            raise UsageError(
                f"{name} is served on this machine by one process, which answers one call after the other: "
                "more workers would each load it again. Leave --workers out."
            )
        async with Crew(header, registry, _process, workers) as play:
            yield play

    return players


def served_here(campaign: Campaign, registry: Registry) -> str:
    """Name the first model of a campaign that a process of ours serves, beside whoever asks it; empty for none."""
    reached = {name: campaign.settings.address_of(seat) for seat, name in models_of(campaign).items()}
    return next((name for name, at in reached.items() if registry.spec(name, base_url=at).served_locally), "")


async def _process() -> Hired:
    """Start a worker on this machine; it ends with this process, however that does."""
    ours, theirs = socket.socketpair()
    with theirs:
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            f"from core.jobs.workers import main; main({theirs.fileno()})",
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is the driver's to act on
            env={
                **os.environ,
                **environment({}),
                "PYTHONPATH": os.pathsep.join(filter(None, [str(paths.ROOT), os.environ.get("PYTHONPATH")])),
            },
        )
    pipe = Stream(*await asyncio.open_unix_connection(sock=ours))

    async def end() -> None:
        pipe.close()
        try:
            async with asyncio.timeout(_ENDS_WITHIN_S):
                await child.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                child.kill()
            await child.wait()

    return pipe, end


def main(number: int) -> None:
    """Be a worker, at the socket of that number."""

    async def work() -> None:
        os.set_inheritable(number, False)
        await Station(Stream(*await asyncio.open_unix_connection(sock=socket.socket(fileno=number)))).serve()

    asyncio.run(work())
