"""Rubrics that users saved or imported, and the conversations whose rubrics or urgency are judged.

The newest version of a name counts, earlier ones stay as history. A criterion whose wording changes counts as not
judged; points, axis and priority are read from the rubric when scores are computed.
"""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

import duckdb

from core import access
from core.store.queries.judgements import JUDGEABLE
from core.store.selection import Selection, select
from core.store.tables import RubricRow, records
from core.store.written import withdraw, write


def add_rubric(connection: duckdb.DuckDBPyConnection, name: str, rubric_hash: str, rubric: str) -> RubricRow:
    """Journal and add a version. Needs a write lease."""
    access.require("run")
    version = RubricRow(name, rubric_hash, rubric, access.visitor().name, time.time())
    write(connection, "rubric", [asdict(version)])
    return version


def remove_rubric(connection: duckdb.DuckDBPyConnection, name: str) -> int:
    """Withdraw all versions of a rubric; return their number. Verdicts on it stay. Needs a write lease."""
    access.require("run")
    return withdraw(connection, "rubric", "name", [name])


def saved_rubrics(cursor: duckdb.DuckDBPyConnection, name: str | None = None) -> list[RubricRow]:
    """Return the newest version of each rubric, by name; of one rubric if ``name`` is given."""
    return [RubricRow(**row) for row in records(cursor.execute(_NEWEST, {"name": name}))]


def last_rubric(cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None) -> str | None:
    """Return the name of the rubric by which the selected conversations were judged last."""
    select(cursor, selection)
    row = cursor.execute(f"WITH {_CONVERSATIONS} {_LAST}").fetchone()
    return row[0] if row else None


def rubric_conversations(cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None) -> list[dict[str, Any]]:
    """Return the selected conversations that can be judged, in the order of conditions and cases.

    Keys: trial_id, ``model`` (the condition), ``doctor``, case_key, dataset, specialty, ``characters`` of all the
    doctor's messages.
    """
    select(cursor, selection)
    return records(cursor.execute(f"WITH {_CONVERSATIONS} {_ORDERED}"))


def unjudgeable_conversations(
    cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None
) -> list[tuple[str, str, str, str]]:
    """Return (condition, case key, specialty, end) of the selected conversations that cannot be judged."""
    select(cursor, selection)
    return cursor.execute(f"WITH {_CONVERSATIONS} {_UNJUDGEABLE}").fetchall()


_COLUMNS = ", ".join(RubricRow.stored_in.columns)
_NEWEST = f"""
    SELECT {_COLUMNS} FROM rubrics WHERE $name::VARCHAR IS NULL OR name = $name
    QUALIFY row_number() OVER (PARTITION BY name ORDER BY made_at DESC, rowid DESC) = 1 ORDER BY name"""
_CONVERSATIONS = f"""conversations AS (
        SELECT chosen.trial_id, seated.model, place, runs.doctor, chosen.case_key, dataset, specialty, characters
        FROM chosen JOIN seated USING (run_id) JOIN runs ON runs.run_id = chosen.run_id
        JOIN trials ON trials.trial_id = chosen.trial_id
        JOIN (SELECT trial_id, (sum(length(text)) FILTER (role NOT IN ('patient', 'staff')))::BIGINT AS characters
              FROM utterances GROUP BY trial_id) AS lengths ON lengths.trial_id = chosen.trial_id
        WHERE {JUDGEABLE} AND characters IS NOT NULL
    )"""
# Runs of vignettes alone have no conversations.
_UNJUDGEABLE = """
    SELECT seated.model, chosen.case_key, coalesce(specialty, ''), coalesce(end_reason, status)
    FROM chosen JOIN seated USING (run_id) JOIN trials ON trials.trial_id = chosen.trial_id
    WHERE chosen.trial_id NOT IN (SELECT trial_id FROM conversations)
        AND chosen.run_id IN (SELECT run_id FROM trials WHERE end_reason IS NOT NULL)
    ORDER BY place, chosen.case_key, chosen.trial_id"""
_ORDERED = """
    SELECT trial_id, model, doctor, case_key, dataset, coalesce(specialty, '') AS specialty, characters
    FROM conversations ORDER BY place, case_key, trial_id"""
_LAST = """
    SELECT substr(form, 8) FROM judgements SEMI JOIN conversations USING (trial_id)
    WHERE starts_with(form, 'rubric:') AND judge_kind <> 'person'
    ORDER BY judged_at DESC, trial_id DESC, against DESC LIMIT 1"""


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
        ON labels.case_key = cases.case_key AND labels.text_hash = cases.text_hash
    LEFT JOIN (
        SELECT run_id, model, list(DISTINCT served_by) AS names FROM served GROUP BY run_id, model
    ) AS served ON served.run_id = chosen.run_id AND served.model = runs.doctor
    ORDER BY place, chosen.case_key, chosen.trial_id"""
