"""Work in a thread: progress, stop, faults, and one piece of it for each key."""

from __future__ import annotations

import threading

from core.errors import AnamnesisError
from core.work import Work, begin, work_at


def over(work: Work) -> Work:
    work.join(20)
    assert not work.running
    return work


def test_progress_and_result_can_be_watched() -> None:
    told, go_on = threading.Event(), threading.Event()

    def do(tell, stop) -> str:
        tell(1, 4)
        told.set()
        go_on.wait(20)
        return "done"

    work = begin("watched", do)
    assert told.wait(20)
    assert (work.running, work.done, work.planned, work.result) == (True, 1, 4, None)
    assert work.seconds_left is not None
    assert begin("watched", lambda tell, stop: "another") is work, "it is under way already"
    go_on.set()
    assert over(work).result == "done"
    assert work_at("watched") is work
    assert over(begin("watched", lambda tell, stop: "another")).result == "another"


def test_it_hears_a_stop() -> None:
    def do(tell, stop) -> str:
        while not stop():
            threading.Event().wait(0.01)
        return "stopped"

    work = begin("stopped", do)
    work.stop()
    assert over(work).result == "stopped"


def test_faults_are_said() -> None:
    def known(tell, stop) -> None:
        raise AnamnesisError("The database is busy.")

    def unknown(tell, stop) -> None:
        raise KeyError("x")

    assert over(begin("known", known)).error == "The database is busy."
    assert "broke off" in str(over(begin("unknown", unknown)).error)


def test_only_a_few_that_are_over_are_remembered() -> None:
    works = [over(begin(("many", n), lambda tell, stop: None)) for n in range(40)]
    assert work_at(("many", 39)) is works[-1]
    assert work_at(("many", 0)) is None
