"""A copy of the database without the texts of some cases, and of the conversations about them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import duckdb
import orjson
import pyarrow as pa

from core.store.queries.cases import CaseKey, hash_cases
from core.store.review_records import parse_item
from core.store.tables import TABLES

_TOGETHER = 1_000
"""Trials whose events are in memory at the same time."""
_DELETED = (*(name for name, table in TABLES.items() if table.of == "trial" and table.job), "scores")
"""Tables of trials whose rows quote conversations."""
_OF_CASES = tuple(name for name, table in TABLES.items() if table.of == "case" and name != "case_labels")
_OF_ITEMS = {name: table.item for name, table in TABLES.items() if table.item}
"""Table → the column that names the item of a row."""
_PLAIN_LABELS = ("specialty", "single_diagnosis", "development", "urgency")
"""Fields of a case whose labels contain no text of the case."""


def stored_case_keys(cursor: duckdb.DuckDBPyConnection) -> list[CaseKey]:
    """Return the stored cases, and those of trials of which the case is not stored."""
    sql = """
        SELECT case_key, content_hash FROM cases UNION SELECT case_key, nullif(content_hash, '') FROM trials
        ORDER BY ALL"""
    return cursor.execute(sql).fetchall()


@dataclass(frozen=True)
class WithoutTexts:
    """Removes the texts of ``cases`` from a copy of the database; called with a connection and the copy's name.

    ``without_text`` returns events without texts. ``placeholder`` stands for a text.
    """

    cases: Collection[CaseKey]
    without_text: Callable[[list[Any]], list[dict[str, Any]]]
    placeholder: str

    def __call__(self, connection: duckdb.DuckDBPyConnection, database: str) -> None:
        if not self.cases:
            return
        connection.execute(f"USE {database}")
        try:
            self._remove(connection)
        finally:
            connection.execute("USE memory")

    def _remove(self, connection: duckdb.DuckDBPyConnection) -> None:
        connection.execute("CREATE TEMP TABLE closed_cases (case_key VARCHAR, content_hash VARCHAR)")
        connection.executemany("INSERT INTO closed_cases VALUES (?, ?)", [list(key) for key in self.cases])
        connection.execute(_CLOSED_TRIALS)
        # calls of deleted trials and of jobs on cases have no trial: nobody can tell which case they quote
        connection.execute(
            """UPDATE calls SET request = '{}', response = $1, reasoning = NULL, parts = NULL,
                error = if(coalesce(error, '') = '', error, $1)
            WHERE trial_id IS NULL OR trial_id NOT IN (SELECT trial_id FROM trials)
                OR trial_id IN (FROM closed_trials)""",
            [self.placeholder],
        )
        for table in _DELETED:
            connection.execute(f"DELETE FROM {table} WHERE trial_id IN (FROM closed_trials)")
        for table, columns in ((table.name, table.texts) for table in TABLES.values() if table.texts):
            changes = ", ".join(f"{name} = if(coalesce({name}, '') = '', {name}, $1)" for name in columns)
            connection.execute(
                f"UPDATE {table} SET {changes} WHERE trial_id IN (FROM closed_trials)", [self.placeholder]
            )
        connection.execute("UPDATE forks SET changes = [] WHERE trial_id IN (FROM closed_trials)")
        self._remove_events(connection)
        keys = "case_key IN (SELECT case_key FROM closed_cases)"
        for table in _OF_CASES:
            connection.execute(f"DELETE FROM {table} WHERE {keys}")
        connection.execute(
            f"DELETE FROM case_labels WHERE {keys} AND NOT list_contains($1, field)", [list(_PLAIN_LABELS)]
        )
        connection.execute(f"UPDATE case_labels SET note = '' WHERE {keys}")
        self._remove_items(connection)
        connection.execute(_CASES, [self.placeholder])
        hash_cases(connection)
        released = "(SELECT 1 FROM trials JOIN runs USING (run_id) JOIN closed_trials USING (trial_id)"
        if connection.execute(f"SELECT EXISTS {released} WHERE source = 'release')").fetchall() == [(True,)]:
            connection.execute("DELETE FROM release_documents")
            connection.execute(_TEMPLATES, [self.placeholder])

    def _remove_events(self, connection: duckdb.DuckDBPyConnection) -> None:
        closed = [trial for (trial,) in connection.execute("FROM closed_trials").fetchall()]
        for start in range(0, len(closed), _TOGETHER):
            batch = closed[start : start + _TOGETHER]
            rows = connection.execute(
                "SELECT trial_id, events FROM trials WHERE list_contains($1, trial_id)", [batch]
            ).fetchall()
            events = [orjson.dumps(self.without_text(orjson.loads(stored))).decode() for _, stored in rows]
            connection.register("changed", pa.table({"id": [trial for trial, _ in rows], "events": events}))
            connection.execute("UPDATE trials SET events = changed.events FROM changed WHERE trial_id = changed.id")
            connection.unregister("changed")

    def _remove_items(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Delete the answers of people and models about closed trials and cases, which quote them."""
        trials = {trial for (trial,) in connection.execute("FROM closed_trials").fetchall()}
        cases = {case_key for case_key, _ in self.cases}
        for table, column in _OF_ITEMS.items():
            items = [item for (item,) in connection.execute(f"SELECT DISTINCT {column} FROM {table}").fetchall()]
            parsed = {item: parse_item(item) for item in items}
            closed = [name for name, item in parsed.items() if item.case_key in cases or trials & {*item.trials}]
            connection.execute(f"DELETE FROM {table} WHERE list_contains($1, {column})", [closed])


_CLOSED_TRIALS = """
    CREATE TEMP TABLE closed_trials AS
    SELECT trial_id FROM trials JOIN closed_cases ON trials.case_key = closed_cases.case_key
        AND nullif(trials.content_hash, '') IS NOT DISTINCT FROM closed_cases.content_hash"""
_TEMPLATES = """
    UPDATE runs SET settings = json_merge_patch(settings, json_object('prompts', (
        SELECT json_group_object(name, json_object('template', $1)) FROM (
            SELECT unnest(json_keys(settings, '$.prompts')) AS name))))
    WHERE source = 'release' AND json_exists(settings, '$.prompts')"""
_CASES = """
    UPDATE cases SET vignette = $1 || ' ' || content_hash, question = $1, answer = $1, choices = [], synonyms = [],
        supertypes = [], subtypes = [], profile = NULL, images = NULL
    WHERE (case_key, content_hash) IN (SELECT (case_key, content_hash) FROM closed_cases)"""
