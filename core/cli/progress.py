"""A progress bar on a terminal; a line every tenth where the output goes to a file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from core.jobs.engine import Progress


@contextmanager
def progress_bar(title: str, what: str = "trials") -> Iterator[Callable[[Progress], None]]:
    """Yield a function that shows progress on stderr; ``what`` is counted."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Lines(title, what)
        return
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        TimeRemainingColumn(), TextColumn("{task.fields[spent]}"),
    )  # fmt: skip
    with Bar(*columns, console=console) as bar:
        task = bar.add_task(title, total=None, spent="")

        def show(progress: Progress) -> None:
            spent = f"{progress.tokens:,} tokens ${progress.cost_usd:.2f}" if progress.tokens else ""
            bar.update(task, total=progress.planned, completed=progress.done, spent=spent)

        yield show


class _Lines:
    """Prints a line whenever another tenth is done."""

    def __init__(self, title: str, what: str) -> None:
        self._title, self._what, self._shown = title, what, -1

    def __call__(self, progress: Progress) -> None:
        tenth = 10 * progress.done // max(1, progress.planned)
        if tenth > self._shown:
            self._shown = tenth
            print(f"{self._title}: {progress.done} of {progress.planned} {self._what}", file=sys.stderr, flush=True)
