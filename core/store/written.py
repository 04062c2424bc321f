"""Rows that people write: every row is first a line of the journal ``people``, so that it outlives the database.

A new kind of such rows needs an entry in ``KINDS`` and a migration that creates its table, with a column ``line_id``.
Writing, folding, withdrawing and ``verify`` use the entry and need no other code. Lines of a kind in ``FORMER_KINDS``
are read as rows of a present table.

Rows of jobs (profiles and items by a model, labels of version 0.4) are in the same tables. Their lines have no id; the
rows have a digest as id instead, so that people can delete them, too.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import orjson
import pyarrow as pa

from core import access
from core.errors import AnamnesisError
from core.journal import RowLine, WithdrawnLine, WrittenLine, append_shared, journal_path, read_lines
from core.paths import journals_of
from core.store.former_rows import FORMER_ROWS
from core.store.lease import path_of
from core.store.tables import SCHEMAS, TableRow, arrow_table, incoming, records
from core.text.case_items import BY_RULE

PEOPLE = "people"
"""The folder of the journal, next to those of runs and jobs."""


@dataclass(frozen=True)
class EntryKind:
    """The tables of a kind of line: ``table``, and one for each member of ``what`` that is a list of parts.

    ``at`` and ``by`` are the columns with the time and the author of a row; without ``by`` the author is the visitor. A
    part shares the columns that its table has in common with ``table``. ``unique`` is the primary key. ``where`` is the
    SQL condition of people's rows in a table whose other rows stay without a line.
    """

    table: str
    at: str
    by: str = ""
    parts: Mapping[str, str] = field(default_factory=dict)
    unique: str = ""
    where: str = ""

    @property
    def tables(self) -> tuple[str, ...]:
        return (self.table, *self.parts.values())


KINDS: dict[str, EntryKind] = {
    "review": EntryKind("reviews", "created_at", parts={"items": "review_items"}, unique="review_id"),
    "judgement": EntryKind("judgements", "judged_at", "judge", where="judge_kind = 'person'"),
    "unblinding": EntryKind("unblindings", "unblinded_at", "unblinded_by"),
    "label": EntryKind("run_labels", "labelled_at", unique="run_id, labelled_at"),
    "rubric": EntryKind("rubrics", "made_at", "made_by"),
    "facts": EntryKind("fact_sets", "made_at", "made_by"),
    "profile": EntryKind("profiles", "made_at"),
    "items": EntryKind("history_items", "made_at"),
    "case_label": EntryKind("case_labels", "made_at", "made_by"),
    "report_field": EntryKind("report_fields", "made_at", "made_by"),
}
"""Kind of line → its tables."""
FORMER_KINDS = {"annotation": "annotations"}
"""Kind of lines that earlier versions wrote → the former table of its rows (``core.store.former_rows``)."""
_KIND_OF = {kind.table: name for name, kind in KINDS.items() if not kind.where}


def journal_of(database: Path, study: str = "") -> Path:
    """Return the journal of people's rows in a database, or of the rows of a study."""
    return journal_path(f"{PEOPLE}-{study}" if study else PEOPLE, journals_of(database))


def write(
    connection: duckdb.DuckDBPyConnection, kind: str, rows: Iterable[Mapping[str, Any]], *, study: str = ""
) -> int:
    """Journal rows, then insert them; return their number. Needs a write lease.

    ``rows`` have the columns of the kind's table. Rows of a ``study`` have a separate journal, which is removed with
    the study. After the next fold the journaled rows are in the database even if this transaction fails. Raises
    ``AnamnesisError`` if the journal cannot be written; then nothing is saved.
    """
    columns, visitor = KINDS[kind], access.visitor().name
    lines = [
        WrittenLine(
            line_id=uuid.uuid4().hex,
            kind=kind,
            at=row[columns.at],
            by=row[columns.by] if columns.by else visitor,
            what=dict(row),
        )
        for row in rows
    ]
    if lines:
        append_shared(journal_of(path_of(connection), study), lines, "save it again")
        insert_lines(connection, lines)
    return len(lines)


