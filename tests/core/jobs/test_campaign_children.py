"""Campaigns in child processes that are interrupted or killed at any moment, and resumed."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from pathlib import Path

import pytest

from core.asking.memory import JournaledReplies
from core.datasets.library import library
from core.datasets.select import choices_of
from core.frameworks.base import Campaign
from core.frameworks.casting import CastNames
from core.jobs.begun import find_header
from core.jobs.plan import header_of, parse_arms
from core.jobs.run import begin, go_on, last_words
from core.journal import journal_path
from core.store.database import Store
from core.store.queries.runs import run as stored_run
from tests.core.jobs.workshop import (
    asked_about,
    core,
    go,
    keys,
    plan,
    raw_trials,
    registry,
    run_ids,
    spawn,
    story,
    trial_lines,
    wait_until,
)
from tests.support.commands import Command, finish
from tests.support.fake_provider import FakeProvider
from tests.support.replies import Reply

ARMS = "vignette:mcq,multi_turn:frq,single_turn:mcq_many,summarized:frq_top3"


def lines_of(db: Path) -> int:
    """Complete lines of the only journal, including its header."""
    return sum(p.read_bytes().count(b"\n") for p in (db.parent / f"{db.stem}.journals").glob("*/journal.jsonl"))


def kill_at(child: Command, db: Path, trials: int, moment: float) -> None:
    """Kill a child ``moment`` seconds after ``trials`` trials are in the journal."""
    wait_until(lambda: lines_of(db) > trials or child.poll() is not None, 120)
    time.sleep(moment)
    child.send_signal(signal.SIGKILL)
    child.communicate()


def undisturbed(cases: int, trials: int) -> dict[tuple[str, int], object]:
    """The events of every trial of the same campaign without interruptions."""
    chosen = library()[:cases]
    many = choices_of("library")
    arms = parse_arms(ARMS)
    campaign = Campaign(CastNames("reference/bayes"), tuple(chosen), arms=arms, many_choices=many, trials=trials)
    header = header_of(campaign, registry(), now=0.0)
    begin(header)
    assert go(header).stopped is None
    return {(line.case_key, line.trial): story(line) for line in trial_lines(header.run_id)}


def check_kills(db: Path, cases: int, trials: int, kills: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kill a run of the reference cast several times, resume it, and compare it with an undisturbed run."""
    rng = random.Random(20)
    planned = cases * trials
    moments = sorted(rng.sample(range(planned - planned // 10), kills))
    arguments = ["run", "--doctor", "reference/bayes", "--limit", str(cases), "--trials", str(trials), "--arms", ARMS]
    stored_trials: dict[str, bytes] = {}
    killed = 0
    for done in moments:
        child = spawn(db, *arguments)
        kill_at(child, db, done, rng.uniform(0, 0.12))
        killed += child.returncode == -signal.SIGKILL
        (run_id,) = run_ids(db)
        arguments = ["resume", run_id, "--concurrency", str(rng.choice([1, 8, 32]))]
        current = raw_trials(run_id)
        assert len(current) >= done
        assert {trial: current[trial] for trial in stored_trials} == stored_trials  # byte by byte
        stored_trials = current
    assert killed == kills
    assert 0 < len(stored_trials) < planned
    ended = core(db, *arguments)
    assert ended.returncode == 0, ended.stderr
    assert f"Run {run_id} is complete: {planned} trials." in ended.stdout

    after = raw_trials(run_id)
    assert {trial: after[trial] for trial in stored_trials} == stored_trials
    lines = trial_lines(run_id)
    chosen = [case.case_key for case in library()[:cases]]
    assert keys(lines) == sorted((case, t) for case in chosen for t in range(trials))  # no trial is missing or doubled
    with Store().read() as cursor:
        stored = stored_run(cursor, run_id)
        answers = cursor.execute("SELECT count(*), count(DISTINCT (trial_id, format, question_type)) FROM answers")
        counts = answers.fetchone()
    assert stored is not None
    assert (stored.done, stored.state) == (planned, "complete")
    assert counts == (4 * planned, 4 * planned)
    monkeypatch.setenv("ANAMNESIS_DB", str(db.with_name("undisturbed.duckdb")))
    assert {(line.case_key, line.trial): story(line) for line in lines} == undisturbed(cases, trials)


@pytest.mark.slow
def test_a_run_killed_twice_ends_as_if_nothing_had_happened(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_kills(db, cases=20, trials=3, kills=2, monkeypatch=monkeypatch)


@pytest.mark.slow
def test_a_run_killed_ten_times_ends_as_if_nothing_had_happened(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_kills(db, cases=60, trials=5, kills=10, monkeypatch=monkeypatch)


@pytest.fixture
def slow_provider(fake_provider_thread: FakeProvider) -> FakeProvider:
    fake_provider_thread.script = lambda body: Reply("**Final Diagnosis:** Gout", delay_s=0.1)
    return fake_provider_thread


def begun_here(provider: FakeProvider, cases: int = 60) -> str:
    """Create a run of one request per trial for a child process."""
    header = header_of(plan(cases, base_url=provider.base_url), registry())
    begin(header)
    return header.run_id


@pytest.mark.slow
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_says_how_to_resume_it(db: Path, slow_provider: FakeProvider, sign: signal.Signals) -> None:
    run_id = begun_here(slow_provider)
    child = spawn(db, "resume", run_id, "--concurrency", "3")
    wait_until(lambda: len(slow_provider.requests) >= 9)
    child.send_signal(sign)
    stopped_at = time.monotonic()
    ended = finish(child, 60)
    assert time.monotonic() - stopped_at < 60
    stored_trials = raw_trials(run_id)
    replies = JournaledReplies.of(journal_path(run_id)).replies
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1] == (
        f"It was interrupted. {replies} replies and {len(stored_trials)} of 60 trials are stored, and resuming "
        f"pays for none of them again; continue with: python -m core resume {run_id}"
    )
    assert "Traceback" not in ended.stderr
    assert 6 <= len(stored_trials) < 40
    with Store().read() as cursor:  # finished trials are in the database too
        stored = stored_run(cursor, run_id)
    assert stored is not None
    assert (stored.done, stored.state) == (len(stored_trials), "partial")
    slow_provider.script = ["**Final Diagnosis:** Gout"]
    slow_provider.requests.clear()
    assert go(find_header(run_id), concurrency=8).progress.done_here == 60 - len(stored_trials)
    repeated = asked_about(slow_provider)
    assert 57 - len(stored_trials) <= len(repeated) == len(set(repeated)) <= 60 - len(stored_trials), (
        "stored replies are not requested again"
    )
    after = raw_trials(run_id)
    assert {trial: after[trial] for trial in stored_trials} == stored_trials
    assert len(after) == 60


def test_a_second_process_is_refused_while_the_run_is_running(db: Path, slow_provider: FakeProvider) -> None:
    run_id = begun_here(slow_provider, cases=300)  # too many for the first to finish before the second is refused
    first = spawn(db, "resume", run_id, "--concurrency", "1")
    wait_until(lambda: len(slow_provider.requests) >= 1)
    second = core(db, "resume", run_id)
    first_was_running = first.poll() is None
    first.send_signal(signal.SIGTERM)
    ended = finish(first)
    assert first_was_running
    assert second.returncode == 1
    assert second.stderr.splitlines()[-1] == (
        f"Run {run_id} is already running in another process: stop it there first."
    )
    assert "It was interrupted." in ended.stderr
    requests = asked_about(slow_provider)
    assert len(requests) == len(set(requests))  # no request was sent by both
    assert len(raw_trials(run_id)) in (len(requests), len(requests) - 1)


@pytest.mark.slow
def test_a_run_in_a_child_process_outlives_its_starter_and_stops_on_request(
    db: Path, slow_provider: FakeProvider
) -> None:
    run_id = begun_here(slow_provider)
    go_on(run_id, concurrency=2)
    wait_until(lambda: len(slow_provider.requests) >= 4)
    (journal_path(run_id).parent / "stop").touch()
    wait_until(lambda: "It was asked to stop." in last_words(run_id))
    with contextlib.suppress(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
    done = len(raw_trials(run_id))
    assert 0 < done < 60
    replies = JournaledReplies.of(journal_path(run_id)).replies
    assert last_words(run_id) == (
        f"It was asked to stop. {replies} replies and {done} of 60 trials are stored, and resuming pays "
        f"for none of them again; continue with: python -m core resume {run_id}"
    )
