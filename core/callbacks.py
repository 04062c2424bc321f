"""Callbacks of long work: report progress, and ask whether to stop."""

from collections.abc import Callable

ProgressCallback = Callable[[int, int], None]
"""Called with (done, planned)."""
StopCallback = Callable[[], bool]
"""Called from time to time; true to stop."""
