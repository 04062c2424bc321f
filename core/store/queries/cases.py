"""Imported cases by key and content; the newest of a key counts."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, NamedTuple

import duckdb
import orjson

from core.case import NOT_GIVEN, AsksFor, Case
from core.errors import AnamnesisError
from core.store.rows import case_row
from core.store.tables import arrow_table, incoming, insert, records, schema_of
from core.text.questions import stated_kind

CaseKey = tuple[str, str | None]
"""The case of a trial: key and content hash (``None``: the newest content)."""

CASE_COLUMNS = (
    "cases.case_key, cases.dataset, cases.specialty, cases.vignette, cases.question, cases.choices, cases.answer, "
    "cases.synonyms, cases.supertypes, cases.subtypes, cases.single_diagnosis, cases.difficulty, cases.age, cases.sex, "
    "cases.speaker, cases.profile, cases.images, cases.source, cases.licence, cases.asks_for"
)
"""The columns of ``case_from``."""

ADD_CASES = f"""
    INSERT INTO cases BY NAME
    SELECT * EXCLUDE (place) FROM (SELECT *, row_number() OVER () AS place FROM incoming)
    ANTI JOIN cases USING (case_key, content_hash)
    WHERE NOT (list_contains({list(NOT_GIVEN)}, vignette) AND list_contains({list(NOT_GIVEN)}, answer))
    QUALIFY row_number() OVER (PARTITION BY case_key, content_hash ORDER BY place) = 1
    ORDER BY place"""
"""Cases are stored in the order of the import, so that the last one of a key is its newest.

