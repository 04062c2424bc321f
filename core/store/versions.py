"""How the conversations of each condition went: endings, turns, trials without a conversation."""

from __future__ import annotations

from dataclasses import dataclass, field

import duckdb

from core.store.selection import NO_ARM, SELECTED, Selection, select


@dataclass(frozen=True)
class Course:
    """Conversations of one condition: how many, the doctor's mean turns without the greeting, and why they ended."""

    model: str
    conversations: int
    mean_turns: float | None
    endings: dict[str, int] = field(default_factory=dict)


def courses(cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None) -> dict[str, Course]:
    """Return condition → the course of its conversations."""
    chosen = (selection or Selection()).of_talks()
    select(cursor, chosen)
    found: dict[str, Course] = {}
    for model, count, turns, endings in cursor.execute(_COURSES, chosen.parameters()).fetchall():
        found[model] = Course(model, count, turns, dict(endings))
    return found


_COURSES = f"""
    WITH talks AS (
        SELECT model, place, trials.end_reason, trials.doctor_turns FROM trials JOIN seated USING (run_id)
        LEFT JOIN cases ON cases.case_key = trials.case_key AND cases.content_hash = trials.content_hash
        {NO_ARM}
        WHERE trials.end_reason IS NOT NULL AND {SELECTED}
    ), counts AS (
        SELECT model, place, end_reason, count(*) AS n, sum(doctor_turns) AS turns FROM talks GROUP BY ALL
    )
    SELECT model, sum(n)::BIGINT, sum(turns) / sum(n), map_from_entries(list((end_reason, n) ORDER BY n DESC))
    FROM counts GROUP BY model, place ORDER BY place"""
