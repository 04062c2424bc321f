"""Cases of runs, and how much of its plan and data set a condition covers."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import or_

import duckdb

from core.case import Case
from core.frameworks.base import frameworks
from core.store.conditions import Condition
from core.store.queries.calls import Replies, replies_cut
from core.store.queries.cases import CASE_COLUMNS, case_from
from core.store.queries.runs import CAMPAIGNS, Run, run_records
from core.store.queries.scores import NO_SUMMARIES, Summaries, summaries_by_run
from core.store.selection import CONTENT, TRIALS, Selection
from core.store.tables import records


def run_cases(cursor: duckdb.DuckDBPyConnection, run_id: str) -> list[Case]:
    """Return the cases of a run with the content that the run uses, in its order."""
    sql = f"""
        SELECT {CASE_COLUMNS} FROM run_cases JOIN cases USING (case_key, content_hash)
        WHERE run_id = $run_id ORDER BY position"""
    return [case_from(row) for row in records(cursor.execute(sql, {"run_id": run_id}))]


def without_case(cursor: duckdb.DuckDBPyConnection) -> dict[str, tuple[str, int]]:
    """Return run id → its doctor, and the number of its conversations without a case, for imported runs."""
    sql = """
        SELECT run_id, doctor, count(*) FROM trials JOIN runs USING (run_id) ANTI JOIN cases
            ON cases.case_key = trials.case_key
            AND cases.content_hash = coalesce(trials.content_hash, cases.content_hash)
        WHERE source = 'imported' GROUP BY run_id, doctor, created_at ORDER BY created_at DESC, run_id"""
    return {run_id: (doctor, number) for run_id, doctor, number in cursor.execute(sql).fetchall()}


def first_cases(cursor: duckdb.DuckDBPyConnection, run_ids: Sequence[str]) -> dict[str, Case]:
    sql = f"""
        SELECT run_id, {CASE_COLUMNS} FROM run_cases JOIN cases USING (case_key, content_hash)
        WHERE list_contains($run_ids, run_id)
        QUALIFY row_number() OVER (PARTITION BY run_id ORDER BY position) = 1"""
    rows = records(cursor.execute(sql, {"run_ids": list(run_ids)}))
    return {row.pop("run_id"): case_from(row) for row in rows}


@dataclass(frozen=True)
class Extent:
    """How complete the runs of a condition are, within a selection of cases.

    ``done`` of ``planned`` trials are stored, ``failed`` of them have failed; an imported release has planned only the
    trials that it contains. ``cases`` are the keys of the cases with a stored trial. ``data_set_cases`` is the number
    of cases of the complete data set, ``None`` if it is unknown or if the selection restricts the cases.
    ``without_profile`` are the keys of the cases that were run without a profile, if the framework uses profiles.
    ``contents`` is case key → hash of what the case asks (``core.store.selection.CONTENT``). ``replies`` and
    ``summaries`` are those of all cases of the runs.
    """

    model: str
    data_set: str
    planned: int
    done: int
    failed: int
    cases: frozenset[str]
    data_set_cases: int | None
    without_profile: frozenset[str] = frozenset()
    contents: Mapping[str, int] = field(default_factory=dict)
    replies: tuple[Replies, ...] = ()
    summaries: Summaries = NO_SUMMARIES


def extents(
    cursor: duckdb.DuckDBPyConnection, conditions: Sequence[Condition], selection: Selection | None = None
) -> list[Extent]:
    """Return the extent of each condition, in their order; only the filters of cases apply."""
    cases_only = (selection or Selection()).all_trials
    runs = {
        run.run_id: run
        for run in run_records(cursor, sorted({run for condition in conditions for run in condition.runs}))
    }
    with_plan = [run_id for run_id, run in runs.items() if run.source != "release"]
    planned, done = _by_run(cursor, _PLANNED, cases_only, with_plan), _by_run(cursor, _DONE, cases_only, list(runs))
    sizes: dict[str, int] = defaultdict(int)
    for run in runs.values():
        sizes[run.data_set] = max(sizes[run.data_set], _data_set_cases(run))
    profiled = [run_id for run_id, run in runs.items() if _plays_profiles(run)]
    without_profile: dict[str, set[str]] = defaultdict(set)
    for run_id, case_key in cursor.execute(_WITHOUT_PROFILE, {"profiled": profiled}).fetchall():
        without_profile[run_id].add(case_key)
    replies: dict[str | None, list[Replies]] = defaultdict(list)
    for of_role in replies_cut(cursor, list(runs)):
        replies[of_role.run_id].append(of_role)
    summaries = summaries_by_run(cursor, list(runs))
    extents = []
    for condition in conditions:
        own_runs = [runs[run_id] for run_id in condition.runs if run_id in runs]
        rows = [row for run in own_runs for row in done[run.run_id]]
        contents: dict[str, int] = {}
        for case_key, _, _, content in rows:  # pooled runs can have several contents of a case: equal to no single one
            several = contents.get(case_key, content) != content
            contents[case_key] = hash((contents[case_key], content)) if several else content
        count = sum(trials for _, trials, *_ in rows)
        local = [run for run in own_runs if run.source != "release"]
        cases = frozenset(contents)
        imported = count - sum(trials for run in local for _, trials, *_ in done[run.run_id])
        extents.append(
            Extent(
                condition.name,
                condition.newest.data_set,
                imported + sum(trials for run in local for _, trials, *_ in planned[run.run_id] or done[run.run_id]),
                count,
                sum(failed for _, _, failed, _ in rows),
                cases,
                sizes[condition.newest.data_set] or None if cases_only.of_all_cases else None,
                cases & frozenset().union(*(without_profile[run.run_id] for run in own_runs)),
                contents,
                tuple(of_role for run in own_runs for of_role in replies[run.run_id]),
                functools.reduce(or_, (summaries.get(run.run_id, NO_SUMMARIES) for run in own_runs), NO_SUMMARIES),
            )
        )
    return extents


def count_trials(cursor: duckdb.DuckDBPyConnection) -> int:
    """Return the number of stored trials of campaigns and releases."""
    sql = "SELECT count(*) FROM trials JOIN runs USING (run_id) WHERE list_contains(?, source)"
    return int(cursor.execute(sql, [list(CAMPAIGNS)]).fetchall()[0][0])


def _plays_profiles(run: Run) -> bool:
    framework = frameworks().get(run.protocol)
    return framework is not None and framework.cases.plays_profiles and run.source != "release"


def _data_set_cases(run: Run) -> int:
    """Return the number of cases of the run's data set; 0 if only a part of it is known."""
    return run.data_set_cases or (run.cases if run.case_set == run.data_set else 0)


