"""Whole trials of a run, many at a time: everything that a log of another tool contains of a trial."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import duckdb
import orjson

from core.store.queries.answers import OUTCOMES
from core.store.selection import Selection, select
from core.store.tables import records

_TOGETHER = 500
"""Trials that are read by one set of queries, and are in memory at the same time."""
_FROM_EVENTS = ("started", "probed", "assessed", "misused", "rated", "failed")
"""Kinds of events that no table has completely."""


@dataclass
class LoggedTrial:
    """A trial with its rows: ``messages``, ``answers``, ``grades`` (the oldest first), ``calls`` and ``usage``.

    ``outcomes`` are the verdicts that count, one for each arm and condition of the run (``condition``): a run that
    several graders judged has several. ``events`` are the stored events of the kinds in ``_FROM_EVENTS``. ``case_key``
    and ``content_hash`` identify the case.
    """

    row: dict[str, Any]
    events: list[dict[str, Any]]
    messages: list[dict[str, Any]] = field(default_factory=list)
    answers: list[dict[str, Any]] = field(default_factory=list)
    grades: list[dict[str, Any]] = field(default_factory=list)
    outcomes: list[dict[str, Any]] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    usage: list[dict[str, Any]] = field(default_factory=list)

    @property
    def trial_id(self) -> str:
        return str(self.row["trial_id"])


@dataclass(frozen=True)
class RunCondition:
    """A condition of a run: ``whole`` if all of its answers have the grader's verdict."""

    name: str
    whole: bool


def run_conditions(cursor: duckdb.DuckDBPyConnection, run_id: str) -> list[RunCondition]:
    """Return the conditions of a run, first the one that has all of its answers; needed before ``logged_trials``."""
    selection = Selection(runs=[run_id])
    found = [RunCondition(c.name, not c.partial) for c in select(cursor, selection)]
    sql = f"CREATE OR REPLACE TEMP TABLE logged_outcomes AS WITH {OUTCOMES} FROM outcomes"
    cursor.execute(sql, {**selection.parameters(sql)})
    return sorted(found, key=lambda condition: not condition.whole)


def logged_trials(cursor: duckdb.DuckDBPyConnection, run_id: str) -> Iterator[LoggedTrial]:
    """Yield the stored trials of a run, also failed ones, ordered by case and number.

    Call ``run_conditions`` before; the lease must stay open until the last trial.
    """
    ids = [trial for (trial,) in cursor.execute(_IDS, [run_id]).fetchall()]
    for start in range(0, len(ids), _TOGETHER):
        batch = ids[start : start + _TOGETHER]
        trials: dict[str, LoggedTrial] = {}
        for row in records(cursor.execute(_TRIALS, {"trials": batch})):
            events = [event for event in orjson.loads(row.pop("events")) if event["kind"] in _FROM_EVENTS]
            trials[row["trial_id"]] = LoggedTrial(row, events)
        for part, sql in _PARTS.items():
            for row in records(cursor.execute(sql, {"trials": batch})):
                getattr(trials[row.pop("trial_id")], part).append(row)
        yield from (trials[trial_id] for trial_id in batch)


_IDS = "SELECT trial_id FROM trials WHERE run_id = ? ORDER BY case_key, trial, trial_id"
_OF_BATCH = "trial_id IN (SELECT unnest($trials::VARCHAR[]))"
_TRIALS = f"SELECT * FROM trials WHERE {_OF_BATCH}"
_PARTS = {
    "messages": f"""
        SELECT trial_id, turn, role, text, call_id FROM utterances WHERE {_OF_BATCH} ORDER BY trial_id, position""",
    "answers": f"""
        SELECT trial_id, format, question_type, response, status, reason, detail FROM answers
        WHERE {_OF_BATCH} ORDER BY rowid""",
    "grades": f"""
        SELECT trial_id, format, question_type, grader, rule, extracted, verdict, call_ids, graded_at AS at,
            coalesce(prompt_hash, '') AS prompt_hash, coalesce(rule_version, 1) AS rule_version
        FROM grades WHERE {_OF_BATCH} ORDER BY graded_at, rowid""",
    "outcomes": f"""
        SELECT trial_id, format, question_type, rule, verdict, grader, extracted, model AS condition
        FROM logged_outcomes WHERE {_OF_BATCH} ORDER BY format, question_type, place""",
    "calls": f"""
        SELECT trial_id, call_id, role, model, served_by, reasoning, if(role = 'grader', response, NULL) AS response
        FROM calls WHERE {_OF_BATCH} AND error IS NULL ORDER BY position""",
    "usage": f"""
        SELECT trial_id, role, model, sum(prompt_tokens)::BIGINT AS prompt_tokens,
            sum(completion_tokens)::BIGINT AS completion_tokens, sum(cached_tokens)::BIGINT AS cached_tokens,
            sum(cache_write_tokens)::BIGINT AS cache_write_tokens, sum(reasoning_tokens)::BIGINT AS reasoning_tokens,
            if(count(*) FILTER (cost_usd IS NULL AND error IS NULL) = 0, sum(cost_usd), NULL) AS cost_usd
        FROM calls WHERE {_OF_BATCH} GROUP BY trial_id, role, model ORDER BY ALL""",
}
"""Part of ``LoggedTrial`` → its rows of a batch of trials."""
