"""Plays the trials of a run on a Ray cluster, with one journal, one budget and one set of limits.

A worker is an actor with one CPU, or with a GPU if it serves a local model. It plays trials on its own event
loop and stores nothing. Journal, budget and limits are those of the driver, the process that carries out the run: the
workers send it requests, and act on a model's reply once it is journaled. The driver takes these requests from one more
actor, so that no worker has to open a connection to the driver.

A node that is lost costs the calls that its workers had in flight. Their trials are played again by other workers, with
the journaled replies, and Ray restarts the workers as soon as there is room. Keys are in the environment of the nodes,
and in no message.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import importlib.util
import itertools
import logging
import math
import os
import socket
import traceback
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, cast

from pydantic import SecretStr

from core import __version__
from core.asking.memory import JobOver, PendingCall, ReplyCache, StoredReply, Unit, current_unit
from core.errors import AnamnesisError, UsageError
from core.events import PASSING, CallRecord, Event
from core.frameworks.base import Campaign, Trial
from core.jobs.plan import branch_of, campaign_of, check_pictures, models_of, trials_of
from core.jobs.run import Play, Players, player_of
from core.journal import Journal, JournalLine, ReplyLine, RunHeader
from core.models.failures import AttemptFailed, Failure
from core.models.keys import environment
from core.models.limits import LEARNT, REMOTE_LIMITER, Concurrency, RateLimiter, RateLimits, Ticket, shared_limiter
from core.models.registry import Registry

_NAMESPACE = "anamnesis"
_CONNECTS_WITHIN_S = 10.0
_START_WITHIN_S = 30.0
"""How long the driver waits for all workers; those that start later join the others."""
_CALLS_AT_ONCE = 100_000
"""The most calls of an actor's methods that may wait at once."""
_RETRY_S = 1.0
_DRIVER = 0
"""The driver's box; the workers' are numbered from 1."""
_RESTARTS = 20
_ATTEMPTS = 3
"""How many workers may be lost with a trial: after that, the trial itself may be what ends them."""
_ROOM = 1.5
"""A worker takes further trials of its cases up to this multiple of its share of all running trials."""

log = logging.getLogger(__name__)

Send = Callable[..., Awaitable[Any]]
"""Sends the driver a request (a method's name and arguments), and returns its response."""
LimiterKey = tuple[str, RateLimits, SecretStr | None, bool]
"""What ``shared_limiter`` takes; the key is a fingerprint of the real one."""


class Mailbox:
    """Where messages of the driver and the workers wait for each other; an actor on the driver's node."""

    def __init__(self) -> None:
        self._boxes: defaultdict[int, asyncio.Queue[Any]] = defaultdict(asyncio.Queue)

    async def put(self, box: int, messages: Sequence[Any]) -> None:
        for message in messages:
            self._boxes[box].put_nowait(message)

    async def take(self, box: int) -> list[Any]:
        messages = [await self._boxes[box].get()]
        while not self._boxes[box].empty():
            messages.append(self._boxes[box].get_nowait())
        return messages


class _Outbox:
    """Sends messages to a box: those of a moment in one call, which takes more time than the messages do."""

    def __init__(self, mailbox: Any, box: int) -> None:
        self._mailbox, self._box = mailbox, box
        self._messages: list[Any] = []
        self._sending: asyncio.Task[None] | None = None

    def send(self, message: Any) -> None:
        self._messages.append(message)
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send_all())

    async def _send_all(self) -> None:
        while self._messages:
            messages, self._messages = self._messages, []
            await self._mailbox.put.remote(self._box, messages)


# in a worker


class _RemoteLimiter(RateLimiter):
    """A limiter of the driver, as a worker sees it."""

    def __init__(self, send: Send, scope: str, allowed: RateLimits, key: SecretStr | None, adaptive: bool) -> None:
        super().__init__(allowed)
        fingerprint = SecretStr(hashlib.sha256(key.get_secret_value().encode()).hexdigest()[:16]) if key else None
        self._send, self._key = send, (scope, allowed, fingerprint, adaptive)
        self._pauses: set[asyncio.Task[Any]] = set()

    @asynccontextmanager
    async def request(self, tokens: int) -> AsyncIterator[Ticket]:
        number = await self._send("enter", self._key, tokens)
        ticket = Ticket(self, self._clock(), tokens)
        ended: Failure | asyncio.CancelledError | None = asyncio.CancelledError()
        try:
            yield ticket
            ended = None
        except AttemptFailed as failed:
            ended = failed.failure
            raise
        finally:
            await self._send("leave", number, ticket.tokens, ticket.written, ended)

    def pause(self, seconds: float) -> None:
        pause = asyncio.ensure_future(self._send("pause", self._key, seconds))
        self._pauses.add(pause)
        pause.add_done_callback(self._pauses.discard)

    def _charge(self, ticket: Ticket, tokens: int, requests: int) -> None:
        ticket.tokens = tokens


