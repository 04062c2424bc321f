"""Takes what the journals have grown by into the database: idempotent, safe in many processes at once.

Journals are read without any lease; only the inserts hold the database, some thousand trials at a time, and in one
transaction with the positions that were reached. Killed at any point, the next fold goes on from there.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from asyncio import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import pyarrow as pa

from core import paths
from core.errors import AnamnesisError
from core.journal import (
    DeletedLine,
    GradesLine,
    Line,
    ReplyLine,
    RowLine,
    RunDeletedLine,
    RunHeader,
    TrialLine,
    WithdrawnLine,
    WrittenLine,
    append_shared,
    read_lines,
)
from core.store import rows, written
from core.store.database import TIMEOUT_S, NotWritableError, Store
from core.store.lease import DatabaseBusyError
from core.store.queries.cases import ADD_CASES
from core.store.queries.runs import WATCHED
from core.store.tables import OF_A_TRIAL, Row, adding, delete_runs, insert

CHUNK_TRIALS = 2_000
CHUNK_BYTES = 64_000_000
"""A transaction takes at most about so much of the journals: bounds memory and how long others wait."""
ALONE_AFTER = 4
"""So often a job makes the database follow by itself: the process that does so from then on takes a second to begin."""
ALONE_OVER_BYTES = 1_000_000
"""From so much in its journals on it does not: what is folded at once takes twenty times its size in memory."""
_ENDS_WITHIN_S = 10.0


@dataclass(frozen=True)
class Damaged:
    """A journal that cannot be read to its end, and why; what comes before the damage is in the database."""

    path: Path
    message: str


@dataclass(frozen=True)
class FoldReport:
    """What a fold added. ``journals`` counts those that had grown."""

    journals: int = 0
    runs: int = 0
    trials: int = 0
    grades: int = 0
    written: int = 0
    damaged: tuple[Damaged, ...] = ()


@dataclass
class _Chunk:
    """What is to go into the database in one transaction."""

    rows: dict[str, list[Row]] = field(default_factory=dict)
    written: list[WrittenLine | WithdrawnLine] = field(default_factory=list)
    positions: dict[Path, tuple[int, int]] = field(default_factory=dict)
    trial_ids: set[str] = field(default_factory=set)
    size: int = 0

    def add(self, name: str, new: list[Row]) -> None:
        self.rows.setdefault(name, []).extend(new)

    @property
    def full(self) -> bool:
        return len(self.trial_ids) >= CHUNK_TRIALS or self.size >= CHUNK_BYTES


_all_taken: dict[Path, tuple[str, dict[Path, int]]] = {}
"""Database → its version, and the sizes of its journals, when nothing in them was new: it need not be opened again."""

_unwritable: set[Path] = set()
log = logging.getLogger(__name__)


def fold(store: Store, *, timeout: float = TIMEOUT_S) -> FoldReport:
    """Insert every whole line that is new in the store's journals.

    Takes no write lease where nothing grew, and leaves a database that cannot be written as it is, which is said once.
    A damaged journal is reported, and the others still go in. Raises ``DatabaseBusyError`` where the database stayed in
    use for ``timeout`` seconds.
    """
    grown = _grown(store, timeout)
    added: Counter[str] = Counter()
    damaged: list[Damaged] = []
    try:
        for chunk in _chunks(grown, damaged):
            with store.write(timeout) as connection:
                new = _insert(connection, chunk)
            added.update(new)
            pa.default_memory_pool().release_unused()  # else a job that folds now and then grows by it
    except NotWritableError as error:
        if store.path not in _unwritable:
            _unwritable.add(store.path)
            log.warning("The database %s cannot be written (%s): what it holds is shown.", store.path, error.why)
    return FoldReport(len(grown), added["runs"], added["trials"], added["grades"], added["written"], tuple(damaged))


def _insert(connection: duckdb.DuckDBPyConnection, chunk: _Chunk) -> dict[str, int]:
    """Insert a chunk and the positions that it reaches; return table → how many rows were new."""
    added = {name: insert(connection, sql, name, chunk.rows.get(name, [])) for name, sql in _INSERTS.items()}
    added["written"] = written.take_in(connection, chunk.written)
    _delete(connection, [trial_id for (trial_id,) in chunk.rows.get("deletions", [])])
    delete_runs(connection, [run_id for (run_id,) in chunk.rows.get("run_deletions", [])])
    now = time.time()
    positions = [(str(path), *place, now) for path, place in chunk.positions.items()]
    insert(connection, _ADD_POSITIONS, "journal_positions", positions)
    return added


def fold_if_free(store: Store) -> FoldReport | None:
    """Fold without waiting for others: ``None`` where the database is in use, and it can be tried again later."""
    try:
        return fold(store, timeout=0.2)
    except DatabaseBusyError:
        return None


@asynccontextmanager
async def following(store: Store) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Lend what makes the database follow: of a job that takes long, in a process of its own.

    There it takes neither time nor memory from the job's calls. Its faults are raised as ``AnamnesisError``.
    """
    child: subprocess.Process | None = None
    asked, before = 0, _journaled(store)

    async def ask() -> None:
        nonlocal child, asked
        asked += 1
        if child is None and asked <= ALONE_AFTER and _journaled(store) - before < ALONE_OVER_BYTES:
            await asyncio.to_thread(fold_if_free, store)
            return
        if child is None:
            child = await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", "from core.store.fold import follow; follow()", str(store.path.resolve())),
                cwd=paths.ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is the job's to act on
            )
        assert child.stdin is not None
        assert child.stdout is not None
        with suppress(ConnectionError):
            child.stdin.write(b"\n")
            await child.stdin.drain()
        answer = await child.stdout.readline()
        if not answer:
            status, child = await child.wait(), None
            raise AnamnesisError(f"The process that takes journals into {store.path} ended ({status}).")
        if words := answer.decode().strip():
            raise AnamnesisError(words)

    try:
        yield ask
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
    """Be the process of ``following``: fold at each line that comes in, and answer with what went wrong, or nothing."""
    store = Store(Path(sys.argv[1]))
    for _ in sys.stdin:
        words = ""
        try:
            fold_if_free(store)
        except Exception as error:  # who asks is told, and asks again
            words = " ".join(f"{error}".split()) or repr(error)
        print(words, flush=True)


