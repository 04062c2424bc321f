"""Items of cases and measures of history taking: what is held, and the means over a case's trials.

The newest items of a case count.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import duckdb
import pandas as pd

from core.case import Case
from core.events import COUNTED
from core.store.queries.cases import CASE_COLUMNS, case_from
from core.store.scores import Reader, kept, key, means, newest
from core.store.selection import OUTCOMES, Selection, select
from core.store.tables import insert, records


class StoredItems(NamedTuple):
    """The items of a case as JSON, who made them, and when (seconds since 1970)."""

    case_key: str
    content_hash: str
    items: str
    made_by: str
    made_at: float


def newest_items(cursor: duckdb.DuckDBPyConnection, case_keys: Sequence[str] | None = None) -> list[StoredItems]:
    """Return the items that count, of some cases or all."""
    sql = f"""
        SELECT case_key, content_hash, items, made_by, made_at FROM {newest("history_items")}
        WHERE $keys::VARCHAR[] IS NULL OR list_contains($keys, case_key) ORDER BY case_key, content_hash"""
    keys = None if case_keys is None else list(case_keys)
    return [StoredItems(*row) for row in cursor.execute(sql, {"keys": keys}).fetchall()]


def add_items(connection: duckdb.DuckDBPyConnection, new: Iterable[StoredItems]) -> None:
    """Append items. Needs a write lease."""
    insert(connection, "INSERT INTO history_items BY NAME SELECT * FROM incoming", "history_items", list(new))


def cases_without_items(
    cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None, rules: Sequence[str] = ()
) -> list[Case]:
    """Return the cases of selected trials that have no items, or items by an earlier version of their maker.

    ``rules`` are the present names of versioned makers: with "rules-2", items by "rules-1" are an earlier version's.
    """
    sql = f"""
        SELECT DISTINCT {CASE_COLUMNS} FROM chosen JOIN seated USING (run_id)
        JOIN cases ON cases.case_key = chosen.case_key AND cases.content_hash = chosen.content_hash
        LEFT JOIN {newest("history_items")} AS newest
            ON newest.case_key = chosen.case_key AND newest.content_hash = chosen.content_hash
        WHERE NOT staffed AND (newest.made_by IS NULL OR (
            NOT list_contains($rules, newest.made_by) AND list_contains(
                list_transform($rules, lambda name: split_part(name, '-', 1)), split_part(newest.made_by, '-', 1))))
        ORDER BY cases.case_key"""
    select(cursor, selection)
    found = records(cursor.execute(sql, {"rules": list(rules)}))
    return [case_from(row) for row in found]


def history_means(
    cursor: duckdb.DuckDBPyConnection,
    measure: Reader,
    scalars: Sequence[str],
    curves: Sequence[str],
    topics: Sequence[str],
    selection: Selection | None = None,
) -> pd.DataFrame:
    """Return a row for each condition and case: means of the measures over its conversations, NaN where none has any.

    Columns: model, case_key, dataset, specialty, n_items, ``conversations`` (measured), ``excluded`` (broken off by an
    error or refusal, or none held), ``missing`` (not measured yet); a measure's name for its mean and ``n_NAME`` for
    the conversations that have it; ``NAME_at_I`` for the I-th point of a curve; ``order_TOPIC`` and ``told_TOPIC``.
    """
    select(cursor, selection)
    table = cursor.execute(_CASES.format(kept=kept(measure)), key(measure)).df()
    found = cursor.execute(_MEANS.format(means=means(measure)), key(measure)).df()
    points = [f"at_{i}" for i in range(_POINTS)]
    columns = {
        **{name: ("mean", name) for name in scalars},
        **{f"n_{name}": ("n", name) for name in scalars},
        **{f"{name}_{at}": (at, name) for name in curves for at in points},
        **{f"order_{topic}": ("mean", f"order {topic}") for topic in topics},
        **{f"told_{topic}": ("told", f"order {topic}") for topic in topics},
    }
    wide = found.pivot(index=["model", "case_key"], columns="name", values=["mean", "n", "told", *points])
    wide = wide.reindex(columns=pd.MultiIndex.from_tuples(columns.values())).set_axis(list(columns), axis=1)
    table = table.join(wide.astype(float), on=["model", "case_key"])
    return table.fillna({f"n_{name}": 0 for name in scalars})


def recalls_and_answers(
    cursor: duckdb.DuckDBPyConnection, measure: Reader, score: str, selection: Selection | None = None
) -> pd.DataFrame:
    """Return a row for each measured conversation whose answer to the question with its choices counts.

    Columns: model, case_key, dataset, specialty, trial_id, ``recall`` (the value of ``score``), ``right`` (by the
    selection's rule).
    """
    chosen = selection or Selection()
    select(cursor, chosen)
    values = {**key(measure), "score": score, "rules": chosen.rules, "counting": list(COUNTED)}
    return cursor.execute(_ANSWERED.format(kept=kept(measure)), values).df()


_POINTS = 11
_ANSWERED = f"""
    WITH {OUTCOMES.replace("{", "{{").replace("}", "}}")}, {{kept}}
    SELECT kept.model, case_key, dataset, specialty, trial_id, value AS recall, verdict = 'correct' AS "right"
    FROM kept JOIN outcomes USING (trial_id, model)
    WHERE name = $score AND value IS NOT NULL AND NOT staffed AND format = 'multi_turn' AND question_type = 'mcq'
        AND list_contains($counting, verdict)
    ORDER BY kept.place, case_key, trial_id"""
_CASES = """
    WITH {kept}
    SELECT model, case_key, any_value(dataset) AS dataset, any_value(specialty) AS specialty,
        any_value(listed) AS n_items, count(*) FILTER (measured) AS conversations,
        count(*) FILTER (NOT whole) AS excluded, count(*) FILTER (whole AND NOT measured) AS missing
    FROM held WHERE NOT staffed GROUP BY model, place, case_key ORDER BY place, case_key"""
_MEANS = f"""
    WITH {{means}}, pairs AS (
        SELECT model, case_key, split_part(name, '_', 1) || '_f1' AS name,
            any_value(series) FILTER (name LIKE '%_recall') AS recalls,
            any_value(series) FILTER (name LIKE '%_precision') AS precisions
        FROM kept WHERE len(series) > 0 GROUP BY trial_id, model, case_key, split_part(name, '_', 1)
    ), curves AS (
        SELECT model, case_key, name, {", ".join(f"avg(series[{i + 1}]) AS at_{i}" for i in range(_POINTS))}
        FROM (
            SELECT model, case_key, name, series FROM kept WHERE len(series) > 0
            UNION ALL
            SELECT model, case_key, name, list_transform(list_zip(recalls, precisions), lambda pair: CASE
                WHEN pair[1] > 0 THEN 2 * pair[1] * pair[2] / (pair[1] + pair[2]) ELSE pair[1] END) FROM pairs
        ) GROUP BY model, case_key, name
    )
    SELECT curves.* EXCLUDE (model, case_key, name), means.* EXCLUDE (trials), n / trials AS told
    FROM means LEFT JOIN curves USING (model, case_key, name)"""
