"""Inserts the new lines of the journals into the database: idempotent, safe in many processes at once.

Journals are read without a lease; only the inserts lock the database, a few thousand trials at a time, in one
transaction with the journal positions that they reach. After an interruption the next fold continues from there.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import sys
import tempfile
from asyncio import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from core import paths
from core.errors import AnamnesisError
from core.journal import journal_path
from core.store.database import TIMEOUT_S, NotWritableError, Store
from core.store.inserts import POSITIONS, DamagedJournal, Inserted, Places, grown_since, insert_journals
from core.store.lease import DatabaseBusyError

PROCESS_AFTER_FOLDS = 4
"""Folds that a job runs itself before it starts a process for them, which takes a second to start."""
PROCESS_AFTER_BYTES = 1_000_000
"""New bytes in the journals above which it starts the process: a fold takes twenty times their size in memory."""
_ENDS_WITHIN_S = 10.0


@dataclass(frozen=True)
class FoldReport:
    """The numbers of rows that a fold added, and of ``journals`` that had grown.

    ``removed`` counts skipped lines by kind: earlier versions wrote them, and this one does not have their kind.
    """

    journals: int = 0
    runs: int = 0
    trials: int = 0
    grades: int = 0
    written: int = 0
    damaged: tuple[DamagedJournal, ...] = ()
    removed: Counter[str] = field(default_factory=Counter)

    @property
    def skipped(self) -> str:
        """One sentence about the skipped lines; empty if there were none."""
        return skipped_lines(self.removed)


def skipped_lines(removed: Counter[str]) -> str:
    """Return one sentence about the skipped journal lines, counted by kind; empty if there were none."""
    if not removed:
        return ""
    kinds = ", ".join(f"{number:,} {kind}" for kind, number in sorted(removed.items()))
    return f"Skipped {removed.total():,} journal lines of kinds that earlier versions had ({kinds})."


_up_to_date: dict[Path, tuple[str, dict[Path, int]]] = {}
"""Database → its version and the sizes of its journals when a fold found nothing new: no need to open it again."""

_unwritable: set[Path] = set()
log = logging.getLogger(__name__)


def fold(store: Store, *, timeout: float = TIMEOUT_S) -> FoldReport:
    """Insert all complete new lines of the store's journals.

    If no journal has grown, no write lease is taken. A read-only database is left unchanged, with one warning. A
    damaged journal is reported, and the other journals are still inserted. Raises ``DatabaseBusyError`` if the database
    is in use for longer than ``timeout`` seconds.
    """
    done = Inserted()
    try:
        insert_journals(lambda: store.write(timeout), lambda: _grown(store, timeout), done)
    except NotWritableError as error:
        if store.path not in _unwritable:
            _unwritable.add(store.path)
            log.warning(
                "The database %s cannot be written (%s): its current contents are shown.", store.path, error.why
            )
    counts = {name: done.added[name] for name in ("runs", "trials", "grades", "written")}
    return FoldReport(done.journals, **counts, damaged=tuple(done.damaged.values()), removed=done.removed)


def check_journal(path: Path, name: str) -> None:
    """Fold the journal of an import into an empty database.

    Raises ``AnamnesisError`` with the ``name`` of the imported file if one of its lines cannot be stored.
    """
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".check-") as folder:
        store = Store(Path(folder) / "check.duckdb")
        alone = journal_path("alone", store.journals)
        alone.parent.mkdir(parents=True)
        alone.symlink_to(path.resolve())
        if problems := fold(store).damaged:
            raise AnamnesisError(f"{name} cannot be stored, and nothing of it was: {problems[0].reason}.")


def fold_if_free(store: Store) -> FoldReport | None:
    """Fold without waiting; ``None`` if the database is in use, and the fold can be tried again later."""
    try:
        return fold(store, timeout=0.2)
    except DatabaseBusyError:
        return None


@asynccontextmanager
async def following(store: Store) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Yield a function that folds the journals; for a long job it uses a separate process.

    The process takes neither time nor memory from the calls of the job. Its errors are raised as ``AnamnesisError``.
    """
    child: subprocess.Process | None = None
    folds, size_at_start = 0, _journal_bytes(store)

    async def fold_now() -> None:
        nonlocal child, folds
        folds += 1
        grown = _journal_bytes(store) - size_at_start
        if child is None and folds <= PROCESS_AFTER_FOLDS and grown < PROCESS_AFTER_BYTES:
            await asyncio.to_thread(fold_if_free, store)
            return
        if child is None:
            child = await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", "from core.store.fold import follow; follow()", str(store.path.resolve())),
                cwd=paths.ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # the job handles Ctrl-C, not this process
            )
        assert child.stdin is not None
        assert child.stdout is not None
        with suppress(ConnectionError):
            child.stdin.write(b"\n")
            await child.stdin.drain()
        answer = await child.stdout.readline()
        if not answer:
            status, child = await child.wait(), None
            raise AnamnesisError(f"The process that folds journals into {store.path} ended ({status}).")
        if message := answer.decode().strip():
            raise AnamnesisError(message)

    try:
        yield fold_now
    finally:
        if child is not None and child.stdin is not None:
            child.stdin.close()
            try:
                async with asyncio.timeout(_ENDS_WITHIN_S):
                    await child.wait()
            except TimeoutError:
                child.kill()
                await child.wait()


def follow() -> None:
    """Run the process of ``following``: fold for each input line, and answer with an error message or an empty line."""
    store = Store(Path(sys.argv[1]))
    for _ in sys.stdin:
        message = ""
        try:
            fold_if_free(store)
        except Exception as error:  # the job raises it, and may fold again
            message = " ".join(f"{error}".split()) or repr(error)
        print(message, flush=True)


def content_state(store: Store) -> str:
    """Return a digest of the journal lines and release files in the database.

    ``Store.version`` changes with every write; this stays the same when figures of them are stored, such as scores.
    """
    return _content_state(store.path, store.version)


@functools.lru_cache(maxsize=64)
def _content_state(path: Path, version: str) -> str:
    with Store(path).read() as cursor:
        (digest,) = cursor.execute(_CONTENT).fetchone() or ("",)
    return str(digest)


def _journal_bytes(store: Store) -> int:
    total = 0
    for path in store.journals.glob("*/journal.jsonl"):
        with suppress(OSError):  # the run may be deleted at this moment
            total += path.stat().st_size
    return total


def _grown(store: Store, timeout: float) -> Places:
    """Return the journals that have grown since the last fold."""
    journals = sorted(p.resolve() for p in store.journals.glob("*/journal.jsonl"))
    if not journals:
        return {}
    version = store.version
    sizes = {path: path.stat().st_size for path in journals if path.exists()}
    if _up_to_date.get(store.path) == (version, sizes):
        return {}
    with store.read(timeout) as cursor:
        positions = dict(cursor.execute(POSITIONS).fetchall())
    grown = grown_since(positions, sizes)
    if not grown:
        _up_to_date[store.path] = version, sizes
    return grown


_CONTENT = """
    SELECT md5(coalesce(string_agg(part, chr(10) ORDER BY part), '')) FROM (
        SELECT concat_ws(' ', path, arg_max(position, ordinal)) AS part FROM journal_positions GROUP BY path
        UNION ALL SELECT concat_ws(' ', run_id, path, digest) FROM release_files
    )"""
