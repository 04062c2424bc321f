"""How a database comes to its present shape: the numbered SQL files beside this, each applied once, in their order.

To change the database, add a file ``000N_WHAT.sql`` with the next number; one that was published is never changed. What
was applied is in the table ``migrations``, with the time and the version of the program. Databases of before that table
are brought to what the first file makes by the steps in ``before_0001``.
"""

from __future__ import annotations

import time
from pathlib import Path

import duckdb

from core import __version__
from core.errors import AnamnesisError
from core.store.tallies import count_anew
from core.text.questions import asked_for

_HERE = Path(__file__).parent
MIGRATIONS: dict[str, str] = {path.stem: path.read_text(encoding="utf-8") for path in sorted(_HERE.glob("[0-9]*.sql"))}
"""Name → SQL of each file; names begin with numbers from 0001 on."""
_BEFORE: dict[str, str] = {
    f"before_0001/to_{version}": (_HERE / f"before_0001/to_{version}.sql").read_text(encoding="utf-8")
    for version in range(2, 10)
}
"""What leads to each version of the time before ``migrations`` from the one before it; the last is what 0001 makes."""
_ASKS_FOR = "before_0001/to_8"
"""Brought ``cases.asks_for``, which a rule fills in for the cases that are there already."""
_MANY_CHOICES = "0013_many_choices"
"""Gave another name to a question type, under which its answers are counted anew."""
_TALLIES = "0009_tallies"
"""Brought the tallies, which count what is there already."""


def missing(connection: duckdb.DuckDBPyConnection, path: Path) -> list[str]:
    """Return the names of what a database lacks, in order.

    Raises ``AnamnesisError`` where it was written by a newer program, or is no database of this one.
    """
    try:
        applied = dict(connection.execute("SELECT name, program FROM migrations ORDER BY name").fetchall())
    except duckdb.CatalogException:
        return [*list(_BEFORE)[_version_before(connection, path) - 1 :], *list(MIGRATIONS)[1:]]
    unknown = [program for name, program in applied.items() if name not in MIGRATIONS and name not in _BEFORE]
    if unknown:
        raise AnamnesisError(
            f"The database {path} was written by a newer Anamnesis ({unknown[-1]}; this is {__version__}): "
            "update Anamnesis, or name another file in ANAMNESIS_DB."
        )
    return [name for name in MIGRATIONS if name not in applied]


def migrate(connection: duckdb.DuckDBPyConnection, names: list[str]) -> None:
    """Apply what is ``missing``; all of it, for an empty database. Needs a transaction, for all or nothing."""
    connection.execute(_RECORDS)
    for name in names:
        connection.execute(_BEFORE[name] if name in _BEFORE else MIGRATIONS[name])
        if name == _ASKS_FOR:
            questions = [
                question for (question,) in connection.execute("SELECT DISTINCT question FROM cases").fetchall()
            ]
            kinds = [asked_for(question) for question in questions]
            connection.execute(
                "UPDATE cases SET asks_for = read.kind "
                "FROM (SELECT unnest($1::VARCHAR[]) AS question, unnest($2::VARCHAR[]) AS kind) AS read "
                "WHERE cases.question = read.question",
                [questions, kinds],
            )
        renamed = "SELECT 1 FROM answers WHERE question_type = 'mcq_answers' LIMIT 1"
        if name == _TALLIES or (name == _MANY_CHOICES and connection.execute(renamed).fetchall()):
            count_anew(connection)
        connection.execute(_RECORD, [name, time.time(), __version__])
    connection.execute(_RECORD, [next(iter(MIGRATIONS)), time.time(), __version__])  # what older ones came to by steps


def _version_before(connection: duckdb.DuckDBPyConnection, path: Path) -> int:
    """Return the version of a database of before ``migrations``, from 1."""
    try:
        return int(connection.execute("SELECT max(schema_version) FROM meta").fetchall()[0][0])
    except duckdb.CatalogException as error:
        raise AnamnesisError(
            f"{path} is a DuckDB file, but not a database of Anamnesis: name another file in ANAMNESIS_DB."
        ) from error


_RECORDS = """
    CREATE TABLE IF NOT EXISTS migrations (
        name VARCHAR PRIMARY KEY,
        applied_at DOUBLE NOT NULL,       -- seconds since 1970
        program VARCHAR NOT NULL          -- the version that applied it
    )"""
_RECORD = "INSERT OR IGNORE INTO migrations VALUES (?, ?, ?)"
