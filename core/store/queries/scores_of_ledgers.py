"""Scores of the ledger: what became of the facts of cases in conversations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import duckdb
import pandas as pd

from core.agents.ledger_models import Mark
from core.store.queries.scores import Reader, kept, key
from core.store.selection import Selection, select


def ledger_scores(
    cursor: duckdb.DuckDBPyConnection, measure: Reader, names: Sequence[str], selection: Selection | None = None
) -> list[tuple[Any, ...]]:
    """Return for each selected conversation that is marked its trial, the values of ``names``, and where it leaked.

    The last is the evidence of the score ``leaked`` as JSON, ``None`` where there is none.
    """
    values = ", ".join(f"any_value(value) FILTER (name = '{name}')" for name in names)
    sql = f"""
        WITH {kept(measure)} SELECT trial_id, {values}, any_value(evidence) FILTER (name = 'leaked')
        FROM kept WHERE NOT contains(name, ':') GROUP BY trial_id ORDER BY trial_id"""
    select(cursor, selection)
    return cursor.execute(sql, key(measure)).fetchall()


def talk_sums(cursor: duckdb.DuckDBPyConnection, measure: Reader, selection: Selection | None = None) -> pd.DataFrame:
    """Return a row for each model and case: its conversations, and what the marked ones hold.

    Columns: model, case_key, dataset, specialty; of the conversations that did not break off, ``marked`` and
    ``missing``; ``broken`` ones; ``unmarked`` of both; ``with_leaked`` of the marked ones.
    """
    sql = f"""
        WITH {kept(measure)}, leaks AS (SELECT trial_id, true AS leaked FROM kept WHERE name = 'leaked' AND value > 0)
        SELECT model, case_key, any_value(dataset) AS dataset, any_value(specialty) AS specialty,
            count(*) FILTER (whole AND measured) AS marked, count(*) FILTER (whole AND NOT measured) AS missing,
            count(*) FILTER (NOT whole) AS broken, count(*) FILTER (NOT measured) AS unmarked,
            count(*) FILTER (whole AND leaked) AS with_leaked
        FROM held LEFT JOIN leaks USING (trial_id) WHERE content_hash IS NOT NULL AND ended AND NOT staffed
        GROUP BY model, place, case_key ORDER BY place, case_key"""
    select(cursor, selection)
    return cursor.execute(sql, key(measure)).df()


def topic_sums(cursor: duckdb.DuckDBPyConnection, measure: Reader, selection: Selection | None = None) -> pd.DataFrame:
    """Return a row for each model, case and topic: facts over its marked whole conversations, and what became of them.

    Columns: model, case_key, dataset, specialty, topic, ``facts``, ``asked``, ``volunteered``, ``never_elicited``:
    numbers of facts that the patient could tell, summed over conversations.
    """
    sums = ", ".join(f"coalesce(sum(told) FILTER (mark = '{mark}'), 0)::BIGINT AS {mark}" for mark in MARKS)
    sql = f"""
        WITH {kept(measure)}, told AS (
            SELECT model, place, case_key, any_value(dataset) AS dataset, any_value(specialty) AS specialty,
                split_part(name, ': ', 1) AS mark, split_part(name, ': ', 2) AS topic, sum(value) AS told
            FROM kept WHERE whole AND contains(name, ': ')
            GROUP BY model, place, case_key, name
        )
        SELECT model, case_key, any_value(dataset) AS dataset, any_value(specialty) AS specialty, topic,
            sum(told)::BIGINT AS facts, {sums}
        FROM told GROUP BY model, place, case_key, topic ORDER BY place, case_key, topic"""
    select(cursor, selection)
    return cursor.execute(sql, key(measure)).df()


MARKS: tuple[Mark, ...] = get_args(Mark)
"""What became of a fact; a score ``MARK: TOPIC`` counts those of a topic that the patient could tell."""