What came without vignette and answer is no case: pages, counts, exports and judges have none for its conversations.
"""


def add_cases(connection: duckdb.DuckDBPyConnection, cases: Iterable[Case]) -> int:
    """Insert the cases whose content is not stored yet; return their number. Needs a write lease."""
    now = time.time()
    return insert(connection, [case_row(case, now) for case in cases], ADD_CASES)


def hash_cases(connection: duckdb.DuckDBPyConnection) -> None:
    """Store the hashes of the texts of all cases. Needed after a change of stored texts, or of the hashes."""
    rows = records(connection.execute("SELECT case_key, content_hash, vignette, question, answer FROM cases"))
    texts = [(Case.model_construct(**row), row["content_hash"]) for row in rows]
    hashes = [(case.case_key, content, case.text_hash, case.words_hash) for case, content in texts]
    columns = schema_of("case_key:text content_hash:text text_hash:text words_hash:text")
    with incoming(connection, arrow_table(columns, hashes)):
        connection.execute("""
            UPDATE cases SET text_hash = incoming.text_hash, words_hash = incoming.words_hash FROM incoming
            WHERE cases.case_key = incoming.case_key AND cases.content_hash = incoming.content_hash""")


def case(cursor: duckdb.DuckDBPyConnection, case_key: str, content_hash: str | None = None) -> Case | None:
    """Return the newest content of a case, or the given content; ``None`` if it is not stored."""
    sql = f"""
        SELECT {CASE_COLUMNS} FROM cases
        WHERE case_key = $case_key AND ($content_hash::VARCHAR IS NULL OR content_hash = $content_hash)
        ORDER BY added_at DESC, rowid DESC LIMIT 1"""
    rows = records(cursor.execute(sql, {"case_key": case_key, "content_hash": content_hash}))
    return case_from(rows[0]) if rows else None


def case_played(cursor: duckdb.DuckDBPyConnection, trial_id: str) -> Case | None:
    """Return the case of a trial with the content that it was played with, the newest if its journal had none."""
    sql = f"""
        SELECT {CASE_COLUMNS} FROM cases SEMI JOIN (SELECT * FROM trials WHERE trial_id = ?) AS played
            ON cases.case_key = played.case_key
            AND cases.content_hash = coalesce(played.content_hash, cases.content_hash)
        ORDER BY added_at DESC, rowid DESC LIMIT 1"""
    rows = records(cursor.execute(sql, [trial_id]))
    return case_from(rows[0]) if rows else None


def content_hashes(cursor: duckdb.DuckDBPyConnection, case_key: str) -> set[str]:
    rows = cursor.execute("SELECT content_hash FROM cases WHERE case_key = ?", [case_key]).fetchall()
    return {content for (content,) in rows}


def cases(cursor: duckdb.DuckDBPyConnection, dataset: str | None = None) -> list[Case]:
    """Return the newest content of the cases of a data set, or of all, in the order of their keys."""
    sql = f"""
        SELECT {CASE_COLUMNS} FROM cases WHERE $dataset::VARCHAR IS NULL OR dataset = $dataset
        QUALIFY row_number() OVER (PARTITION BY case_key ORDER BY added_at DESC, rowid DESC) = 1
        ORDER BY case_key"""
    return [case_from(row) for row in records(cursor.execute(sql, {"dataset": dataset}))]


def kinds_asked_for(cursor: duckdb.DuckDBPyConnection, dataset: str) -> list[AsksFor]:
    """Return the kinds of answer that the questions of a data set ask for, the most frequent first."""
    sql = """
        SELECT asks_for FROM cases WHERE asks_for IS NOT NULL AND split_part(case_key, '/', 1) = ?
        GROUP BY asks_for ORDER BY count(DISTINCT case_key) DESC, asks_for"""
    return [kind for (kind,) in cursor.execute(sql, [dataset]).fetchall()]


class CaseTraits(NamedTuple):
    """Properties of a case for the notes of a figure: what its question asks for, and whether it is faulty.

    ``duplicate``: another case of the data set has a vignette with the same words and the same pictures.
    ``development``: the case was used to write prompts. ``specialty_by`` is the model that labelled its specialty.
    """

    asks_for: AsksFor | None
    answer_is_no_choice: bool
    duplicate: bool
    development: bool = False
    specialty_by: str | None = None


def case_traits(cursor: duckdb.DuckDBPyConnection, datasets: Iterable[str]) -> dict[str, CaseTraits]:
    """Return case key → traits of the newest content of the cases of these data sets."""
    sql = """
        SELECT case_key, asks_for,
            len(choices) > 0
                AND NOT list_contains(list_transform(choices, lambda choice: lower(choice)), lower(answer)),
            count(*) OVER (PARTITION BY split_part(case_key, '/', 1), images, words_hash) > 1,
            coalesce(labelled.development, false), labelled.specialty_by
        FROM (
            FROM cases WHERE list_contains($datasets, split_part(case_key, '/', 1))
            QUALIFY row_number() OVER (PARTITION BY case_key ORDER BY added_at DESC, rowid DESC) = 1
        ) AS newest LEFT JOIN (
            SELECT case_key, content_hash, development, specialty_by FROM labelled_cases
        ) AS labelled USING (case_key, content_hash)"""
    rows = cursor.execute(sql, {"datasets": list(datasets)}).fetchall()
    return {key: CaseTraits(*traits) for key, *traits in rows}


def case_from(row: dict[str, Any]) -> Case:
    profile = None if row["profile"] is None else orjson.loads(row["profile"])
    images = orjson.loads(row["images"] or "[]")
    asks_for = stated_kind(row["question"], row["asks_for"])
    return Case.model_validate({**row, "profile": profile, "images": images, "asks_for": asks_for})


def cases_of(cursor: duckdb.DuckDBPyConnection, keys: Iterable[CaseKey]) -> dict[CaseKey, Case]:
    """Return the cases with the content of the trials; cases that are not stored are omitted."""
    unique = sorted(set(keys), key=str)
    rows = records(cursor.execute(_OF_KEYS, {"keys": sorted({key for key, _ in unique})}))
    cases: dict[CaseKey, Case] = {}
    for row in rows:  # the newest of a key comes last; it is used for trials without a content hash
        content_hash = row.pop("content_hash")
        cases[row["case_key"], content_hash] = cases[row["case_key"], None] = case_from(row)
    return {key: cases[key] for key in unique if key in cases}


_OF_KEYS = f"""
    SELECT {CASE_COLUMNS}, cases.content_hash FROM cases
    WHERE case_key IN (SELECT unnest($keys::VARCHAR[])) ORDER BY added_at, rowid"""


def cases_answered(cursor: duckdb.DuckDBPyConnection, run_id: str) -> dict[CaseKey, Case]:
    """Return the cases of a run's trials, with the content of the trials.

    Raises ``AnamnesisError`` if the case of an answer is not stored.
    """
    rows = records(cursor.execute(_OF_RUN, [run_id]))
    cases = {(row["case_key"], row.pop("content_of_trial")): case_from(row) for row in rows}
    sql = "SELECT DISTINCT case_key, content_hash FROM trials SEMI JOIN answers USING (trial_id) WHERE run_id = ?"
    keys = cursor.execute(sql, [run_id]).fetchall()
    missing = [key for key in keys if key not in cases]
    if missing:
        raise AnamnesisError(
            f"{len(missing)} cases of run {run_id} are not stored, {missing[0][0]} the first, so their answers cannot "
            "be graded: import their data set."
        )
    return cases


_OF_RUN = f"""
    WITH of_trials AS (SELECT DISTINCT case_key, content_hash FROM trials WHERE run_id = ?),
    last_cases AS (
        SELECT case_key, content_hash FROM cases
        QUALIFY row_number() OVER (PARTITION BY case_key ORDER BY added_at DESC, rowid DESC) = 1
    )
    SELECT {CASE_COLUMNS}, of_trials.content_hash AS content_of_trial FROM of_trials
    LEFT JOIN last_cases USING (case_key)
    JOIN cases ON cases.case_key = of_trials.case_key
        AND cases.content_hash = coalesce(of_trials.content_hash, last_cases.content_hash)"""
