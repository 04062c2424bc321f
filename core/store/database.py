"""Short leases of the DuckDB file: ``with store.read() as cursor`` and ``with store.write() as connection``.

A caller waits for the lock until the timeout. The first caller creates the file, or brings an older one up to date.
"""

from __future__ import annotations

import errno
import hashlib
import os
import random
import re
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import duckdb
import psutil
from filelock import FileLock, Timeout

from core import access, paths
from core.errors import AnamnesisError
from core.journal import NO_ROOM, PRIVATE
from core.store import renewal, schema, tallies
from core.store.lease import (
    NAME,
    DatabaseBusyError,
    Opened,
    close_engines,
    file_stamp,
    gate_of,
    remembering,
    sql_literal,
    transaction,
)
from core.store.tables import OF_TRIALS, TABLES

Cursor = duckdb.DuckDBPyConnection
"""A cursor for reading, which every query takes."""
TIMEOUT_S = 30.0
"""How long a lease waits for others by default."""

_LOCKED = re.compile(r"could not set lock|conflicting lock|being used by another process", re.IGNORECASE)
_UNWRITABLE = tuple(map(os.strerror, (errno.EROFS, errno.EACCES, errno.EPERM)))
_NO_ROOM = tuple(map(os.strerror, NO_ROOM))
_DAMAGED = re.compile(r"corrupt|checksum|enough bytes|deserializ|invalidated|INTERNAL", re.IGNORECASE)
_REBUILD = "run `python -m core verify`, which rebuilds it from the journals. Import releases again."
_HOLDER = re.compile(r"\(PID (\d+)\)")


class NotWritableError(AnamnesisError):
    """The database cannot be written: no permission, or no room; ``why`` says which."""

    def __init__(self, message: str, why: str) -> None:
        super().__init__(message)
        self.why = why


