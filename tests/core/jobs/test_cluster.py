"""Trials on several workers: played once even if a worker is lost, with the verdicts and limits of one process."""

from __future__ import annotations

import asyncio
import logging
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from core.errors import AnamnesisError, UsageError
from core.jobs.cluster import Driver, Mailbox, Worker, _RemoteLimiter, _RemoteReplyCache
from core.jobs.engine import Options
from core.jobs.plan import header_of
from core.jobs.progress import Progress
from core.jobs.run import RunOutcome, carry_out
from core.journal import RunHeader
from core.models import limits
from core.models.failures import AttemptFailed, Failure
from core.models.limits import Concurrency, RateLimits, shared_limiter
from tests.core.jobs.test_paid_once import a_campaign, all_seats, every_seat, replies, verdicts  # noqa: F401
from tests.core.jobs.workshop import PRICED, begun, go, plan, raw_trials, registry
from tests.support.actors import FAKE_RAY, Actor, on_actors
from tests.support.fake_provider import FakeProvider
from tests.support.replies import Reply, failing

IN_FLIGHT = 4


def on_two_workers(header: RunHeader, *own: Path, actors: list[Actor] | None = None, **options: Any) -> RunOutcome:
    return carry_out(header, registry(*own), Options(**{"concurrency": IN_FLIGHT, **options}), on_actors(2, actors))


def test_a_lost_worker_costs_its_calls_in_flight_and_nothing_else(
    all_seats: FakeProvider,  # noqa: F811
    caplog: pytest.LogCaptureFixture,
) -> None:
    whole = a_campaign(all_seats, cases=8)
    go(whole)
    unbroken = len(all_seats.requests)
    header = a_campaign(all_seats, cases=8, seed=21)
    all_seats.script = lambda body: Reply(every_seat(body), delay_s=0.01)
    all_seats.requests.clear()
    actors = list[Actor]()

    def lose_one(progress: Progress) -> None:
        if progress.calls >= unbroken // 2 and not caplog.records:
            actors[0].end()

    caplog.set_level(logging.WARNING, "core.jobs.cluster")
    outcome = on_two_workers(header, actors=actors, on_progress=lose_one)
    assert (outcome.stopped, outcome.progress.done) == (None, 8)
    assert re.search(r"A worker is lost: its trials are played again from their replies\.", caplog.text)
    assert len(raw_trials(header.run_id)) == 8
    assert verdicts(header) == verdicts(whole)
    assert len(all_seats.requests) - len(replies(header)) <= IN_FLIGHT, "only calls in flight are lost"
    # each worker may have an equal answer judged once
    assert len(replies(header)) <= unbroken + 4


def test_a_trial_that_ends_three_workers_is_given_up(all_seats: FakeProvider) -> None:  # noqa: F811
    header = a_campaign(all_seats, cases=1)
    actors = list[Actor]()

    def deadly(body: dict[str, Any]) -> str:
        for actor in actors[:2]:
            loop = next(iter(actor.calls)).get_loop() if actor.calls else None
            if loop is not None:
                loop.call_soon_threadsafe(actor.end)
        return every_seat(body)

    all_seats.script = deadly
    with pytest.raises(AnamnesisError, match="was lost 3 times with the worker that played it"):
        on_two_workers(header, actors=actors)


def test_a_run_ends_if_the_mailbox_of_the_workers_is_lost(all_seats: FakeProvider) -> None:  # noqa: F811
    header = a_campaign(all_seats, cases=4)
    actors = list[Actor]()

    def lose_mailbox(progress: Progress) -> None:
        if progress.calls >= 10:
            actors[2].end()

    with pytest.raises(AnamnesisError, match="All workers of the run are lost"):
        on_two_workers(header, actors=actors, on_progress=lose_mailbox)
    assert on_two_workers(header).stopped is None, "the run can be resumed"
    assert len(all_seats.requests) - len(replies(header)) <= IN_FLIGHT


def test_equal_answers_to_one_case_are_graded_once(all_seats: FakeProvider) -> None:  # noqa: F811
    header = a_campaign(all_seats, cases=1)
    header = header.model_copy(update={"trials": 6})
    first = on_two_workers(header, concurrency=2)
    requests = [str(body["messages"]) for body in all_seats.bodies if body["model"] == "grader"]
    assert (first.stopped, first.progress.done) == (None, 6)
    assert len(requests) == len(set(requests)) == 4, "two answers, each extracted once and compared once"


