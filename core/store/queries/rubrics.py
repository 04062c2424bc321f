"""Rubrics that people imported; the newest version of a name counts, earlier ones stay as history."""

from __future__ import annotations

import time
from typing import NamedTuple

import duckdb

from core import access
from core.store.tables import records
from core.store.written import withdraw, write


class RubricVersion(NamedTuple):
    """A saved version of a rubric as JSON, by whom and when (seconds since 1970)."""

    name: str
    rubric_hash: str
    rubric: str
    made_by: str
    made_at: float


def add_rubric(connection: duckdb.DuckDBPyConnection, name: str, rubric_hash: str, rubric: str) -> RubricVersion:
    """Journal and add a version. Needs a write lease."""
    access.require("run")
    version = RubricVersion(name, rubric_hash, rubric, access.visitor().name, time.time())
    write(connection, "rubric", [version._asdict()])
    return version


def remove_rubric(connection: duckdb.DuckDBPyConnection, name: str) -> int:
    """Withdraw all versions of a rubric; return their number. Verdicts on it stay. Needs a write lease."""
    access.require("run")
    return withdraw(connection, "rubric", "name", [name])


def saved_rubrics(cursor: duckdb.DuckDBPyConnection, name: str | None = None) -> list[RubricVersion]:
    """Return the newest version of each rubric, by name; of one rubric if ``name`` is given."""
    rows = records(cursor.execute(_NEWEST, {"name": name}))
    return [RubricVersion(**row) for row in rows]


_COLUMNS = ", ".join(RubricVersion._fields)
_NEWEST = f"""
    SELECT {_COLUMNS} FROM rubrics WHERE $name::VARCHAR IS NULL OR name = $name
    QUALIFY row_number() OVER (PARTITION BY name ORDER BY made_at DESC, rowid DESC) = 1 ORDER BY name"""
