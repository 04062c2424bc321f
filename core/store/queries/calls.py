"""Calls of models in trials: every prompt and reply; by which served model the doctor of a trial was played.

Counts of calls by served model (``core.store.tallies``) say under which names a run was served. Calls themselves are
read only of runs that were served under several, to tell their trials apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import duckdb

from core.events import CallRecord
from core.frameworks.base import frameworks, tested_seat
from core.models.finish import is_cut
from core.store.condition_parts import DOCTOR
from core.store.conditions import Condition
from core.store.rows import calls_in
from core.store.selection import Selection, select
from core.store.tables import arrow_table, records, schema_of


def calls_of(cursor: duckdb.DuckDBPyConnection, trial_id: str) -> list[CallRecord]:
    sql = "SELECT * EXCLUDE (run_id, trial_id, position) FROM calls WHERE trial_id = ? ORDER BY position"
    return list(calls_in(records(cursor.execute(sql, [trial_id]))).values())


class Replies(NamedTuple):
    """Replies to one role's model in a run or job: ``cut`` at a limit of their length, ``unknown`` without a reason."""

    run_id: str | None
    model: str
    role: str
    replies: int
    cut: int
    unknown: int


def replies_cut(cursor: duckdb.DuckDBPyConnection, run_ids: Sequence[str] | None = None) -> list[Replies]:
    """Return how many replies of each run and job, or of these runs, were cut, by model and role."""
    sums: dict[tuple[str | None, str, str], tuple[int, int, int]] = {}
    parameters = {"run_ids": None if run_ids is None else list(run_ids)}
    for *key, finish_reason, n in cursor.execute(_ENDINGS, parameters).fetchall():
        replies, cut, unknown = sums.get(tuple(key), (0, 0, 0))
        sums[tuple(key)] = (replies + n, cut + n * is_cut(finish_reason), unknown + n * (finish_reason is None))
    return [Replies(*key, *numbers) for key, numbers in sums.items()]


def several_served(conditions: Sequence[Condition]) -> list[Condition]:
    """Return the conditions whose doctor was served under several names."""
    return [condition for condition in conditions if len(condition.served.get(DOCTOR, ())) > 1]


def find_served_trials(cursor: duckdb.DuckDBPyConnection, conditions: Sequence[Condition]) -> None:
    """Create ``served_trials``: the selected trials of these conditions, with the doctor's served model.

    Columns: those of ``selected``, and ``served``: several names in one trial are joined by " + ", and it is NULL if
    the provider gave none. Needs ``select`` before it.
    """
    runs = sorted({run_id for condition in conditions for run_id in condition.runs})
    cursor.register("split_runs", arrow_table(schema_of("run_id:text"), [(run_id,) for run_id in runs]))
    tested = [(name, tested_seat(framework).role) for name, framework in frameworks().items()]
    cursor.register("tested_roles", arrow_table(schema_of("protocol:text role:text"), tested))
    cursor.execute(_SERVED_TRIALS)


def served_since(
    cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None
) -> dict[tuple[str, str | None], float]:
    """Return (condition, served model of its doctor) → when its first trial began, in seconds since 1970."""
    conditions = select(cursor, selection)
    several = several_served(conditions)
    find_served_trials(cursor, several)
    since = {(model, served): at for model, served, at in cursor.execute(_SINCE_SERVED).fetchall()}
    began = dict(cursor.execute(_SINCE).fetchall())
    for condition in conditions:
        if condition not in several and condition.name in began:
            since[condition.name, next(iter(condition.served.get(DOCTOR, ())), None)] = began[condition.name]
    return since


_ENDINGS = """
    SELECT run_id, model, role, finish_reason, count(*) FROM calls
    WHERE error IS NULL AND ($run_ids::VARCHAR[] IS NULL OR list_contains($run_ids, run_id)) GROUP BY ALL"""


_SERVED_TRIALS = """
    CREATE OR REPLACE TEMP TABLE served_trials AS
    SELECT selected.*, served
    FROM selected SEMI JOIN split_runs USING (run_id) LEFT JOIN (
        SELECT calls.trial_id, string_agg(DISTINCT served_by, ' + ' ORDER BY served_by) AS served
        FROM calls JOIN split_runs ON split_runs.run_id = calls.run_id JOIN runs ON runs.run_id = calls.run_id
        JOIN tested_roles ON tested_roles.protocol = runs.protocol AND tested_roles.role = calls.role
        WHERE served_by <> '' GROUP BY calls.trial_id
    ) AS doctors USING (trial_id)"""


_BEGAN = "min(coalesce(trials.started_at, trials.finished_at))"


_SINCE_SERVED = f"""
    SELECT model, served, {_BEGAN}
    FROM served_trials JOIN seated USING (run_id) JOIN trials USING (trial_id) GROUP BY model, served"""


_SINCE = f"SELECT model, {_BEGAN} FROM selected JOIN seated USING (run_id) JOIN trials USING (trial_id) GROUP BY model"
