"""Long work in a thread of this process, which pages watch and may stop; one piece of it for each key."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from core import access
from core.errors import AnamnesisError

_log = logging.getLogger(__name__)

T = TypeVar("T")
Progress = Callable[[int, int], None]
"""Told how much is done, and of how much."""
Stop = Callable[[], bool]
"""Asked now and then whether to stop."""
_MOST = 6
"""Pieces of work that are over and still remembered."""


class Work(Generic[T]):
    """One piece of work; everything that a page may read is safe to read at any time."""

    called = "It"
    """What broke off, as the subject of a sentence."""

    def __init__(self, do: Callable[[Progress, Stop], T], title: str = "") -> None:
        """``do`` is given a function to tell its progress to, and one to ask whether to stop.

        ``title`` says in a few words what is done, to whoever sees a list of all that is under way.
        """
        self.title = title
        self.done = self.planned = 0
        self.result: T | None = None
        self.error: str | None = None
        self.stopped = False
        self.started_at = time.time()
        self.finished_at: float | None = None
        self._owner = access.visitor().name
        self._thread = threading.Thread(target=access.carried(self._run), args=(do,), name="work", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Ask the work to end soon; what it did by then stays. Others' work is stopped by who may start it."""
        if access.visitor().name != self._owner:
            access.require("run", f"stop {self.title}")
        self.stopped = True

    def join(self, timeout: float | None = None) -> None:
        """Wait until the work is over."""
        self._thread.join(timeout)

    @property
    def running(self) -> bool:
        """Whether it is under way."""
        return self.finished_at is None

    @property
    def seconds_left(self) -> float | None:
        """How long the rest takes at the pace so far; ``None`` before anything is done."""
        if not self.done or not self.running:
            return None
        return (time.time() - self.started_at) * (self.planned - self.done) / self.done

    def _run(self, do: Callable[[Progress, Stop], T]) -> None:
        try:
            self.result = do(self._tell, lambda: self.stopped)
        except AnamnesisError as error:
            self.error = str(error)
        except Exception as error:  # nobody awaits this thread: whoever watches must be told, and the log has the rest
            _log.exception("Work broke off.")
            self.error = f"{self.called} broke off: {str(error) or type(error).__name__}."
        finally:
            self.finished_at = time.time()

    def _tell(self, done: int, planned: int) -> None:
        self.done, self.planned = done, planned


_LOCK = threading.Lock()
_KNOWN: dict[Hashable, Work[Any]] = {}


def work_at(key: Hashable) -> Work[Any] | None:
    """Return the piece of work of this name, under way or over, or ``None``."""
    return _KNOWN.get(key)


def forget(key: Hashable) -> None:
    """Remember a piece of work no more: the next one of this name begins anew."""
    with _LOCK:
        _KNOWN.pop(key, None)


def under_way() -> list[Work[Any]]:
    """Return the pieces of work that have a title and are not over."""
    return [work for work in list(_KNOWN.values()) if work.running and work.title]


def begin(key: Hashable, do: Callable[[Progress, Stop], T], title: str = "") -> Work[T]:
    """Start a piece of work, unless one of this name is under way: then return that."""
    with _LOCK:
        known = _KNOWN.pop(key, None)
        if known is None or not known.running:
            known = Work(do, title)
            known.start()
        _KNOWN[key] = known
        over = [name for name, work in _KNOWN.items() if not work.running]
        for name in over[: max(0, len(over) - _MOST)]:
            del _KNOWN[name]
        return known