def remove_study(connection: duckdb.DuckDBPyConnection, study: str) -> Path:
    """Delete the rows of a study; return its journal, for the caller to remove. Needs a write lease."""
    path = journal_of(path_of(connection), study)
    lines = (line for _, line in read_lines(path)) if path.exists() else ()
    forget_lines(connection, [line.line_id for line in lines if isinstance(line, WrittenLine)])
    return path


def withdraw(
    connection: duckdb.DuckDBPyConnection, kind: str, column: str, values: Sequence[str], reason: str = ""
) -> int:
    """Withdraw the rows of a kind whose ``column`` has one of the values; return their number. Needs a write lease.

    A rebuilt database lacks them as well, whichever journal has their lines.
    """
    table = KINDS[kind].table
    sql = f"SELECT line_id FROM {table} WHERE list_contains(?, {column})"
    ids = [line_id for (line_id,) in connection.execute(sql, [list(values)]).fetchall()]
    lines = sorted({line_id for line_id in ids if line_id is not None})
    if lines:
        line = WithdrawnLine(
            line_id=uuid.uuid4().hex, at=time.time(), by=access.visitor().name, reason=reason, lines=lines
        )
        append_shared(journal_of(path_of(connection)), [line], "try again")
        insert_lines(connection, [line])
    connection.execute(
        f"DELETE FROM {table} WHERE list_contains(?, {column})", [list(values)]
    )  # also rows made by rules, without a line
    return len(ids)


def as_written(line: RowLine) -> WrittenLine | None:
    """Return a job's row as a line that people can withdraw; ``None`` if people do not edit its table."""
    kind = _KIND_OF.get(line.table)
    if kind is None:
        return None
    row = tuple(line.row[name] for name in SCHEMAS[line.table].names)
    return WrittenLine(line_id=_digest(line.table, row), kind=kind, at=line.row[KINDS[kind].at], what=line.row)


def insert_lines(connection: duckdb.DuckDBPyConnection, lines: Iterable[WrittenLine | WithdrawnLine]) -> int:
    """Insert the rows of lines that are neither stored nor withdrawn; return the number of new lines."""
    withdrawn: list[TableRow] = []
    written: dict[str, WrittenLine] = {}
    for line in lines:
        if isinstance(line, WithdrawnLine):
            withdrawn += [(line_id, line.by, line.reason, line.at) for line_id in line.lines]
        else:
            written.setdefault(line.line_id, line)
    if withdrawn:
        _insert(connection, "withdrawn", "line_id", arrow_table(_WITHDRAWN, withdrawn))
    rows: dict[str, list[TableRow]] = {}
    for line in written.values():
        for table, row in rows_of(line):
            rows.setdefault(table, []).append((*row, line.line_id))
    new = 0
    for kind in KINDS.values():
        for table in kind.tables:
            if table in rows:
                schema = SCHEMAS[table].append(pa.field("line_id", pa.string()))
                unique = kind.unique if table == kind.table else ""
                added = _insert(connection, table, "line_id", arrow_table(schema, rows[table]), unique)
                new += added if table == kind.table else 0
    forget_lines(connection, [line_id for line_id, *_ in withdrawn])
    return new


_WITHDRAWN = pa.schema(
    [(name, pa.string()) for name in ("line_id", "withdrawn_by", "reason")] + [("withdrawn_at", pa.float64())]
)


def _insert(connection: duckdb.DuckDBPyConnection, table: str, key: str, rows: pa.Table, unique: str = "") -> int:
    keep_out = "" if table == "withdrawn" else "ANTI JOIN withdrawn USING (line_id)"
    and_unique = f"ANTI JOIN {table} USING ({unique})" if unique else ""
    distinct = f"DISTINCT ON ({unique or key})" if unique or table == "withdrawn" else ""
    with incoming(connection, rows):
        (count,) = connection.execute(
            f"INSERT INTO {table} BY NAME SELECT {distinct} incoming.* FROM incoming "
            f"ANTI JOIN {table} USING ({key}) {and_unique} {keep_out}"
        ).fetchall()[0]
    return int(count)


