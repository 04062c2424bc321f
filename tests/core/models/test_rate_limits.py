"""The limiter: limits in every window of sixty seconds, fair order, and a learnt concurrency."""

from __future__ import annotations

import asyncio
import random

import pytest
from pydantic import SecretStr

from core.models.base import Sampling
from core.models.limits import LEARNT, Concurrency, RateLimiter, RateLimits, shared_limiter
from tests.support.asking import Clock, ask, make_model, make_spec
from tests.support.fake_provider import FakeProvider
from tests.support.replies import Reply, rate_limited


def limiter(clock: Clock, requests: int | None = None, tokens: int | None = None) -> RateLimiter:
    return RateLimiter(
        RateLimits(requests_per_minute=requests, tokens_per_minute=tokens), clock=clock, sleep=clock.sleep
    )


async def moments(limit: RateLimiter, clock: Clock, sizes: list[int]) -> list[float]:
    passed = []
    for size in sizes:
        await limit.acquire(size)
        passed.append(clock.now - 1000)
    return passed


async def test_without_limits_no_call_waits() -> None:
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


async def test_no_window_contains_more_than_allowed() -> None:
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


async def test_a_cancelled_ticket_frees_its_place() -> None:
    clock = Clock()
    limit = limiter(clock, requests=1)
    (await limit.acquire(1)).cancel()
    assert await moments(limit, clock, [1]) == [0]


async def test_a_caller_cancelled_while_waiting_leaves_no_trace() -> None:
    limit = RateLimiter(RateLimits(requests_per_minute=1))
    await limit.acquire(5)
    waiting = asyncio.create_task(limit.acquire(5))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert (limit._requests, limit._tokens) == (0, 0), "the first has left the window, the second never entered it"


async def test_first_come_first_served() -> None:
    async def forever(seconds: float) -> None:
        await asyncio.Event().wait()

    limit = RateLimiter(RateLimits(tokens_per_minute=100), clock=lambda: 1000.0, sleep=forever)
    waiting = [asyncio.create_task(limit.acquire(size)) for size in (50, 90, 5, 5)]
    await asyncio.sleep(0)
    assert [call.done() for call in waiting] == [True, False, False, False], "small calls do not overtake a large one"
    assert [ticket.at for ticket in limit._window] == [1060.0, 1060.0, 1060.0]
    for call in waiting:
        call.cancel()


async def test_pause_delays_calls() -> None:
    clock = Clock()
    limit = limiter(clock)
    limit.pause(12)
    limit.pause(3)
    assert await moments(limit, clock, [1, 1]) == [12, 12]


def test_one_limiter_per_provider_address_and_key() -> None:
    limits = RateLimits(requests_per_minute=5)
    assert shared_limiter("openai http://a", limits) is shared_limiter("openai http://a", limits)
    assert shared_limiter("openai http://a", limits) is not shared_limiter("openai http://b", limits)
    assert shared_limiter("openai http://a", limits) is not shared_limiter("openai http://a", limits, SecretStr("b"))


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


class Rounds:
    """A provider with replies of one second that receives as many requests as allowed: a round is a second."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.learnt = Concurrency("lab", clock=self.clock)

    async def go(self, *, limited: int = 0, faults: int = 0, rest_s: float | None = None, tokens: int = 10) -> int:
        """Fill all places and answer them, some with a rate limit or a fault; return the new limit."""
        sent = self.learnt.limit
        for _ in range(sent):
            await self.learnt.acquire()
        self.clock.now += 1
        for number in range(sent):
            bad = "limited" if number < limited else "fault" if number < limited + faults else "reply"
            self.learnt.release(bad, tokens=tokens, rest_s=rest_s)
        return self.learnt.limit


async def test_the_limit_doubles_until_the_first_rate_limit_and_then_grows_slowly() -> None:
    rounds = Rounds()
    assert [await rounds.go() for _ in range(3)] == [40, 80, 160]
    assert await rounds.go(limited=7) == 128, "a fifth less, once"
    assert [await rounds.go() for _ in range(3)] == [134, 141, 148]  # 128 × 1.05, 1.05², 1.05³
    assert await rounds.go(limited=1) == 118  # 148.2 × 0.8


async def test_the_limit_stays_within_its_bounds() -> None:
    rounds = Rounds()
    assert [await rounds.go() for _ in range(7)] == [40, 80, 160, 320, 512, 512, 512]
    lowest = [await rounds.go(limited=1) for _ in range(25)]
    assert lowest[:3] == [409, 327, 262]
    assert lowest[-5:] == [10] * 5


async def test_the_limit_does_not_change_during_a_pause() -> None:
    rounds = Rounds()
    assert await rounds.go(limited=3, rest_s=2.5) == 16
    assert await rounds.go(limited=1) == 16
    assert await rounds.go() == 16
    assert await rounds.go(limited=1) == 12  # 16 × 0.8, the rest being over


async def test_after_a_fault_the_limit_grows_by_one_per_cent_for_ten_rounds() -> None:
    rounds = Rounds()
    await rounds.go()
    await rounds.go()
    await rounds.go()
    assert await rounds.go(faults=1) == 160, "a fault does not lower the limit"
    assert [await rounds.go() for _ in range(12)] == [161, 163, 164, 166, 168, 169, 171, 173, 174, 176, 185, 194]


async def test_the_limit_grows_only_if_it_was_reached() -> None:
    rounds = Rounds()
    for _ in range(100):
        await rounds.learnt.acquire()
        rounds.learnt.release("reply")
    assert rounds.learnt.limit == 20
    rounds.learnt.throttled = True  # limits of the models file delay its requests
    assert await rounds.go() == 20


async def test_the_limit_does_not_grow_without_more_throughput() -> None:
    """A server of 400 tokens a second: 40 calls at once give no more tokens than 20."""
    rounds = Rounds()
    assert [await rounds.go(tokens=400 // rounds.learnt.limit) for _ in range(4)] == [40, 40, 40, 40]
    assert [await rounds.go(tokens=400 // rounds.learnt.limit) for _ in range(12)][-1] == 45  # 40 × 1.01¹²


async def test_one_round_of_short_replies_does_not_end_the_doubling() -> None:
    rounds = Rounds()
    assert [await rounds.go(tokens=tokens) for tokens in (50, 10, 50, 50)] == [40, 40, 80, 160]


async def test_a_waiting_call_gets_a_free_place_also_from_another_thread() -> None:
    learnt = Concurrency()
    for _ in range(20):
        await learnt.acquire()
    first, second, third = (asyncio.create_task(learnt.acquire()) for _ in range(3))
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.to_thread(learnt.release, "none")
    async with asyncio.timeout(5):
        await first
        await asyncio.to_thread(learnt.release, "none")
        await third
    assert second.cancelled()
    assert learnt._in_flight == 20


async def test_the_limit_is_learnt_only_within_a_job(fake_provider: FakeProvider) -> None:
    fake_provider.script = [rate_limited(), Reply("ok")]
    clock = Clock()
    learnt = Concurrency("lab", clock=clock)
    model = make_model(make_spec(fake_provider.base_url), limiter=RateLimiter(RateLimits(), learnt, clock=clock))
    await ask(model)
    assert learnt.limit == 20
    met: set[Concurrency] = set()
    LEARNT.set(met)
    fake_provider.script = [*[rate_limited()] * 3, Reply("ok")]
    fake_provider._answered = 0
    await ask(model)
    assert (met, learnt.limit, learnt._in_flight) == ({learnt}, 16, 0)
    await model.aclose()
