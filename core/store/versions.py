"""How the conversations of each model went: endings, turns, trials without a conversation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import duckdb

from core.store.figures import CAMPAIGNS, POOLED


@dataclass(frozen=True)
class Course:
    """Conversations of one model: how many, the doctor's mean turns without the greeting, and why they ended."""

    model: str
    conversations: int
    mean_turns: float | None
    endings: dict[str, int] = field(default_factory=dict)


def courses(cursor: duckdb.DuckDBPyConnection, specialties: Sequence[str] | None = None) -> dict[str, Course]:
    """Return model → the course of its conversations in campaigns and releases."""
    parameters = {"sources": list(CAMPAIGNS), "specialties": None if specialties is None else list(specialties)}
    found: dict[str, Course] = {}
    for model, count, turns, endings in cursor.execute(_COURSES, parameters).fetchall():
        found[model] = Course(model, count, turns, dict(endings))
    return found


_COURSES = f"""
    WITH talks AS (
        SELECT runs.doctor AS model, trials.end_reason, trials.doctor_turns
        FROM trials JOIN runs USING (run_id)
        LEFT JOIN cases ON cases.case_key = trials.case_key AND cases.content_hash = trials.content_hash
        WHERE list_contains($sources, runs.source) AND {POOLED} AND trials.end_reason IS NOT NULL
            AND ($specialties::VARCHAR[] IS NULL OR list_contains($specialties, cases.specialty))
    ), counts AS (
        SELECT model, end_reason, count(*) AS n, sum(doctor_turns) AS turns FROM talks GROUP BY ALL
    )
    SELECT model, sum(n)::BIGINT, sum(turns) / sum(n), map_from_entries(list((end_reason, n) ORDER BY n DESC))
    FROM counts GROUP BY model ORDER BY model"""