def keep_lines(store: Store, job: str, lines: Sequence[Line]) -> None:
    """Journal what came of a job that is done piece by piece now and then, and take it into the database."""
    append_shared(store.journals / job / "journal.jsonl", lines)
    fold(store)


def _journaled(store: Store) -> int:
    """Return the bytes in all journals of the database."""
    found = 0
    for path in store.journals.glob("*/journal.jsonl"):
        with suppress(OSError):  # a run that is deleted meanwhile
            found += path.stat().st_size
    return found


def _grown(store: Store, timeout: float) -> dict[Path, tuple[int, int]]:
    """Return journal → (where to read on, size now) for those with more than the database has of them."""
    journals = sorted(p.resolve() for p in store.journals.glob("*/journal.jsonl"))
    if not journals:
        return {}
    before = store.version
    sizes = {path: path.stat().st_size for path in journals if path.exists()}
    if _all_taken.get(store.path) == (before, sizes):
        return {}
    with store.read(timeout) as cursor:
        known = dict(cursor.execute(_POSITIONS).fetchall())
    # a journal that is shorter than what was read of it was replaced by hand: read it again
    starts = {path: known.get(str(path), 0) if known.get(str(path), 0) <= size else 0 for path, size in sizes.items()}
    grown = {path: (starts[path], size) for path, size in sizes.items() if size > starts[path]}
    if not grown:
        _all_taken[store.path] = before, sizes
    return grown


def _chunks(grown: dict[Path, tuple[int, int]], damaged: list[Damaged]) -> Iterator[_Chunk]:
    chunk = _Chunk()
    for path, (start, size) in grown.items():
        position = start
        try:
            for offset, line in read_lines(path, start):
                _take(chunk, line)
                chunk.size += offset - position
                position = offset
                chunk.positions[path] = (offset, size)
                if chunk.full:
                    yield chunk
                    chunk = _Chunk()
        except (AnamnesisError, OSError) as error:
            damaged.append(Damaged(path, str(error)))
    if chunk.positions:
        yield chunk