class Store:
    """The database of results; cheap to make."""

    def __init__(self, path: Path | None = None) -> None:
        """``path`` defaults to the configured database (``ANAMNESIS_DB``)."""
        self.path = paths.expanded(path or paths.database_path()).absolute()

    @property
    def journals(self) -> Path:
        return paths.journals_of(self.path)

    @property
    def version(self) -> str:
        """A text that changes whenever the data changes: the key for caches. Costs two looks at the folder."""
        return file_stamp(self.path)

    @contextmanager
    def read(self, timeout: float = TIMEOUT_S) -> Iterator[duckdb.DuckDBPyConnection]:
        """Lend a read-only cursor; all readers of a process share a connection, which stays open for the next ones.

        Reading inside reading is fine. Do not wait for other threads meanwhile, and fetch all that is needed: a
        lazy Arrow reader that outlives the lease would block the next one. Raises ``DatabaseBusyError`` after
        ``timeout`` seconds, ``RuntimeError`` inside ``write`` of the same thread. What visitors of a shared server made
        for themselves is there for them alone (``core.access``).
        """
        deadline = time.monotonic() + timeout
        lease = gate_of(self.path).shared(lambda: self._open(deadline, read_only=True), deadline)
        with self._sound(), lease as (opened, cursor):
            if (who := access.visible_owner()) is not None:
                _hide(cursor, who)
            with remembering(opened, cursor, who):
                yield cursor

    @contextmanager
    def write(self, timeout: float = TIMEOUT_S) -> Iterator[duckdb.DuckDBPyConnection]:
        """Lend the database for one transaction: committed at the end, rolled back if anything is raised.

        Keep it short: all others wait. Raises ``DatabaseBusyError`` after ``timeout`` seconds, ``RuntimeError``
        inside another lease of the same thread.
        """
        deadline = time.monotonic() + timeout
        with (
            self._sound(),
            gate_of(self.path).alone(deadline),
            closing(self._open(deadline, read_only=False)) as opened,
            transaction(opened.connection),
        ):
            before = tallies.states(opened.connection)
            yield opened.connection
            tallies.bring_up_to_date(opened.connection, before)

    def copy_to(
        self,
        target: Path,
        without_reviews: Collection[str] = (),
        change: Callable[[duckdb.DuckDBPyConnection, str], object] | None = None,
    ) -> dict[str, int]:
        """Write a compact copy of the database to ``target``, which must not exist yet.

        The answers in ``without_reviews`` are left out; returns the id of each such review → their number.
        ``change`` is called with a connection and the name of a database in it: it removes what the copy must not have.
        """
        if target.exists():
            raise AnamnesisError(f"{target} exists already: choose another name for the copy.")
        deadline = time.monotonic() + TIMEOUT_S
        with self._sound(), gate_of(self.path).alone(deadline):
            while True:
                self._open(deadline, read_only=True).close()  # brought up to date, and free a moment ago
                try:
                    with duckdb.connect(":memory:") as connection:
                        connection.execute(f"ATTACH {sql_literal(self.path)} AS original (READ_ONLY)")
                        connection.execute(f"ATTACH {sql_literal(target)} AS copy")
                        if not without_reviews and change is None:
                            connection.execute("COPY FROM DATABASE original TO copy")
                            return {}
                        # deleted rows may stay readable in their file, so another copy is made without them
                        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
                            connection.execute(f"ATTACH {sql_literal(Path(folder) / 'fewer')} AS fewer")
                            connection.execute("COPY FROM DATABASE original TO fewer")
                            removed = connection.execute(
                                "DELETE FROM fewer.judgements WHERE list_contains($1, review_id) RETURNING review_id",
                                [list(without_reviews)],
                            ).fetchall()
                            if change is not None:
                                change(connection, "fewer")
                            connection.execute("COPY FROM DATABASE fewer TO copy")
                            connection.execute("DETACH fewer")
                    return dict(Counter(review_id for (review_id,) in removed))
                except duckdb.IOException as error:  # another process, such as a run, was faster
                    why = _first_line(error)
                    if any(words in why for words in (*_NO_ROOM, *_UNWRITABLE)):
                        raise AnamnesisError(
                            f"The database cannot be copied to {target.parent} ({why.rpartition(': ')[2]}): make room "
                            "there, or choose another place."
                        ) from error
                    if not _LOCKED.search(why):
                        raise
                time.sleep(0.05)

    @contextmanager
    def _sound(self) -> Iterator[None]:
        """Say what to do where the block finds the disk full, or the file damaged."""
        try:
            yield
        except duckdb.Error as error:
            why = _first_line(error)
            if full := next((words for words in _NO_ROOM if words in str(error)), None):
                raise NotWritableError(
                    f"The database {self.path} cannot be written ({full}): make room, then try again. Nothing is "
                    f"lost: what was paid for or written stands in the journals ({self.journals.name}) and is taken "
                    "from there.",
                    full,
                ) from error
            if not _DAMAGED.search(str(error)):
                raise
            close_engines()
            raise AnamnesisError(
                f"The database {self.path} is damaged ({why.rstrip('.')}): move it elsewhere, with "
                f"{self.path.name}.wal if that is there, and {_REBUILD}"
            ) from error

    def _open(self, deadline: float, *, read_only: bool) -> Opened:
        """Open the file; create it or bring it up to date before, if needed. The caller has the gate for itself."""
        if not self.path.exists():
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise AnamnesisError(
                    f"The folder {self.path.parent} for the database cannot be made ({error.strerror}): set "
                    "ANAMNESIS_DB to a file in a folder of yours."
                ) from error
            draft = self.path.with_name(f"{self.path.name}.{uuid.uuid4().hex[:8]}.new")
            try:
                _make_empty(draft)
                _put_in_place(draft, self.path)
            finally:
                draft.unlink(missing_ok=True)
        opened = self._connect(deadline, read_only=read_only)
        try:
            older = schema.older(opened.connection, self.path)
        except BaseException:
            opened.close()
            raise
        if older is None:
            return opened
        opened.close()
        self._renew(deadline)
        return self._connect(deadline, read_only=read_only)

    def _renew(self, deadline: float) -> None:
        """Bring an older database up to date, unless another process does so first."""
        busy = FileLock(self.path.with_name(f"{self.path.name}.renewing"))
        try:
            with busy.acquire(timeout=max(0.0, deadline - time.monotonic())):
                self._connect(deadline, read_only=False).close()  # merges a log that a crash left into the file
                with closing(self._connect(deadline, read_only=True)) as opened:  # nobody can write to it meanwhile
                    if older := schema.older(opened.connection, self.path):
                        renewal.renew(opened.connection, self.path, self.journals, older)
                Path(busy.lock_file).unlink(missing_ok=True)
        except Timeout as error:
            raise DatabaseBusyError(
                f"The database {self.path} is being brought up to date by another process: wait until it has finished."
            ) from error
        except OSError as error:
            reason = error.strerror or str(error)
            if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
                raise self._not_writable(reason) from error
            raise AnamnesisError(
                f"The database {self.path} cannot be brought up to date ({reason}), and is unchanged: make room in its "
                "folder for a second copy, then try again."
            ) from error

    def _not_writable(self, reason: str) -> NotWritableError:
        return NotWritableError(
            f"The database {self.path} can be read but not written ({reason}): nothing can be run, graded, named or "
            f"deleted here. Copy it, with its journals ({self.journals.name}), to a place of yours and set "
            "ANAMNESIS_DB to it.",
            reason,
        )

    def _connect(self, deadline: float, *, read_only: bool) -> Opened:
        """Connect, again and again while another process is in the way."""
        marker = gate_of(self.path).marker
        try:
            while True:
                try:
                    return Opened(self.path, read_only=read_only)
                except duckdb.IOException as error:
                    message = str(error)
                    if not _LOCKED.search(message):
                        if _DAMAGED.search(message) or any(words in message for words in _NO_ROOM):
                            raise
                        why = _first_line(error)
                        reason = why.rpartition(": ")[2]
                        if not read_only and any(words in message for words in _UNWRITABLE) and self.path.exists():
                            raise self._not_writable(reason) from error
                        raise AnamnesisError(
                            f"The database {self.path} cannot be opened: {why.rstrip('.')}. Name another file in "
                            f"ANAMNESIS_DB; or, if it was a database once, move it elsewhere and {_REBUILD}"
                        ) from error
                    if time.monotonic() >= deadline:
                        raise DatabaseBusyError(
                            f"The database {self.path} is in use by another process ({_describe_holder(message)}): "
                            "wait until it has finished, or stop it."
                        ) from error
                if not read_only:
                    marker.raise_()
                time.sleep(random.uniform(0.005, 0.05))
        finally:
            if not read_only:
                marker.clear()


