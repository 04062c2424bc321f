"""Items of the history of cases, and the requests with which their patients open: the newest of a case count."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import duckdb

from core.case import Case, Opening
from core.errors import UsageError
from core.store.database import Store
from core.store.queries.cases import CASE_COLUMNS, case_from
from core.store.queries.scores import newest
from core.store.selection import Selection, select, select_all
from core.store.tables import CaseListRow, insert, records
from core.store.written import write
from core.text.case_items import HistoryItem, ItemSet, items_from_json, items_to_json, match_cases, read_mediq
from core.text.profiles import CaseId


def newest_items(cursor: duckdb.DuckDBPyConnection, case_keys: Sequence[str] | None = None) -> list[CaseListRow]:
    sql = f"""
        SELECT case_key, content_hash, kind, items, made_by, made_at FROM {newest("items")}
        WHERE $keys::VARCHAR[] IS NULL OR list_contains($keys, case_key) ORDER BY case_key, content_hash"""
    keys = None if case_keys is None else list(case_keys)
    return [CaseListRow(*row) for row in cursor.execute(sql, {"keys": keys}).fetchall()]


def item_makers(cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None) -> dict[str, int]:
    """Return maker → number of cases of selected trials whose items are by it, the most frequent first."""
    select(cursor, selection)
    sql = f"""
        SELECT made_by, count(*) AS cases FROM (SELECT DISTINCT case_key, content_hash FROM chosen)
        JOIN {newest("items")} USING (case_key, content_hash) GROUP BY made_by ORDER BY cases DESC, made_by"""
    return {str(maker): int(cases) for maker, cases in cursor.execute(sql).fetchall()}


def add_items(connection: duckdb.DuckDBPyConnection, new: Iterable[CaseListRow]) -> None:
    """Append items by rules, which can be made again, to the database. Needs a write lease."""
    insert(connection, list(new))


def keep_items(connection: duckdb.DuckDBPyConnection, new: Iterable[CaseListRow]) -> None:
    """Append items of a person to journal and database. Needs a write lease."""
    write(connection, "case_list", [vars(items) for items in new])


def opening_row(case: Case, opening: str | None, made_by: str, made_at: float) -> CaseListRow:
    """Return the row of a model's opening of a case; ``None``: the model gave no valid opening."""
    items = [HistoryItem(key="opening", value=opening, topic="chief complaint")] if opening else []
    return CaseListRow(case.case_key, case.content_hash, "opening", items_to_json(items), made_by, made_at)


def newest_openings(cursor: duckdb.DuckDBPyConnection, case_keys: Sequence[str]) -> dict[CaseId, Opening]:
    """Return the openings of some cases: the newest valid opening by a model."""
    sql = """
        SELECT case_key, content_hash, items, made_by FROM case_lists
        WHERE kind = 'opening' AND json_array_length(items) > 0 AND list_contains($keys, case_key)
        QUALIFY row_number() OVER (PARTITION BY case_key, content_hash ORDER BY made_at DESC, rowid DESC) = 1"""
    rows = cursor.execute(sql, {"keys": list(case_keys)}).fetchall()
    return {
        (key, content): Opening(text=items_from_json(items)[0].value, made_by=made_by)
        for key, content, items, made_by in rows
    }


def opened_by(cursor: duckdb.DuckDBPyConnection, made_by: str) -> set[CaseId]:
    """Return the cases for which this maker was asked, with or without a valid opening."""
    return _cases_of_maker(cursor, made_by, "opening")


def items_row(case: Case, items: Sequence[HistoryItem], made_by: str, made_at: float) -> CaseListRow:
    """Return the row of a model's items of a case; without items, the model gave no valid reply."""
    kind = "items" if items else "no items"
    return CaseListRow(case.case_key, case.content_hash, kind, items_to_json(items), made_by, made_at)


def asked_for_items(cursor: duckdb.DuckDBPyConnection, made_by: str) -> set[CaseId]:
    """Return the cases for which this maker was asked, with or without valid items."""
    return _cases_of_maker(cursor, made_by, "items", "no items")


def _cases_of_maker(cursor: duckdb.DuckDBPyConnection, made_by: str, *kinds: str) -> set[CaseId]:
    sql = "SELECT DISTINCT case_key, content_hash FROM case_lists WHERE made_by = ? AND list_contains(?, kind)"
    return {(str(key), str(content)) for key, content in cursor.execute(sql, [made_by, list(kinds)]).fetchall()}


def cases_without_items(cursor: duckdb.DuckDBPyConnection, rules: Sequence[str] = ()) -> list[Case]:
    """Return the cases of stored trials without items, or with items by an earlier version of their maker.

    ``rules`` are the present names of versioned makers: with "rules-2", items by "rules-1" are an earlier version's.
    """
    sql = f"""
        SELECT DISTINCT {CASE_COLUMNS} FROM chosen JOIN seated USING (run_id)
        JOIN cases ON cases.case_key = chosen.case_key AND cases.content_hash = chosen.content_hash
        LEFT JOIN {newest("items")} AS newest
            ON newest.case_key = chosen.case_key AND newest.content_hash = chosen.content_hash
        WHERE NOT staffed AND (newest.made_by IS NULL OR (
            NOT list_contains($rules, newest.made_by) AND list_contains(
                list_transform($rules, lambda name: split_part(name, '-', 1)), split_part(newest.made_by, '-', 1))))
        ORDER BY cases.case_key"""
    select_all(cursor)
    return [case_from(row) for row in records(cursor.execute(sql, {"rules": list(rules)}))]


def save_items_of_facts(store: Store, path: Path, cases: Iterable[Case]) -> tuple[int, int, int]:
    """Store the atomic facts of a MediQ file as the items of the cases with the same vignettes.

    Returns the numbers of cases with new items, of records without a case, and of unreadable records. Raises
    ``UsageError`` if the file is not MediQ's format or has no vignette of a case.
    """
    reading, by_key = read_mediq(path), {case.case_key: case for case in cases}
    matches = match_cases(reading.records, by_key.values())
    if not matches.items:
        raise UsageError(f"No vignette in {path} is one of these {len(by_key):,} cases: choose others by --cases.")
    with store.write() as connection:
        keep_items(connection, [items_of(by_key[key], items) for key, items in matches.items.items()])
    return len(matches.items), matches.unmatched, len(reading.rejected)


def stored_items(store: Store, case: Case) -> ItemSet | None:
    """Return the newest items of a case, or ``None`` if there are none for its present content."""
    with store.read() as cursor:
        newest = [s for s in newest_items(cursor, [case.case_key]) if s.content_hash == case.content_hash]
    return ItemSet(items_from_json(newest[0].items), newest[0].made_by) if newest else None


def items_of(case: Case, items: ItemSet) -> CaseListRow:
    listed = items_to_json(items.items)
    return CaseListRow(case.case_key, case.content_hash, "items", listed, items.made_by, time.time())
