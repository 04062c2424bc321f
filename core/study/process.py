"""Runs ``study`` in a separate process, which outlives the page that started it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from core import paths
from core.jobs.run import program


def log_path() -> Path:
    """Return the file with the output of the last study that a page started."""
    return paths.local_folder() / "study.log"


def start_study(words: list[str]) -> None:
    """Start ``study`` with these arguments; its steps are in the log, and its runs are stored as they are played."""
    log_path().parent.mkdir(parents=True, exist_ok=True)
    with log_path().open("wb") as output:
        program(["study", *words], output, {})


def plan_in_words(words: list[str]) -> tuple[bool, str]:
    """Return whether the study can start, and what ``study --dry-run`` prints: what it takes, or why it is refused."""
    child = program(["study", *words, "--dry-run"], subprocess.PIPE, {})
    said, _ = child.communicate()
    return child.returncode == 0, said.decode(errors="replace").strip()