def _hide(cursor: duckdb.DuckDBPyConnection, who: str) -> None:
    """Hide other users' private runs and variants from a cursor, by views that precede the tables.

    The views are created once per visitor and engine, in memory.
    """
    place = f"visitor_{hashlib.sha256(who.encode()).hexdigest()[:16]}"
    seen = f"SET search_path = 'memory.{place},{NAME}.main'"
    try:
        cursor.execute(seen)
        return
    except duckdb.CatalogException:
        pass
    me = who.replace("'", "''")
    private_runs = f"SELECT run_id FROM {NAME}.main.runs WHERE source IN {PRIVATE} AND visitor NOT IN ('', '{me}')"
    of_runs = f"EXISTS (SELECT 1 FROM ({private_runs}) AS others WHERE others.run_id = visible.run_id)"
    of_trials = f"""EXISTS (
        SELECT 1 FROM {NAME}.main.trials AS others SEMI JOIN ({private_runs}) USING (run_id)
        WHERE others.trial_id = visible.trial_id)"""
    same = "used.case_key = visible.case_key AND used.content_hash = visible.content_hash"
    of_cases = " AND NOT ".join(
        f"EXISTS (SELECT 1 FROM {NAME}.main.run_cases AS used {join} JOIN ({private_runs}) USING (run_id) WHERE {same})"
        for join in ("SEMI", "ANTI")
    )
    hidden = {
        **dict.fromkeys((name for name, table in TABLES.items() if table.of == "run"), of_runs),
        **dict.fromkeys(OF_TRIALS, of_trials),
        "runs": of_runs,
        "cases": of_cases,
        "variants": f"coalesce(visible.visitor, '') NOT IN ('', '{me}')",
    }
    with _making_views:
        cursor.execute(f"CREATE SCHEMA IF NOT EXISTS memory.{place}")
        for name, others in hidden.items():
            cursor.execute(
                f"CREATE OR REPLACE VIEW memory.{place}.{name} AS "
                f"SELECT *, rowid FROM {NAME}.main.{name} AS visible WHERE NOT ({others})"
            )
    cursor.execute(seen)


_making_views = threading.Lock()


def _make_empty(path: Path) -> None:
    with closing(Opened(path, read_only=False)) as opened, transaction(opened.connection):
        schema.create(opened.connection)


def _put_in_place(draft: Path, path: Path) -> None:
    try:
        os.link(draft, path)
    except FileExistsError:
        return  # another process was faster
    except OSError:  # a file system without hard links
        if not path.exists():
            draft.rename(path)


def _first_line(error: Exception) -> str:
    return str(error).removeprefix("IO Error: ").splitlines()[0]


def _describe_holder(message: str) -> str:
    match = _HOLDER.search(message)
    if match is None:
        return "its number is unknown"
    try:
        command = " ".join(psutil.Process(int(match[1])).cmdline())
    except psutil.Error:
        command = ""
    return f"PID {match[1]}: {command[:200]}" if command else f"PID {match[1]}"