def rows_of(line: WrittenLine) -> list[tuple[str, TableRow]]:
    """Return the rows of a line with their tables. Raises ``AnamnesisError`` for a kind of a newer program."""
    if former := FORMER_KINDS.get(line.kind):
        return [("judgements", _table_row("judgements", row)) for row in FORMER_ROWS[former](line.what)]
    kind = KINDS.get(line.kind)
    if kind is None:
        raise AnamnesisError(
            f"A journal line is of the kind {line.kind!r}, which this version does not know: update Anamnesis."
        )
    rows = [(kind.table, _table_row(kind.table, line.what))]
    for name, table in kind.parts.items():
        rows += [(table, _table_row(table, {**line.what, **part})) for part in line.what.get(name, ())]
    return rows


def _table_row(table: str, what: Mapping[str, Any]) -> TableRow:
    return tuple(what.get(name) for name in SCHEMAS[table].names)


def _digest(table: str, row: Sequence[Any], twin: int = 0) -> str:
    """Return the id of a row without a line; ``twin`` is the number of earlier rows with equal content."""
    return hashlib.sha256(orjson.dumps([table, *row, *([twin] if twin else [])])).hexdigest()[:32]


_OF_A_RUN = b'{"type":"run",'
"""Beginning of the journal of a run. Such journals are by far the longest and have no rows of people."""


@dataclass(frozen=True)
class JournalContents:
    """The contents of journals: people's lines by id, withdrawn ids, and ids of rows of jobs.

    ``folders`` is line id → folder of its journal. A ``damaged`` journal is read only up to the damage.
    """

    lines: Mapping[str, WrittenLine]
    folders: Mapping[str, str]
    withdrawn: frozenset[str]
    of_jobs: frozenset[str]
    damaged: tuple[Path, ...] = ()

    @property
    def counting(self) -> dict[str, WrittenLine]:
        return {line_id: line for line_id, line in self.lines.items() if line_id not in self.withdrawn}


def journal_contents(database: Path) -> JournalContents:
    """Read the rows of people, and those of jobs in the same tables, from the journals of a database."""
    lines: dict[str, WrittenLine] = {}
    folders: dict[str, str] = {}
    withdrawn, of_jobs, damaged = set[str](), set[str](), list[Path]()
    about = ('"type":"written"', '"type":"withdrawn"', *(f'"table":"{table}"' for table in _KIND_OF))
    for path in sorted(journals_of(database).glob("*/journal.jsonl")):
        try:
            with path.open("rb") as file:
                if file.read(len(_OF_A_RUN)) == _OF_A_RUN:
                    continue
            for _, line in read_lines(path, about=about):
                match line:
                    case WrittenLine():
                        rows_of(line)  # raises for a line that cannot be stored
                        lines.setdefault(line.line_id, line)
                        folders.setdefault(line.line_id, path.parent.name)
                    case WithdrawnLine():
                        withdrawn.update(line.lines)
                    case RowLine() if row := as_written(line):
                        of_jobs.add(row.line_id)
        except (AnamnesisError, OSError, ValueError, TypeError, LookupError, AttributeError):
            damaged.append(path)
    return JournalContents(lines, folders, frozenset(withdrawn), frozenset(of_jobs), tuple(damaged))


def carry_over(connection: duckdb.DuckDBPyConnection) -> int:
    """Journal rows that are only in the database, and store the line id of every row; return the number of lines.

    Needs a write lease. Ids are digests of the rows, so that an interrupted call can be repeated, and a row with a
    damaged journal does not occur twice after its repair. Rows made by rules are left out: rules make them again when
    they are needed.
    """
    database = path_of(connection)
    journal = journal_contents(database)
    journaled_ids = journal.lines.keys() | journal.of_jobs
    new: list[WrittenLine] = []
    for name, kind in KINDS.items():
        parts = _part_groups(connection, kind)
        ids: dict[str, list[tuple[int, str]]] = {table: [] for table in kind.tables}
        twins = Counter[str]()
        for what in _rows(connection, kind.table, kind.where):
            rowid, line_id = what.pop("rowid"), what.pop("line_id")
            if _is_by_rule(kind.table, what):
                continue
            if line_id is None:
                digest = _digest(kind.table, tuple(what.values()))
                line_id = _digest(kind.table, tuple(what.values()), twins[digest])
                twins[digest] += 1
                ids[kind.table].append((rowid, line_id))
            for member, (table, shared, groups) in parts.items():
                group = groups.get(tuple(what[column] for column in shared), [])
                ids[table] += [(part["rowid"], line_id) for part in group]
                names = [column for column in SCHEMAS[table].names if column not in shared]
                what[member] = [{column: part[column] for column in names} for part in group]
            if line_id not in journaled_ids:
                by = what[kind.by] if kind.by else ""
                new.append(WrittenLine(line_id=line_id, kind=name, at=what[kind.at], by=by, what=what))
        for table, of_rows in ids.items():
            _set_line_ids(connection, table, of_rows)
    if new:
        append_shared(journal_of(database), new, "open the database again")
    return len(new)


