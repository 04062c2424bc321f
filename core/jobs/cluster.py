"""Plays the trials of a run on a Ray cluster: each worker plays whole cases with an engine of its own.

A worker is an actor with one CPU, or with a GPU if it serves a local model. It gets some cases with their journaled
replies, a part of the budget and a part of the limits per minute, plays the cases as one process would, and streams the
lines of its journal to the driver, the process that carries out the run. The driver stores them in the run's journal.
Money that a worker did not spend goes to the next cases.

A worker that is lost costs its calls in flight and the lines of the last moment. Its cases are played again by another
worker, from their journaled replies. Keys are in the environment of the nodes, and in no message.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import itertools
import logging
import math
import os
import shutil
import socket
import tempfile
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from core import __version__
from core.asking.memory import JobOver, ReplyCache, Unit
from core.errors import AnamnesisError, UsageError
from core.events import Called
from core.frameworks.base import Campaign, Trial
from core.jobs.engine import REGRADING, Engine, Options, run_trials
from core.jobs.plan import branch_of, campaign_of, check_pictures, models_of, trials_of
from core.jobs.progress import Progress, Stop
from core.jobs.run import Play, PlayTrials, player_of
from core.journal import JournalLine, JournalWriter, ReplyLine, RunHeader, TrialLine, journal_path, read_lines
from core.models.keys import environment
from core.models.registry import Registry

_CONNECTS_WITHIN_S = 10.0
_FOLDER = "anamnesis-worker-"
"""Prefix, with the number of its process, of the folder with the journal of a worker: the driver has all its lines."""
_EVERY_S = 0.05
"""Seconds between two looks: of a worker for new lines, of the driver for cases and money."""
_LAST_LINES_S = 5.0
"""How long the driver waits for the last lines of a worker that it stops at once."""
_LOSSES = 3
"""Workers that may be lost one after another, before their cases are finished: the cases may be what ends them."""

log = logging.getLogger(__name__)


class Worker:
    """Plays cases of one run; an actor."""

    def __init__(self, header: RunHeader, registry: Registry) -> None:
        self._header, self._registry = header, registry
        self._stop = Stop()
        self._play: Play | None = None

    async def open(self, version: str) -> None:
        """Open the cast; raise ``UsageError`` if a key, a prompt or a picture is missing on this node."""
        if version != __version__:
            raise UsageError(f"{socket.gethostname()} has Anamnesis {__version__}, not {version}: bring them together.")
        for left in Path(tempfile.gettempdir()).glob(f"{_FOLDER}*"):  # of workers that were killed
            pid = left.name.removeprefix(_FOLDER).partition("-")[0]
            if pid.isdecimal() and not psutil.pid_exists(int(pid)):
                shutil.rmtree(left, ignore_errors=True)
        campaign = campaign_of(self._header)
        check_pictures(campaign, self._registry)
        self._trials = {trial.trial_id: trial for trial in trials_of(self._header)}
        self._play = player_of(campaign, self._registry, branch=branch_of(self._header))

    async def play(
        self, trial_ids: Sequence[str], stored: Sequence[ReplyLine], concurrency: int | None, budget_usd: float | None
    ) -> AsyncIterator[list[JournalLine] | str]:
        """Play trials from their ``stored`` replies; yield new lines as they come, at the end why they stopped.

        The reason is empty if the trials are done or the budget is used up.
        """
        assert self._play is not None, "the cast is open"
        self._stop, progress = Stop(), Progress(len(trial_ids))
        trials = [self._trials[trial_id] for trial_id in trial_ids]
        with TemporaryDirectory(prefix=f"{_FOLDER}{os.getpid()}-") as folder:
            path = journal_path(self._header.run_id, Path(folder))
            with JournalWriter(path) as journal:
                journal.append_all([self._header, *stored])
            end, over = path.stat().st_size, False
            if budget_usd is not None:  # the engine counts the replies in the journal as spent
                budget_usd += sum(line.call.cost_usd or 0.0 for line in stored)
            options = Options(concurrency, budget_usd)
            playing = asyncio.create_task(
                run_trials(self._header, self._play, trials, progress, self._stop, options=options, folder=Path(folder))
            )
            while not over:
                over = bool((await asyncio.wait([playing], timeout=_EVERY_S))[0])
                lines = []
                for end, line in read_lines(path, end, whole=False):  # noqa: B020, B007
                    lines.append(line)
                if lines:
                    yield lines
            playing.result()
            used_up = budget_usd is not None and progress.spent_usd + progress.cost_usd >= budget_usd
            yield "" if used_up else self._stop.reason or ""

    async def stop(self, reason: str, at_once: bool) -> None:
        self._stop.ask(reason, at_once=at_once)


@dataclass
class _Case:
    """The missing trials of a case, and the replies that the journal has for its trials."""

    missing: dict[str, Trial] = field(default_factory=dict)
    stored: list[ReplyLine] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class _Driver(Engine[Trial]):
    """The engine whose pieces are played by workers: each of its tasks has one worker."""

    do: Any = field(init=False, repr=False)
    ray: Any = field(kw_only=True)
    make_worker: Callable[[], Any] = field(kw_only=True)
    workers: int = field(kw_only=True)
    concurrency: int | None = field(kw_only=True)
    """Trials that each worker plays at once."""
    cases: dict[str, _Case] = field(kw_only=True)
    """The unfinished cases."""
    case_of: dict[str, str] = field(kw_only=True)
    """Trial → case."""
    waiting: deque[str] = field(kw_only=True)
    """Unfinished cases that no worker plays."""
    parts: dict[Any, float] = field(default_factory=dict)
    """Worker that plays → what is left of its part of the budget in US dollars; 0 without a budget."""

    async def _work(self, waiting: Iterator[Trial], replies: ReplyCache) -> None:
        """Play cases with one worker, and with another one if it is lost, until none is left."""
        lost = 0
        while self.stop.reason is None and self.cases:
            worker = self.make_worker()
            try:
                opened = worker.open.remote(__version__)
                while not self.ray.wait([opened], timeout=0)[0]:  # there may be no room for it before the run ends
                    if self.stop.reason is not None or not self.cases:
                        return
                    await asyncio.sleep(_EVERY_S)
                await opened
                while (given := await self._next_cases()) is not None:
                    await self._play(worker, *given, replies)
                    lost = 0
            except (self.ray.exceptions.RayActorError, self.ray.exceptions.ObjectLostError) as error:
                lost += 1
                log.warning("A worker is lost: its cases are played again from their replies.")
                if lost == _LOSSES:
                    raise AnamnesisError(
                        f"{_LOSSES} workers were lost one after another ({str(error).splitlines()[0]}): see what they "
                        "wrote (`ray logs`), then resume the run; what is stored is not paid for again."
                    ) from None
            except self.ray.exceptions.RayTaskError as error:
                if isinstance(error.cause, UsageError):
                    where = "On a node of the cluster, where `ray start` was run"
                    raise UsageError(f"{where}: {error.cause}") from None
                raise (error.cause if isinstance(error.cause, AnamnesisError) else error) from None
            finally:
                self.ray.kill(worker)

    async def _next_cases(self) -> tuple[list[str], float | None] | None:
        """Wait for cases and money; return some cases with a part of the budget, or ``None`` at the end of the run.

        A worker gets fewer cases from time to time, so that all of them end at about the same time.
        """
        while self.stop.reason is None and self.cases:
            left, idle = self._left(), self.workers - len(self.parts)
            free = None if left is None else left - sum(self.parts.values())
            if self.waiting and (free is None or free > 0):
                size = math.ceil(len(self.waiting) / (2 * self.workers))
                return [self.waiting.popleft() for _ in range(size)], None if free is None else free / idle
            await asyncio.sleep(_EVERY_S)
        return None

    async def _play(self, worker: Any, cases: list[str], part_usd: float | None, replies: ReplyCache) -> None:
        """Have a worker play cases; those that it does not finish wait for the next worker."""
        self.parts[worker] = part_usd or 0.0
        trials = [trial_id for case in cases for trial_id in self.cases[case].missing]
        stored = [line for case in cases for line in self.cases[case].stored]
        lines = worker.play.options(num_returns="streaming").remote(trials, stored, self.concurrency, part_usd)
        storing = asyncio.create_task(self._store(lines, worker, replies))
        try:
            await asyncio.shield(storing)
        except asyncio.CancelledError:
            worker.stop.remote(self.stop.reason or "", True)
            await asyncio.wait([storing], timeout=_LAST_LINES_S)
            raise
        finally:
            del self.parts[worker]
            self.waiting.extend(case for case in cases if case in self.cases)

    async def _store(self, stream: AsyncIterator[Any], worker: Any, replies: ReplyCache) -> None:
        async for item in stream:
            lines = await item
            if isinstance(lines, str):
                if lines:
                    self.stop.ask(lines, at_once=False)
                continue
            await replies.journal.append(*lines)
            for line in lines:
                if isinstance(line, ReplyLine):
                    self.parts[worker] = max(0.0, self.parts[worker] - (line.call.cost_usd or 0.0))
                self._count_line(line, replies)
            self.options.on_progress(self.progress)
            if self.stop.reason is not None:
                worker.stop.remote(self.stop.reason, self.stop.at_once)

    def _count_line(self, line: JournalLine, replies: ReplyCache) -> None:
        match line:
            case ReplyLine():
                self.cases[self.case_of[line.unit]].stored.append(line)
                unit = self._unit(line.unit, replies)
                unit.requested[line.key] += 1
                with suppress(JobOver):  # the stop is asked for
                    unit.count(line.call)
            case TrialLine():
                unit = self._unit(line.trial_id, replies)
                called = {event.call.call_id for event in line.events if isinstance(event, Called)}
                for reply in itertools.chain.from_iterable(unit.stored.values()):
                    reply.used = reply.call.call_id in called
                    unit.remembered += reply.used
                    unit.totals.add(reply.call)
                self.progress.note(line.events)
                self._count(unit)
                del replies.running[line.trial_id], self.cases[line.case_key].missing[line.trial_id]
                if not self.cases[line.case_key].missing:
                    del self.cases[line.case_key]

    def _unit(self, trial_id: str, replies: ReplyCache) -> Unit:
        """Return the unit of a trial, which begins with its first line."""
        if trial_id not in replies.running:
            replies.running[trial_id] = unit = Unit(replies, trial_id, trial_id)
            self.progress.begin(unit)
        return replies.running[trial_id]


@contextmanager
def _connected(address: str | None) -> Iterator[Any]:
    """Connect to the cluster at ``address``, or to a new one of this machine; yield the module ``ray``.

    Ray gives a new cluster a token, without which no other process can use it.
    """
    ray = importlib.import_module("ray")
    os.environ.update(environment({}))  # the workers of a cluster that is started here find the keys there
    own = {"address": "local", "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
    try:
        if address and address != "auto":  # without a listener, Ray would try for many minutes
            host, _, port = address.rpartition(":")
            with socket.create_connection((host, int(port)), timeout=_CONNECTS_WITHIN_S):
                pass
        ray.init(**({"address": address} if address else own), configure_logging=False, logging_level=logging.ERROR)
    except (OSError, RuntimeError, ValueError) as error:
        raise AnamnesisError(
            f"There is no Ray cluster at {address or 'this machine'} ({str(error).splitlines()[0]}): give the "
            "host:port that `ray start --head` says, from a machine of the cluster."
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def on_ray(address: str | None) -> PlayTrials:
    """Return what plays the trials of a run on the cluster at ``address``, or on a new one of this machine.

    There is a worker for each CPU of the cluster, or for each GPU if a local model is served, but at most one for each
    case, each concurrent trial and each request per minute. Raises ``UsageError`` if Ray is not installed.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if importlib.util.find_spec("ray") is None:
        raise UsageError(
            "Ray is not installed: install it with `.venv/bin/python -m pip install -r requirements-ray.txt`, or leave "
            "--engine out."
        )

    async def play_trials(
        header: RunHeader,
        registry: Registry,
        missing: Sequence[Trial],
        progress: Progress,
        stop: Stop,
        stop_file: Path,
        options: Options,
        fold: Callable[[], Awaitable[object]],
    ) -> None:
        if registry.batch:
            raise UsageError("What goes in batches is asked by one process: leave --engine out.")
        with _connected(address) as ray:
            cases: dict[str, _Case] = {}
            for trial in missing:
                cases.setdefault(trial.case.case_key, _Case()).missing[trial.trial_id] = trial
            of_run = {trial.trial_id: trial.case.case_key for trial in trials_of(header)}
            for _, line in read_lines(journal_path(header.run_id)):
                if isinstance(line, ReplyLine) and (case := cases.get(of_run.get(line.unit, ""))):
                    case.stored.append(line)
            local, limits = _needs(campaign_of(header), registry)
            kind = "GPU" if local else "CPU"
            units = int(ray.cluster_resources().get(kind, 0))
            if not units:
                served = f": {local} is served next to each worker, or by a separate server (--base-url)"
                raise UsageError(f"The cluster has no {kind}, and each worker needs one{served if local else ''}.")
            workers = min(units, len(cases), options.concurrency or units, *limits)
            what = ray.put(header), registry.part(workers)
            actor = ray.remote(Worker).options(
                num_cpus=not local, num_gpus=bool(local), max_concurrency=1000, scheduling_strategy="SPREAD"
            )
            progress.done = progress.planned - len(missing)
            driver = _Driver(
                header.run_id,
                lambda trial: trial.trial_id,
                options=replace(options, concurrency=workers),
                stop=stop,
                progress=progress,
                header=header,
                owns_unit=lambda unit: not unit.startswith(REGRADING),
                fold=fold,
                ray=ray,
                make_worker=lambda: actor.remote(*what),
                workers=workers,
                concurrency=options.concurrency and options.concurrency // workers,
                cases=cases,
                case_of=of_run,
                waiting=deque(cases),
            )
            await driver.run(missing, stop_file)

    return play_trials


def _needs(campaign: Campaign, registry: Registry) -> tuple[str, list[int]]:
    """Return the first model that this program serves next to the calling process, else "", and all limits of requests.

    The limits are those per minute.
    """
    addresses = {name: campaign.settings.address_of(seat) for seat, name in models_of(campaign).items()}
    specs = [registry.spec(name, base_url=address) for name, address in addresses.items()]
    local = next((spec.name for spec in specs if spec.served_locally), "")
    return local, [spec.limits.requests_per_minute for spec in specs if spec.limits.requests_per_minute]
