"""Tables of opinions that earlier versions had: their rows are read as judgements, from journals and from databases."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import duckdb
import orjson
import pyarrow as pa

from core.store.tables import SCHEMAS, arrow_table, incoming, records


def answers_of_people(row: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return an answer of a person. In a review its form is that of the review; other rows did not name their form."""
    review, item = row.get("review_id") or "", row["item"]
    outside = "answers" if item.startswith("answer:") else "conversations"
    quotations = [
        {
            "message": span["turn"],
            "words": span["text"],
            "state": "verified",
            "start": span["start"],
            "end": span["end"],
            **({"comment": span["comment"]} if span.get("comment") else {}),
        }
        for span in orjson.loads(row.get("spans") or "[]")
    ]
    return [
        {
            "trial_id": "",
            "subject": item,
            "form": outside if review in ("", "release", "imported") else "",
            "question": row["question"],
            "against": "",
            "judge": row["annotator"],
            "judge_kind": "person",
            "prompt_hash": "",
            "together": 1,
            "repeat": 1,
            "value": row.get("value"),
            "void": False,
            "quotations": orjson.dumps(quotations).decode(),
            "reason": row.get("reason") or "",
            "comment": row.get("comment") or "",
            "failure": "",
            "calls": [],
            "review_id": review,
            "seconds": row.get("seconds"),
            "served_by": "",
            "judged_at": row["annotated_at"],
        }
    ]


FORMER_ROWS: Mapping[str, Callable[[Mapping[str, Any]], list[Mapping[str, Any]]]] = {"annotations": answers_of_people}
"""Former table → the judgements of one of its rows, of which columns may be missing."""


def move_former_rows(connection: duckdb.DuckDBPyConnection) -> None:
    """Move the rows of the former tables of a database into the table of judgements, and drop these tables.

    The row of a person stays that of its journal line.
    """
    schema = SCHEMAS["judgements"].append(pa.field("line_id", pa.string()))
    sql = "SELECT table_name FROM duckdb_tables() WHERE database_name = current_database()"
    stored = {name for (name,) in connection.execute(sql).fetchall()}
    for table in stored & FORMER_ROWS.keys():
        rows = [
            tuple({**judgement, "line_id": row.get("line_id")}[column] for column in schema.names)
            for row in records(connection.execute(f"FROM {table} ORDER BY rowid"))
            for judgement in FORMER_ROWS[table](row)
        ]
        with incoming(connection, arrow_table(schema, rows)):
            connection.execute("INSERT INTO judgements BY NAME SELECT * FROM incoming")
        connection.execute(f"DROP TABLE {table}")
