"""How the conversations of a run ended: the reason, and the last message."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import duckdb

from core.asking.scene import Turn
from core.events import Ended
from core.store.queries.cases import CaseKey


class ConversationEnd(NamedTuple):
    """The end of a trial's conversation; ``last`` is its last message, ``None`` if nobody spoke."""

    trial_id: str
    case: CaseKey
    ended: Ended
    last: Turn | None


def ends_without_answer(
    cursor: duckdb.DuckDBPyConnection, run_id: str, limit: int | None = None
) -> tuple[list[ConversationEnd], int]:
    """Return the conversations of a run whose end is no answer yet, by trial number and case; and how many have one.

    A trial that failed before its conversation ended is one that a provider broke off.
    """
    rows = cursor.execute(_ENDS, {"run_id": run_id, "limit": limit}).fetchall()
    return list(_ends(row[:-1] for row in rows if not row[-1])), sum(row[-1] for row in rows)


def _ends(rows: Iterator[tuple[str, ...]]) -> Iterator[ConversationEnd]:
    for trial_id, case_key, content_hash, reason, detail, turns, role, text in rows:
        ended = Ended(reason=reason, detail=detail, doctor_turns=turns)
        yield ConversationEnd(trial_id, (case_key, content_hash), ended, Turn(role, text) if role else None)


_ENDS = """
    WITH of_run AS (
        FROM trials WHERE run_id = $run_id AND (end_reason IS NOT NULL OR status = 'failed')
    ), lasts AS (
        SELECT trial_id, arg_max(role, position) AS role, arg_max(text, position) AS text
        FROM utterances SEMI JOIN of_run USING (trial_id) GROUP BY trial_id
    )
    SELECT trial_id, case_key, content_hash, coalesce(end_reason, 'error'),
        coalesce(end_detail, failure_message, ''), coalesce(doctor_turns, 0), role, text,
        EXISTS (FROM answers WHERE answers.trial_id = of_run.trial_id AND format = 'closing')
    FROM of_run LEFT JOIN lasts USING (trial_id)
    ORDER BY trial, case_key, trial_id LIMIT $limit"""
