"""Jobs in a thread: progress, stop, errors, and one job for each key."""

from __future__ import annotations

import threading

from core.errors import AnamnesisError
from core.jobs.background import Job, begin, job_at


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

    monkeypatch.setattr("core.jobs.background.time.time", lambda: next(clock))
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
