"""Cases in the database: put in, found, and read back as the same ``Case``."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import duckdb
import orjson

from core.case import Case
from core.questions import AsksFor
from core.store.records import records
from core.store.rows import case_row
from core.store.tables import insert

CASE_COLUMNS = (
    "cases.case_key, cases.dataset, cases.specialty, cases.vignette, cases.question, cases.choices, cases.answer, "
    "cases.synonyms, cases.supertypes, cases.subtypes, cases.single_diagnosis, cases.difficulty, cases.age, cases.sex, "
    "cases.speaker, cases.profile, cases.images, cases.source, cases.licence, cases.asks_for"
)
"""What a case is rebuilt from."""

ADD_CASES = """
    INSERT INTO cases BY NAME
    SELECT DISTINCT ON (case_key, content_hash) * FROM incoming
    ANTI JOIN cases USING (case_key, content_hash)"""


def add_cases(connection: duckdb.DuckDBPyConnection, cases: Iterable[Case]) -> int:
    """Insert the cases whose content the database does not hold yet, and return how many. Needs a write lease."""
    now = time.time()
    return insert(connection, ADD_CASES, "cases", [case_row(case, now) for case in cases])


def case(cursor: duckdb.DuckDBPyConnection, case_key: str, content_hash: str | None = None) -> Case | None:
    """Return a case as it came in last, or with the given content; ``None`` where there is none."""
    sql = f"""
        SELECT {CASE_COLUMNS} FROM cases
        WHERE case_key = $case_key AND ($content_hash::VARCHAR IS NULL OR content_hash = $content_hash)
        ORDER BY added_at DESC, rowid DESC LIMIT 1"""
    found = records(cursor.execute(sql, {"case_key": case_key, "content_hash": content_hash}))
    return case_from(found[0]) if found else None


def cases(cursor: duckdb.DuckDBPyConnection, dataset: str | None = None) -> list[Case]:
    """Return the cases of a data set, or all, each as it came in last, in the order of their keys."""
    sql = f"""
        SELECT {CASE_COLUMNS} FROM cases WHERE $dataset::VARCHAR IS NULL OR dataset = $dataset
        QUALIFY row_number() OVER (PARTITION BY case_key ORDER BY added_at DESC, rowid DESC) = 1
        ORDER BY case_key"""
    return [case_from(row) for row in records(cursor.execute(sql, {"dataset": dataset}))]


def single_diagnosis_keys(cursor: duckdb.DuckDBPyConnection) -> set[str]:
    """Return the keys of the cases that are known to have one single most likely diagnosis."""
    return {key for (key,) in cursor.execute("SELECT case_key FROM cases WHERE single_diagnosis").fetchall()}


def kinds_asked_for(cursor: duckdb.DuckDBPyConnection, dataset: str) -> list[AsksFor]:
    """Return what the questions of a data set ask for, the most frequent first."""
    sql = """
        SELECT asks_for FROM cases WHERE asks_for IS NOT NULL AND split_part(case_key, '/', 1) = ?
        GROUP BY asks_for ORDER BY count(DISTINCT case_key) DESC, asks_for"""
    return [kind for (kind,) in cursor.execute(sql, [dataset]).fetchall()]


def case_from(row: dict[str, Any]) -> Case:
    """Return the case of a row with ``CASE_COLUMNS``."""
    profile = None if row["profile"] is None else orjson.loads(row["profile"])
    return Case.model_validate({**row, "profile": profile, "images": orjson.loads(row["images"] or "[]")})
