"""How runs were set up: served models and dates, prompts of calls, and the sources of the played cases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import duckdb

from core.store.selection import Selection, select
from core.store.tables import records


class CallPrompt(NamedTuple):
    """A prompt that was sent in calls of a run; the source is its file, the hash that of the whole file."""

    run_id: str
    role: str
    prompt: str
    source: str
    source_hash: str


def served_models(cursor: duckdb.DuckDBPyConnection, selection: Selection) -> list[dict[str, Any]]:
    """Return for each condition, role and requested model the names under which it was served.

    ``served_by`` is ``None`` for calls without a name; ``first`` and ``last`` are when the first trial with such a call
    began and the last one ended, in seconds since 1970.
    """
    select(cursor, selection)
    return records(cursor.execute(_SERVED))


def played_runs(cursor: duckdb.DuckDBPyConnection, selection: Selection) -> list[dict[str, Any]]:
    """Return the runs of each condition with the beginning of the first and the end of the last trial."""
    select(cursor, selection)
    return records(cursor.execute(_PLAYED))


def played_cases(cursor: duckdb.DuckDBPyConnection, selection: Selection) -> list[dict[str, Any]]:
    """Return the number of played cases of each data set, source and licence, and their specialties."""
    select(cursor, selection)
    return records(cursor.execute(_CASES))


def prompts_of_calls(cursor: duckdb.DuckDBPyConnection, run_ids: Sequence[str]) -> list[CallPrompt]:
    """Return the prompts that the calls of these runs were made from; empty if no call stores its parts."""
    return [CallPrompt(*row) for row in cursor.execute(_OF_CALLS, [list(run_ids)]).fetchall()]


_SERVED = """
    SELECT seated.model AS condition, calls.role, calls.model, nullif(calls.served_by, '') AS served_by,
        count(*) AS calls, min(coalesce(started_at, finished_at)) AS first, max(finished_at) AS last
    FROM calls JOIN selected ON selected.trial_id = calls.trial_id JOIN seated ON seated.run_id = selected.run_id
        JOIN trials ON trials.trial_id = calls.trial_id
    GROUP BY seated.model, calls.role, calls.model, nullif(calls.served_by, '')
    ORDER BY min(place), calls.role, calls.model, served_by"""
_PLAYED = """
    SELECT seated.model AS condition, run_id, source, code_version, min(coalesce(started_at, finished_at)) AS first,
        max(finished_at) AS last, count(*) AS trials, count(*) FILTER (status = 'failed') AS failed
    FROM selected JOIN seated USING (run_id) JOIN trials USING (trial_id, run_id) JOIN runs USING (run_id)
    GROUP BY seated.model, run_id, source, code_version ORDER BY min(place), run_id"""
_CASES = """
    SELECT split_part(selected.case_key, '/', 1) AS data_set, cases.source, cases.licence,
        count(DISTINCT selected.case_key) AS cases, count(DISTINCT selected.specialty) AS specialties
    FROM selected JOIN cases USING (case_key, content_hash) GROUP BY ALL ORDER BY ALL"""
_OF_CALLS = """
    SELECT DISTINCT run_id, role, part.prompt, coalesce(part.source, ''), coalesce(part.source_hash, '')
    FROM (
        SELECT run_id, role,
            unnest(from_json(parts, '[{"prompt": "VARCHAR", "source": "VARCHAR", "source_hash": "VARCHAR"}]')) AS part
        FROM calls WHERE list_contains(?, run_id) AND parts IS NOT NULL
    ) WHERE part.prompt IS NOT NULL ORDER BY ALL"""