class _RemoteReplyCache(ReplyCache):
    """The replies of a worker, which the driver journals and pays for."""

    def __init__(self, run_id: str, send: Send) -> None:
        super().__init__(
            run_id,
            cast(Journal, self),  # ``append`` is all of a journal that is used
            shared=True,
            over=lambda: self.job_is_over,
            budget_left=lambda: self.left_usd,
            watched=False,
        )
        self._send = send
        self.job_is_over = False
        self.left_usd: float | None = None

    async def append(self, *lines: JournalLine) -> None:
        for line in lines:
            await self._send("keep", line)

    async def afford(self, call: PendingCall, most_usd: float) -> None:
        await self._send("afford", call.unit.unit_id, call.key, call.number, most_usd)

    def free(self, call: PendingCall) -> None:
        """Do nothing: the driver frees the money as it keeps the call, and at the end of the trial."""


@dataclass(frozen=True)
class Played:
    """A played trial. ``paid`` are the ids of its journaled calls; ``unused`` those that it did not ask for again."""

    events: Sequence[Event]
    paid: frozenset[str]
    unused: frozenset[str]
    remembered: int


class Worker:
    """Plays trials of one run; an actor."""

    def __init__(self) -> None:
        self._player: Play | None = None

    async def open(self, mailbox: Any, number: int, header: RunHeader, registry: Registry, version: str) -> None:
        """Open the cast; raise ``UsageError`` if a key, a prompt or a picture is missing on this node.

        ``number`` tells the driver which of its workers sends a request.
        """
        if version != __version__:
            raise UsageError(f"{socket.gethostname()} has Anamnesis {__version__}, not {version}: bring them together.")
        self._connect(mailbox, number)
        REMOTE_LIMITER.set(partial(_RemoteLimiter, self._send))
        campaign = campaign_of(header)
        check_pictures(campaign, registry)
        self._replies = _RemoteReplyCache(header.run_id, self._send)
        self._trials = {trial.trial_id: trial for trial in trials_of(header)}
        self._player = player_of(campaign, registry, branch=branch_of(header))

    async def play(
        self,
        trial_id: str,
        stored: dict[str, list[StoredReply]],
        graded: Sequence[tuple[str, CallRecord]],
        left_usd: float | None,
    ) -> Played | None:
        """Play a trial with its ``stored`` replies; return ``None`` if Ray has restarted the worker since its opening.

        ``graded`` are replies that graders gave to other workers since the last trial that was played here;
        ``left_usd`` is what is left of the budget, if there is one.
        """
        if self._player is None:
            return None
        REMOTE_LIMITER.set(partial(_RemoteLimiter, self._send))
        self._replies.left_usd = left_usd
        memory = self._replies.memory
        for key, call in graded:
            memory.others.setdefault(key, []).append(StoredReply(call))
        memory.units[trial_id] = stored
        with self._replies.unit(trial_id) as unit:
            events = [event async for event in self._player(self._trials[trial_id]) if not isinstance(event, PASSING)]
        unused = frozenset(reply.call.call_id for reply in chain.from_iterable(stored.values()) if not reply.used)
        return Played(events, frozenset(unit.paid), unused, unit.remembered)

    def _connect(self, mailbox: Any, number: int) -> None:
        self._number, self._outbox = number, _Outbox(mailbox, _DRIVER)
        self._requests, self._responses = itertools.count(), dict[int, asyncio.Future[Any]]()
        self._receiving = asyncio.create_task(self._receive(mailbox))

    async def _send(self, method: str, *arguments: Any) -> Any:
        number, response = next(self._requests), asyncio.get_running_loop().create_future()
        self._responses[number] = response
        self._outbox.send((self._number, number, method, arguments))
        result, error, self._replies.job_is_over = await response
        if error is not None:
            raise error
        return result

    async def _receive(self, mailbox: Any) -> None:
        while True:
            for number, response in await mailbox.take.remote(self._number):
                if not (waiting := self._responses.pop(number)).done():
                    waiting.set_result(response)


