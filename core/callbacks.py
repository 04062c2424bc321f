"""How long work tells how far it is, and hears that it is to stop."""

from collections.abc import Callable

Progress = Callable[[int, int], None]
"""Told how much is done, and of how much."""
Stop = Callable[[], bool]
"""Asked now and then whether to stop."""
