"""Rate limits of a provider: requests and tokens in any sixty seconds, first come first served.

Places in the queue are handed out under a plain lock, so one limiter serves every event loop and thread of the
process. Tokens are charged by estimate before a call and corrected after it.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

WINDOW_S = 60.0

Clock = Callable[[], float]
Sleep = Callable[[float], Awaitable[object]]


@dataclass(frozen=True)
class Limits:
    """What a provider allows in a minute. ``None`` means without limit."""

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None


@dataclass(eq=False)
class Ticket:
    """One call's place in the window, and the tokens it is charged with."""

    limiter: RateLimiter
    at: float
    tokens: int
    requests: int = 1
    counted: bool = field(default=True, repr=False)

    def correct(self, tokens: int) -> None:
        """Replace the estimate by what the call really took."""
        self.limiter._charge(self, tokens, self.requests)

    def cancel(self) -> None:
        """Give the place back: the call was not made."""
        self.limiter._charge(self, 0, 0)


class RateLimiter:
    """Lets calls through so that no sixty seconds hold more requests or tokens than the limits.

    A call larger than the whole token limit goes through alone, when the window is empty.
    """

    def __init__(self, limits: Limits, *, clock: Clock = time.monotonic, sleep: Sleep = asyncio.sleep) -> None:
        self.limits = limits
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._window: deque[Ticket] = deque()
        self._tokens = 0
        self._requests = 0
        self._held_until = 0.0

    async def acquire(self, tokens: int) -> Ticket:
        """Wait until a call of about ``tokens`` tokens may go out."""
        ticket = self._reserve(max(0, tokens))
        try:
            await self._wait_until(ticket.at)
            while (held := self._held_until) > self._clock():
                await self._wait_until(held)
        except BaseException:
            ticket.cancel()
            raise
        return ticket

    def pause(self, seconds: float) -> None:
        """Hold every further call back, because the provider asked for a rest."""
        with self._lock:
            self._held_until = max(self._held_until, self._clock() + seconds)

    async def _wait_until(self, moment: float) -> None:
        if (delay := moment - self._clock()) > 0:
            await self._sleep(delay)

    def _reserve(self, tokens: int) -> Ticket:
        with self._lock:
            at = max(self._clock(), self._window[-1].at if self._window else 0.0)
            while self._window and self._window[0].at <= at - WINDOW_S:
                self._drop_oldest()
            while self._window and not self._fits(tokens):
                # Later calls are never let go before this one, so what leaves the window here never returns.
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


elsewhere: Callable[[str, Limits], RateLimiter] | None = None
"""Makes the limiter of a scope that stands in another process, where one holds them all (``core.models.tickets``)."""
_shared: dict[tuple[str, Limits], RateLimiter] = {}
_shared_lock = threading.Lock()


def _here(scope: str, limits: Limits) -> RateLimiter:
    return RateLimiter(limits)


def shared_limiter(scope: str, limits: Limits) -> RateLimiter:
    """Return this process's one limiter for ``scope`` (a provider and its address)."""
    with _shared_lock:
        return _shared.setdefault((scope, limits), (elsewhere or _here)(scope, limits))
