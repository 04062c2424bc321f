"""Rows of tables that earlier versions had, as rows of the table ``judgements``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson


def annotations(row: Mapping[str, Any]) -> list[Mapping[str, Any]]:
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


FORMER_ROWS: Mapping[str, Callable[[Mapping[str, Any]], list[Mapping[str, Any]]]] = {"annotations": annotations}
"""Former table → the judgements of one of its rows, of which columns may be missing."""
