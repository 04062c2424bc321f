"""DuckDB itself, which takes far longer to start than a file takes to open: it is kept, and files come and go."""

from __future__ import annotations

import atexit
import threading
from pathlib import Path

import duckdb

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
