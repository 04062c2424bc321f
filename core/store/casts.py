"""Who played in each run and under which settings, without counting its answers: what a comparison says differs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import duckdb
import orjson

from core.store.figures import CAMPAIGNS
from core.store.records import records


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

    @property
    def data_set(self) -> str:
        """The data set that its cases are all or part of, which case keys begin with."""
        return self.case_set.partition(":")[0].partition(" (")[0]


def casts(cursor: duckdb.DuckDBPyConnection) -> list[RunCast]:
    """Return the campaigns and releases, the newest first."""
    sql = _CASTS.format(chosen="list_contains($sources, source)")
    return _read(cursor, sql, {"sources": list(CAMPAIGNS)})


def cast(cursor: duckdb.DuckDBPyConnection, run_id: str) -> RunCast | None:
    """Return one run of any kind, or ``None`` where the database has none of this name."""
    return next(iter(_read(cursor, _CASTS.format(chosen="run_id = $run_id"), {"run_id": run_id})), None)


def _read(cursor: duckdb.DuckDBPyConnection, sql: str, parameters: dict[str, Any]) -> list[RunCast]:
    found = records(cursor.execute(sql, parameters))
    return [RunCast(**{**row, "settings": orjson.loads(row["settings"])}) for row in found]


_CASTS = """
    SELECT run_id, protocol, doctor, patient, grader, summariser, prompt_pack, prompt_hash, case_set, case_set_hash,
        trials, seed, settings, code_version, source, created_at, coalesce(held.cases, 0) AS cases
    FROM runs LEFT JOIN (SELECT run_id, count(*) AS cases FROM run_cases GROUP BY run_id) AS held USING (run_id)
    WHERE {chosen}
    ORDER BY created_at DESC, run_id"""
