"""Who played in each run and under which settings, without counting its answers: what a comparison says differs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import orjson

from core.store.records import records

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
