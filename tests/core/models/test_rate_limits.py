"""The limiter: no sixty seconds hold more than allowed, and everyone gets a turn."""

from __future__ import annotations

import asyncio
import random

import pytest

from core.models.base import Sampling
from core.models.limits import Limits, RateLimiter, shared_limiter
from tests.support.fake_provider import FakeProvider
from tests.support.replies import Reply
from tests.support.talking import Clock, ask, make_model, make_spec


def limiter(clock: Clock, requests: int | None = None, tokens: int | None = None) -> RateLimiter:
    return RateLimiter(Limits(requests, tokens), clock=clock, sleep=clock.sleep)


async def moments(limit: RateLimiter, clock: Clock, sizes: list[int]) -> list[float]:
    passed = []
    for size in sizes:
        await limit.acquire(size)
        passed.append(clock.now - 1000)
    return passed


async def test_without_limits_nobody_waits() -> None:
    clock = Clock()
    assert await moments(limiter(clock), clock, [10**9] * 50) == [0.0] * 50


async def test_requests_wait_for_the_window_to_move() -> None:
    clock = Clock()
    assert await moments(limiter(clock, requests=2), clock, [1] * 5) == [0, 0, 60, 60, 120]


async def test_tokens_wait_for_room() -> None:
    clock = Clock()
    assert await moments(limiter(clock, tokens=100), clock, [60, 40, 30, 30, 50]) == [0, 0, 60, 60, 120]


async def test_a_call_larger_than_the_limit_goes_alone() -> None:
    clock = Clock()
    assert await moments(limiter(clock, tokens=100), clock, [10, 500, 10]) == [0, 60, 120]


async def test_no_window_ever_holds_more_than_allowed() -> None:
    clock, dice = Clock(), random.Random(7)
    limit = limiter(clock, requests=10, tokens=1000)
    passed: list[tuple[float, int]] = []
    for _ in range(300):
        clock.now += dice.choice([0, 0, 1, 7])
        size = dice.randint(1, 400)
        await limit.acquire(size)
        passed.append((clock.now, size))
    for end, _ in passed:
        window = [size for at, size in passed if end - 60 < at <= end]
        assert len(window) <= 10
        assert sum(window) <= 1000


async def test_estimates_are_corrected() -> None:
    clock = Clock()
    limit = limiter(clock, tokens=100)
    ticket = await limit.acquire(90)
    ticket.correct(20)
    assert await moments(limit, clock, [80]) == [0]
    late = await limit.acquire(100)
    late.correct(10)
    ticket.correct(10_000)
    assert await moments(limit, clock, [90]) == [60], "a call that left the window no longer counts"


async def test_a_place_given_up_is_free_again() -> None:
    clock = Clock()
    limit = limiter(clock, requests=1)
    (await limit.acquire(1)).cancel()
    assert await moments(limit, clock, [1]) == [0]


async def test_a_caller_cancelled_while_waiting_leaves_no_trace() -> None:
    limit = RateLimiter(Limits(requests_per_minute=1))
    await limit.acquire(5)
    waiting = asyncio.create_task(limit.acquire(5))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert (limit._requests, limit._tokens) == (0, 0), "the first has left the window, the second never went"


async def test_first_come_first_served() -> None:
    async def forever(seconds: float) -> None:
        await asyncio.Event().wait()

    limit = RateLimiter(Limits(tokens_per_minute=100), clock=lambda: 1000.0, sleep=forever)
    waiting = [asyncio.create_task(limit.acquire(size)) for size in (50, 90, 5, 5)]
    await asyncio.sleep(0)
    assert [call.done() for call in waiting] == [True, False, False, False], "small calls do not overtake a large one"
    assert [ticket.at for ticket in limit._window] == [1060.0, 1060.0, 1060.0]
    for call in waiting:
        call.cancel()


async def test_pause_holds_back() -> None:
    clock = Clock()
    limit = limiter(clock)
    limit.pause(12)
    limit.pause(3)
    assert await moments(limit, clock, [1, 1]) == [12, 12]


def test_one_limiter_a_provider_and_address() -> None:
    limits = Limits(5, None)
    assert shared_limiter("openai http://a", limits) is shared_limiter("openai http://a", limits)
    assert shared_limiter("openai http://a", limits) is not shared_limiter("openai http://b", limits)


async def test_a_model_charges_its_tokens_and_corrects_them(fake_provider: FakeProvider) -> None:
    fake_provider.script = [Reply("ok", usage=(11, 7))]
    clock = Clock()
    limit = limiter(clock, tokens=100)
    model = make_model(make_spec(fake_provider.base_url), limiter=limit)
    for _ in range(3):
        await ask(model, sampling=Sampling(max_tokens=50))
    assert clock.now == 1000, "three times 58 would not fit, three times 18 do"
    await ask(model, sampling=Sampling(max_tokens=50))
    assert clock.now == 1060
    await model.aclose()
