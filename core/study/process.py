"""Runs ``study`` in a separate process, which outlives the page that started it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from core import access, paths


def log_path() -> Path:
    """Return the file with the output of the last study that a page started."""
    return paths.journals_folder().parent / "study.log"


def start_study(words: list[str]) -> None:
    """Start ``study`` with these arguments; its steps are in the log, and its runs are stored as they are played."""
    with log_path().open("wb") as output:
        subprocess.Popen(
            _command(words),
            cwd=paths.ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env=_environment(),
        )


def plan_in_words(words: list[str]) -> str:
    """Return what ``study --dry-run`` prints for these arguments, or why they are refused."""
    done = subprocess.run(
        [*_command(words), "--dry-run"],
        cwd=paths.ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=_environment(),
        text=True,
        check=False,
    )
    return done.stdout.strip()


def _command(words: list[str]) -> list[str]:
    access.require("run")
    return [sys.executable, "-m", "core", "study", *words]


def _environment() -> dict[str, str]:
    return {**os.environ, **access.environment(), "PYTHONUNBUFFERED": "1"}
