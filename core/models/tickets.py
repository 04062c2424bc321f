"""Limits of several processes in one place: a limiter that stands here, and is asked from there for every call.

One process hands out the tickets of all, so that nobody has to guess what share of the limits each of them needs, a
rest that a provider asks one of them for holds for all, and what one learns of a provider all have learnt.
"""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from pydantic import SecretStr

from core.models import limits
from core.models.limits import Concurrency, Limits, Outcome, RateLimiter, Ticket, shared_limiter

Ask = Callable[..., Awaitable[Any]]
"""Sends the name of a method and its arguments to whoever has it, at once; what it returns can be awaited."""


class Place(NamedTuple):
    """Which limiter is meant; ``key`` is no key, and tells keys apart."""

    scope: str
    allowed: Limits
    key: SecretStr | None
    adaptive: bool

    @property
    def limiter(self) -> RateLimiter:
        """The limiter of this process that is meant."""
        return shared_limiter(self.scope, self.allowed, self.key, adaptive=self.adaptive)


class Tickets:
    """Hands out the tickets of this process's limiters, under numbers."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._given: WeakValueDictionary[int, Ticket] = WeakValueDictionary()
        """A limiter holds its tickets for as long as they count: what is gone from here needs no correction."""

    async def acquire(self, place: Place, tokens: int) -> int:
        """Wait until a call of about ``tokens`` tokens may go out; return its ticket's number."""
        number, ticket = next(self._numbers), await place.limiter.acquire(tokens)
        self._given[number] = ticket
        return number

    async def correct(self, number: int, tokens: int) -> None:
        """Replace the estimate by what the call really took."""
        if (ticket := self._given.get(number)) is not None:
            ticket.correct(tokens)

    async def pause(self, place: Place, seconds: float) -> None:
        """Hold every further call back for a while."""
        place.limiter.pause(seconds)


class Places:
    """The places that another process holds among the requests in the air; ``learnt`` is told of every provider."""

    def __init__(self, learnt: Callable[[], set[Concurrency] | None]) -> None:
        self._learnt = learnt
        self._held: Counter[Concurrency] = Counter()

    async def enter(self, place: Place) -> None:
        """Wait for a place."""
        at_once, met = place.limiter.at_once, self._learnt()
        if at_once is not None and met is not None:
            met.add(at_once)
            await at_once.acquire()
            self._held[at_once] += 1

    async def leave(self, place: Place, outcome: Outcome, tokens: int, rest_s: float | None) -> None:
        """Give a place back, and say what came of the request."""
        at_once = place.limiter.at_once
        if at_once is not None and self._held[at_once]:
            self._held[at_once] -= 1
            at_once.release(outcome, tokens=tokens, rest_s=rest_s)

    def leave_all(self) -> None:
        """Give all places back: the other process is gone."""
        for at_once in self._held.elements():
            at_once.release("none")
        self._held.clear()


@dataclass(eq=False)
class _Numbered(Ticket):
    number: int = 0


class _Remote(RateLimiter):
    """A limiter that stands in another process."""

    def __init__(self, place: Place, tickets: Ask, places: Ask) -> None:
        super().__init__(place.allowed, _RemotePlaces(place, places) if place.adaptive else None)
        self._place, self._ask = place, tickets

    async def acquire(self, tokens: int) -> Ticket:
        number = await self._ask("acquire", self._place, tokens)
        return _Numbered(self, self._clock(), tokens, number=number)

    def pause(self, seconds: float) -> None:
        self._ask("pause", self._place, seconds)

    def _charge(self, ticket: Ticket, tokens: int, requests: int) -> None:
        assert isinstance(ticket, _Numbered)
        self._ask("correct", ticket.number, tokens)


class _RemotePlaces(Concurrency):
    def __init__(self, place: Place, ask: Ask) -> None:
        super().__init__(place.scope)
        self._place, self._ask = place, ask

    async def acquire(self) -> None:
        await self._ask("enter", self._place)

    def release(self, outcome: Outcome, *, tokens: int = 0, rest_s: float | None = None) -> None:
        self._ask("leave", self._place, outcome, tokens, rest_s)


def hold_elsewhere(tickets: Ask, places: Ask) -> None:
    """Have the limiters of this process stand where ``tickets`` leads, and who is in the air known where ``places``."""

    def make(scope: str, allowed: Limits, key: SecretStr | None, adaptive: bool) -> RateLimiter:
        told = SecretStr(hashlib.sha256(key.get_secret_value().encode()).hexdigest()[:16]) if key else None
        return _Remote(Place(scope, allowed, told, adaptive), tickets, places)

    limits.elsewhere = make
