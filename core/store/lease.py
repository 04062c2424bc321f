"""Who may use the database file at this moment: many readers of one process on one connection, or one writer alone.

A gate orders the threads of a process. A marker file beside the database asks the readers of all processes to make
room for a writer that waits. Neither is ever kept.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import duckdb

from core.errors import AnamnesisError
from core.store.engine import Opened

_MARKER_LIFE_S = 0.5
"""A marker that was not renewed for so long belongs to a writer that is gone."""


class DatabaseBusyError(AnamnesisError):
    """The database stayed in use by others for the whole time that one was ready to wait."""


class Marker:
    """A file that a waiting writer keeps fresh; while it is fresh, new readers hold back."""

    def __init__(self, database: Path) -> None:
        self._path = database.with_name(f"{database.name}.writer-waits")

    def raise_(self) -> None:
        """Say, or say again, that a writer waits. Where the folder cannot be written, nobody is asked."""
        with suppress(OSError):
            self._path.touch()

    def clear(self) -> None:
        """Take the marker away; another waiting writer raises it again."""
        with suppress(OSError):
            self._path.unlink(missing_ok=True)

    def wait(self, deadline: float) -> None:
        """Hold back while a writer waits, but not beyond ``deadline`` (of ``time.monotonic``)."""
        while self._fresh() and time.monotonic() < deadline:
            time.sleep(0.01)

    def _fresh(self) -> bool:
        try:
            return time.time() - self._path.stat().st_mtime < _MARKER_LIFE_S
        except OSError:
            return False


class _Held(threading.local):
    """What the current thread holds."""

    shared = 0
    alone = False


class Gate:
    """Orders the threads of this process: readers together, a writer alone and before readers that come later."""

    def __init__(self, database: Path) -> None:
        self.marker = Marker(database)
        self._database = database
        self._changed = threading.Condition()
        self._held = _Held()
        self._readers = 0
        self._writers_waiting = 0
        self._alone: str | None = None
        self._opened: Opened | None = None

    def enter_shared(self, open_file: Callable[[], Opened], deadline: float) -> duckdb.DuckDBPyConnection:
        """Join the readers and return a cursor of their connection, which the first of them opens.

        Raises ``RuntimeError`` in a thread that writes, ``DatabaseBusyError`` when the deadline passes.
        """
        if self._held.alone:
            raise RuntimeError("This thread is writing to the database: read through the connection it already has.")
        nested = self._held.shared > 0
        if not nested:
            self.marker.wait(deadline)
        with self._changed:
            if not nested:
                self._wait(lambda: self._alone is None and not self._writers_waiting, deadline)
            if self._opened is not None:
                return self._join(self._opened)
            self._take()
        try:
            opened = open_file()
        except BaseException:
            self._give_back()
            raise
        with self._changed:
            self._alone = None
            self._opened = opened
            self._changed.notify_all()
            return self._join(opened)

    def leave_shared(self) -> None:
        """Leave the readers; the last one closes the connection."""
        with self._changed:
            self._held.shared -= 1
            self._readers -= 1
            if self._readers == 0 and self._opened is not None:
                opened, self._opened = self._opened, None
                opened.close()
            self._changed.notify_all()

    def enter_alone(self, deadline: float) -> None:
        """Wait until no other thread of this process uses the database, and keep all others out.

        Raises ``RuntimeError`` in a thread that already reads or writes, ``DatabaseBusyError`` when the deadline
        passes.
        """
        if self._held.shared or self._held.alone:
            doing = "writing to" if self._held.alone else "reading"
            raise RuntimeError(f"This thread is already {doing} the database: end that lease before writing.")
        with self._changed:
            self._writers_waiting += 1
            try:
                self._wait(lambda: self._alone is None and self._readers == 0, deadline)
                self._take()
            finally:
                self._writers_waiting -= 1
                self._changed.notify_all()
        self._held.alone = True

    def leave_alone(self) -> None:
        """Let the others in again."""
        self._held.alone = False
        self._give_back()

    def _join(self, opened: Opened) -> duckdb.DuckDBPyConnection:
        cursor = opened.cursor()
        self._readers += 1
        self._held.shared += 1
        return cursor

    def _take(self) -> None:
        self._alone = threading.current_thread().name

    def _give_back(self) -> None:
        with self._changed:
            self._alone = None
            self._changed.notify_all()

    def _wait(self, free: Callable[[], bool], deadline: float) -> None:
        while not free():
            left = deadline - time.monotonic()
            if left <= 0:
                who = f"thread {self._alone}" if self._alone else f"{self._readers} readers"
                raise DatabaseBusyError(
                    f"The database {self._database} is still in use by another part of this program ({who}): "
                    "try again in a moment."
                )
            self._changed.wait(left)


_gates: dict[Path, Gate] = {}
_gates_lock = threading.Lock()


def gate_of(database: Path) -> Gate:
    """Return the one gate of a database file in this process (DuckDB opens a file once in a process)."""
    with _gates_lock:
        return _gates.setdefault(database.resolve(), Gate(database))
