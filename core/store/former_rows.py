"""Rows of tables that earlier versions had, as rows of ``judgements``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import duckdb
import orjson

from core.store.tables import SCHEMAS, adding, insert, records


def patient_judgements(row: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the medical terms of a conversation as the answer to the one question of the form ``patient_terms``."""
    terms = None if row["terms"] is None else orjson.loads(row["terms"])
    places = [
        {
            "message": term["turn"],
            "words": term["words"],
            "state": "verified",
            "start": term["start"],
            "end": term["end"],
        }
        for term in terms or ()
    ]
    value = None if terms is None else str(len(terms))
    return [_of_conversation(row, "patient_terms", "medical_terms", "", value, (*places, *_dropped(row)))]


def fact_judgements(row: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return a judgement of each fact, and of what the patient invented.

    A fact without a topic is one of version 0.5, which said nothing about the facts that were not withheld: its
    question is the fact alone.
    """
    verdicts = None if row["verdicts"] is None else orjson.loads(row["verdicts"])
    invented = [
        {
            "message": verdict["turn"],
            "words": verdict["words"],
            "state": "verified",
            "comment": verdict.get("fact_text") or "",
        }
        for verdict in verdicts or ()
        if verdict["kind"] == "invented"
    ]
    value = None if verdicts is None else str(len(invented))
    rows = []
    for verdict in verdicts or ():
        if verdict["kind"] == "invented":
            continue
        topic = (verdict.get("topic") or "").replace(" ", "-")
        question = f"{topic}:{verdict['fact']}" if topic else str(verdict["fact"])
        # a withheld fact is quoted from the doctor's question, the message before the one that withholds it
        turn = verdict["turn"] if verdict["kind"] != "withheld" else verdict["turn"] - 1
        places = [] if turn is None else [{"message": turn, "words": verdict["words"], "state": "verified"}]
        rows.append(_of_conversation(row, "facts", question, row["facts_hash"], verdict["kind"], places))
    return [*rows, _of_conversation(row, "facts", "invented", row["facts_hash"], value, (*invented, *_dropped(row)))]


def _dropped(row: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return a place without words for each quotation that was in no message; earlier versions counted them only."""
    return [{"message": -1, "words": "", "state": "unverified"}] * int(row["dropped"])


def _of_conversation(
    row: Mapping[str, Any],
    form: str,
    question: str,
    against: str,
    value: str | None,
    quotations: Sequence[Mapping[str, Any]],
) -> Mapping[str, Any]:
    return {
        "trial_id": row["trial_id"],
        "subject": f"talk:{row['trial_id']}",
        "form": form,
        "question": question,
        "against": against,
        "judge": row["model"],
        "judge_kind": "model",
        "prompt_hash": row["prompt_hash"],
        "together": 0,
        "repeat": 1,
        "value": value,
        "void": False,
        "quotations": orjson.dumps(quotations).decode(),
        "reason": "",
        "comment": "",
        "failure": row["failure"],
        "calls": orjson.loads(row["calls"]),
        "review_id": "",
        "seconds": None,
        "served_by": "",
        "judged_at": row["judged_at"],
    }


FORMER_ROWS: Mapping[str, Callable[[Mapping[str, Any]], list[Mapping[str, Any]]]] = {
    "fact_judgements": fact_judgements,
    "patient_judgements": patient_judgements,
}
"""Former table → the rows of ``judgements`` of one of its rows."""


def move_former_rows(connection: duckdb.DuckDBPyConnection) -> None:
    """Store the rows of the former tables of a database as judgements, and drop the tables."""
    stored = {name for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
    for table in sorted(FORMER_ROWS.keys() & stored):
        rows = records(connection.execute(f"FROM {table} ORDER BY rowid"))
        new = [tuple(r[name] for name in SCHEMAS["judgements"].names) for row in rows for r in FORMER_ROWS[table](row)]
        insert(connection, ADD_JUDGEMENTS, "judgements", new)
        connection.execute(f"DROP TABLE {table}")


ADD_JUDGEMENTS = adding(
    "judgements",
    "subject, form, question, against, judge, judge_kind, prompt_hash, together, repeat, review_id, judged_at",
    "DISTINCT",
)
