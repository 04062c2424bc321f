"""Rows of tables that earlier versions had, as rows of ``judgements``.

Journals and databases of these versions have such rows; they are read and never written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import duckdb
import orjson

from core.store.review_records import parse_item
from core.store.tables import SCHEMAS, insert, records


def model_ratings(row: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the answer of a model that filled in the form of a review: all questions of an item in one request.

    The question of a reply that could not be read is empty.
    """
    trials = parse_item(row["item"]).trials
    quotations = [
        {"message": quoted["message"], "words": quoted["words"], "state": quoted["status"]}
        for quoted in orjson.loads(row["quotations"])
    ]
    judgement = {
        "trial_id": trials[0] if trials else "",
        "subject": row["item"],
        "form": row["form"],
        "question": row["question"],
        "against": "",  # the prompt's hash covers the questions
        "judge": row["model"],
        "judge_kind": "model",
        "prompt_hash": row["prompt_hash"],
        "together": 0,
        "repeat": 1,
        "value": row["value"],
        "void": any(quoted["state"] == "unverified" for quoted in quotations),
        "quotations": orjson.dumps(quotations).decode(),
        "reason": row["reason"],
        "comment": "",
        "failure": row["failure"],
        "calls": row["call_ids"],
        "review_id": "",
        "seconds": None,
        "served_by": "",
        "judged_at": row["rated_at"],
    }
    return [judgement]


FORMER_ROWS: Mapping[str, Callable[[Mapping[str, Any]], list[Mapping[str, Any]]]] = {"model_ratings": model_ratings}
"""Former table → the rows of ``judgements`` of one of its rows."""


def move_rows(connection: duckdb.DuckDBPyConnection, table: str) -> None:
    """Move the rows of a former table of a database to ``judgements``, and drop it."""
    rows = records(connection.execute(f"SELECT * FROM {table} ORDER BY rowid"))
    names = SCHEMAS["judgements"].names
    moved = [tuple(new[name] for name in names) for row in rows for new in FORMER_ROWS[table](row)]
    insert(connection, "INSERT INTO judgements BY NAME SELECT * FROM incoming", "judgements", moved)
    connection.execute(f"DROP TABLE {table}")