# in the driver


@dataclass(eq=False)
class _Opened:
    """A worker from the opening of its cast until it is lost, as the driver knows it."""

    actor: Any
    outbox: _Outbox
    lost: bool = False
    trials: set[str] = field(default_factory=set)
    graded: int = 0
    """How many of the replies of graders it was sent."""
    requests: dict[int, tuple[AbstractAsyncContextManager[Ticket], Ticket]] = field(default_factory=dict)
    """Its requests to providers, with their places under the limits."""


class Driver:
    """Gives trials to the workers, and answers their requests."""

    def __init__(self, ray: Any, header: RunHeader, registry: Registry, mailbox: Any, actors: Sequence[Any]) -> None:
        self._ray, self._header, self._registry = ray, header, registry
        self._mailbox, self._actors = mailbox, actors
        self._numbers = itertools.count(_DRIVER + 1)
        self._workers: dict[int, _Opened] = {}
        """Number → worker, also of those that are lost."""
        self._ready: list[_Opened] = []
        self._starting = 0
        self._changed = asyncio.Condition()
        self._owner: dict[str, _Opened] = {}
        """Case → the worker that plays its trials, so that no grader is asked twice about one answer."""
        self._units: dict[str, Unit] = {}
        self._affording: dict[tuple[str, str, int], PendingCall] = {}
        """Calls that money of the budget is kept back for."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._replies: ReplyCache | None = None
        self._learnt: set[Concurrency] | None = None
        self._graded: list[tuple[_Opened | None, str, CallRecord]] = []
        """Replies of graders, and which worker has each."""

    async def start(self) -> None:
        """Wait for the workers; raise what keeps any of them from starting."""
        self._run(self._take_requests())
        starting = {self._run(self._start(actor)) for actor in self._actors}
        while starting and not self._ready:
            done, starting = await asyncio.wait(starting, timeout=_START_WITHIN_S, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
            if not done:
                log.warning("No worker could be started yet: there may be no room for one.")
        for task in starting:
            task.add_done_callback(_log_failure)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for actor in (*self._actors, self._mailbox):
            self._ray.kill(actor)

    async def play(self, trial: Trial) -> AsyncIterator[Event]:
        """Have a worker play a trial, and another one if that is lost; yield its events at its end."""
        unit = current_unit()
        assert unit is not None, "workers play the trials of a job"
        if self._replies is None:
            self._replies, self._learnt = unit.replies, LEARNT.get()
            others = unit.replies.memory.others.items()
            self._graded += [(None, key, reply.call) for key, replies in others for reply in replies]
        paid_before = list(chain.from_iterable(unit.stored.values()))
        for _ in range(_ATTEMPTS):
            worker = await self._worker_for(trial.case.case_key)
            if unit.replies.over():
                raise JobOver
            played = await self._played(worker, trial.trial_id, unit)
            if played is None:
                continue
            unit.paid.update(played.paid)
            unit.remembered = played.remembered
            for reply in chain.from_iterable(unit.stored.values()):
                reply.used = reply.call.call_id not in played.unused
            for reply in paid_before:
                if reply.used:
                    unit.totals.add(reply.call)
            for event in played.events:
                yield event
            return
        raise AnamnesisError(
            f"A trial of {trial.case.case_key} was lost {_ATTEMPTS} times with the worker that played it: see what "
            "the workers wrote (`ray logs`), then resume the run; what was paid for is kept."
        )

    async def _played(self, worker: _Opened, trial_id: str, unit: Unit) -> Played | None:
        """Have a worker play a trial; return ``None`` if the worker is lost."""
        graded = [(key, call) for by, key, call in self._graded[worker.graded :] if by is not worker]
        worker.graded = len(self._graded)
        worker.trials.add(unit.unit_id)
        self._units[unit.unit_id] = unit
        unit.requested.clear()
        try:
            played: Played | None = await worker.actor.play.remote(
                trial_id, unit.stored, graded, unit.replies.budget_left()
            )
        except self._ray.exceptions.RayActorError:
            played = None
        except self._ray.exceptions.RayTaskError as error:
            raise _cause(error) from None
        finally:
            worker.trials.discard(unit.unit_id)
            del self._units[unit.unit_id]
            for key in [key for key in self._affording if key[0] == unit.unit_id]:
                unit.replies.free(self._affording.pop(key))
        if played is None:
            await self._restart(worker)
        return played

    async def _worker_for(self, case: str) -> _Opened:
        """Return the worker that plays a case, or the least busy one if that one is lost or has far more to do."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._ready or not self._starting)
        if not self._ready:
            raise AnamnesisError("All workers of the run are lost: see what they wrote (`ray logs`), then resume it.")
        share = (sum(len(worker.trials) for worker in self._ready) + 1) / len(self._ready)
        owner = self._owner.get(case)
        if owner in self._ready and len(owner.trials) < math.ceil(_ROOM * share):
            return owner
        least_busy = min(self._ready, key=lambda worker: len(worker.trials))
        if owner not in self._ready:
            self._owner[case] = least_busy
        return least_busy

    async def _start(self, actor: Any) -> None:
        self._starting += 1
        number = next(self._numbers)
        worker = self._workers[number] = _Opened(actor, _Outbox(self._mailbox, number))
        try:
            while worker not in self._ready:
                try:
                    await actor.open.remote(self._mailbox, number, self._header, self._registry, __version__)
                    self._ready.append(worker)
                except self._ray.exceptions.ActorUnavailableError:  # Ray is restarting it
                    await asyncio.sleep(_RETRY_S)
        except self._ray.exceptions.RayTaskError as error:
            raise _cause(error) from None
        finally:
            self._starting -= 1
            async with self._changed:
                self._changed.notify_all()

    async def _restart(self, worker: _Opened) -> None:
        if worker.lost:
            return
        worker.lost = True
        self._ready.remove(worker)
        log.warning("A worker is lost: its trials are played again from their replies.")
        self._ray.kill(worker.actor, no_restart=False)  # it may only be out of reach, and go on asking
        self._run(self._start(worker.actor)).add_done_callback(_log_failure)
        for request, _ in list(worker.requests.values()):
            await request.__aexit__(asyncio.CancelledError, asyncio.CancelledError(), None)

    def _run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _take_requests(self) -> None:
        try:
            while True:
                for request in await self._mailbox.take.remote(_DRIVER):
                    self._run(self._respond(*request))
        except self._ray.exceptions.RayActorError as error:  # without it all workers would wait for ever
            log.warning("The actor that passes the workers' requests on is lost: %s", error)
            for actor in self._actors:
                self._ray.kill(actor)

    async def _respond(self, sender: int, number: int, method: str, arguments: tuple[Any, ...]) -> None:
        worker = self._workers[sender]
        result, error = None, cast(Exception | None, None)
        try:
            result = await getattr(self, method)(worker, *arguments)
        except JobOver:
            error = JobOver()
        except AnamnesisError as fault:
            error = AnamnesisError(str(fault))
        except Exception:  # a fault of ours, to be raised where the trial is played
            error = RuntimeError(f"in the driver: {traceback.format_exc()}")
        over = self._replies is not None and self._replies.over()
        worker.outbox.send((number, (result, error, over)))

    # what workers request

    async def keep(self, worker: _Opened, line: ReplyLine) -> None:
        """Journal a reply, and remember it in case the worker is lost. Raises ``JobOver`` as the job does."""
        unit, call = self._units[line.unit], line.call
        pending = self._affording.pop((line.unit, line.key, line.number), None)
        pending = pending or _pending_call(unit, line.key, line.number)
        pending.place = line.place
        unit.requested[line.key] += 1
        try:
            await pending.keep(call)
        finally:
            if call.error is None:
                unit.stored.setdefault(line.key, []).append(StoredReply(call))
                if call.role == "grader":
                    self._graded.append((worker, line.key, call.model_copy(update={"request": {}, "parts": ()})))

    async def afford(self, worker: _Opened, unit_id: str, key: str, number: int, most_usd: float) -> None:
        self._affording[unit_id, key, number] = call = _pending_call(self._units[unit_id], key, number)
        await call.unit.replies.afford(call, most_usd)

    async def enter(self, worker: _Opened, key: LimiterKey, tokens: int) -> int:
        """Wait until a request of about ``tokens`` tokens may go out; return the number to leave with."""
        LEARNT.set(self._learnt)
        request, number = _limiter(key).request(tokens), next(self._numbers)
        worker.requests[number] = request, await request.__aenter__()
        if worker.lost:
            await self.leave(worker, number, 0, 0, asyncio.CancelledError())
        return number

    async def leave(
        self, worker: _Opened, number: int, tokens: int, written: int, ended: Failure | asyncio.CancelledError | None
    ) -> None:
        request, ticket = worker.requests.pop(number)
        ticket.correct(tokens, written)
        error = AttemptFailed(ended) if isinstance(ended, Failure) else ended
        await request.__aexit__(type(error) if error else None, error, None)

    async def pause(self, worker: _Opened, key: LimiterKey, seconds: float) -> None:
        _limiter(key).pause(seconds)


