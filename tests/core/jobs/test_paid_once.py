"""A reply is paid for once: an interrupted job resumes from its stored replies and ends with the same result."""

from __future__ import annotations

import math
import random
import re
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.asking.memory import JournaledReplies
from core.errors import AnamnesisError
from core.events import Called, Graded
from core.frameworks.base import Arm
from core.jobs.ask_job import run_job
from core.jobs.engine import REGRADING, Options
from core.jobs.regrade import Regrading
from core.journal import DeletedLine, Journal, JournalWriter, ReplyLine, RunHeader, journal_path, read_lines
from core.short_calls import followed
from core.store.database import Store
from core.store.fold import fold
from tests.core.jobs.workshop import (
    PRICED,
    begun,
    environment,
    go,
    plan,
    raw_trials,
    registry,
    run_ids,
    spawn,
    story,
    trial_lines,
    wait_until,
)
from tests.support.campaigns import beside_rules
from tests.support.fake_provider import FakeProvider
from tests.support.replies import Reply

ARMS: tuple[Arm, ...] = (("vignette", "mcq"), ("multi_turn", "mcq"), ("multi_turn", "frq"), ("summarized", "frq"))
TOKENS = 18
"""Of every call: 11 of the prompt and 7 of the reply."""


def every_seat(body: dict[str, Any]) -> str:
    """Play every seat, always the same way: the diagnosis is gout for an even age and bunion for an odd age."""
    messages, last = str(body["messages"]), str(body["messages"][-1]["content"])
    if body["model"] == "grader":
        if "doctor wrote" in last:
            return "Bunion" if "Bunion" in last else "Podagra"
        return "No" if "Bunion" in last else "Yes"
    if body["model"] == "doctor":
        if "Final Diagnosis:** or" in last or len(body["messages"]) > 5 or "case" in last.lower():
            return f"**Final Diagnosis:** {'Bunion' if 'odd' in messages else 'Podagra'}"
        return "Does it hurt?"
    age = re.search(r"A (\d+)-year-old", messages)
    return "My toe is hot, that is odd." if age and int(age[1]) % 2 else "My toe is hot."


class Breaks(Exception):
    """An error at a chosen moment."""


@pytest.fixture
def all_seats(fake_provider_thread: FakeProvider) -> FakeProvider:
    fake_provider_thread.script = every_seat
    return fake_provider_thread


def a_campaign(provider: FakeProvider, *own: Path, cases: int = 3, seed: int = 20) -> RunHeader:
    names = beside_rules("openai/doctor", patient="openai/patient", grader="openai/grader", summariser="openai/patient")
    return begun(plan(cases, names=names, arms=ARMS, seed=seed, base_url=provider.base_url), *own)


def replies(header: RunHeader) -> list[ReplyLine]:
    return [line for _, line in read_lines(journal_path(header.run_id)) if isinstance(line, ReplyLine)]


def short_replies(header: RunHeader) -> int:
    """Return the number of journaled calls without the messages of an earlier call."""
    lines = [line for _, line in read_lines(journal_path(header.run_id), whole=False)]
    return sum(bool(followed(line.call.request)) for line in lines if isinstance(line, ReplyLine))


def verdicts(header: RunHeader) -> dict[str, list[tuple[str, str, str]]]:
    return {
        line.case_key: [(e.format, e.rule, e.verdict) for e in line.events if isinstance(e, Graded)]
        for line in trial_lines(header.run_id)
    }


def spent() -> tuple[int, int]:
    """Return the number of calls in the database and the sum of their tokens."""
    fold(Store())
    with Store().read() as cursor:
        sql = "SELECT count(*), coalesce(sum(prompt_tokens + completion_tokens), 0) FROM calls"
        return cursor.execute(sql).fetchall()[0]


def breaking_at(number: int) -> Callable[[Journal, Any], Any]:
    """Return an ``append`` that fails after ``number`` calls, as if the process had died."""
    append, seen = Journal.append, Counter[str]()

    async def broken(self: Journal, *lines: Any) -> None:
        seen["lines"] += 1
        if seen["lines"] > number:
            raise Breaks
        await append(self, *lines)

    return broken


