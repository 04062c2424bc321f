"""An imported run as files, to move it to another database: such a run has no journal with its trials."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from pathlib import Path

import duckdb
import orjson
import pyarrow as pa

from core.errors import AnamnesisError
from core.journal import RunHeader
from core.store.lease import sql_literal
from core.store.queries.cases import add_cases
from core.store.queries.releases import FROM_TABLES
from core.store.queries.run_cases import run_cases
from core.store.queries.runs import header_of
from core.store.rows import run_case_rows, run_row
from core.store.tables import TABLES, insert

_ROWS = 20_000
"""Rows that are read or written at once."""
_ORDER: Mapping[str, str] = {
    "trials": "trial_id",
    "utterances": "trial_id, position",
    "answers": "trial_id, format, question_type",
    "grades": "trial_id, format, question_type, rule, graded_at, grades.rowid",
}
"""Table → the order of its rows in a file, which does not depend on the order in which they were inserted."""


def header_with_cases(cursor: duckdb.DuckDBPyConnection, run_id: str) -> RunHeader:
    """Return the header of a stored run with its cases; raise ``AnamnesisError`` if it is not stored."""
    header = header_of(cursor, run_id)
    if header is None:
        raise AnamnesisError(f"There is no run {run_id!r} in the database.")
    return header.model_copy(update={"cases": run_cases(cursor, run_id)})


def write_run_tables(cursor: duckdb.DuckDBPyConnection, run_id: str, folder: Path, withheld: str = "") -> list[Path]:
    """Write the trials of a run with messages, answers and verdicts as JSON lines; return the files.

    ``withheld`` replaces every text of a conversation; empty: texts are written.
    """
    files = []
    for table, order in _ORDER.items():
        names = TABLES[table].columns
        columns = [_without_text(table, name, withheld) if withheld else f"{table}.{name}" for name in names]
        join = "" if table == "trials" else "JOIN trials USING (trial_id)"
        path = folder / f"{table}.jsonl"
        rows = cursor.execute(
            f"SELECT {', '.join(columns)} FROM {table} {join} WHERE trials.run_id = ? ORDER BY {order}", [run_id]
        )
        with path.open("wb") as file:
            while batch := rows.fetchmany(_ROWS):
                fields = (dict(zip(names, row, strict=True)) for row in batch)
                file.writelines(orjson.dumps(row) + b"\n" for row in fields)
        files.append(path)
    return files


def _without_text(table: str, name: str, withheld: str) -> str:
    column = f"{table}.{name}"
    if (table, name) == ("trials", "events"):
        return f"{sql_literal(FROM_TABLES)} AS events"
    if name not in TABLES[table].texts:
        return column
    return f"CASE WHEN coalesce({column}, '') = '' THEN {column} ELSE {sql_literal(withheld)} END AS {name}"


def read_run_tables(connection: duckdb.DuckDBPyConnection, header: RunHeader, folder: Path) -> None:
    """Insert a run that ``write_run_tables`` has written, with the cases of its header. Needs a write lease.

    Raises ``AnamnesisError`` if a file cannot be read.
    """
    insert(connection, [run_row(header)])
    add_cases(connection, header.cases)
    insert(connection, run_case_rows(header))
    hashes = {case.case_key: case.content_hash for case in header.cases}
    for table in _ORDER:
        try:
            with (folder / f"{table}.jsonl").open("rb") as file:
                while lines := list(islice(file, _ROWS)):
                    rows = [orjson.loads(line) for line in lines]
                    if table == "trials":
                        rows = [{**row, "content_hash": hashes.get(row["case_key"])} for row in rows]
                    read = [TABLES[table].read(row) for row in rows]
                    insert(connection, read, f"INSERT INTO {table} BY NAME SELECT * FROM incoming")
        except (OSError, ValueError, TypeError, LookupError, AttributeError, pa.ArrowException, duckdb.Error) as error:
            reason = str(error).splitlines()[0]
            raise AnamnesisError(f"The rows of {table} of run {header.run_id} cannot be read ({reason}).") from error
