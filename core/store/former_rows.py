"""Tables of opinions that earlier versions had: their rows are read as judgements, from journals and from databases."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import duckdb
import orjson

from core.store.review_records import parse_item
from core.store.tables import SCHEMAS, insert, records


def rubric_judgements(row: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return a verdict on a criterion of a rubric as a judgement; the version of the rubric is not stored any more."""
    return [
        {
            "trial_id": row["trial_id"],
            "subject": f"talk:{row['trial_id']}",
            "form": f"rubric:{row['rubric']}",
            "question": row["criterion"],
            "against": row["criterion_hash"],
            "judge": row["model"],
            "judge_kind": "rule" if row["model"] == "reference/words" else "model",
            "prompt_hash": row["prompt_hash"],
            "together": row["batch"],
            "repeat": row["repeat"] + 1,
            "value": "cannot judge" if row["verdict"] == "cannot be judged" else row["verdict"],
            "void": row["voided"],
            "quotations": row["quotations"],
            "reason": row["reason"],
            "comment": "",
            "failure": row["failure"],
            "calls": orjson.loads(row["calls"]),
            "review_id": "",
            "seconds": None,
            "served_by": "",
            "judged_at": row["judged_at"],
        }
    ]


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


FORMER_ROWS: Mapping[str, Callable[[Mapping[str, Any]], list[Mapping[str, Any]]]] = {
    "model_ratings": model_ratings,
    "rubric_judgements": rubric_judgements,
}
"""Former table → the judgements of one of its rows."""


def move_former_rows(connection: duckdb.DuckDBPyConnection) -> None:
    """Move the rows of the former tables of a database into the table of judgements, and drop these tables."""
    sql = "SELECT table_name FROM duckdb_tables() WHERE database_name = current_database()"
    stored = {name for (name,) in connection.execute(sql).fetchall()}
    for table, judgements_of in FORMER_ROWS.items():
        if table in stored:
            former = records(connection.execute(f"FROM {table} ORDER BY rowid"))
            rows = [
                tuple(judgement[name] for name in SCHEMAS["judgements"].names)
                for row in former
                for judgement in judgements_of(row)
            ]
            insert(connection, "INSERT INTO judgements BY NAME SELECT * FROM incoming", "judgements", rows)
            connection.execute(f"DROP TABLE {table}")
