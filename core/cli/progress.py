"""Signs of life: a line that is renewed every second on a terminal; one every tenth and every minute in a file."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from core.jobs.engine import Progress

_LINE_EVERY_S = 60.0


@contextmanager
def progress_bar(title: str, what: str = "trials") -> Iterator[Callable[[Progress], None]]:
    """Yield a function that shows progress on stderr; ``what`` is counted."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Lines(title, what)
        return
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        TimeRemainingColumn(), TextColumn("{task.fields[life]}"),
    )  # fmt: skip
    with Bar(*columns, console=console) as bar:
        task, shown = bar.add_task(title, total=None, life=""), 0.0

        def show(progress: Progress) -> None:
            nonlocal shown
            bar.update(task, total=progress.planned, completed=progress.done)
            if time.monotonic() - shown >= 1.0 or progress.replies is None:
                shown = time.monotonic()
                bar.update(task, life=progress.in_words())

        yield show


class _Lines:
    """Prints a line whenever another tenth is done, and where nothing was said for a minute."""

    def __init__(self, title: str, what: str) -> None:
        self._title, self._what, self._shown, self._at = title, what, -1, time.monotonic()

    def __call__(self, progress: Progress) -> None:
        tenth, now = 10 * progress.done // max(1, progress.planned), time.monotonic()
        minute = now - self._at >= _LINE_EVERY_S
        if tenth <= self._shown and not minute:
            return
        self._shown, self._at = tenth, now
        words = progress.in_words() if minute else ""
        far = f"{self._title}: {progress.done} of {progress.planned} {self._what}"
        print(f"{far}; {words}" if words else far, file=sys.stderr, flush=True)