_Rows = dict[str, list[tuple[str, int, int, int]]]


def _by_run(cursor: duckdb.DuckDBPyConnection, sql: str, selection: Selection, runs: list[str]) -> _Rows:
    rows: _Rows = defaultdict(list)
    if not runs:
        return rows
    sql = sql.format(where=replace(selection, models=None, runs=None).where())
    values = {**selection.parameters(sql), "runs_of_conditions": runs}
    for run_id, *row in cursor.execute(sql, values).fetchall():
        rows[run_id].append(tuple(row))
    return rows


_PLANNED = f"""
    SELECT trials.run_id, trials.case_key, runs.trials, 0, 0
    {TRIALS.replace("FROM trials", "FROM run_cases AS trials")}
    WHERE list_contains($runs_of_conditions, trials.run_id) AND {{where}}"""


_WITHOUT_PROFILE = """
    SELECT run_id, case_key FROM run_cases JOIN cases USING (case_key, content_hash)
    WHERE list_contains($profiled::VARCHAR[], run_id) AND profile IS NULL"""


_DONE = f"""
    SELECT trials.run_id, trials.case_key, count(*), count(*) FILTER (trials.status = 'failed'), {CONTENT} AS content
    {TRIALS} WHERE list_contains($runs_of_conditions, trials.run_id) AND {{where}} GROUP BY ALL"""
