"""Lists of facts that somebody edited or a model made, kept by case and content; the newest of a case counts."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
from pydantic import TypeAdapter, ValidationError

from core.case import Case
from core.errors import AnamnesisError
from core.store.records import records
from core.text.facts import AtomicFact

_FACTS: TypeAdapter[tuple[AtomicFact, ...]] = TypeAdapter(tuple[AtomicFact, ...])


@dataclass(frozen=True)
class FactSet:
    """A case's facts as they were saved: by whom ("rules", a person, a model's name) and when (seconds since 1970)."""

    case_key: str
    content_hash: str
    facts: tuple[AtomicFact, ...]
    made_by: str
    made_at: float


def save_facts(connection: duckdb.DuckDBPyConnection, case: Case, facts: Sequence[AtomicFact], made_by: str) -> FactSet:
    """Add a list of facts for a case; earlier ones stay as history. Needs a write lease.

    Raises ``AnamnesisError`` where two facts have one id.
    """
    ids = [fact.id for fact in facts]
    twice = next((id_ for id_ in ids if ids.count(id_) > 1), None)
    if twice is not None:
        raise AnamnesisError(f"Two facts of {case.case_key} have the id {twice!r}: give each its own.")
    saved = FactSet(case.case_key, case.content_hash, tuple(facts), made_by, time.time())
    connection.execute(
        "INSERT INTO fact_sets (case_key, content_hash, facts, made_by, made_at) VALUES (?, ?, ?, ?, ?)",
        [saved.case_key, saved.content_hash, _FACTS.dump_json(saved.facts).decode(), made_by, saved.made_at],
    )
    return saved


def facts_saved(cursor: duckdb.DuckDBPyConnection, case: Case) -> FactSet | None:
    """Return the newest list saved for a case as it is now, or ``None``; one for an older content does not count."""
    sql = """
        SELECT case_key, content_hash, facts, made_by, made_at FROM fact_sets
        WHERE case_key = ? AND content_hash = ? ORDER BY made_at DESC, rowid DESC LIMIT 1"""
    found = records(cursor.execute(sql, [case.case_key, case.content_hash]))
    return _fact_set(found[0]) if found else None


def all_facts_saved(
    cursor: duckdb.DuckDBPyConnection, case_keys: Sequence[str] | None = None
) -> dict[tuple[str, str], tuple[AtomicFact, ...]]:
    """Return the newest lists of some cases or all by (case_key, content_hash)."""
    sql = """
        SELECT case_key, content_hash, facts, made_by, made_at FROM fact_sets
        WHERE $keys::VARCHAR[] IS NULL OR list_contains($keys, case_key)
        QUALIFY row_number() OVER (PARTITION BY case_key, content_hash ORDER BY made_at DESC, rowid DESC) = 1"""
    keys = None if case_keys is None else list(case_keys)
    sets = [_fact_set(row) for row in records(cursor.execute(sql, {"keys": keys}))]
    return {(one.case_key, one.content_hash): one.facts for one in sets}


def _fact_set(row: dict[str, Any]) -> FactSet:
    try:
        facts = _FACTS.validate_json(str(row["facts"]))
    except ValidationError as error:
        raise AnamnesisError(
            f"The facts saved for {row['case_key']} cannot be read ({error.errors()[0]['msg']}): save them anew."
        ) from error
    return FactSet(
        str(row["case_key"]), str(row["content_hash"]), facts, str(row["made_by"]), float(str(row["made_at"]))
    )
