"""Inserts lines of journals into an open database, a few thousand trials in a transaction.

Each transaction also stores the positions in the journals that it reaches. Its users are the fold of new lines
(``core.store.fold``) and the renewal of an older database (``core.store.renewal``).
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import pyarrow as pa

from core.errors import AnamnesisError
from core.journal import (
    DeletedLine,
    GradesLine,
    JournalLine,
    ReplyLine,
    RowLine,
    RunDeletedLine,
    RunHeader,
    TrialLine,
    WithdrawnLine,
    WrittenLine,
    damaged,
    read_lines,
)
from core.store import rows, written
from core.store.former import rows_of_job, skipped_kind
from core.store.queries.cases import ADD_CASES
from core.store.queries.runs import WATCHED
from core.store.stored_table import Row
from core.store.tables import TABLES, AnswerRow, arrow_rows, delete_runs, delete_trials, incoming, insert
from core.words import fault_of

CHUNK_TRIALS = 2_000
CHUNK_BYTES = 64_000_000
"""Approximate limits of one transaction: they bound memory and how long other processes wait."""

ATTACHED = "cases_attached_at"
"""Setting of a later header of a run: it replaces the contents of the cases of the run."""

Places = dict[Path, tuple[int, int]]
"""Journal → (position to read from, size)."""
Lend = Callable[[], AbstractContextManager[duckdb.DuckDBPyConnection]]
"""Lends the database for one transaction."""


@dataclass(frozen=True)
class DamagedJournal:
    """A journal that cannot be folded to its end, and the reason; the lines before the damage are in the database."""

    path: Path
    message: str
    reason: str


@dataclass
class Inserted:
    """Journals with new lines; new rows by table, with "written" for lines of people; skipped lines by kind."""

    journals: int = 0
    added: Counter[str] = field(default_factory=Counter)
    removed: Counter[str] = field(default_factory=Counter)
    damaged: dict[Path, DamagedJournal] = field(default_factory=dict)


@dataclass
class _Chunk:
    """The lines of one transaction."""

    rows: dict[str, list[Row]] = field(default_factory=dict)
    later_answers: list[AnswerRow] = field(default_factory=list)
    written: list[WrittenLine | WithdrawnLine] = field(default_factory=list)
    deleted_trials: list[str] = field(default_factory=list)
    deleted_runs: list[str] = field(default_factory=list)
    positions: dict[Path, tuple[int, int]] = field(default_factory=dict)
    trial_ids: set[str] = field(default_factory=set)
    attached: list[RunHeader] = field(default_factory=list)
    size: int = 0
    lines: int = 0
    removed: Counter[str] = field(default_factory=Counter)

    def add(self, *new: Row) -> None:
        for row in new:
            self.rows.setdefault(row.stored_in.name, []).append(row)

    def full(self, most_lines: float) -> bool:
        return len(self.trial_ids) >= CHUNK_TRIALS or self.size >= CHUNK_BYTES or self.lines >= most_lines


UNSTORABLE = (
    *(duckdb.DataError, duckdb.IntegrityError, duckdb.ProgrammingError, pa.ArrowException),
    *(ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError),
)
"""Errors of a line with values that no column can store."""
_FEWER_LINES = (1_000, 30, 1)
"""Lines of one transaction while the line that cannot be stored is searched."""


def insert_journals(lend: Lend, new_lines: Callable[[], Places], done: Inserted) -> None:
    """Insert the lines that ``new_lines`` returns, and add what was inserted to ``done``.

    If the database cannot store a line, all lines before it in its journal are inserted, and all other journals.
    """
    grown = new_lines()
    done.journals = len(grown)
    try:
        _insert_all(lend, grown, done)
    except UNSTORABLE:
        for path, place in new_lines().items():
            _insert_alone(lend, path, place, new_lines, done)


def _insert_all(lend: Lend, grown: Places, done: Inserted, most_lines: float = math.inf) -> None:
    for chunk in _chunks(grown, done.damaged, most_lines):
        with lend() as connection:
            new = _insert(connection, chunk)
        done.added.update(new)
        done.removed.update(chunk.removed)
        pa.default_memory_pool().release_unused()  # otherwise the memory of a long job grows with each fold


def _insert_alone(
    lend: Lend, path: Path, place: tuple[int, int], new_lines: Callable[[], Places], done: Inserted
) -> None:
    for most_lines in _FEWER_LINES:
        try:
            _insert_all(lend, {path: place}, done, most_lines)
            return
        except UNSTORABLE as error:
            reason = error.with_traceback(None)  # a traceback would refer to the connection
            place = new_lines().get(path, place)
    with path.open("rb") as file:
        file.seek(place[0])
        message = str(damaged(path, place[0] + len(file.readline()), reason))
    done.damaged[path] = DamagedJournal(path, message, fault_of(reason, "the line"))


def _insert(connection: duckdb.DuckDBPyConnection, chunk: _Chunk) -> dict[str, int]:
    """Insert a chunk and its journal positions; return table → number of new rows."""
    added = {name: insert(connection, chunk.rows.get(name, []), _OTHER_INSERTS.get(name, "")) for name in _ORDER}
    for header in chunk.attached:
        _replace_cases(connection, header)
    insert(connection, chunk.later_answers, _ADD_LATER_ANSWERS)
    added["written"] = written.insert_lines(connection, chunk.written)
    _delete(connection, chunk.deleted_trials)
    delete_runs(connection, chunk.deleted_runs)
    now = time.time()
    positions = [(str(path), *place, now) for path, place in chunk.positions.items()]
    names = ("path", "position", "size", "folded_at")
    with incoming(connection, pa.table(dict(zip(names, map(list, zip(*positions, strict=True)), strict=True)))):
        connection.execute(_ADD_POSITIONS)
    return added


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
                except UNSTORABLE as error:
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
    if skipped := skipped_kind(line):
        chunk.removed[skipped] += 1
        return
    match line:
        case ReplyLine():
            chunk.add(rows.reply_row(line))
        case TrialLine():
            if line.trial_id not in chunk.trial_ids:  # two engines may have run the same trial: the first one counts
                new = [rows.trial_row(line), *rows.child_rows(line)]
                chunk.trial_ids.add(line.trial_id)
                chunk.add(*new)
        case RunHeader():
            if line.source != "release":  # the import of the release inserts the run
                now = time.time()
                chunk.add(
                    rows.run_row(line), *rows.run_case_rows(line), *(rows.case_row(case, now) for case in line.cases)
                )
                if line.settings.get(ATTACHED):
                    chunk.attached.append(line)
        case DeletedLine():
            chunk.deleted_trials.append(line.trial_id)
        case RunDeletedLine():
            chunk.deleted_runs.append(line.run_id)
        case GradesLine():
            new_grades, answers = rows.grade_rows(line), rows.later_answer_rows(line)
            chunk.add(*new_grades)
            chunk.later_answers += answers
        case WithdrawnLine():
            chunk.written.append(line)
        case WrittenLine():
            written.rows_of(line)  # raises here, where the position in the journal is known
            chunk.written.append(line)
        case RowLine():
            if editable := written.as_written(line):
                chunk.written.append(editable)
            else:
                chunk.add(*rows_of_job(line))


def _replace_cases(connection: duckdb.DuckDBPyConnection, header: RunHeader) -> None:
    """Give a run that is stored, and its trials, the contents of cases that its later header has."""
    run = rows.run_row(header)
    connection.execute("UPDATE runs SET settings = ? WHERE run_id = ?", [run.settings, run.run_id])
    with incoming(connection, arrow_rows(rows.run_case_rows(header))):
        for table in ("run_cases", "trials", "tallies"):
            connection.execute(_REPLACE_CASES.format(table=table))
    # measured again, against the case
    connection.execute(
        "DELETE FROM scores WHERE trial_id IN (FROM trials SELECT trial_id WHERE run_id = ?)", [run.run_id]
    )


def _delete(connection: duckdb.DuckDBPyConnection, trial_ids: list[str]) -> None:
    """Delete trials, and watched runs that have no trials any more."""
    if not trial_ids:
        return
    sql = "SELECT DISTINCT run_id FROM trials WHERE list_contains(?, trial_id)"
    runs = [run_id for (run_id,) in connection.execute(sql, [trial_ids]).fetchall()]
    delete_trials(connection, "SELECT unnest(?::VARCHAR[])", [trial_ids])
    emptied = f"""
        SELECT run_id FROM runs ANTI JOIN trials USING (run_id)
        WHERE list_contains(?, run_id) AND list_contains({list(WATCHED)}, source)"""
    for table in ("run_cases", "runs"):
        connection.execute(f"DELETE FROM {table} WHERE run_id IN ({emptied})", [runs])


def grown_since(positions: Mapping[str, int], sizes: Mapping[Path, int]) -> Places:
    """Return the journals that are longer than what the database has of them."""
    grown = {}
    for path, size in sizes.items():
        position = positions.get(str(path), 0)
        start = position if position <= size else 0  # a shorter journal was replaced by hand: read all of it
        if size > start:
            grown[path] = (start, size)
    return grown


POSITIONS = "SELECT path, arg_max(position, ordinal) FROM journal_positions GROUP BY path"
"""The positions up to which the journals are in the database."""

# If two processes fold the same lines, the slower one must not set the position back.
_ADD_POSITIONS = f"""
    INSERT INTO journal_positions BY NAME
    SELECT incoming.path, incoming.position, incoming.folded_at,
        row_number() OVER () + coalesce((SELECT max(ordinal) FROM journal_positions), 0) AS ordinal
    FROM incoming LEFT JOIN ({POSITIONS}) AS stored (path, position) ON stored.path = incoming.path
    WHERE stored.position IS NULL OR stored.position < incoming.position OR stored.position > incoming.size"""

_OF_AN_ARM = "trial_id, format, question_type"
_ADD_LATER_ANSWERS = f"""
    INSERT INTO answers BY NAME
    SELECT DISTINCT ON ({_OF_AN_ARM}) * FROM incoming ANTI JOIN answers USING ({_OF_AN_ARM})"""

_REPLACE_CASES = """
    UPDATE {table} SET content_hash = incoming.content_hash FROM incoming
    WHERE {table}.run_id = incoming.run_id AND {table}.case_key = incoming.case_key"""

_ORDER = (*(name for name in TABLES if name != "trials"), "trials")
"""The trials come last: rows of their events are inserted only if the trial is not stored yet."""
_OTHER_INSERTS = {
    "cases": ADD_CASES,
    "trials": """
        INSERT INTO trials BY NAME
        SELECT incoming.* REPLACE (run_cases.content_hash AS content_hash)
        FROM incoming LEFT JOIN run_cases USING (run_id, case_key)
        ANTI JOIN trials ON trials.trial_id = incoming.trial_id""",
}