def test_an_interrupted_run_repeats_only_the_request_in_flight(
    all_seats: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = a_campaign(all_seats)
    go(whole)
    unbroken, right = len(all_seats.requests), verdicts(whole)
    data = journal_path(whole.run_id).read_bytes()
    assert data.count(b'"finish_reason"') == unbroken, "a call is in the journal once"
    assert {verdict for graded in right.values() for *_, verdict in graded} >= {"correct", "incorrect"}
    for number in (1, unbroken // 2, unbroken - 1):
        header = a_campaign(all_seats, seed=number)
        all_seats.requests.clear()
        with monkeypatch.context() as patch:
            patch.setattr(Journal, "append", breaking_at(number))
            with pytest.raises(Breaks):
                go(header)
        assert (paid := len(replies(header))) <= number
        outcome = go(header)
        assert outcome.progress.unused == 0
        assert len(all_seats.requests) == unbroken + 1, "one request was in flight at the interruption"
        assert len(replies(header)) == unbroken
        assert verdicts(header) == right
        sent = [body["messages"] for body in all_seats.bodies]
        assert [line.call.request["messages"] for line in replies(header)] == [*sent[:paid], *sent[paid + 1 :]]
        assert short_replies(header) == short_replies(whole) > unbroken / 4, "a resumed conversation is continued"
        # the resumed trials have the same events, also those of the grader
        assert [len(story(line)) for line in trial_lines(header.run_id)] == [
            len(story(line)) for line in trial_lines(whole.run_id)
        ]


@pytest.mark.parametrize("kills", [1, pytest.param(5, marks=pytest.mark.slow)])
def test_a_killed_run_pays_for_no_reply_twice(all_seats: FakeProvider, db: Path, kills: int) -> None:
    whole = a_campaign(all_seats, cases=4)
    go(whole)
    unbroken, right = len(all_seats.requests), verdicts(whole)
    header = a_campaign(all_seats, cases=4, seed=21)
    all_seats.requests.clear()
    kill_at = 0

    def until_the_kill(body: dict[str, Any]) -> Reply:
        number = len(all_seats.requests)
        return Reply(every_seat(body), until=lambda: number < kill_at)

    all_seats.script = until_the_kill
    killed = 0
    for kill_at in sorted(random.Random(kills).sample(range(3, unbroken - 6), kills)):
        child = spawn(db, "resume", header.run_id, "--concurrency", "2")
        wait_until(lambda: len(all_seats.requests) >= kill_at)  # noqa: B023, waited for here
        child.send_signal(signal.SIGKILL)
        child.communicate()
        killed += child.returncode == -signal.SIGKILL
    all_seats.script = every_seat
    outcome = go(header, concurrency=2)
    assert killed == kills
    assert outcome.stopped is None
    assert len(all_seats.requests) <= unbroken + 2 * kills, "at most two calls were in flight at each kill"
    assert verdicts(header) == right
    assert len(raw_trials(header.run_id)) == 4
    assert header.run_id in run_ids(db)
    assert environment(db)["ANAMNESIS_DB"] == str(db)


@pytest.mark.slow
def test_the_calls_of_an_unfinished_trial_count_once(all_seats: FakeProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    header = a_campaign(all_seats)
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "append", breaking_at(10))
        with pytest.raises(Breaks):
            go(header)
    paid = len(replies(header))
    assert spent() == (paid, paid * TOKENS)
    Store().path.unlink()
    assert spent() == (paid, paid * TOKENS)
    go(header)
    made = len(replies(header))
    assert made > paid
    assert spent() == (made, made * TOKENS)
    Store().path.unlink()
    assert spent() == (made, made * TOKENS)
    records = [e.call for line in trial_lines(header.run_id) for e in line.events if isinstance(e, Called)]
    assert sorted(call.call_id for call in records) == sorted(line.call.call_id for line in replies(header))
    assert all(call.response and call.request for call in records), "trials read back contain the full calls"
    with JournalWriter(journal_path(header.run_id)) as journal:
        journal.append(DeletedLine(run_id=header.run_id, trial_id=trial_lines(header.run_id)[0].trial_id))
    assert spent() == (made, made * TOKENS)


def test_a_budget_holds_across_resumes(all_seats: FakeProvider, priced: Path) -> None:
    """Each call costs $0.018."""
    price = '\n[models."openai/{}"]\nprices = {{ input = 1000.0, output = 1000.0 }}\n'
    priced.write_text(PRICED + price.format("patient") + price.format("grader"))
    header = a_campaign(all_seats, priced)
    first = go(header, priced, budget_usd=0.10)
    assert first.stopped == "The budget of $0.10 is used up."
    assert len(all_seats.requests) == 6
    second = go(header, priced)  # a resume keeps the budget
    assert second.stopped == "The budget of $0.10 is used up."
    assert len(all_seats.requests) == 6, "earlier cost counts"
    third = go(header, priced, budget_usd=0.15)
    assert (third.stopped, len(all_seats.requests)) == ("The budget of $0.15 is used up.", 9)
    assert (third.progress.spent_usd, third.progress.cost_usd) == (pytest.approx(0.108), pytest.approx(0.054))
    assert go(header, priced).stopped == third.stopped, "the new budget is kept too"
    assert go(header, priced, budget_usd=math.inf).stopped is None


def test_stored_replies_without_a_request_are_counted_and_logged(
    all_seats: FakeProvider, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    header = a_campaign(all_seats, cases=1)
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "append", breaking_at(6))
        with pytest.raises(Breaks):
            go(header)
    path = journal_path(header.run_id)
    path.write_bytes(path.read_bytes().replace(b'"key":"', b'"key":"other', 2))
    outcome = go(header)
    assert (outcome.progress.done, outcome.progress.unused, outcome.progress.remembered) == (1, 2, 4)
    assert "2 paid replies are no longer asked for" in caplog.text


def test_an_interrupted_regrading_reuses_the_replies_of_the_grader(
    all_seats: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = a_campaign(all_seats, cases=4)
    go(header)
    job = Regrading((header.run_id,), "openai/grader", base_url=all_seats.base_url, again=True)
    all_seats.requests.clear()
    run_job(job, Store(), registry(), Options(1))
    unbroken = len(all_seats.requests)
    all_seats.requests.clear()
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "append", breaking_at(5))
        with pytest.raises(Breaks):
            run_job(job, Store(), registry(), Options(1))
    units = [unit for unit in JournaledReplies.of(journal_path(header.run_id)).units if unit.startswith(REGRADING)]
    assert len(units) == 1, "one answer was half graded"
    run_job(job, Store(), registry(), Options(1))
    # Two answers of two calls each were judged, and the line that ends the second is lost: its replies are reused.
    # With again=True, all other answers are judged again.
    assert len(all_seats.requests) == 4 + (unbroken - 2)


async def test_many_appends_share_a_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import asyncio
    import os

    syncs: list[int] = []
    sync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda number: (syncs.append(number), sync(number))[1])
    path = tmp_path / "run" / "journal.jsonl"
    async with Journal(path) as journal:
        assert not path.exists(), "the file is created by the first line"
        await asyncio.gather(*(journal.append(DeletedLine(run_id="r", trial_id=str(n))) for n in range(128)))
        assert [line.trial_id for _, line in read_lines(path)] == [str(n) for n in range(128)]  # type: ignore[union-attr]
        assert len(syncs) <= 3


async def test_a_full_disk_fails_the_waiting_append(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: JournalWriter, lines: Any) -> None:
        raise AnamnesisError("The disk is full.")

    monkeypatch.setattr(JournalWriter, "append_all", full)
    async with Journal(tmp_path / "run" / "journal.jsonl") as journal:
        with pytest.raises(AnamnesisError, match="full"):
            await journal.append(DeletedLine(run_id="r", trial_id="t"))
