"""Steps that version 0.5 ran again by themselves; a later version plays a branch."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
import orjson

from core.events import Verdict
from core.store.tables import records


@dataclass(frozen=True)
class StepReply:
    """The reply to a step with an edited request; ``made_at`` is in seconds since 1970 (UTC)."""

    model: str
    response: str
    verdicts: tuple[Verdict, ...]
    made_at: float


def step_replies(cursor: duckdb.DuckDBPyConnection, trial_id: str, step_key: str) -> list[StepReply]:
    """Return the replies of a step, the oldest first; without a reply, ``response`` says why."""
    sql = "SELECT model, outcome, made_at FROM variants WHERE trial_id = $1 AND step = $2 ORDER BY made_at, rowid"
    replies = []
    for row in records(cursor.execute(sql, [trial_id, step_key])):
        outcome = orjson.loads(row["outcome"])
        verdicts = tuple(verdict for _, verdict in outcome["verdicts"]) or tuple(filter(None, [outcome.get("reason")]))
        words = outcome.get("response") or outcome.get("detail") or ""
        replies.append(StepReply(row["model"], words, verdicts, row["made_at"]))
    return replies