def test_one_budget_holds_for_all_workers(all_seats: FakeProvider, priced: Path) -> None:  # noqa: F811
    """Each call costs $0.018: with the sixth the sum is $0.108."""
    price = '\n[models."openai/{}"]\nprices = {{ input = 1000.0, output = 1000.0 }}\n'
    priced.write_text(PRICED + price.format("patient") + price.format("grader"))
    header = a_campaign(all_seats, priced, cases=8)
    stopped = on_two_workers(header, priced, budget_usd=0.10)
    assert stopped.stopped == "The budget of $0.10 is used up."
    assert len(all_seats.requests) == len(replies(header)) == 6, (
        "no request is sent while a call in flight may use up the budget"
    )
    resumed = on_two_workers(header, priced)
    assert (resumed.stopped, resumed.progress.done) == (None, 8)
    assert len(all_seats.requests) == len(replies(header)), "no paid request is repeated"


def test_a_key_that_is_refused_ends_the_run(all_seats: FakeProvider) -> None:  # noqa: F811
    all_seats.script = [failing(401, "bad key")]
    refused = on_two_workers(a_campaign(all_seats, cases=8, seed=3))
    assert "did not accept the key" in str(refused.stopped)
    assert refused.progress.done == 0


def test_missing_keys_and_prompts_of_workers_are_reported_before_the_start(all_seats: FakeProvider) -> None:  # noqa: F811
    elsewhere = begun(plan(2, base_url="https://models.example.org/v1"))
    with pytest.raises(UsageError, match="The key for openai/doctor is missing"):
        on_two_workers(elsewhere)
    broken = a_campaign(all_seats)
    with pytest.raises(AnamnesisError, match="The prompt pack craftmd has changed"):
        on_two_workers(broken.model_copy(update={"prompt_hash": "other"}))


def test_without_a_set_concurrency_all_workers_learn_together(all_seats: FakeProvider) -> None:  # noqa: F811
    header = a_campaign(all_seats, cases=4)
    outcome = on_two_workers(header, concurrency=None)
    assert outcome.stopped is None
    assert [learnt.limit for learnt in outcome.progress.learnt] == [limits.START], "both workers share one limit"


async def two_limiters(scope: str, allowed: RateLimits) -> tuple[Driver, list[_RemoteLimiter]]:
    """Return a driver, and the limiters of two workers for the same scope."""
    mailbox, actors = Actor(Mailbox), [Actor(Opened), Actor(Opened)]
    driver = Driver(FAKE_RAY, header_of(plan(1), registry()), registry(), mailbox, actors)
    await driver.start()
    return driver, [_RemoteLimiter(actor.object.send, scope, allowed, SecretStr("secret"), True) for actor in actors]


class Opened(Worker):
    async def open(self, mailbox: Actor, number: int, *_: Any) -> None:
        self._connect(mailbox, number)
        self._replies = _RemoteReplyCache("run", self._send)

    async def send(self, method: str, *arguments: Any) -> Any:
        return await self._send(method, *arguments)


async def test_workers_share_the_limits_per_minute(db: Path) -> None:
    """Three requests or a hundred tokens a minute, shared by both workers."""
    allowed = RateLimits(requests_per_minute=3, tokens_per_minute=100)
    driver, (first, second) = await two_limiters("a minute's scope", allowed)
    fingerprint = first._key[2]
    assert fingerprint is not None
    assert "secret" not in fingerprint.get_secret_value(), "the key itself is not sent"
    shared = shared_limiter(*first._key[:3])
    async with first.request(90) as ticket:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05), second.request(20):
                pass
        ticket.correct(10)
    assert shared._reserve(0).at > shared._clock() + 30, "the cancelled request still counts for a minute"
    first.pause(60)
    await asyncio.sleep(0.05)
    assert shared._paused_until > shared._clock() + 50
    await driver.stop()


async def test_workers_share_the_places_of_a_provider(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two requests in flight: a third waits until one ends or its worker is lost."""
    monkeypatch.setattr(limits, "START", 2)
    monkeypatch.setattr(limits, "LEAST", 1)
    driver, (first, second) = await two_limiters("a scope of places", RateLimits())
    driver._learnt = set[Concurrency]()
    entered = asyncio.Event()

    async def third() -> None:
        async with second.request(1):
            entered.set()

    await driver.enter(driver._ready[0], first._key, 1)  # a request of the first worker, which never ends
    refused = second.request(1)
    await refused.__aenter__()
    waiting = asyncio.create_task(third())
    await asyncio.sleep(0.05)
    assert not entered.is_set(), "two at once for both workers together"
    limited = AttemptFailed(Failure("rate_limit", "too many", "wait", retry=True))
    await refused.__aexit__(AttemptFailed, limited, None)
    (learnt,) = driver._learnt
    await asyncio.sleep(0.05)
    assert (learnt.limit, entered.is_set()) == (1, False), "a refusal lowers the limit of both"
    await driver._restart(driver._ready[0])
    await asyncio.wait_for(entered.wait(), 1)
    await waiting
    await driver.stop()
