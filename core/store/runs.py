"""Runs: who played and under which settings, how far a run is, what it used and cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

import duckdb
import orjson

from core.case import Case
from core.events import COUNTED, RoleName
from core.journal import RunHeader
from core.store.queries.cases import CASE_COLUMNS, case_from
from core.store.tables import records

CAMPAIGNS = ("local", "release")
"""Sources of runs that count in figures unless runs are named: not single live conversations, not replays."""
WATCHED = ("live", "bench", "fork")
"""Sources of runs that somebody made to look at single cases."""


@dataclass(frozen=True)
class RunCast:
    """The cast and the settings of one run. ``trials`` is repetitions of a case, ``cases`` how many it has."""

    run_id: str
    protocol: str
    doctor: str
    patient: str
    grader: str
    summariser: str
    prompt_pack: str
    prompt_hash: str
    case_set: str
    case_set_hash: str
    trials: int
    seed: int
    settings: dict[str, Any]
    code_version: str
    source: str
    created_at: float
    cases: int
    arms: tuple[tuple[str, str], ...] = ()

    @property
    def data_set(self) -> str:
        """The data set that its cases are all or part of, which case keys begin with."""
        return self.case_set.partition(":")[0].partition(" (")[0]


def casts(cursor: duckdb.DuckDBPyConnection, sources: Sequence[str] = CAMPAIGNS) -> list[RunCast]:
    """Return the runs of some sources, campaigns and releases by default, the newest first."""
    sql = _CASTS.format(chosen="list_contains($sources, source)")
    return _read(cursor, sql, {"sources": list(sources)})


def casts_of(cursor: duckdb.DuckDBPyConnection, run_ids: Sequence[str]) -> list[RunCast]:
    """Return runs of any kind by their ids, the newest first; ids that the database does not hold are left out."""
    return _read(cursor, _CASTS.format(chosen="list_contains($runs, runs.run_id)"), {"runs": list(run_ids)})


def cast(cursor: duckdb.DuckDBPyConnection, run_id: str) -> RunCast | None:
    """Return one run of any kind, or ``None`` where the database has none of this name."""
    return next(iter(casts_of(cursor, [run_id])), None)


def _read(cursor: duckdb.DuckDBPyConnection, sql: str, parameters: dict[str, Any]) -> list[RunCast]:
    found = records(cursor.execute(sql, parameters))
    return [
        RunCast(**{
            **row, "settings": orjson.loads(row["settings"]),
            "arms": tuple((format_, question_type) for format_, _, question_type in map(_arm, row["arms"])),
        })
        for row in found
    ]  # fmt: skip


def _arm(stored: str) -> tuple[str, str, str]:
    return stored.partition(":")


_CASTS = """
    SELECT run_id, protocol, doctor, patient, grader, summariser, prompt_pack, prompt_hash, case_set, case_set_hash,
        trials, seed, settings, code_version, source, created_at, arms, coalesce(held.cases, 0) AS cases
    FROM runs LEFT JOIN (SELECT run_id, count(*) AS cases FROM run_cases GROUP BY run_id) AS held USING (run_id)
    WHERE {chosen}
    ORDER BY created_at DESC, run_id"""


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


def header_of(cursor: duckdb.DuckDBPyConnection, run_id: str) -> RunHeader | None:
    """Return what the database has of a run's header: not its cases, nor the choices of ``mcq_many``."""
    sql = "SELECT * FROM runs WHERE run_id = ?"
    rows = records(cursor.execute(sql, [run_id]))
    if not rows:
        return None
    arms = [tuple(arm.split(":", 1)) for arm in rows[0]["arms"]]
    return RunHeader.model_validate({**rows[0], "arms": arms, "settings": orjson.loads(rows[0]["settings"])})


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
