"""How a database comes to its present shape: the numbered SQL files in this folder, each applied once, in their order.

To change the database, add a file ``00NN_WHAT.sql`` with the next number; a published file is never changed. The table
``migrations`` names what was applied, with the time and the version of the program. The first file makes the tables of
version 0.4 at once; in a database of 0.4 its number stands for the last of the steps that led there.
"""

from __future__ import annotations

import time
from pathlib import Path

import duckdb

from core import __version__
from core.errors import AnamnesisError
from core.store.former_rows import move_former_rows
from core.store.tallies import recount

MIGRATIONS: dict[str, str] = {
    path.stem: path.read_text(encoding="utf-8") for path in sorted(Path(__file__).parent.glob("[0-9]*.sql"))
}
"""Name → SQL of each file; names begin with their numbers."""
OLDER = (
    "was written by an Anamnesis before 0.4, which this version does not read: open it once with version 0.5, which "
    "updates it, and then here; or import its releases, data sets and journals of 0.4 into a new database."
)
"""The message for a database that is older than the first migration."""
_MANY_CHOICES = "0013_many_choices"
"""Renames a question type, so that its answers must be counted again."""
_FORMER_ROWS = "0029_former_rows"
_TALLIES = "0009_tallies"
"""Adds the tallies, which must count the answers that are stored already."""


def missing(connection: duckdb.DuckDBPyConnection, path: Path) -> list[str]:
    """Return the names of the migrations that a database lacks, in order.

    Raises ``AnamnesisError`` for a database of a newer program, or of one before 0.4, and for any other DuckDB file.
    """
    numbers = [_migration_number(name) for name in MIGRATIONS]
    try:
        applied = dict(connection.execute("SELECT name, program FROM migrations ORDER BY name").fetchall())
    except duckdb.CatalogException as error:
        if connection.execute("SELECT 1 FROM duckdb_tables() WHERE table_name = 'meta'").fetchall():
            raise AnamnesisError(f"The database {path} {OLDER}") from error
        raise AnamnesisError(
            f"{path} is a DuckDB file, but not a database of Anamnesis: name another file in ANAMNESIS_DB."
        ) from error
    if newer := [
        program for name, program in applied.items() if name[:1].isdigit() and _migration_number(name) > numbers[-1]
    ]:
        raise AnamnesisError(
            f"The database {path} was written by a newer Anamnesis ({newer[-1]}; this is {__version__}): "
            "update Anamnesis, or name another file in ANAMNESIS_DB."
        )
    done = {_migration_number(name) for name in applied}
    if numbers[0] not in done:
        raise AnamnesisError(f"The database {path} {OLDER}")
    return [name for name in MIGRATIONS if _migration_number(name) not in done]


def migrate(connection: duckdb.DuckDBPyConnection, names: list[str]) -> None:
    """Apply what is ``missing``; all of it, for an empty database. Needs a transaction, for all or nothing."""
    connection.execute(_RECORDS)
    for name in names:
        connection.execute(MIGRATIONS[name])
        renamed = "SELECT 1 FROM answers WHERE question_type = 'mcq_answers' LIMIT 1"
        if name == _TALLIES or (name == _MANY_CHOICES and connection.execute(renamed).fetchall()):
            recount(connection)
        if name == _FORMER_ROWS:
            move_former_rows(connection)
        connection.execute("INSERT INTO migrations VALUES (?, ?, ?)", [name, time.time(), __version__])


def _migration_number(name: str) -> str:
    return name.partition("_")[0]


_RECORDS = """
    CREATE TABLE IF NOT EXISTS migrations (
        name VARCHAR PRIMARY KEY,
        applied_at DOUBLE NOT NULL,       -- seconds since 1970
        program VARCHAR NOT NULL          -- the version that applied it
    )"""
