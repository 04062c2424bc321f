"""Jobs in a thread: progress, stop, errors, and one job for each key."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from core.errors import AnamnesisError
from core.jobs.background import Job, begin, job_at, keep_measured
from core.measures.measuring import measure_trials
from core.measures.registry import measures
from core.store.database import Store
from tests.support.stores import campaign, copy_of, count_unmeasured


def over(job: Job) -> Job:
    job.join(60)
    assert not job.running
    return job


def test_progress_and_result_can_be_watched() -> None:
    reported, go_on = threading.Event(), threading.Event()

    def do(tell, stop) -> str:
        tell(1, 4)
        reported.set()
        go_on.wait(60)
        return "done"

    job = begin("watched", do)
    assert reported.wait(60)
    assert (job.running, job.done, job.planned, job.result) == (True, 1, 4, None)
    assert job.seconds_left is not None
    assert begin("watched", lambda tell, stop: "another") is job, "it is running already"
    go_on.set()
    assert over(job).result == "done"
    assert job_at("watched") is job
    assert over(begin("watched", lambda tell, stop: "another")).result == "another"


def test_the_time_left_of_a_step_counts_from_its_own_beginning(monkeypatch) -> None:
    clock = iter([1000.0, 1000.0, 1060.0, 1064.0, 1064.0])
    reported, finish = threading.Event(), threading.Event()

    def do(tell, stop) -> None:
        tell(30, 90, "Downloading")  # resumed: 30 were here before
        tell(0, 50, "Unpacking")
        tell(10, 50, "Unpacking")
        reported.set()
        finish.wait(60)

    monkeypatch.setattr("core.jobs.background.time", SimpleNamespace(time=lambda: next(clock), sleep=time.sleep))
    job = begin("steps", do)
    assert reported.wait(60)
    assert job.seconds_left == 16.0, "10 of 50 in 4 seconds"
    assert job.step == "Unpacking"
    finish.set()
    over(job)


def test_a_job_can_be_stopped() -> None:
    def do(tell, stop) -> str:
        while not stop():
            threading.Event().wait(0.01)
        return "stopped"

    job = begin("stopped", do)
    job.stop()
    assert over(job).result == "stopped"


def test_errors_become_messages() -> None:
    def expected_error(tell, stop) -> None:
        raise AnamnesisError("The database is busy.")

    def unexpected_error(tell, stop) -> None:
        raise KeyError("x")

    assert over(begin("expected", expected_error)).error == "The database is busy."
    assert "broke off" in str(over(begin("unexpected", unexpected_error)).error)


def test_only_the_latest_finished_jobs_are_remembered() -> None:
    jobs = [over(begin(("many", n), lambda tell, stop: None)) for n in range(40)]
    assert job_at(("many", 39)) is jobs[-1]
    assert job_at(("many", 0)) is None


def test_what_is_stored_is_measured_in_the_background_once(tmp_path: Path) -> None:
    store = copy_of(campaign, tmp_path)

    def unmeasured() -> int:
        return sum(count_unmeasured(store, measure) for measure in measures().values())

    for _ in range(2):
        assert unmeasured()
        work = keep_measured(store)
        assert work is not None
        assert (over(work).error, unmeasured()) == (None, 0)
        assert keep_measured(store) is None, "nothing was stored since"
        with store.write() as connection:
            connection.execute("DELETE FROM scores WHERE measure = 'history_taking'")


def test_a_trial_whose_case_is_deleted_meanwhile_is_not_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = copy_of(campaign, tmp_path)
    waiting = {name: count_unmeasured(store, measure) for name, measure in measures().items()}
    assert any(waiting.values())
    monkeypatch.setattr("core.measures.measuring.cases_of", lambda cursor, keys: {})
    measure_trials(store, measures().values(), processes=0)
    assert {name: count_unmeasured(store, measure) for name, measure in measures().items()} == waiting


def test_it_is_not_measured_while_another_job_runs(tmp_path: Path) -> None:
    store, go_on, told = Store(tmp_path / "results.duckdb"), threading.Event(), threading.Event()

    def import_(tell, stop) -> None:
        tell(1, 2)
        told.set()
        go_on.wait(60)

    job = begin("import", import_, "Importing")
    assert told.wait(60)
    assert keep_measured(store) is None
    go_on.set()
    over(job)
    assert keep_measured(store) is not None
