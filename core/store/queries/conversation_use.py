"""What the tested model used in conversations: messages, US dollars and seconds, by run and case."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import duckdb

from core.frameworks.base import frameworks, tested_seat
from core.store.tables import arrow_table, schema_of


class ConversationUse(NamedTuple):
    """The complete conversations of a case in a run, and the calls for the tested model's messages in them.

    ``turns`` are the doctor's messages without the greeting; ``open`` conversations ended without the words "final
    diagnosis" in their last message. ``recorded`` conversations have stored calls: those of a
    release, of rules and of people have none. ``cost_usd`` is the sum of the prices that are known, and ``unpriced``
    counts calls with a reply whose price is unknown. ``seconds`` is the time that the model took.
    """

    run_id: str
    case_key: str
    conversations: int
    turns: int
    open: int
    recorded: int
    unpriced: int
    cost_usd: float
    seconds: float


def conversation_use(cursor: duckdb.DuckDBPyConnection, run_ids: Sequence[str]) -> list[ConversationUse]:
    """Return the use of each case with a complete conversation in these runs.

    Calls for answers to questions, and for beliefs between the messages, are no part of a conversation.
    """
    tested = [(name, tested_seat(framework).role) for name, framework in frameworks().items()]
    cursor.register("tested_roles", arrow_table(schema_of("protocol:text role:text"), tested))
    return [ConversationUse(*row) for row in cursor.execute(_USE, {"runs": list(run_ids)}).fetchall()]


# each answer after a conversation is stored with its end: the arm with most answers has all conversations
_USE = """
    WITH conversations AS (
        SELECT trial_id, run_id, case_key, coalesce(doctor_turns, 0) AS turns FROM trials
        WHERE list_contains($runs, run_id) AND status <> 'failed' AND end_reason IS NOT NULL
    ), used AS (
        SELECT trial_id, count(*) FILTER (cost_usd IS NULL AND error IS NULL) AS unpriced,
            coalesce(sum(cost_usd), 0) AS cost_usd, coalesce(sum(latency_s), 0) AS seconds
        FROM calls JOIN runs USING (run_id)
        JOIN tested_roles ON tested_roles.protocol = runs.protocol AND tested_roles.role = calls.role
        WHERE list_contains($runs, run_id) AND purpose = 'dialogue' GROUP BY trial_id
    ), ends AS (
        SELECT run_id, case_key, max(open) AS open FROM (
            SELECT run_id, case_key, format, question_type, coalesce(sum(n) FILTER (NOT concluded), 0) AS open
            FROM tallies WHERE list_contains($runs, run_id) AND end_reason IS NOT NULL AND answered GROUP BY ALL
        ) GROUP BY ALL
    )
    SELECT run_id, case_key, count(*), sum(turns)::BIGINT, coalesce(any_value(open), 0)::BIGINT, count(used.trial_id),
        coalesce(sum(unpriced), 0)::BIGINT, coalesce(sum(cost_usd), 0), coalesce(sum(seconds), 0)
    FROM conversations LEFT JOIN used USING (trial_id) LEFT JOIN ends USING (run_id, case_key)
    GROUP BY run_id, case_key"""
