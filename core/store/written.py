"""Rows that people write: every row is first a line of the journal ``people``, so that it outlives the database.

A new kind of such rows needs a table that says how people write it (``core.store.stored_table.People``). Writing,
folding, withdrawing and ``verify`` use that and need no other code.

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
from core.store.former import FORMER, Former, former_of_kind
from core.store.lease import path_of
from core.store.stored_table import People, Row, Table
from core.store.tables import KINDS, TABLES, WithdrawnRow, arrow_rows, incoming, insert, records
from core.text.case_items import BY_RULE

PEOPLE = "people"
"""The folder of the journal, next to those of runs and jobs."""


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
    columns, visitor = _people(KINDS[kind]), access.visitor().name
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
    table = KINDS[kind].name
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


def author_column(kind: str) -> str:
    """Return the column with the author of the rows of a kind; empty if there is none."""
    former = former_of_kind(kind)
    people = former.people if former else KINDS[kind].people
    return people.by if people else ""


def _people(table: Table) -> People:
    assert table.people is not None
    return table.people


def as_written(line: RowLine) -> WrittenLine | None:
    """Return a job's row as a line that people can withdraw; ``None`` if people do not edit its table."""
    former, table = FORMER.get(line.table), TABLES.get(line.table)
    if former and former.people and former.edited:
        people, values = former.people, tuple(line.row[name] for name in former.edited)
    elif table and table.people and table.job and not table.people.where:
        people, values = table.people, tuple(vars(table.read(line.row)).values())
    else:
        return None
    return WrittenLine(line_id=_digest(line.table, values), kind=people.kind, at=line.row[people.at], what=line.row)


def insert_lines(connection: duckdb.DuckDBPyConnection, lines: Iterable[WrittenLine | WithdrawnLine]) -> int:
    """Insert the rows of lines that are neither stored nor withdrawn; return the number of new lines."""
    withdrawn: list[Row] = []
    written: dict[str, WrittenLine] = {}
    for line in lines:
        if isinstance(line, WithdrawnLine):
            withdrawn += [WithdrawnRow(line_id, line.by, line.reason, line.at) for line_id in line.lines]
        else:
            written.setdefault(line.line_id, line)
    insert(connection, withdrawn)
    rows: dict[str, list[tuple[Row, str]]] = {}
    for line in written.values():
        for row in rows_of(line):
            rows.setdefault(row.stored_in.name, []).append((row, line.line_id))
    new = 0
    for name, of_table in rows.items():
        table = TABLES[name]
        new_rows, ids = zip(*of_table, strict=True)
        unique = f"ANTI JOIN {name} USING ({', '.join(table.key)})" if table.primary else ""
        distinct = f"DISTINCT ON ({', '.join(table.key)})" if table.primary else ""
        with incoming(connection, arrow_rows(new_rows).append_column("line_id", pa.array(ids, pa.string()))):
            (count,) = connection.execute(
                f"INSERT INTO {name} BY NAME SELECT {distinct} incoming.* FROM incoming "
                f"ANTI JOIN {name} USING (line_id) {unique} ANTI JOIN withdrawn USING (line_id)"
            ).fetchall()[0]
        new += int(count)
    forget_lines(connection, [row.line_id for row in withdrawn if isinstance(row, WithdrawnRow)])
    return new


def rows_of(line: WrittenLine) -> list[Row]:
    """Return the rows of a line. Raises ``AnamnesisError`` for a kind of a newer program."""
    if former := former_of_kind(line.kind):
        return list(former.rows(line.what))
    table = KINDS.get(line.kind)
    if table is None:
        raise AnamnesisError(
            f"A journal line is of the kind {line.kind!r}, which this version does not know: update Anamnesis."
        )
    return [table.read(line.what)]


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
    of_jobs_too = [table.name for table in KINDS.values() if table.job]
    of_jobs_too += [name for name, former in FORMER.items() if former.edited]
    about = ('"type":"written"', '"type":"withdrawn"', *(f'"table":"{name}"' for name in of_jobs_too))
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


def carry_over(connection: duckdb.DuckDBPyConnection) -> None:
    """Journal the rows of people that no journal has, and store the line id of every row. Needs a write lease."""
    for table, of_rows in journal_rows(connection, path_of(connection)).ids.items():
        _set_line_ids(connection, table, of_rows)


@dataclass
class StoredLines:
    """The rows of people in a database as lines, and table → (rowid, line id) of the rows without a line id."""

    lines: list[WrittenLine] = field(default_factory=list)
    ids: dict[str, list[tuple[int, str]]] = field(default_factory=dict)


