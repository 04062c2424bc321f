"""Inserts the new lines of the journals into the database: idempotent, safe in many processes at once.

Journals are read without a lease; only the inserts lock the database, a few thousand trials at a time, in one
transaction with the journal positions that they reach. After an interruption the next fold continues from there.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import math
import sys
import tempfile
import time
from asyncio import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
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
    JournalLine,
    RemovedLine,
    ReplyLine,
    RowLine,
    RunDeletedLine,
    RunHeader,
    TrialLine,
    WithdrawnLine,
    WrittenLine,
    damaged,
    journal_path,
    read_lines,
)
from core.store import rows, written
from core.store.database import TIMEOUT_S, NotWritableError, Store
from core.store.lease import DatabaseBusyError
from core.store.queries.cases import ADD_CASES
from core.store.queries.runs import WATCHED
from core.store.tables import OF_A_TRIAL, TableRow, adding, delete_runs, insert
from core.words import fault_of

CHUNK_TRIALS = 2_000
CHUNK_BYTES = 64_000_000
"""Approximate limits of one transaction: they bound memory and how long other processes wait."""
PROCESS_AFTER_FOLDS = 4
"""Folds that a job runs itself before it starts a process for them, which takes a second to start."""
PROCESS_AFTER_BYTES = 1_000_000
"""New bytes in the journals above which it starts the process: a fold takes twenty times their size in memory."""
_ENDS_WITHIN_S = 10.0


@dataclass(frozen=True)
class DamagedJournal:
    """A journal that cannot be folded to its end, and the reason; the lines before the damage are in the database."""

    path: Path
    message: str
    reason: str


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


@dataclass
class _Chunk:
    """The lines of one transaction."""

    rows: dict[str, list[TableRow]] = field(default_factory=dict)
    written: list[WrittenLine | WithdrawnLine] = field(default_factory=list)
    positions: dict[Path, tuple[int, int]] = field(default_factory=dict)
    trial_ids: set[str] = field(default_factory=set)
    size: int = 0
    lines: int = 0
    removed: Counter[str] = field(default_factory=Counter)

    def add(self, name: str, new: list[TableRow]) -> None:
        self.rows.setdefault(name, []).extend(new)

    def full(self, most_lines: float) -> bool:
        return len(self.trial_ids) >= CHUNK_TRIALS or self.size >= CHUNK_BYTES or self.lines >= most_lines


@dataclass
class _Done:
    """What a fold has inserted so far: rows by table, skipped lines by kind; damaged journal → reason."""

    added: Counter[str] = field(default_factory=Counter)
    removed: Counter[str] = field(default_factory=Counter)
    damaged: dict[Path, DamagedJournal] = field(default_factory=dict)


_UNSTORABLE = (
    *(duckdb.DataError, duckdb.IntegrityError, duckdb.ProgrammingError, pa.ArrowException),
    *(ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError),
)
"""Errors of a line with values that no column can store."""
_FEWER_LINES = (1_000, 30, 1)
"""Lines of one transaction while the line that cannot be stored is searched."""

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
    grown = _grown(store, timeout)
    done = _Done()
    try:
        try:
            _fold(store, grown, done, timeout)
        except _UNSTORABLE:
            for path, place in _grown(store, timeout).items():
                _fold_alone(store, path, place, done, timeout)
    except NotWritableError as error:
        if store.path not in _unwritable:
            _unwritable.add(store.path)
            log.warning(
                "The database %s cannot be written (%s): its current contents are shown.", store.path, error.why
            )
    counts = {name: done.added[name] for name in ("runs", "trials", "grades", "written")}
    return FoldReport(len(grown), **counts, damaged=tuple(done.damaged.values()), removed=done.removed)


def _fold(
    store: Store, grown: Mapping[Path, tuple[int, int]], done: _Done, timeout: float, most_lines: float = math.inf
) -> None:
    for chunk in _chunks(grown, done.damaged, most_lines):
        with store.write(timeout) as connection:
            new = _insert(connection, chunk)
        done.added.update(new)
        done.removed.update(chunk.removed)
        pa.default_memory_pool().release_unused()  # otherwise the memory of a long job grows with each fold


def _fold_alone(store: Store, path: Path, place: tuple[int, int], done: _Done, timeout: float) -> None:
    """Fold one journal; if the database cannot store a line of it, fold all lines before that line."""
    for most_lines in _FEWER_LINES:
        try:
            _fold(store, {path: place}, done, timeout, most_lines)
            return
        except _UNSTORABLE as error:
            reason = error.with_traceback(None)  # a traceback would refer to the connection
            place = _grown(store, timeout).get(path, place)
    with path.open("rb") as file:
        file.seek(place[0])
        message = str(damaged(path, place[0] + len(file.readline()), reason))
    done.damaged[path] = DamagedJournal(path, message, fault_of(reason, "the line"))


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


def _insert(connection: duckdb.DuckDBPyConnection, chunk: _Chunk) -> dict[str, int]:
    """Insert a chunk and its journal positions; return table → number of new rows."""
    added = {name: insert(connection, sql, name, chunk.rows.get(name, [])) for name, sql in _INSERTS.items()}
    insert(connection, _ADD_LATER_ANSWERS, "answers", chunk.rows.get("later_answers", []))
    added["written"] = written.insert_lines(connection, chunk.written)
    _delete(connection, [trial_id for (trial_id,) in chunk.rows.get("deletions", [])])
    delete_runs(connection, [run_id for (run_id,) in chunk.rows.get("run_deletions", [])])
    now = time.time()
    positions = [(str(path), *place, now) for path, place in chunk.positions.items()]
    insert(connection, _ADD_POSITIONS, "journal_positions", positions)
    return added


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


def _grown(store: Store, timeout: float) -> dict[Path, tuple[int, int]]:
    """Return journal → (position to read from, size) for journals that have grown since the last fold."""
    journals = sorted(p.resolve() for p in store.journals.glob("*/journal.jsonl"))
    if not journals:
        return {}
    version = store.version
    sizes = {path: path.stat().st_size for path in journals if path.exists()}
    if _up_to_date.get(store.path) == (version, sizes):
        return {}
    with store.read(timeout) as cursor:
        positions = dict(cursor.execute(_POSITIONS).fetchall())
    # a journal that is shorter than its position was replaced by hand: read it from the beginning
    starts = {}
    for path, size in sizes.items():
        position = positions.get(str(path), 0)
        starts[path] = position if position <= size else 0
    grown = {path: (starts[path], size) for path, size in sizes.items() if size > starts[path]}
    if not grown:
        _up_to_date[store.path] = version, sizes
    return grown


def _chunks(
    grown: Mapping[Path, tuple[int, int]], unread: dict[Path, DamagedJournal], most_lines: float
) -> Iterator[_Chunk]:
    """Yield the new lines of journals; those that cannot be read to their end are added to ``unread``."""
    chunk = _Chunk()
    for path, (start, size) in grown.items():
        position = start
        try:
            for offset, line in read_lines(path, start, whole=False):
                try:
                    _add_line(chunk, line)
                except _UNSTORABLE as error:
                    raise damaged(path, offset, error) from error
                chunk.size += offset - position
                chunk.lines += 1
                position = offset
                chunk.positions[path] = (offset, size)
                if chunk.full(most_lines):
                    yield chunk
                    chunk = _Chunk()
        except (AnamnesisError, OSError) as error:
            unread[path] = DamagedJournal(path, str(error), _reason(error))
    if chunk.positions:
        yield chunk


def _reason(error: Exception) -> str:
    cause = error.__cause__
    return fault_of(cause if isinstance(cause, Exception) else error, "the line")


def _add_line(chunk: _Chunk, line: JournalLine) -> None:
    """Add the rows of a line; a line that raises adds nothing."""
    match line:
        case ReplyLine():
            chunk.add("calls", [rows.reply_row(line)])
        case TrialLine():
            if line.trial_id not in chunk.trial_ids:  # two engines may have run the same trial: the first one counts
                new = {"trials": [rows.trial_row(line)], **rows.child_rows(line)}
                chunk.trial_ids.add(line.trial_id)
                for name, of_table in new.items():
                    chunk.add(name, of_table)
        case RunHeader():
            if line.source != "release":  # the import of the release inserts the run
                run, now = rows.run_row(line), time.time()
                cases = [rows.case_row(case, now) for case in line.cases]
                chunk.add("runs", [run])
                chunk.add("run_cases", [(line.run_id, c.case_key, c.content_hash, n) for n, c in enumerate(line.cases)])
                chunk.add("cases", cases)
        case DeletedLine():
            chunk.add("deletions", [(line.trial_id,)])
        case RunDeletedLine():
            chunk.add("run_deletions", [(line.run_id,)])
        case GradesLine():
            chunk.add("grades", rows.grade_rows(line))
            chunk.add("later_answers", rows.later_answer_rows(line))
        case WithdrawnLine():
            chunk.written.append(line)
        case WrittenLine():
            written.rows_of(line)  # raises here, where the position in the journal is known
            chunk.written.append(line)
        case RemovedLine():
            chunk.removed[line.kind] += 1
        case RowLine():
            if editable := written.as_written(line):
                chunk.written.append(editable)
            else:
                chunk.add(line.table, [rows.job_row(line)])


def _delete(connection: duckdb.DuckDBPyConnection, trial_ids: list[str]) -> None:
    """Delete trials from every table, and watched runs that have no trials any more.

    Calls are not deleted: they were paid for.
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


