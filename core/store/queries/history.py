"""Items of cases and measures of history taking: what is held, what is missing, and the means over a case's trials.

The newest items of a case count. A measure is known by its trial and a hash of the items it was made against, so that
new items, or another version of the rules, make it missing again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import duckdb
import orjson
import pandas as pd
import pyarrow as pa

from core.agents.base import Turn
from core.case import Case
from core.store.queries.cases import CASE_COLUMNS, case_from
from core.store.selection import Selection, select
from core.store.tables import records


class StoredItems(NamedTuple):
    """The items of a case as JSON, who made them, and when (seconds since 1970)."""

    case_key: str
    content_hash: str
    items: str
    made_by: str
    made_at: float


class StoredMeasures(NamedTuple):
    """The measures of one trial as JSON."""

    trial_id: str
    items_hash: str
    measures: str
    measured_at: float


class Unmeasured(NamedTuple):
    """A trial whose conversation has no measures by the newest items."""

    trial_id: str
    case_key: str
    content_hash: str
    items_hash: str


@dataclass(frozen=True)
class StoredDialogue:
    """The messages of one trial."""

    trial_id: str
    turns: tuple[Turn, ...]


def newest_items(cursor: duckdb.DuckDBPyConnection, case_keys: Sequence[str] | None = None) -> list[StoredItems]:
    """Return the items that count, of some cases or all."""
    sql = f"""
        WITH {_NEWEST} SELECT case_key, content_hash, items, made_by, made_at FROM newest
        WHERE $keys::VARCHAR[] IS NULL OR list_contains($keys, case_key) ORDER BY case_key, content_hash"""
    keys = None if case_keys is None else list(case_keys)
    return [StoredItems(*row) for row in cursor.execute(sql, {"keys": keys}).fetchall()]


def add_items(connection: duckdb.DuckDBPyConnection, new: Iterable[StoredItems]) -> int:
    """Append items and return how many. Needs a write lease."""
    return _append(connection, "history_items", list(new), StoredItems, "SELECT * FROM incoming")


def add_measures(connection: duckdb.DuckDBPyConnection, new: Iterable[StoredMeasures]) -> int:
    """Append the measures that are not there yet and return how many. Needs a write lease."""
    select = "SELECT * FROM incoming ANTI JOIN history_measures USING (trial_id, items_hash)"
    return _append(connection, "history_measures", list(new), StoredMeasures, select)


def cases_without_items(
    cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None, rules: Sequence[str] = ()
) -> list[Case]:
    """Return the cases of selected trials that have no items, or items by an earlier version of their maker.

    ``rules`` are the present names of versioned makers: with "rules-2", items by "rules-1" are an earlier version's.
    """
    sql = f"""
        WITH {_NEWEST}, {_HELD}
        SELECT DISTINCT {CASE_COLUMNS} FROM held
        JOIN cases ON cases.case_key = held.case_key AND cases.content_hash = held.content_hash
        LEFT JOIN newest ON newest.case_key = held.case_key AND newest.content_hash = held.content_hash
        WHERE newest.made_by IS NULL OR (
            NOT list_contains($rules, newest.made_by) AND list_contains(
                list_transform($rules, lambda name: split_part(name, '-', 1)), split_part(newest.made_by, '-', 1)))
        ORDER BY cases.case_key"""
    select(cursor, selection)
    found = records(cursor.execute(sql, {"rules": list(rules)}))
    return [case_from(row) for row in found]


def unmeasured(cursor: duckdb.DuckDBPyConnection, version: str, selection: Selection | None = None) -> list[Unmeasured]:
    """Return the selected trials with a whole conversation and items, but no measures of this version by them."""
    sql = f"""
        WITH {_NEWEST}, {_HELD}, {_MEASURED}
        SELECT trial_id, case_key, content_hash, items_hash FROM measured
        WHERE whole AND items_hash IS NOT NULL AND measures IS NULL ORDER BY case_key, content_hash, trial_id"""
    select(cursor, selection)
    rows = cursor.execute(sql, {"version": version}).fetchall()
    return [Unmeasured(*row) for row in rows]


def dialogues(cursor: duckdb.DuckDBPyConnection, trials: Sequence[str]) -> list[StoredDialogue]:
    """Return the messages of trials, in the order of the trials' ids; a trial without messages is not among them."""
    sql = """
        SELECT trial_id, list(role ORDER BY position), list(text ORDER BY position)
        FROM utterances SEMI JOIN (SELECT unnest($trials) AS trial_id) USING (trial_id)
        GROUP BY trial_id ORDER BY trial_id"""
    rows = cursor.execute(sql, {"trials": list(trials)}).fetchall()
    return [StoredDialogue(t, tuple(map(Turn, roles, texts))) for t, roles, texts in rows]


