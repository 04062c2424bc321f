"""Rows of tables that earlier versions had, as rows of ``judgements``: those of journals and of older databases."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import duckdb

from core.store.rows import row_of
from core.store.tables import insert, records


def urgency_answers(row: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the answer of a doctor's model on how soon the patient must be seen, up to version 0.6.

    The first words of ``failure`` name what failed, as they do in judgements (``core.errors.FailureKind``).
    """
    level = row["level"]
    return [
        {
            "trial_id": row["trial_id"],
            "subject": f"talk:{row['trial_id']}",
            "form": "urgency_forced",
            "question": "level",
            "against": "",
            "judge": row["model"],
            "judge_kind": "model",
            "prompt_hash": row["prompt_hash"],
            "together": 1,
            "repeat": 1,
            "value": None if level is None else str(level),
            "void": row["outcome"] == "invented quotation",
            "quotations": f"[{row['quotation'] or ''}]",
            "reason": row["reason"],
            "comment": "",
            "failure": row["failure"] or ("" if level is not None else row["outcome"]),
            "calls": row["call_ids"],
            "review_id": "",
            "seconds": None,
            "served_by": row["served_by"] or "",
            "judged_at": row["asked_at"],
        }
    ]


FORMER_ROWS: Mapping[str, Callable[[Mapping[str, Any]], list[Mapping[str, Any]]]] = {"urgency_answers": urgency_answers}
"""Former table → the function that returns the rows of ``judgements`` for one of its rows."""


def move_former_rows(connection: duckdb.DuckDBPyConnection) -> None:
    """Move the rows of the former tables of a database into ``judgements``, and drop these tables."""
    stored = {name for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
    for table, judged in FORMER_ROWS.items():
        if table in stored:
            rows = [row for former in records(connection.execute(f"FROM {table}")) for row in judged(former)]
            sql = "INSERT INTO judgements BY NAME SELECT * FROM incoming"
            insert(connection, sql, "judgements", [row_of("judgements", row) for row in rows])
            connection.execute(f"DROP TABLE {table}")
