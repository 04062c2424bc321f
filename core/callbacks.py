"""Callbacks of long work: report progress, and ask whether to stop."""

from collections.abc import Callable
from typing import Protocol

ProgressCallback = Callable[[int, int], None]
"""Called with (done, planned)."""
StopCallback = Callable[[], bool]
"""Called from time to time; true to stop."""


class StepProgress(Protocol):
    """Progress of work in several steps: each step counts from its own beginning."""

    def __call__(self, done: int, planned: int, step: str = "") -> None: ...