def _take(chunk: _Chunk, line: Line) -> None:
    if isinstance(line, RunHeader):
        if line.source == "release":  # the import describes the run, and where nothing is imported there is none
            return
        now = time.time()
        chunk.add("runs", [rows.run_row(line)])
        chunk.add("run_cases", [(line.run_id, c.case_key, c.content_hash, n) for n, c in enumerate(line.cases)])
        chunk.add("cases", [rows.case_row(case, now) for case in line.cases])
    elif isinstance(line, TrialLine):
        if line.trial_id not in chunk.trial_ids:  # two engines may have run one trial: the first counts
            chunk.trial_ids.add(line.trial_id)
            chunk.add("trials", [rows.trial_row(line)])
            for name, new in rows.child_rows(line).items():
                chunk.add(name, new)
    elif isinstance(line, DeletedLine):
        chunk.add("deletions", [(line.trial_id,)])
    elif isinstance(line, RunDeletedLine):
        chunk.add("run_deletions", [(line.run_id,)])
    elif isinstance(line, ReplyLine):
        chunk.add("calls", [rows.reply_row(line)])
    elif isinstance(line, GradesLine):
        chunk.add("grades", rows.grade_rows(line))
    elif isinstance(line, WithdrawnLine):
        chunk.written.append(line)
    elif isinstance(line, WrittenLine):
        written.rows_of(line)  # raises here, where the place in the journal is known
        chunk.written.append(line)
    elif isinstance(line, RowLine) and (editable := written.as_written(line)):
        chunk.written.append(editable)
    elif isinstance(line, RowLine):
        chunk.add(line.table, [rows.job_row(line)])


def _delete(connection: duckdb.DuckDBPyConnection, trial_ids: list[str]) -> None:
    """Take trials out of every table, and their runs where they were watched ones and nothing is left of them.

    Their calls were paid for, and stay.
    """
    if not trial_ids:
        return
    sql = "SELECT DISTINCT run_id FROM trials WHERE list_contains(?, trial_id)"
    runs = [run_id for (run_id,) in connection.execute(sql, [trial_ids]).fetchall()]
    for table in OF_A_TRIAL:
        if table != "calls":
            connection.execute(f"DELETE FROM {table} WHERE list_contains(?, trial_id)", [trial_ids])
    emptied = f"""
        SELECT run_id FROM runs ANTI JOIN trials USING (run_id)
        WHERE list_contains(?, run_id) AND list_contains({list(WATCHED)}, source)"""
    for table in ("run_cases", "runs"):
        connection.execute(f"DELETE FROM {table} WHERE run_id IN ({emptied})", [runs])


_POSITIONS = "SELECT path, arg_max(position, ordinal) FROM journal_positions GROUP BY path"

# Of two processes that fold the same lines, the slower one must not set the position back.
_ADD_POSITIONS = f"""
    INSERT INTO journal_positions BY NAME
    SELECT incoming.path, incoming.position, incoming.folded_at
    FROM incoming LEFT JOIN ({_POSITIONS}) AS known (path, position) ON known.path = incoming.path
    WHERE known.position IS NULL OR known.position < incoming.position OR known.position > incoming.size"""

# The trials come last: the rows that hang on a trial go in where the trial is not there yet.
_INSERTS = {
    "runs": adding("runs", "run_id", "DISTINCT ON (run_id)"),
    "cases": ADD_CASES,
    "run_cases": adding("run_cases", "run_id, case_key", "DISTINCT ON (run_id, case_key)"),
    **{
        name: f"INSERT INTO {name} BY NAME SELECT * FROM incoming ANTI JOIN trials USING (trial_id)"
        for name in rows.CHILDREN
        if name not in ("grades", "calls")
    },
    **{
        name: adding(name, key, "DISTINCT")
        for name, key in (
            ("grades", "trial_id, format, question_type, rule, grader, graded_at"),
            ("patient_judgements", "trial_id, model, prompt_hash, judged_at"),
            ("fact_judgements", "trial_id, model, prompt_hash, judged_at"),
            (
                "prefix_answers",
                "trial_id, question_type, share, solver, prompt_hash, grader, grader_prompts, answered_at",
            ),
            ("completions", "case_key, content_hash, model, prompt_hash, made_at"),
        )
    },
    "variants": adding("variants", "variant_id", "DISTINCT ON (variant_id)"),
    "calls": adding("calls", "trial_id, call_id", "DISTINCT ON (trial_id, call_id)"),
    "trials": """
        INSERT INTO trials BY NAME
        SELECT incoming.*, run_cases.content_hash
        FROM incoming LEFT JOIN run_cases USING (run_id, case_key)
        ANTI JOIN trials ON trials.trial_id = incoming.trial_id""",
}
