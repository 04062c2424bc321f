"""Trials in several processes: played once whoever dies, judged as in one, under one budget and one rate limit."""

from __future__ import annotations

import asyncio
import os
import pickle
import re
import signal
import socket
from pathlib import Path
from typing import Any

import psutil
import pytest
from pydantic import SecretStr

from core.errors import AnamnesisError, UsageError
from core.jobs import workers
from core.jobs.engine import Options
from core.jobs.run import Outcome, carry_out
from core.jobs.wire import Stream
from core.jobs.workers import Hired, in_processes
from core.journal import RunHeader
from core.models import keys, limits
from core.models.limits import Concurrency, Limits, shared_limiter
from core.models.tickets import Places, Tickets, hold_elsewhere
from tests.core.jobs.test_paid_once import a_campaign, all_seats, everybody, replies, verdicts  # noqa: F401
from tests.core.jobs.workshop import PRICED, begun, core, go, plan, raw_trials, registry, spawn, wait_until
from tests.support.commands import forked
from tests.support.fake_provider import FakeProvider
from tests.support.replies import Reply, failing

IN_THE_AIR = 4


@pytest.fixture
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers of processes that have loaded the program, where how they are started is not what is tested."""
    monkeypatch.setattr(workers, "_process", _forked_worker)


async def _forked_worker() -> Hired:
    ours, theirs = socket.socketpair()
    with theirs:
        child = forked(_work, keys.environment({}), theirs)
    pipe = Stream(*await asyncio.open_unix_connection(sock=ours))

    async def end() -> None:
        pipe.close()
        await asyncio.to_thread(child.join)

    return pipe, end


def _work(environment: dict[str, str], driver: socket.socket) -> None:
    os.environ.update(environment)
    workers.main(driver.detach())


def in_two(header: RunHeader, *own: Path, **options: Any) -> Outcome:
    return carry_out(header, registry(*own), Options(**{"concurrency": IN_THE_AIR, **options}), in_processes(2))


@pytest.mark.soak
@pytest.mark.parametrize("killed", ["a worker", "the driver"])
def test_whoever_is_killed_trials_are_played_once_and_judged_as_in_one_process(
    all_seats: FakeProvider,  # noqa: F811
    db: Path,
    killed: str,
) -> None:
    whole = a_campaign(all_seats, cases=8)
    go(whole)
    unbroken = len(all_seats.requests)
    header = a_campaign(all_seats, cases=8, seed=21)
    all_seats.script = lambda body: Reply(everybody(body), delay_s=0.03)
    all_seats.requests.clear()
    child = spawn(db, "resume", header.run_id, "--workers", "2", "--concurrency", str(IN_THE_AIR))
    wait_until(lambda: len(all_seats.requests) >= unbroken // 2 or child.poll() is not None)
    hired = psutil.Process(child.pid).children()
    assert len(hired) == 2
    (hired[0] if killed == "a worker" else child).send_signal(signal.SIGKILL)
    _, said = child.communicate(timeout=60)
    wait_until(lambda: not any(worker.is_running() for worker in hired), 20)
    if killed == "a worker":
        assert child.returncode == 0, said
        assert re.search(r"A worker died: [1-4] trials are played again from their replies\.", said)
    else:
        assert in_two(header).stopped is None
    assert len(raw_trials(header.run_id)) == 8
    assert verdicts(header) == verdicts(whole)
    assert len(all_seats.requests) - len(replies(header)) <= IN_THE_AIR, "what was in the air is all that is lost"
    # the grader reads an answer that came of two cases once in each worker
    assert len(replies(header)) <= unbroken + 4


@pytest.mark.soak
def test_the_grader_is_asked_once_about_answers_to_one_case(all_seats: FakeProvider) -> None:  # noqa: F811
    header = a_campaign(all_seats, cases=1)
    header = header.model_copy(update={"trials": 6})
    first = in_two(header, concurrency=2)
    asked = [str(body["messages"]) for body in all_seats.bodies if body["model"] == "grader"]
    assert (first.stopped, first.progress.done) == (None, 6)
    assert len(asked) == len(set(asked)) == 4, "two answers, each read once and compared once"


def test_one_budget_holds_for_all_workers(all_seats: FakeProvider, priced: Path, quickly: None) -> None:  # noqa: F811
    """A call of the doctor costs $0.018, as the others' do here: the sixth takes the sum to $0.108."""
    price = '\n[models."openai/{}"]\nprices = {{ input = 1000.0, output = 1000.0 }}\n'
    priced.write_text(PRICED + price.format("patient") + price.format("grader"))
    header = a_campaign(all_seats, priced, cases=8)
    stopped = in_two(header, priced, budget_usd=0.10)
    assert stopped.stopped == "The budget of $0.10 is used up."
    assert len(all_seats.requests) == len(replies(header)) == 6, "nobody asks while another's call may use it up"