_CONTENT = """
    SELECT md5(coalesce(string_agg(part, chr(10) ORDER BY part), '')) FROM (
        SELECT concat_ws(' ', path, arg_max(position, ordinal)) AS part FROM journal_positions GROUP BY path
        UNION ALL SELECT concat_ws(' ', run_id, path, digest) FROM release_files
    )"""

_POSITIONS = "SELECT path, arg_max(position, ordinal) FROM journal_positions GROUP BY path"

# If two processes fold the same lines, the slower one must not set the position back.
_ADD_POSITIONS = f"""
    INSERT INTO journal_positions BY NAME
    SELECT incoming.path, incoming.position, incoming.folded_at
    FROM incoming LEFT JOIN ({_POSITIONS}) AS stored (path, position) ON stored.path = incoming.path
    WHERE stored.position IS NULL OR stored.position < incoming.position OR stored.position > incoming.size"""

_OF_AN_ARM = "trial_id, format, question_type"
_ADD_LATER_ANSWERS = adding("answers", _OF_AN_ARM, f"DISTINCT ON ({_OF_AN_ARM})")

# The trials come last: rows of a trial are inserted only if the trial is not stored yet.
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
            (
                "judgements",
                "subject, form, question, against, judge, judge_kind, prompt_hash, together, repeat, review_id, "
                "judged_at",
            ),
            ("patient_judgements", "trial_id, model, prompt_hash, judged_at"),
            ("fact_judgements", "trial_id, model, prompt_hash, judged_at"),
            ("rubric_judgements", "trial_id, model, prompt_hash, batch, criterion_hash, repeat, judged_at"),
            (
                "prefix_answers",
                "trial_id, question_type, share, solver, prompt_hash, grader, grader_prompts, answered_at",
            ),
            ("urgency_answers", "trial_id, model, prompt_hash, asked_at"),
            ("completions", "case_key, content_hash, model, prompt_hash, made_at"),
            ("model_ratings", "item, question, model, prompt_hash, rated_at"),
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
