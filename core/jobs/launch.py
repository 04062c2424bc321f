"""Starts campaigns in processes of their own, so that they outlive whoever started them."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from core import paths
from core.errors import AnamnesisError
from core.jobs.engine import is_running
from core.jobs.run import begin
from core.journal import RunHeader, journal_path

_STARTED_WITHIN_S = 8.0


def start(header: RunHeader, concurrency: int, budget_usd: float | None) -> None:
    """Begin a new run and carry it out in a process of its own."""
    begin(header)
    go_on(header.run_id, concurrency, budget_usd)


def go_on(run_id: str, concurrency: int, budget_usd: float | None = None) -> None:
    """Carry on with a run in a process of its own; raise ``AnamnesisError`` with its words if it ends at once."""
    command = [sys.executable, "-m", "core", "resume", run_id, "--concurrency", str(concurrency)]
    if budget_usd is not None:
        command += ["--budget-usd", str(budget_usd)]
    log = journal_path(run_id).parent / "engine.log"
    with log.open("ab") as output:
        child = subprocess.Popen(
            command, cwd=paths.ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
    deadline = time.monotonic() + _STARTED_WITHIN_S
    while time.monotonic() < deadline:
        status = child.poll()
        if status == 0 or is_running(run_id):
            return
        if status is not None:
            raise AnamnesisError(last_words(run_id) or f"The run ended at once; see {log}.")
        time.sleep(0.1)


def last_words(run_id: str) -> str:
    """Return the last line that a run's own process wrote."""
    log = journal_path(run_id).parent / "engine.log"
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines() if log.exists() else []
    return lines[-1] if lines else ""