def _rows(connection: duckdb.DuckDBPyConnection, table: str, where: str = "") -> list[dict[str, Any]]:
    columns = ", ".join(SCHEMAS[table].names)
    sql = f"SELECT {columns}, rowid, line_id FROM {table} WHERE {where or 'true'} ORDER BY rowid"
    return records(connection.execute(sql))


_Groups = dict[tuple[Any, ...], list[dict[str, Any]]]


def _part_groups(
    connection: duckdb.DuckDBPyConnection, kind: EntryKind
) -> dict[str, tuple[str, tuple[str, ...], _Groups]]:
    """Return member → the table of its parts, the shared columns, and its rows grouped by these columns."""
    parts = {}
    for member, table in kind.parts.items():
        shared = tuple(name for name in SCHEMAS[table].names if name in SCHEMAS[kind.table].names)
        groups: _Groups = {}
        for row in _rows(connection, table):
            groups.setdefault(tuple(row[name] for name in shared), []).append(row)
        parts[member] = (table, shared, groups)
    return parts


def _is_by_rule(table: str, row: Mapping[str, Any]) -> bool:
    return table == "history_items" and str(row["made_by"]).partition("-")[0] in BY_RULE


def _set_line_ids(connection: duckdb.DuckDBPyConnection, table: str, ids: Sequence[tuple[int, str]]) -> None:
    if not ids:
        return
    rowids, lines = zip(*ids, strict=True)
    with incoming(connection, pa.table({"place": rowids, "line_id": lines})):
        connection.execute(f"UPDATE {table} SET line_id = incoming.line_id FROM incoming WHERE {table}.rowid = place")


def forget_lines(connection: duckdb.DuckDBPyConnection, lines: Sequence[str]) -> None:
    """Delete the rows of lines; a fold from the beginning of their journals inserts them again."""
    for table in (name for kind in KINDS.values() for name in kind.tables if lines):
        connection.execute(f"DELETE FROM {table} WHERE list_contains(?, line_id)", [list(lines)])


@dataclass(frozen=True)
class JournalDifferences:
    """Ids of lines that are missing or different in the database, and table → number of rows that no journal has."""

    missing: tuple[str, ...]
    different: tuple[str, ...]
    alone: Mapping[str, int]


def compare(cursor: duckdb.DuckDBPyConnection, journal: JournalContents) -> JournalDifferences:
    """Compare the rows of a database with the lines of its journals."""
    missing, different = set[str](), set[str]()
    alone = Counter[str]()
    expected: dict[str, dict[str, list[bytes]]] = {table: {} for kind in KINDS.values() for table in kind.tables}
    for line_id, line in journal.counting.items():
        for table, row in rows_of(line):
            expected[table].setdefault(line_id, []).append(orjson.dumps(row))
    for kind in KINDS.values():
        for table in kind.tables:
            stored: dict[str, list[bytes]] = {}
            for what in _rows(cursor, table, kind.where if table == kind.table else ""):
                line_id = what["line_id"]
                if line_id is not None:
                    stored.setdefault(line_id, []).append(orjson.dumps(_table_row(table, what)))
                elif not _is_by_rule(table, what):
                    alone[table] += 1
            for line_id, rows in expected[table].items():
                if line_id not in stored and table == kind.table:
                    missing.add(line_id)
                elif sorted(stored.get(line_id, [])) != sorted(rows):
                    different.add(line_id)
            for line_id in stored.keys() - expected[table].keys() - journal.of_jobs:
                if line_id in journal.lines or line_id in journal.withdrawn:
                    different.add(line_id)
                else:
                    alone[table] += len(stored[line_id])
    return JournalDifferences(tuple(sorted(missing)), tuple(sorted(different - missing)), dict(alone))