def case_means(
    cursor: duckdb.DuckDBPyConnection,
    version: str,
    structure: Mapping[str, Any],
    selection: Selection | None = None,
) -> pd.DataFrame:
    """Return a row for each condition and case: means of the measures over its conversations, NaN where none has any.

    ``structure`` names the measures as they are stored. Columns: model, case_key, dataset, specialty, n_items,
    ``conversations`` (measured), ``excluded`` (broken off by an error or refusal, or none held), ``missing`` (not
    measured yet); a measure's name for its mean and ``n_NAME`` for the conversations that have it; ``NAME_at_I`` for
    the I-th point of a curve; ``order_TOPIC`` and ``told_TOPIC``.
    """
    columns = ", ".join(f'{sql} AS "{name}"' for name, sql in _columns(structure))
    sql = f"""
        WITH {_NEWEST}, {_HELD}, {_MEASURED}, read AS (
            SELECT *, from_json(measures, $structure) AS m FROM measured
        )
        SELECT model, case_key, any_value(dataset) AS dataset, any_value(specialty) AS specialty,
            any_value(n_items) AS n_items, count(m) AS conversations, count(*) FILTER (NOT whole) AS excluded,
            count(*) FILTER (whole AND m IS NULL) AS missing, {columns}
        FROM read GROUP BY model, place, case_key ORDER BY place, case_key"""
    described = orjson.dumps(structure).decode()
    select(cursor, selection)
    return cursor.execute(sql, {"version": version, "structure": described}).df()


def _columns(structure: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    for name, kind in structure.items():
        if isinstance(kind, str):
            yield name, f'avg(m."{name}")'
            yield f"n_{name}", f'count(m."{name}")'
            continue
        for inner, held in kind.items():
            if isinstance(held, str):
                yield f"{name}_{inner}", f'avg(m."{name}"."{inner}")'
            else:
                yield from ((f"{inner}_at_{i}", f'avg(m."{name}"."{inner}"[{i + 1}])') for i in range(_POINTS))


def _append(
    connection: duckdb.DuckDBPyConnection, table: str, rows: Sequence[tuple[Any, ...]], kind: Any, select: str
) -> int:
    if not rows:
        return 0
    incoming = pa.table(dict(zip(kind._fields, map(list, zip(*rows, strict=True)), strict=True)))
    connection.register("incoming", incoming)
    try:
        (count,) = connection.execute(f"INSERT INTO {table} BY NAME {select}").fetchall()[0]
    finally:
        connection.unregister("incoming")
    return int(count)


_POINTS = 11
_NEWEST = """newest AS (
        SELECT * FROM history_items
        QUALIFY row_number() OVER (PARTITION BY case_key, content_hash ORDER BY made_at DESC, rowid DESC) = 1
    )"""

# The chosen trials, but those with clinical staff: there two are asked, and results count beside what patients tell.
_HELD = """held AS (
        SELECT chosen.*, model, place,
            coalesce(end_reason IN ('final_diagnosis', 'no_question', 'turn_cap'), false) AS whole
        FROM chosen JOIN seated USING (run_id) JOIN trials USING (trial_id) WHERE NOT staffed
    )"""

_MEASURED = """hashed AS (
        SELECT case_key, content_hash, md5(items::VARCHAR || $version) AS items_hash,
            json_array_length(items) AS n_items
        FROM newest
    ), measured AS (
        SELECT held.*, hashed.items_hash, hashed.n_items, history_measures.measures
        FROM held LEFT JOIN hashed USING (case_key, content_hash)
        LEFT JOIN history_measures
            ON history_measures.trial_id = held.trial_id AND history_measures.items_hash = hashed.items_hash
    )"""
