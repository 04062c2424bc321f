"""Queries about runs: who played, how far a run is, what it used and cost."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Literal

import duckdb
import orjson

from core.case import Case
from core.events import COUNTED, RoleName
from core.store.cases import CASE_COLUMNS, case_from
from core.store.records import records

State = Literal["complete", "partial"]


@dataclass(frozen=True)
class RoleUse:
    """What the calls of one role used: tokens, US dollars where every price is known, calls that failed."""

    calls: int
    failed: int
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None
    tokens_estimated: bool


@dataclass(frozen=True)
class Run:
    """One run with its progress. ``planned`` is cases × trials, ``None`` where the journal brought no cases.

    ``done`` trials are stored, ``failed`` of them broke off. ``excluded`` of ``answers`` do not count in figures,
    ``ungraded`` of these only because no grader has spoken yet. ``last_activity`` is when the last trial finished.
    """

    run_id: str
    fingerprint: str
    protocol: str
    doctor: str
    patient: str
    grader: str
    summariser: str
    prompt_pack: str
    prompt_hash: str
    case_set: str
    case_set_hash: str
    arms: tuple[tuple[str, str], ...]
    trials: int
    seed: int
    settings: dict[str, Any]
    code_version: str
    source: str
    created_at: float
    cases: int | None
    done: int
    failed: int
    last_activity: float | None
    answers: int
    excluded: int
    ungraded: int
    use: dict[RoleName, RoleUse] = field(default_factory=dict)

    @property
    def planned(self) -> int | None:
        """Trials of the whole run."""
        return None if self.cases is None else self.cases * self.trials

    @property
    def state(self) -> State:
        """``complete`` once every planned trial is stored. Whether an engine works on a run, only that engine knows."""
        return "complete" if self.planned is not None and self.done >= self.planned else "partial"

    @property
    def cost_usd(self) -> float | None:
        """US dollars of all roles, ``None`` where the price of some call is unknown."""
        costs = [use.cost_usd for use in self.use.values()]
        return sum(c for c in costs if c is not None) if None not in costs else None


def runs(cursor: duckdb.DuckDBPyConnection, run_ids: list[str] | None = None) -> list[Run]:
    """Return the runs, the newest first; all, or those named."""
    parameters = {"run_ids": run_ids}
    use: dict[str, dict[RoleName, RoleUse]] = {}
    for run_id, role, *numbers in cursor.execute(_USE, parameters).fetchall():
        use.setdefault(run_id, {})[role] = RoleUse(*numbers)
    rows = records(cursor.execute(_RUNS, {**parameters, "counting": list(COUNTED)}))
    return [_run(row, use.get(row["run_id"], {})) for row in rows]


def run(cursor: duckdb.DuckDBPyConnection, run_id: str) -> Run | None:
    """Return one run, or ``None`` where the database has none of this name."""
    return next(iter(runs(cursor, [run_id])), None)


def run_ids(cursor: duckdb.DuckDBPyConnection) -> list[str]:
    """Return the ids of all runs, the newest first."""
    sql = "SELECT run_id FROM runs ORDER BY created_at DESC, run_id"
    return [run_id for (run_id,) in cursor.execute(sql).fetchall()]


def done_trial_ids(cursor: duckdb.DuckDBPyConnection, run_id: str, *, failed: bool = True) -> set[str]:
    """Return the trials of a run that are stored, with or without those that broke off."""
    sql = "SELECT trial_id FROM trials WHERE run_id = $run_id AND ($failed OR status = 'finished')"
    return {trial_id for (trial_id,) in cursor.execute(sql, {"run_id": run_id, "failed": failed}).fetchall()}


def run_cases(cursor: duckdb.DuckDBPyConnection, run_id: str) -> list[Case]:
    """Return the cases of a run as the run holds them, in its order."""
    sql = f"""
        SELECT {CASE_COLUMNS} FROM run_cases JOIN cases USING (case_key, content_hash)
        WHERE run_id = $run_id ORDER BY position"""
    return [case_from(row) for row in records(cursor.execute(sql, {"run_id": run_id}))]


def _run(row: dict[str, Any], use: dict[RoleName, RoleUse]) -> Run:
    arms = tuple((f, q) for f, _, q in (arm.partition(":") for arm in row["arms"]))
    return Run(**{**row, "arms": arms, "settings": orjson.loads(row["settings"]), "use": use})


_STORED = ", ".join(
    f"runs.{f.name}"
    for f in fields(Run)
    if f.name not in {"cases", "done", "failed", "last_activity", "answers", "excluded", "ungraded", "use"}
)

# Exclusion does not depend on the multiple-choice rule: both rules judge the same answers.
_RUNS = f"""
    WITH chosen AS (SELECT * FROM runs WHERE $run_ids::VARCHAR[] IS NULL OR list_contains($run_ids, run_id)),
    planned AS (SELECT run_id, count(*) AS cases FROM run_cases GROUP BY run_id),
    progress AS (
        SELECT run_id, count(*) AS done, count(*) FILTER (status = 'failed') AS failed,
            max(finished_at) AS last_activity
        FROM trials SEMI JOIN chosen USING (run_id) GROUP BY run_id
    ), outcome AS (
        SELECT run_id, count(*) AS answers, count(*) FILTER (NOT list_contains($counting, verdict)) AS excluded,
            count(*) FILTER (verdict = 'ungraded') AS ungraded
        FROM trials SEMI JOIN chosen USING (run_id) JOIN verdicts USING (trial_id)
        WHERE rule <> 'mcq_strict' GROUP BY run_id
    )
    SELECT {_STORED}, cases, coalesce(done, 0) AS done, coalesce(failed, 0) AS failed, last_activity,
        coalesce(answers, 0) AS answers, coalesce(excluded, 0) AS excluded, coalesce(ungraded, 0) AS ungraded
    FROM chosen AS runs
    LEFT JOIN planned USING (run_id) LEFT JOIN progress USING (run_id) LEFT JOIN outcome USING (run_id)
    ORDER BY created_at DESC, run_id"""

_USE = """
    SELECT run_id, role, count(*), count(*) FILTER (error IS NOT NULL), sum(prompt_tokens)::BIGINT,
        sum(completion_tokens)::BIGINT,
        CASE WHEN count(*) FILTER (cost_usd IS NULL AND error IS NULL) = 0 THEN coalesce(sum(cost_usd), 0) END,
        bool_or(tokens_estimated)
    FROM calls JOIN trials USING (trial_id)
    WHERE $run_ids::VARCHAR[] IS NULL OR list_contains($run_ids, run_id)
    GROUP BY run_id, role ORDER BY run_id, role"""
