"""Casts, and the campaigns that a page started in other processes: wait for their end, or stop them after a test."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from core.frameworks.casting import REFERENCE, CastNames
from core.jobs.begun import journals
from core.jobs.progress import ask_to_stop, is_running
from core.journal import done_trials, journal_path

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest

BESIDE_RULES = (
    "--patient",
    REFERENCE["patient"],
    "--grader",
    REFERENCE["grader"],
    "--summariser",
    REFERENCE["summariser"],
)
"""Options that put the reference cast in the seats around a model."""


def beside_rules(doctor: str, **others: str) -> CastNames:
    """Return a cast with the reference cast in every seat that is not named."""
    return CastNames(**{**REFERENCE, "doctor": doctor, **others})


def run_ids() -> list[str]:
    return [journal.parent.name for journal in journals()]


def await_end(trials: int, seconds: float = 90) -> None:
    """Wait until the only run has ``trials`` trials and has ended, without drawing a page."""
    (run_id,) = run_ids()
    deadline = time.monotonic() + seconds
    while is_running(run_id) or len(done_trials(journal_path(run_id))) < trials:
        assert time.monotonic() < deadline, "it did not come to its end in time"
        time.sleep(0.1)


def stop_all() -> None:
    """Stop every run in progress, and wait until its process has released it."""
    for run_id in run_ids():
        ask_to_stop(run_id)
        deadline = time.monotonic() + 20
        while is_running(run_id) and time.monotonic() < deadline:
            time.sleep(0.1)


def metrics(app: AppTest) -> dict[str, str]:
    return {metric.label: metric.value for metric in app.metric}


def full(app: AppTest) -> AppTest:
    """Ask for the full study of a model, where a pilot is offered first."""
    size = next(group for group in app.get("button_group") if group.key == "runs_size")
    return size.set_value("full").run()
