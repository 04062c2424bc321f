"""Texts that people write into evaluation reports; the newest text of a field counts, earlier ones stay as history."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import duckdb

from core import access
from core.store.tables import records
from core.store.written import write


class WrittenField(NamedTuple):
    """The text of a field, by whom and when (seconds since 1970).

    If it does not apply to the runs, the text is the reason.
    """

    field: str
    text: str
    applies: bool
    made_by: str
    made_at: float


def written_fields(cursor: duckdb.DuckDBPyConnection, runs: Iterable[str]) -> dict[str, WrittenField]:
    """Return field → its newest text in the report on exactly these runs; emptied fields are left out."""
    rows = records(cursor.execute(_NEWEST, [sorted(set(runs))]))
    return {row["field"]: WrittenField(**row) for row in rows if row["text"]}


def write_fields(
    connection: duckdb.DuckDBPyConnection, runs: Iterable[str], texts: Mapping[str, tuple[str, bool]]
) -> int:
    """Journal and store field → (text, whether it applies); return the number of texts that are new.

    Needs a write lease. An empty text empties the field.
    """
    access.require("run")
    of_runs = sorted(set(runs))
    newest = written_fields(connection, of_runs)
    now = time.time()
    rows = []
    for field, (text, applies) in texts.items():
        stored = newest.get(field)
        if (text.strip(), applies or not text.strip()) != ((stored.text, stored.applies) if stored else ("", True)):
            rows.append(
                {
                    "runs": of_runs,
                    "field": field,
                    "text": text.strip(),
                    "applies": applies or not text.strip(),
                    "made_by": access.visitor().name,
                    "made_at": now,
                }
            )
    return write(connection, "report_field", rows)


_NEWEST = f"""
    SELECT {", ".join(WrittenField._fields)} FROM report_fields WHERE runs = ?
    QUALIFY row_number() OVER (PARTITION BY field ORDER BY made_at DESC, rowid DESC) = 1 ORDER BY field"""