def _limiter(key: LimiterKey) -> RateLimiter:
    scope, allowed, fingerprint, adaptive = key
    return shared_limiter(scope, allowed, fingerprint, adaptive=adaptive)


def _pending_call(unit: Unit, key: str, number: int) -> PendingCall:
    return PendingCall(unit, "", "dialogue", key, number, 0, None, False)


def _cause(error: Any) -> Exception:
    """Return our own error that a worker raised, or Ray's, which says where a fault of ours is."""
    return error.cause if isinstance(error.cause, AnamnesisError | JobOver) else error


def _log_failure(start: asyncio.Task[None]) -> None:
    if not start.cancelled() and (error := start.exception()) is not None:
        log.warning("A worker could not be started: %s", error)


@contextmanager
def _connected(address: str | None) -> Iterator[Any]:
    """Connect to the cluster at ``address``, or to a new one of this machine; yield the module ``ray``."""
    ray = importlib.import_module("ray")
    if ray.is_initialized():
        yield ray
        return
    os.environ.update(environment({}))  # the workers of a cluster that is started here find the keys there
    where = {"address": address} if address else {"address": "local", "include_dashboard": False}
    try:
        if address and address != "auto":  # without a listener, Ray would try for many minutes
            host, _, port = address.rpartition(":")
            with socket.create_connection((host, int(port)), timeout=_CONNECTS_WITHIN_S):
                pass
        ray.init(**where, namespace=_NAMESPACE, configure_logging=False, logging_level=logging.ERROR)
    except (OSError, RuntimeError, ValueError) as error:
        raise AnamnesisError(
            f"There is no Ray cluster at {address or 'this machine'} ({str(error).splitlines()[0]}): give the "
            "host:port that `ray start --head` says, from a machine of the cluster."
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def on_ray(address: str | None) -> Players:
    """Return what plays the trials of a run on the cluster at ``address``, or on a new one of this machine.

    There is a worker for each CPU of the cluster, or for each GPU if a local model is served. Raises ``UsageError`` if
    Ray is not installed.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if importlib.util.find_spec("ray") is None:
        raise UsageError(
            "Ray is not installed: install it with `.venv/bin/python -m pip install -r requirements-ray.txt`, or leave "
            "--engine out."
        )

    @asynccontextmanager
    async def players(header: RunHeader, registry: Registry) -> AsyncIterator[Play]:
        if registry.batch:
            raise UsageError("What goes in batches is asked by one process: leave --engine out.")
        with _connected(address) as ray:
            driver = _driver(ray, header, registry)
            try:
                try:
                    await driver.start()
                except UsageError as error:
                    raise UsageError(f"On a node of the cluster, where `ray start` was run: {error}") from None
                yield driver.play
            finally:
                await driver.stop()

    return players


def _driver(ray: Any, header: RunHeader, registry: Registry) -> Driver:
    local = served_here(campaign_of(header), registry)
    kind = "GPU" if local else "CPU"
    size = int(ray.cluster_resources().get(kind, 0))
    if not size:
        served = f": {local} is served next to each worker, or by a separate server (--base-url)" if local else ""
        raise UsageError(f"The cluster has no {kind}, and each worker needs one{served}.")
    here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
        ray.get_runtime_context().get_node_id(), soft=False
    )
    mailbox = ray.remote(Mailbox).options(num_cpus=0, max_concurrency=_CALLS_AT_ONCE, scheduling_strategy=here).remote()
    worker = ray.remote(Worker).options(
        num_cpus=0 if local else 1,
        num_gpus=1 if local else 0,
        max_restarts=_RESTARTS,
        max_concurrency=_CALLS_AT_ONCE,
        scheduling_strategy="SPREAD",
    )
    return Driver(ray, header, registry, mailbox, [worker.remote() for _ in range(size)])


def served_here(campaign: Campaign, registry: Registry) -> str:
    """Return the first model of a campaign that this program serves next to the calling process; empty if none."""
    addresses = {name: campaign.settings.address_of(seat) for seat, name in models_of(campaign).items()}
    local = (name for name, address in addresses.items() if registry.spec(name, base_url=address).served_locally)
    return next(local, "")
