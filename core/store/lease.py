"""DuckDB itself, and who may use the database file at this moment: many readers on one connection, or one writer alone.

DuckDB takes far longer to start than a file takes to open: it is kept, and files come and go. A gate orders the threads
of a process. A marker file beside the database asks the readers of all processes to make room for a writer that waits.
Neither is ever kept.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import duckdb

from core.errors import AnamnesisError

NAME = "anamnesis"
"""Under which a file is attached; all that SQL names without a prefix is in it."""
_ENDS = ("", ".wal", ".wal.checkpoint", ".wal.recovery")
"""What the names of a database's files end in."""
CONFIG = {
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "python_enable_replacements": "false",
    "memory_limit": "800MB",
    "allocator_background_threads": "true",
}
"""No engine loads extensions, or takes a variable of the program's for a table.

What needs more memory than that goes through files beside the database; DuckDB's default is most of all there is.
What it needs no more goes back to the system at once.
"""
_lock = threading.Lock()
_kept: dict[Path, duckdb.DuckDBPyConnection] = {}
"""The engine of the file that was opened last: of others there is none."""


class Opened:
    """A database file that is open, for one writer or for many readers."""

    def __init__(self, path: Path, *, read_only: bool) -> None:
        """Open it. Raises ``duckdb.IOException`` where the file is locked by another process or is no database."""
        try:
            self.connection = self._attach(path, read_only=read_only)
        except duckdb.FatalException:  # an engine that once failed beyond repair says so forever
            forget()
            self.connection = self._attach(path, read_only=read_only)

    def _attach(self, path: Path, *, read_only: bool) -> duckdb.DuckDBPyConnection:
        self.engine = _engine(path)
        connection = self.engine.cursor()
        try:
            mode = "READ_ONLY" if read_only else "READ_WRITE"
            connection.execute(f"ATTACH {quoted(path)} AS {NAME} ({mode})")
            connection.execute(f"USE {NAME}")
        except BaseException:
            connection.close()
            raise
        return connection

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """Return one more connection to the file."""
        cursor = self.connection.cursor()
        cursor.execute(f"USE {NAME}")
        return cursor

    def close(self) -> None:
        """Let go of the file, for other processes to open."""
        try:
            self.connection.execute("USE memory")
            self.connection.execute(f"DETACH {NAME}")
        except (duckdb.FatalException, duckdb.IOException):
            # what was committed stands in the log beside the file, which could not be taken into it: the disk is full
            forget()
        finally:
            self.connection.close()


def forget() -> None:
    """Keep no engine."""
    with _lock:
        _kept.clear()


atexit.register(forget)


def quoted(path: Path) -> str:
    """Return a path as SQL writes it."""
    return "'" + str(path).replace("'", "''") + "'"


def path_of(connection: duckdb.DuckDBPyConnection) -> Path:
    """Return the database file that a connection has open."""
    (path,) = connection.execute("SELECT path FROM duckdb_databases() WHERE database_name = ?", [NAME]).fetchall()[0]
    return Path(path)


def _engine(path: Path) -> duckdb.DuckDBPyConnection:
    """Return the engine of a file. Its SQL reaches that file and nothing else: no others, no network, no extensions."""
    with _lock:
        if path not in _kept:
            _kept.clear()
            engine = duckdb.connect(config={**CONFIG, "temp_directory": f"{path}.tmp"})
            files = ", ".join(quoted(path.with_name(f"{path.name}{end}")) for end in _ENDS)
            engine.execute(f"SET allowed_paths = [{files}]")
            engine.execute("SET enable_external_access = false")
            engine.execute("SET lock_configuration = true")
            _kept[path] = engine
        return _kept[path]


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

    @contextmanager
    def shared(self, open_file: Callable[[], Opened], deadline: float) -> Iterator[duckdb.DuckDBPyConnection]:
        """Join the readers and lend a cursor of their connection, which the first of them opens and the last closes.

        Raises ``RuntimeError`` in a thread that writes, ``DatabaseBusyError`` when the deadline passes.
        """
        cursor = self._enter_shared(open_file, deadline)
        try:
            yield cursor
        finally:
            cursor.close()
            with self._changed:
                self._held.shared -= 1
                self._readers -= 1
                if self._readers == 0 and self._opened is not None:
                    opened, self._opened = self._opened, None
                    opened.close()
                self._changed.notify_all()

    @contextmanager
    def alone(self, deadline: float) -> Iterator[None]:
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
        try:
            yield
        finally:
            self._held.alone = False
            self._give_back()

    def _enter_shared(self, open_file: Callable[[], Opened], deadline: float) -> duckdb.DuckDBPyConnection:
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