def journal_rows(cursor: duckdb.DuckDBPyConnection, database: Path) -> StoredLines:
    """Journal the rows of people that no journal of a database has, and return all of them.

    ``cursor`` reads that database, which may be of an earlier version. Ids of rows without a line are digests of the
    rows, so that an interrupted call can be repeated, and a row with a damaged journal does not occur twice after its
    repair. Rows made by rules are left out: rules make them again when they are needed.
    """
    journal = journal_contents(database)
    stored = StoredLines()
    in_database = cursor.execute("SELECT table_name FROM duckdb_tables() WHERE database_name = current_database()")
    names = {name for (name,) in in_database.fetchall()}
    tables: dict[str, Table | Former] = {**TABLES, **FORMER}
    for name, table in tables.items():
        people = table.people
        if people is None or name not in names:
            continue
        twins = Counter[str]()
        for row in _rows(cursor, name, people.where if name in TABLES else ""):
            rowid, line_id, what = row.pop("rowid"), row.pop("line_id", None), _known(table, row)
            if is_by_rule(name, what):
                continue
            if line_id is None:
                digest = _digest(name, tuple(what.values()))
                line_id = _digest(name, tuple(what.values()), twins[digest])
                twins[digest] += 1
                stored.ids.setdefault(name, []).append((rowid, line_id))
            if name == "reviews":
                former = _items_up_to_0_7(cursor, what["review_id"]) if "review_items" in names else None
                what["items"] = orjson.loads(what["items"]) if former is None else former
            by = what[people.by] if people.by else ""
            stored.lines.append(WrittenLine(line_id=line_id, kind=people.kind, at=what[people.at], by=by, what=what))
    journaled = journal.lines.keys() | journal.of_jobs
    if new := [line for line in stored.lines if line.line_id not in journaled]:
        append_shared(journal_of(database), new, "open the database again")
    return stored


def _known(table: Table | Former, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of a row; those that its database does not have yet are empty."""
    return {name: row.get(name) for name in table.columns} if isinstance(table, Table) else dict(row)


def _rows(cursor: duckdb.DuckDBPyConnection, table: str, where: str = "") -> list[dict[str, Any]]:
    return records(cursor.execute(f"SELECT *, rowid FROM {table} WHERE {where or 'true'} ORDER BY rowid"))


def _items_up_to_0_7(cursor: duckdb.DuckDBPyConnection, review_id: str) -> list[dict[str, Any]]:
    """Return the items of a review from a file in which they have a table of their own."""
    rows = records(cursor.execute("FROM review_items WHERE review_id = ? ORDER BY number", [review_id]))
    return [{name: row[name] for name in row if name not in ("review_id", "line_id")} for row in rows]


def is_by_rule(table: str, row: Mapping[str, Any]) -> bool:
    of_items = table == "history_items" or (table == "case_lists" and row["kind"] == "items")
    return of_items and str(row["made_by"]).partition("-")[0] in BY_RULE


def _set_line_ids(connection: duckdb.DuckDBPyConnection, table: str, ids: Sequence[tuple[int, str]]) -> None:
    if not ids:
        return
    rowids, lines = zip(*ids, strict=True)
    with incoming(connection, pa.table({"place": rowids, "line_id": lines})):
        connection.execute(f"UPDATE {table} SET line_id = incoming.line_id FROM incoming WHERE {table}.rowid = place")


def forget_lines(connection: duckdb.DuckDBPyConnection, lines: Sequence[str]) -> None:
    """Delete the rows of lines; a fold from the beginning of their journals inserts them again."""
    for table in (name for name, table in TABLES.items() if table.people and lines):
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
    expected: dict[str, dict[str, list[bytes]]] = {name: {} for name, table in TABLES.items() if table.people}
    for line_id, line in journal.counting.items():
        for row in rows_of(line):
            lines = expected[row.stored_in.name].setdefault(line_id, [])
            lines.append(orjson.dumps(tuple(vars(row).values())))
    for name, of_lines in expected.items():
        table = TABLES[name]
        stored: dict[str, list[bytes]] = {}
        for values in _rows(cursor, name, table.people.where if table.people else ""):
            line_id = values["line_id"]
            if line_id is not None:
                stored.setdefault(line_id, []).append(orjson.dumps(tuple(vars(table.read(values)).values())))
            elif not is_by_rule(name, values):
                alone[name] += 1
        for line_id, of_line in of_lines.items():
            if line_id not in stored:
                missing.add(line_id)
            elif sorted(stored.get(line_id, [])) != sorted(of_line):
                different.add(line_id)
        for line_id in stored.keys() - of_lines.keys() - journal.of_jobs:
            if line_id in journal.lines or line_id in journal.withdrawn:
                different.add(line_id)
            else:
                alone[name] += len(stored[line_id])
    return JournalDifferences(tuple(sorted(missing)), tuple(sorted(different - missing)), dict(alone))