@pytest.mark.soak
def test_one_key_holds_for_all_workers(
    all_seats: FakeProvider,  # noqa: F811
    priced: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    all_seats.script = [failing(401, "bad key")]
    refused = in_two(a_campaign(all_seats, cases=8, seed=3))
    assert "did not accept the key" in str(refused.stopped)
    assert refused.progress.done == 0
    all_seats.script = everybody
    all_seats.requests.clear()
    header = a_campaign(all_seats, priced, cases=8)
    priced.write_text('[models."openai/doctor"]\napi_key_env = "LAB_KEY"\n')
    monkeypatch.setitem(keys._held, ("", "LAB_KEY"), SecretStr("held-by-the-driver"))
    assert in_two(header, priced).stopped is None
    assert {one.key for one in all_seats.requests if one.body["model"] == "doctor"} == {"held-by-the-driver"}


def test_what_cannot_be_played_in_several_processes_is_refused(all_seats: FakeProvider, quickly: None) -> None:  # noqa: F811
    done = core(Path("unused"), "resume", "x", "--workers", "0")
    assert done.returncode == 2
    local = begun(plan(2, names=plan().names.but(doctor="hf/some/model")))
    with pytest.raises(UsageError, match="hf/some/model is served on this machine by one process"):
        in_two(local)
    elsewhere = begun(plan(2, base_url="https://models.example.org/v1"))
    with pytest.raises(UsageError, match="The key for openai/doctor is missing"):
        in_two(elsewhere)
    broken = a_campaign(all_seats)
    with pytest.raises(AnamnesisError, match="The prompt pack craftmd has changed"):
        in_two(broken.model_copy(update={"prompt_hash": "other"}))


async def test_workers_share_the_limits_of_a_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three requests or a hundred tokens a minute, and what is in the air: whoever asks, all ask at one place."""
    monkeypatch.setattr(limits, "START", 2)
    met: set[Concurrency] = set()
    host, place = Tickets(), Places(lambda: met)
    scope, allowed = "a scope of this test", Limits(requests_per_minute=3, tokens_per_minute=100)

    def ask(method: str, *arguments: Any) -> asyncio.Future[Any]:
        sent = pickle.loads(pickle.dumps(arguments))
        return asyncio.ensure_future(getattr(place if hasattr(place, method) else host, method)(*sent))

    monkeypatch.setattr(limits, "elsewhere", None)  # for the other tests of this process
    hold_elsewhere(ask, ask)
    make, limits.elsewhere = limits.elsewhere, None
    assert make is not None
    one, other = (make(scope, allowed, None, True) for _ in range(2))
    first = await one.acquire(90)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await other.acquire(20)
    first.correct(10)
    await asyncio.sleep(0)
    held = shared_limiter(scope, allowed)
    assert held._reserve(0).at > first.at + 30, "the one that was given up still has its place, a minute on"
    one.pause(60)
    await asyncio.sleep(0)
    assert held._held_until > first.at + 59
    assert one.at_once is not None
    assert other.at_once is not None
    await asyncio.gather(one.at_once.acquire(), other.at_once.acquire())
    third = asyncio.ensure_future(one.at_once.acquire())
    await asyncio.sleep(0.05)
    assert (third.done(), met) == (False, {held.at_once}), "two at once, of both together"
    place.leave_all()  # a worker died with both
    await asyncio.wait_for(third, 1)
