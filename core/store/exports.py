"""Takes data out: one tidy row an answer, whole transcripts as rows for JSONL. ``Store.copy_to`` copies everything."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa

from core.events import Called
from core.store.selection import SELECTED, Selection, select
from core.store.trials import trial_events


def results(cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None) -> pa.Table:
    """Return a row for each answer and rule, with all that tells rows apart: ready for CSV or Parquet."""
    chosen = selection or Selection()
    select(cursor, chosen)
    table: pa.Table = cursor.sql(_RESULTS, params=chosen.parameters()).to_arrow_table()
    return table


def transcripts(cursor: duckdb.DuckDBPyConnection, run_id: str, *, calls: bool = False) -> Iterator[dict[str, Any]]:
    """Yield every trial of a run as plain data, one JSON line each; use it up inside the lease.

    ``calls`` adds every prompt and raw reply.
    """
    listed = cursor.execute(_TRIALS, [run_id])
    names = [column[0] for column in listed.description or ()]
    for row in listed.fetchall():
        trial = dict(zip(names, row, strict=True))
        events = trial_events(cursor, trial["trial_id"])
        kept = [e.model_dump(mode="json") for e in events if calls or not isinstance(e, Called)]
        yield {**trial, "events": kept}


_RESULTS = f"""
    SELECT runs.run_id, runs.doctor AS model, seated.model AS condition,
        runs.patient, runs.grader AS run_grader, runs.summariser, runs.protocol,
        runs.prompt_pack, runs.prompt_hash, runs.source, cases.dataset, cases.specialty, trials.case_key,
        trials.content_hash, trials.trial_id, trials.trial, trials.status, trials.end_reason, trials.doctor_turns,
        verdicts.format, verdicts.question_type, verdicts.rule, answers.response, cases.answer,
        verdicts.grader, verdicts.extracted, verdicts.verdict, answers.detail, trials.finished_at
    FROM verdicts
    JOIN answers USING (trial_id, format, question_type)
    JOIN trials ON trials.trial_id = verdicts.trial_id
    JOIN runs ON runs.run_id = trials.run_id
    JOIN seated ON seated.run_id = trials.run_id
    LEFT JOIN cases ON cases.case_key = trials.case_key AND cases.content_hash = trials.content_hash
    WHERE {SELECTED}
    ORDER BY runs.run_id, trials.case_key, trials.trial, verdicts.format, verdicts.question_type, verdicts.rule"""

_TRIALS = """
    SELECT trial_id, run_id, doctor, patient, case_key, content_hash, trial, trials.seed, status, end_reason,
        doctor_turns, summary
    FROM trials JOIN runs USING (run_id) WHERE run_id = ? ORDER BY case_key, trial"""
