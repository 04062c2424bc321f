"""Rate limits of several processes in one place: a limiter that stands here, and is asked from there for every call.

One process hands out the tickets of all, so that nobody has to guess what share of the limits each of them needs, and a
rest that a provider asks one of them for holds for all.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

from core.models import limits
from core.models.limits import Limits, RateLimiter, Ticket, shared_limiter

Ask = Callable[..., Awaitable[Any]]
"""Sends the name of a method of ``Tickets`` and its arguments at once; what it returns can be awaited."""


class Tickets:
    """Hands out the tickets of this process's limiters, under numbers."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._given: WeakValueDictionary[int, Ticket] = WeakValueDictionary()
        """A limiter holds its tickets for as long as they count: what is gone from here needs no correction."""

    async def acquire(self, scope: str, allowed: Limits, tokens: int) -> int:
        """Wait until a call of about ``tokens`` tokens may go out; return its ticket's number."""
        number, ticket = next(self._numbers), await shared_limiter(scope, allowed).acquire(tokens)
        self._given[number] = ticket
        return number

    async def correct(self, number: int, tokens: int) -> None:
        """Replace the estimate by what the call really took."""
        if (ticket := self._given.get(number)) is not None:
            ticket.correct(tokens)

    async def pause(self, scope: str, allowed: Limits, seconds: float) -> None:
        """Hold every further call back for a while."""
        shared_limiter(scope, allowed).pause(seconds)


@dataclass(eq=False)
class _Numbered(Ticket):
    number: int = 0


class _Remote(RateLimiter):
    """A limiter that stands in another process."""

    def __init__(self, scope: str, allowed: Limits, ask: Ask) -> None:
        super().__init__(allowed)
        self._scope, self._ask = scope, ask

    async def acquire(self, tokens: int) -> Ticket:
        number = await self._ask("acquire", self._scope, self.limits, tokens)
        return _Numbered(self, self._clock(), tokens, number=number)

    def pause(self, seconds: float) -> None:
        self._ask("pause", self._scope, self.limits, seconds)

    def _charge(self, ticket: Ticket, tokens: int, requests: int) -> None:
        assert isinstance(ticket, _Numbered)
        self._ask("correct", ticket.number, tokens)


def hold_elsewhere(ask: Ask) -> None:
    """Have the limiters of this process, from here on, stand where ``ask`` leads."""
    limits.elsewhere = lambda scope, allowed: _Remote(scope, allowed, ask)
