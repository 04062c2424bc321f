"""DuckDB engines, and leases of the database file: many readers on one connection, or one writer alone.

DuckDB takes far longer to start than to open a file, and to open a file than to read it: the engine stays while files
are opened and closed, and the file stays open for ``IDLE_S`` after its last reader. A gate orders the threads of a
process. A marker file next to the database asks readers of all processes to let a waiting writer go first. Neither is
stored permanently.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import duckdb

from core.errors import AnamnesisError

_Result = TypeVar("_Result")
NAME = "anamnesis"
"""The name of the attached file; SQL names without a prefix refer to it."""
RENEWED = ".renewed"
"""Suffix of the new file while an older database is brought up to date (``core.store.renewal``)."""
_SUFFIXES = tuple(f"{new}{log}" for new in ("", RENEWED) for log in ("", ".wal", ".wal.checkpoint", ".wal.recovery"))
"""Suffixes of the files of a database."""
CONFIG = {
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "python_enable_replacements": "false",
    "memory_limit": "800MB",
    "allocator_background_threads": "true",
}
"""Engines load no extensions, and SQL cannot read Python variables as tables.

Queries that need more memory than the limit use files next to the database; DuckDB's default is most of the memory of
the machine. Freed memory is returned to the system at once.
"""
IDLE_S = 0.2
"""Seconds that the file stays open for the next reader; less if a writer of any process waits."""
_LOOK_S = 0.01
"""Seconds between two looks for such a writer."""
_lock = threading.Lock()
_engines: dict[Path, duckdb.DuckDBPyConnection] = {}
"""The engine of the file that was opened last; it never has more than one entry."""


class Opened:
    """An open database file, for one writer or for many readers."""

    def __init__(self, path: Path, *, read_only: bool) -> None:
        """Open the file. Raises ``duckdb.IOException`` if another process has locked it or it is no database."""
        self._path, self._stamp = path, file_stamp(path)
        self.results: dict[str | None, dict[Hashable, Any]] = {}
        """Results of ``while_open`` by the visitor that sees them."""
        self.failed = False
        """Whether a query raised an error, which may be one of the engine."""
        try:
            self.connection = self._attach(path, read_only=read_only)
        except duckdb.FatalException:  # an engine with a fatal error never recovers
            close_engines()
            self.connection = self._attach(path, read_only=read_only)

    def _attach(self, path: Path, *, read_only: bool) -> duckdb.DuckDBPyConnection:
        self.engine = _engine(path)
        connection = self.engine.cursor()
        try:
            mode = "READ_ONLY" if read_only else "READ_WRITE"
            connection.execute(f"ATTACH {sql_literal(path)} AS {NAME} ({mode})")
            connection.execute(f"USE {NAME}")
        except BaseException:
            connection.close()
            raise
        return connection

    def cursor(self) -> duckdb.DuckDBPyConnection:
        cursor = self.connection.cursor()
        cursor.execute(f"USE {NAME}")
        return cursor

    @property
    def current(self) -> bool:
        """Whether the path still has the file that was opened, with the data of that moment, and no query failed."""
        return not self.failed and file_stamp(self._path) == self._stamp

    def close(self) -> None:
        try:
            self.connection.execute("USE memory")
            self.connection.execute(f"DETACH {NAME}")
        except (duckdb.FatalException, duckdb.IOException):
            # the disk is full, so the write-ahead log could not be merged; it keeps what was committed
            close_engines()
        finally:
            self.connection.close()


_results: dict[duckdb.DuckDBPyConnection, dict[Hashable, Any]] = {}
"""Cursors of readers → what is known already of the file that they read."""


@contextmanager
def remembering(opened: Opened, cursor: duckdb.DuckDBPyConnection, visitor: str | None) -> Iterator[None]:
    """Let ``while_open`` remember results for this cursor and others of the same file and visitor."""
    _results[cursor] = opened.results.setdefault(visitor, {})
    try:
        yield
    finally:
        del _results[cursor]


def while_open(cursor: duckdb.DuckDBPyConnection, key: Hashable, compute: Callable[[], _Result]) -> _Result:
    """Return what was computed under this key since the file is open for readers: nothing can change meanwhile.

    The result is shared: never change it. On the connection of a writer it is computed each time.
    """
    results = _results.get(cursor)
    if results is None:
        return compute()
    if key not in results:
        results[key] = compute()
    result: _Result = results[key]
    return result


@contextmanager
def transaction(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    connection.begin()
    try:
        yield
        connection.commit()
    except BaseException:
        with suppress(duckdb.Error):  # the first error matters
            connection.rollback()
        raise


def close_engines() -> None:
    with _lock:
        _engines.clear()


atexit.register(close_engines)


def file_stamp(path: Path) -> str:
    """Return a text that changes with every write to a database file, and if another file replaces it."""
    stamps = []
    for file in (path, path.with_name(f"{path.name}.wal")):
        try:
            status = file.stat()
            stamps.append(f"{status.st_ino:x}.{status.st_mtime_ns:x}.{status.st_size:x}")
        except OSError:
            stamps.append("0")
    return "-".join(stamps)


def sql_literal(path: Path | str) -> str:
    return "'" + str(path).replace("'", "''") + "'"


def path_of(connection: duckdb.DuckDBPyConnection) -> Path:
    (path,) = connection.execute("SELECT path FROM duckdb_databases() WHERE database_name = ?", [NAME]).fetchall()[0]
    return Path(path)


def _engine(path: Path) -> duckdb.DuckDBPyConnection:
    """Return the engine of a file. Its SQL can access only this file: no others, no network, no extensions."""
    with _lock:
        if path not in _engines:
            _engines.clear()
            engine = duckdb.connect(config={**CONFIG, "temp_directory": f"{path}.tmp"})
            files = ", ".join(sql_literal(path.with_name(f"{path.name}{end}")) for end in _SUFFIXES)
            engine.execute(f"SET allowed_paths = [{files}]")
            engine.execute("SET enable_external_access = false")
            engine.execute("SET lock_configuration = true")
            _engines[path] = engine
        return _engines[path]


_MARKER_LIFE_S = 0.5
"""Age in seconds after which a marker is stale: its writer has ended."""


class DatabaseBusyError(AnamnesisError):
    """The database was in use by others until the timeout."""


class Marker:
    """A file that a waiting writer touches again and again; while it is fresh, new readers wait."""

    def __init__(self, database: Path) -> None:
        self._path = database.with_name(f"{database.name}.writer-waits")

    def raise_(self) -> None:
        """Touch the marker. If the folder cannot be written, readers do not wait."""
        with suppress(OSError):
            self._path.touch()

    def clear(self) -> None:
        with suppress(OSError):
            self._path.unlink(missing_ok=True)

    def wait(self, deadline: float) -> None:
        """Wait while a writer waits, but not after ``deadline`` (of ``time.monotonic``)."""
        while self.fresh() and time.monotonic() < deadline:
            time.sleep(0.01)

    def fresh(self) -> bool:
        try:
            return time.time() - self._path.stat().st_mtime < _MARKER_LIFE_S
        except OSError:
            return False


class _ThreadLeases(threading.local):
    """The leases of the current thread: the number of shared ones, and whether it writes."""

    shared = 0
    alone = False


class DatabaseGate:
    """Orders the threads of this process: readers share, a writer is alone and precedes later readers."""

    def __init__(self, database: Path) -> None:
        self.marker = Marker(database)
        self._database = database
        self._changed = threading.Condition()
        self._leases = _ThreadLeases()
        self._readers = 0
        self._writers_waiting = 0
        self._alone: str | None = None
        self._opened: Opened | None = None
        self._idle_since = 0.0
        self._closer: threading.Thread | None = None

    @contextmanager
    def shared(
        self, open_file: Callable[[], Opened], deadline: float
    ) -> Iterator[tuple[Opened, duckdb.DuckDBPyConnection]]:
        """Yield the readers' file, which the first reader opens and which stays open for the next ones, and a cursor.

        Raises ``RuntimeError`` in a thread that writes, ``DatabaseBusyError`` when the deadline passes.
        """
        opened, cursor = self._enter_shared(open_file, deadline)
        try:
            yield opened, cursor
        except duckdb.Error:
            opened.failed = True
            raise
        finally:
            cursor.close()
            with self._changed:
                self._leases.shared -= 1
                self._readers -= 1
                self._idle_since = time.monotonic()
                if self._closer is None or not self._closer.is_alive():
                    self._closer = threading.Thread(target=self._close_when_idle, name="lease", daemon=True)
                    self._closer.start()
                self._changed.notify_all()

    @contextmanager
    def alone(self, deadline: float) -> Iterator[None]:
        """Wait until no other thread of this process uses the database, and exclude all others.

        Raises ``RuntimeError`` in a thread that already reads or writes, ``DatabaseBusyError`` when the deadline
        passes.
        """
        if self._leases.shared or self._leases.alone:
            activity = "writing to" if self._leases.alone else "reading"
            raise RuntimeError(f"This thread is already {activity} the database: end that lease before writing.")
        with self._changed:
            self._writers_waiting += 1
            try:
                self._wait(lambda: self._alone is None and self._readers == 0, deadline)
                self.close_idle()
                self._lock_writer()
            finally:
                self._writers_waiting -= 1
                self._changed.notify_all()
        self._leases.alone = True
        try:
            yield
        finally:
            self._leases.alone = False
            self._unlock()

    def _enter_shared(
        self, open_file: Callable[[], Opened], deadline: float
    ) -> tuple[Opened, duckdb.DuckDBPyConnection]:
        if self._leases.alone:
            raise RuntimeError("This thread is writing to the database: read through the connection it already has.")
        nested = self._leases.shared > 0
        if not nested:
            self.marker.wait(deadline)
        with self._changed:
            if not nested:
                self._wait(lambda: self._alone is None and not self._writers_waiting, deadline)
            if self._opened is not None and (self._readers or self._opened.current):
                return self._join(self._opened)
            self.close_idle()
            self._lock_writer()
        try:
            opened = open_file()
        except BaseException:
            self._unlock()
            raise
        with self._changed:
            self._alone = None
            self._opened = opened
            self._changed.notify_all()
            return self._join(opened)

    def _join(self, opened: Opened) -> tuple[Opened, duckdb.DuckDBPyConnection]:
        cursor = opened.cursor()
        self._readers += 1
        self._leases.shared += 1
        return opened, cursor

    def close_idle(self, idle_s: float = 0.0) -> bool:
        """Close the file if nobody has read it for so long; return whether it is closed."""
        with self._changed:
            if self._opened is not None and not self._readers and time.monotonic() - self._idle_since >= idle_s:
                opened, self._opened = self._opened, None
                opened.close()
            return self._opened is None

    def _close_when_idle(self) -> None:
        closed = False
        while not closed:
            time.sleep(_LOOK_S)
            with self._changed:
                closed = self.close_idle(0.0 if self.marker.fresh() else IDLE_S)
                if closed:
                    self._closer = None

    def _lock_writer(self) -> None:
        self._alone = threading.current_thread().name

    def _unlock(self) -> None:
        with self._changed:
            self._alone = None
            self._changed.notify_all()

    def _wait(self, free: Callable[[], bool], deadline: float) -> None:
        while not free():
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                user = f"thread {self._alone}" if self._alone else f"{self._readers} readers"
                raise DatabaseBusyError(
                    f"The database {self._database} is still in use by another part of this program ({user}): "
                    "try again in a moment."
                )
            self._changed.wait(remaining)


_gates: dict[Path, DatabaseGate] = {}
_gates_lock = threading.Lock()


@atexit.register
def _close_files() -> None:
    for gate in _gates.values():
        gate.close_idle()


def gate_of(database: Path) -> DatabaseGate:
    """Return the gate of a database file; there is one per file, because DuckDB opens a file once in a process."""
    with _gates_lock:
        return _gates.setdefault(database.resolve(), DatabaseGate(database))
