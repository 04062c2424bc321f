"""Conversations with what their urgency is measured by: their condition, and the level of their case by a label."""

from __future__ import annotations

from typing import Any

import duckdb

from core.store.selection import Selection, select
from core.store.tables import records


def urgency_conversations(
    cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None
) -> list[dict[str, Any]]:
    """Return the selected trials with a conversation, in the order of conditions and cases.

    The keys are fields of ``core.measures.urgency.TriagedConversation``; level and source are those of the
    case's label, ``None`` and empty without one.
    """
    select(cursor, selection)
    return records(cursor.execute(_LABELLED))


# A conversation that a failure or a refusal ended shows nothing of what the doctor would have said of it.
_LABELLED = """
    SELECT chosen.trial_id, seated.model, runs.doctor, chosen.case_key, chosen.dataset,
        coalesce(chosen.specialty, '') AS specialty,
        coalesce(end_reason IN ('final_diagnosis', 'no_question', 'turn_cap', 'end_tag', 'not_recorded') AND spoke,
            false) AS ended,
        try_cast(labels.value AS INTEGER) AS level, coalesce(labels.origin, '') AS source, served.names AS served
    FROM chosen JOIN seated USING (run_id) JOIN runs ON runs.run_id = chosen.run_id
    JOIN trials ON trials.trial_id = chosen.trial_id
    JOIN (SELECT trial_id, bool_or(role NOT IN ('patient', 'staff')) AS spoke FROM utterances GROUP BY trial_id)
        AS speakers ON speakers.trial_id = chosen.trial_id
    LEFT JOIN cases ON cases.case_key = chosen.case_key AND cases.content_hash = chosen.content_hash
    LEFT JOIN (FROM case_labels_in_force WHERE field = 'urgency' AND value <> '') AS labels
        ON labels.case_key = cases.case_key AND labels.text_hash =
            left(sha256(cases.vignette || chr(31) || cases.question || chr(31) || cases.answer), 16)
    LEFT JOIN (
        SELECT run_id, model, list(DISTINCT served_by) AS names FROM served GROUP BY run_id, model
    ) AS served ON served.run_id = chosen.run_id AND served.model = runs.doctor
    ORDER BY place, chosen.case_key, chosen.trial_id"""
