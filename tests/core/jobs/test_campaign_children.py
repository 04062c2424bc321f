"""Campaigns in processes of their own that are interrupted, killed at any moment, and taken up again."""

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
from core.jobs.plan import find_header, header_of, parse_arms
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
    """Whole lines in the one journal so far, its first among them."""
    return sum(p.read_bytes().count(b"\n") for p in (db.parent / f"{db.stem}.journals").glob("*/journal.jsonl"))


def kill_at(child: Command, db: Path, trials: int, moment: float) -> None:
    """Kill -9 a child a moment after so many trials are in the journal."""
    wait_until(lambda: lines_of(db) > trials or child.poll() is not None, 120)
    time.sleep(moment)
    child.send_signal(signal.SIGKILL)
    child.communicate()


def undisturbed(cases: int, trials: int) -> dict[tuple[str, int], object]:
    """What happens in every trial of the same campaign where nobody disturbs it."""
    chosen = library()[:cases]
    many = choices_of("library")
    arms = parse_arms(ARMS)
    campaign = Campaign(CastNames("reference/bayes"), tuple(chosen), arms=arms, many_choices=many, trials=trials)
    header = header_of(campaign, registry(), now=0.0)
    begin(header)
    assert go(header).stopped is None
    return {(line.case_key, line.trial): story(line) for line in trial_lines(header.run_id)}


def check_kills(db: Path, cases: int, trials: int, kills: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kill a run of the reference cast so often, resume it each time, and compare it with an undisturbed one."""
    rng = random.Random(20)
    planned = cases * trials
    moments = sorted(rng.sample(range(planned - planned // 10), kills))
    arguments = ["run", "--doctor", "reference/bayes", "--limit", str(cases), "--trials", str(trials), "--arms", ARMS]
    kept: dict[str, bytes] = {}
    killed = 0
    for done in moments:
        child = spawn(db, *arguments)
        kill_at(child, db, done, rng.uniform(0, 0.12))
        killed += child.returncode == -signal.SIGKILL
        (run_id,) = run_ids(db)
        arguments = ["resume", run_id, "--concurrency", str(rng.choice([1, 8, 32]))]
        now = raw_trials(run_id)
        assert len(now) >= done
        assert {trial: now[trial] for trial in kept} == kept  # byte by byte what it was
        kept = now
    assert killed == kills
    assert 0 < len(kept) < planned
    ended = core(db, *arguments)
    assert ended.returncode == 0, ended.stderr
    assert f"Run {run_id} is complete: {planned} trials." in ended.stdout

    after = raw_trials(run_id)
    assert {trial: after[trial] for trial in kept} == kept
    lines = trial_lines(run_id)
    chosen = [case.case_key for case in library()[:cases]]
    assert keys(lines) == sorted((case, t) for case in chosen for t in range(trials))  # none twice, none lost
    with Store().read() as cursor:
        stored = stored_run(cursor, run_id)
        answers = cursor.execute("SELECT count(*), count(DISTINCT (trial_id, format, question_type)) FROM answers")
        counts = answers.fetchone()
    assert stored is not None
    assert (stored.done, stored.state) == (planned, "complete")
    assert counts == (4 * planned, 4 * planned)
    monkeypatch.setenv("ANAMNESIS_DB", str(db.with_name("undisturbed.duckdb")))
    assert {(line.case_key, line.trial): story(line) for line in lines} == undisturbed(cases, trials)


@pytest.mark.soak
def test_a_run_killed_twice_ends_as_if_nothing_had_happened(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_kills(db, cases=20, trials=3, kills=2, monkeypatch=monkeypatch)


@pytest.mark.soak
def test_a_run_killed_ten_times_ends_as_if_nothing_had_happened(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_kills(db, cases=60, trials=5, kills=10, monkeypatch=monkeypatch)


@pytest.fixture
def slow_provider(fake_provider_thread: FakeProvider) -> FakeProvider:
    fake_provider_thread.script = lambda body: Reply("**Final Diagnosis:** Gout", delay_s=0.1)
    return fake_provider_thread


def begun_here(provider: FakeProvider, cases: int = 60) -> str:
    """Begin a run of one request a trial; a child is to carry it out."""
    header = header_of(plan(cases, base_url=provider.base_url), registry())
    begin(header)
    return header.run_id


@pytest.mark.soak
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_says_how_to_go_on_and_does(
    db: Path, slow_provider: FakeProvider, sign: signal.Signals
) -> None:
    run_id = begun_here(slow_provider)
    child = spawn(db, "resume", run_id, "--concurrency", "3")
    wait_until(lambda: len(slow_provider.requests) >= 9)
    child.send_signal(sign)
    stopped_at = time.monotonic()
    ended = finish(child, 60)
    assert time.monotonic() - stopped_at < 30
    kept = raw_trials(run_id)
    replies = JournaledReplies.of(journal_path(run_id)).replies
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1] == (
        f"It was interrupted. {replies} replies and {len(kept)} of 60 trials are stored, and resuming "
        f"pays for none of them again; continue with: python -m core resume {run_id}"
    )
    assert "Traceback" not in ended.stderr
    assert 6 <= len(kept) < 40
    with Store().read() as cursor:  # what was done is in the database too
        stored = stored_run(cursor, run_id)
    assert stored is not None
    assert (stored.done, stored.state) == (len(kept), "partial")
    slow_provider.script = ["**Final Diagnosis:** Gout"]
    slow_provider.requests.clear()
    assert go(find_header(run_id), concurrency=8).progress.done_here == 60 - len(kept)
    again = asked_about(slow_provider)
    assert 57 - len(kept) <= len(again) == len(set(again)) <= 60 - len(kept), "replies that were there count"
    after = raw_trials(run_id)
    assert {trial: after[trial] for trial in kept} == kept
    assert len(after) == 60


@pytest.mark.soak
def test_a_second_process_is_told_that_the_run_is_under_way(db: Path, slow_provider: FakeProvider) -> None:
    run_id = begun_here(slow_provider, cases=300)  # more than the first can do before the second has spoken
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
    asked = asked_about(slow_provider)
    assert len(asked) == len(set(asked))  # nothing was asked by both
    assert len(raw_trials(run_id)) in (len(asked), len(asked) - 1)


def test_a_run_in_a_process_of_its_own_outlives_its_starter_and_stops_when_asked(
    db: Path, slow_provider: FakeProvider
) -> None:
    run_id = begun_here(slow_provider)
    go_on(run_id, concurrency=2)
    wait_until(lambda: len(slow_provider.requests) >= 4)
    (journal_path(run_id).parent / "stop").touch()
    wait_until(lambda: "It was asked to stop." in last_words(run_id), 20)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
    kept = len(raw_trials(run_id))
    assert 0 < kept < 60
    replies = JournaledReplies.of(journal_path(run_id)).replies
    assert last_words(run_id) == (
        f"It was asked to stop. {replies} replies and {kept} of 60 trials are stored, and resuming pays "
        f"for none of them again; continue with: python -m core resume {run_id}"
    )
