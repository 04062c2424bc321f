"""The DuckDB file as a lease: ``with store.read() as cursor`` and ``with store.write() as connection``, for moments.

Within the timeout nobody sees a lock error: who comes too early waits. The file is created, and brought up to date,
by whoever opens it first.
"""

from __future__ import annotations

import logging
import os
import random
import re
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import duckdb
import psutil

from core import paths
from core.errors import AnamnesisError
from core.store import migrations
from core.store.lease import DatabaseBusyError, Gate, gate_of

log = logging.getLogger(__name__)
TIMEOUT_S = 30.0
"""How long a lease waits for others by default."""

_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "python_enable_replacements": "false",
    "lock_configuration": "true",
}
"""SQL reaches the database and nothing else: no files, no network, no extensions, no Python variables."""

_LOCKED = re.compile(r"could not set lock|conflicting lock|being used by another process", re.IGNORECASE)
_HOLDER = re.compile(r"\(PID (\d+)\)")


class Store:
    """The database of results. Cheap to make; holds nothing open."""

    def __init__(self, path: Path | None = None) -> None:
        """``path`` defaults to the configured database (``ANAMNESIS_DB``)."""
        self.path = (path or paths.database_path()).expanduser().absolute()

    @property
    def journals(self) -> Path:
        """The folder with the journals of the runs in this database."""
        return self.path.parent / f"{self.path.stem}.journals"

    @property
    def version(self) -> str:
        """A text that changes whenever the data changes: the key for caches. Costs two looks at the folder."""
        return "-".join(_stamp(p) for p in (self.path, self.path.with_name(f"{self.path.name}.wal")))

    @contextmanager
    def read(self, timeout: float = TIMEOUT_S) -> Iterator[duckdb.DuckDBPyConnection]:
        """Lend a read-only cursor; all readers of a process share a connection, which the last one closes.

        Reading inside reading is fine. Do not wait for other threads meanwhile, and fetch all that is needed: a
        lazy Arrow reader that outlives the lease would block the next one. Raises ``DatabaseBusyError`` after
        ``timeout`` seconds, ``RuntimeError`` inside ``write`` of the same thread.
        """
        gate, deadline = self._gate(), time.monotonic() + timeout
        cursor = gate.enter_shared(lambda: self._open(deadline, read_only=True), deadline)
        try:
            yield cursor
        finally:
            cursor.close()
            gate.leave_shared()

    @contextmanager
    def write(self, timeout: float = TIMEOUT_S) -> Iterator[duckdb.DuckDBPyConnection]:
        """Lend the database for one transaction: committed at the end, rolled back if anything is raised.

        Keep it short: all others wait. Raises ``DatabaseBusyError`` after ``timeout`` seconds, ``RuntimeError``
        inside another lease of the same thread.
        """
        deadline = time.monotonic() + timeout
        with self._alone(deadline):
            connection = self._open(deadline, read_only=False)
            try:
                with _transaction(connection):
                    yield connection
            finally:
                connection.close()

    def copy_to(self, target: Path, timeout: float = TIMEOUT_S) -> None:
        """Write a compact copy of the whole database to ``target``, which must not exist yet."""
        if target.exists():
            raise AnamnesisError(f"{target} exists already: choose another name for the copy.")
        deadline = time.monotonic() + timeout
        with self._alone(deadline):
            self._open(deadline, read_only=True).close()
            with duckdb.connect(":memory:") as connection:
                connection.execute(f"ATTACH {_quoted(self.path)} AS original (READ_ONLY)")
                connection.execute(f"ATTACH {_quoted(target)} AS copy")
                connection.execute("COPY FROM DATABASE original TO copy")

    def _gate(self) -> Gate:
        return gate_of(self.path)

    @contextmanager
    def _alone(self, deadline: float) -> Iterator[None]:
        gate = self._gate()
        gate.enter_alone(deadline)
        try:
            yield
        finally:
            gate.leave_alone()

    def _open(self, deadline: float, *, read_only: bool) -> duckdb.DuckDBPyConnection:
        """Open the file, which is created or migrated first where needed. The caller has the gate for itself."""
        if not self.path.exists():
            _create(self.path)
        connection = self._connect(deadline, read_only=read_only)
        try:
            missing = migrations.missing(connection, self.path)
            if not missing:
                return connection
            if not read_only:
                with _transaction(connection):
                    migrations.migrate(connection, missing)
                log.warning("Brought the database %s up to date: %s.", self.path, ", ".join(missing))
                return connection
        except BaseException:
            connection.close()
            raise
        connection.close()
        self._open(deadline, read_only=False).close()
        return self._connect(deadline, read_only=True)

    def _connect(self, deadline: float, *, read_only: bool) -> duckdb.DuckDBPyConnection:
        """Connect, again and again while another process is in the way."""
        marker = self._gate().marker
        try:
            while True:
                try:
                    return duckdb.connect(str(self.path), read_only=read_only, config=_CONFIG)
                except duckdb.IOException as error:
                    self._explain(str(error), deadline)
                if not read_only:
                    marker.raise_()
                time.sleep(random.uniform(0.005, 0.05))
        finally:
            if not read_only:
                marker.clear()

    def _explain(self, message: str, deadline: float) -> None:
        """Return if it is worth trying again, else raise what the user can do."""
        if not _LOCKED.search(message):
            raise AnamnesisError(
                f"The database {self.path} cannot be opened: {message.removeprefix('IO Error: ').splitlines()[0]}"
            )
        if time.monotonic() >= deadline:
            raise DatabaseBusyError(
                f"The database {self.path} is in use by another process ({_describe_holder(message)}): "
                "wait until it has finished, or stop it."
            )


@contextmanager
def _transaction(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    connection.begin()
    try:
        yield
        connection.commit()
    except BaseException:
        with suppress(duckdb.Error):  # what went wrong first is what matters
            connection.rollback()
        raise


def _create(path: Path) -> None:
    """Make an empty database under another name and put it in place, so that nobody ever meets half of one."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AnamnesisError(
            f"The folder {path.parent} for the database cannot be made ({error.strerror}): set ANAMNESIS_DB to a file "
            "in a folder of yours."
        ) from error
    draft = path.with_name(f"{path.name}.{uuid.uuid4().hex[:8]}.new")
    try:
        _make_empty(draft)
        _put_in_place(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def _make_empty(path: Path) -> None:
    with duckdb.connect(str(path), config=_CONFIG) as connection, _transaction(connection):
        migrations.migrate(connection, list(migrations.MIGRATIONS))


def _put_in_place(draft: Path, path: Path) -> None:
    try:
        os.link(draft, path)
    except FileExistsError:
        return  # another process was faster
    except OSError:  # a file system without hard links
        if not path.exists():
            draft.rename(path)


def _describe_holder(message: str) -> str:
    found = _HOLDER.search(message)
    if found is None:
        return "its number is unknown"
    try:
        command = " ".join(psutil.Process(int(found[1])).cmdline())
    except psutil.Error:
        command = ""
    return f"PID {found[1]}: {command[:200]}" if command else f"PID {found[1]}"


def _stamp(path: Path) -> str:
    try:
        status = path.stat()
    except OSError:
        return "0"
    return f"{status.st_mtime_ns:x}.{status.st_size:x}"


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"
