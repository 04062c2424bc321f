"""Limits of a provider: set limits of requests and tokens a minute, and a learnt limit of concurrent requests.

First come, first served. A plain lock guards the state, so that one limiter serves all event loops and threads of the
process. Tokens are charged by estimate before a call and corrected after it.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Literal

from pydantic import Field, SecretStr

from core.models.base import TomlTable
from core.models.failures import AttemptFailed

WINDOW_S = 60.0
START, LEAST, MOST = 20, 10, 512
"""Concurrent requests: at the start, the minimum after rate limits, and the maximum."""
COOLDOWN_S = 1.0
"""Seconds after a rate limit in which further ones are ignored, unless the provider names a time."""
_DOUBLE, _STEADY, _SLOW = 1.0, 0.05, 0.01
"""Growth of the limit in a round: until it stops paying, normally, and after a fault of the provider."""
_SLOW_ROUNDS = 10
_PAYS = 1.25
"""Factor by which text per second must grow after the limit was doubled; otherwise requests wait at the provider."""
_TRIES = 3
"""Rounds without that growth before the doubling ends: a single round may just have had longer prompts."""
_FAULTS = ("server", "timeout", "connection")

log = logging.getLogger(__name__)

Clock = Callable[[], float]
Sleep = Callable[[float], Awaitable[object]]


class RateLimits(TomlTable):
    """A provider's limits in a minute; ``None`` means no limit."""

    requests_per_minute: int | None = Field(None, ge=1)
    tokens_per_minute: int | None = Field(None, ge=1)

    def part(self, parts: int) -> RateLimits:
        """Return the limits of one of ``parts`` processes, at least 1 of each."""
        limits = {name: limit and max(1, limit // parts) for name, limit in self}
        return RateLimits(**limits)


RequestOutcome = Literal["reply", "limited", "fault", "none"]
"""The outcome of a request: a reply of any kind, a rate limit, a fault of the provider, or none (given up)."""


class Concurrency:
    """The adaptive limit of concurrent requests to a provider.

    A round is as many replies as the limit. After a round without faults in which all places were taken, the limit is
    doubled, as long as that brings more text a second; when it no longer does, a round adds 1 %. The first rate limit
    ends the doubling too: it reduces the limit by a fifth, and from then on a round without faults adds 5 %, or 1 % in
    the ten rounds after a fault of the provider.
    """

    def __init__(self, name: str = "", *, clock: Clock = time.monotonic) -> None:
        self.name = name
        self.throttled = False
        """Whether requests of this round waited for another limit, so that a higher limit here would not help."""
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._in_flight = 0
        self._exact, self._lowest = float(START), math.inf
        self._step, self._slow_rounds, self._speed, self._unpaid = _DOUBLE, 0.0, 0.0, 0
        self._quiet_until = -math.inf
        self._begin_round(clock())

    @property
    def limit(self) -> int:
        return int(self._exact)

    async def acquire(self) -> None:
        """Wait for a place; the caller must give it back with ``release``."""
        with self._lock:
            if self._in_flight < self.limit and not self._waiting:
                return self._take()
            self._full = True
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
        try:
            await turn
        except BaseException:
            with self._lock, suppress(ValueError):
                self._waiting.remove(turn)
                raise
            self.release("none")  # the place was assigned before the cancellation
            raise

    def release(self, outcome: RequestOutcome, *, tokens: int = 0, rest_s: float | None = None) -> None:
        """Give a place back; ``tokens`` is the length of the reply, ``rest_s`` the pause that a rate limit asks for."""
        with self._lock:
            self._in_flight -= 1
            now = self._clock()
            if outcome == "limited":
                self._clean, self._step = False, _STEADY
                if now >= self._quiet_until:
                    self._shrink(now, rest_s or COOLDOWN_S)
            elif outcome != "none":
                if outcome == "fault":
                    self._clean, self._step = False, _STEADY
                    self._slow_rounds = max(self._slow_rounds, _SLOW_ROUNDS)
                self._replies += 1
                self._tokens += tokens
                if self._replies >= self.limit:
                    self._end_round(now)
            while self._waiting and self._in_flight < self.limit:
                turn = self._waiting.popleft()
                with suppress(RuntimeError):  # the event loop of the waiting caller is closed
                    turn.get_loop().call_soon_threadsafe(_let_in, turn)
                    self._take()

    def _take(self) -> None:
        self._in_flight += 1
        self._full = self._full or self._in_flight >= self.limit

    def _shrink(self, now: float, rest_s: float) -> None:
        before, self._exact = self.limit, max(LEAST, 0.8 * self._exact)
        self._quiet_until = now + rest_s
        self._begin_round(now)
        level = logging.WARNING if self._exact < self._lowest else logging.INFO
        self._lowest = min(self._lowest, self._exact)
        log.log(
            level, "%s refused to take more (429) of %d calls at once: %d from here.", self.name, before, self.limit
        )

    def _end_round(self, now: float) -> None:
        speed = self._tokens / max(now - self._began, 1e-9)
        if self._clean and self._full and not self.throttled and now >= self._quiet_until:
            if self._step == _DOUBLE and speed < _PAYS * self._speed:
                self._unpaid += 1
                if self._unpaid == _TRIES:
                    self._step, self._slow_rounds = _STEADY, math.inf
            else:
                self._exact = min(MOST, self._exact * (1 + (_SLOW if self._slow_rounds > 0 else self._step)))
                self._slow_rounds, self._speed, self._unpaid = self._slow_rounds - 1, speed, 0
        self._begin_round(now)

    def _begin_round(self, now: float) -> None:
        self._began, self._replies, self._tokens = now, 0, 0
        self._clean, self._full, self.throttled = True, False, False


def _let_in(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_result(None)


LEARNT: ContextVar[set[Concurrency] | None] = ContextVar("learnt", default=None)
"""In a job with adaptive concurrency the limits of the providers that it has called; otherwise ``None``."""


@dataclass(eq=False)
class Ticket:
    """One call in the window of a minute, and its charged tokens; ``written`` is the length of the reply in tokens."""

    limiter: RateLimiter
    at: float
    tokens: int
    requests: int = 1
    counted: bool = field(default=True, repr=False)
    written: int = 0

    def correct(self, tokens: int, written: int = 0) -> None:
        self.written = written
        self.limiter._charge(self, tokens, self.requests)

    def cancel(self) -> None:
        self.limiter._charge(self, 0, 0)


class RateLimiter:
    """Delays calls so that no window of sixty seconds exceeds the limits of requests and tokens.

    A call larger than the token limit runs alone, when the window is empty. ``at_once`` limits the requests in flight
    of jobs with adaptive concurrency (``LEARNT``); ``None`` for no such limit.
    """

    def __init__(
        self,
        limits: RateLimits,
        at_once: Concurrency | None = None,
        *,
        clock: Clock = time.monotonic,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self.limits = limits
        self.at_once = at_once
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._window: deque[Ticket] = deque()
        self._tokens = 0
        self._requests = 0
        self._paused_until = 0.0

    @asynccontextmanager
    async def request(self, expected: Callable[[], int]) -> AsyncIterator[Ticket]:
        """Reserve the places of one request while the block runs; ``expected`` estimates its tokens, for their limit.

        The limit learns from an ``AttemptFailed`` that the block raises.
        """
        limits_used, at_once = LEARNT.get(), self.at_once
        tokens = expected() if self.limits.tokens_per_minute is not None else 0
        if limits_used is None or at_once is None:
            yield await self.acquire(tokens)
            return
        limits_used.add(at_once)
        await at_once.acquire()
        outcome: RequestOutcome = "none"
        ticket, rest_s = None, None
        try:
            ticket = await self.acquire(tokens)
            yield ticket
            outcome = "reply"
        except AttemptFailed as failed:
            failure = failed.failure
            limited = failure.kind == "rate_limit" and failure.retry
            outcome = "limited" if limited else "fault" if failure.kind in _FAULTS else "reply"
            rest_s = failure.retry_after_s
            raise
        finally:
            at_once.release(outcome, tokens=ticket.written if ticket else 0, rest_s=rest_s)

    async def acquire(self, tokens: int) -> Ticket:
        ticket = self._reserve(max(0, tokens))
        try:
            await self._wait_until(ticket.at)
            while (paused_until := self._paused_until) > self._clock():
                await self._wait_until(paused_until)
        except BaseException:
            ticket.cancel()
            raise
        return ticket

    def pause(self, seconds: float) -> None:
        """Delay all further calls, because the provider asked for a pause."""
        with self._lock:
            self._paused_until = max(self._paused_until, self._clock() + seconds)

    async def _wait_until(self, moment: float) -> None:
        if (delay := moment - self._clock()) > 0:
            if self.at_once is not None:
                self.at_once.throttled = True
            await self._sleep(delay)

    def _reserve(self, tokens: int) -> Ticket:
        with self._lock:
            at = max(self._clock(), self._window[-1].at if self._window else 0.0)
            while self._window and self._window[0].at <= at - WINDOW_S:
                self._drop_oldest()
            while self._window and not self._fits(tokens):
                # later calls never start before this one, so dropping the oldest calls here is final
                at = max(at, self._drop_oldest().at + WINDOW_S)
            ticket = Ticket(self, at, tokens)
            self._window.append(ticket)
            self._tokens += tokens
            self._requests += 1
            return ticket

    def _fits(self, tokens: int) -> bool:
        requests, allowed = self.limits.requests_per_minute, self.limits.tokens_per_minute
        return (requests is None or self._requests < requests) and (allowed is None or self._tokens + tokens <= allowed)

    def _drop_oldest(self) -> Ticket:
        ticket = self._window.popleft()
        ticket.counted = False
        self._tokens -= ticket.tokens
        self._requests -= ticket.requests
        return ticket

    def _charge(self, ticket: Ticket, tokens: int, requests: int) -> None:
        with self._lock:
            if ticket.counted:
                self._tokens += tokens - ticket.tokens
                self._requests += requests - ticket.requests
            ticket.tokens, ticket.requests = tokens, requests


_shared: dict[tuple[str, RateLimits, SecretStr | None, bool], RateLimiter] = {}
_shared_lock = threading.Lock()


def shared_limiter(
    scope: str, limits: RateLimits, key: SecretStr | None = None, *, adaptive: bool = True
) -> RateLimiter:
    """Return this process's only limiter for ``scope`` (a provider and its address) and a key.

    A server that this program starts on this machine is not ``adaptive``: more requests make it no faster.
    """
    with _shared_lock:
        limiter = RateLimiter(limits, Concurrency(scope) if adaptive else None)
        return _shared.setdefault((scope, limits, key, adaptive), limiter)
