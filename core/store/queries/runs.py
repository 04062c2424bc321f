"""Runs: who played and under which settings, how far a run is, what it used and cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, NamedTuple, get_args

import duckdb
import orjson

from core.case import data_set_of
from core.events import COUNTED, RoleName, Verdict
from core.journal import IMPORTED, Hypothesis, RunHeader
from core.models.prices import total
from core.store.counted_rule import BY_STRICT, strictly
from core.store.lease import while_open
from core.store.tables import records

CAMPAIGNS = ("local", "release", "imported")
"""Sources of runs that count in figures unless runs are named: not single live conversations, not replays."""


WATCHED = ("live", "bench", "fork")
"""Sources of runs that somebody made to look at single cases."""


State = Literal["complete", "partial"]
Origin = Literal["mine", "sample", "published", "imported"]
"""Who made a run: the users of this database, this program (the sample study), the authors of a release, or the unknown
author of a log that was imported."""
ORIGINS: tuple[Origin, ...] = get_args(Origin)
ORIGIN_SQL = """CASE WHEN runs.source = 'release' THEN 'published'
    WHEN runs.source IN ('imported', 'replay') THEN 'imported'
    WHEN coalesce(json_extract_string(runs.settings, '$.study'), '') <> '' THEN 'sample' ELSE 'mine' END"""
"""The origin of a row of ``runs``."""


@dataclass(frozen=True)
class Run:
    """One run: who plays and under which settings. ``trials`` is repetitions of a case.

    ``cases`` is how many cases it has, 0 where its journal brought none.
    """

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
    fingerprint: str = ""
    visitor: str = ""
    """Who started the run, on a server with a login; empty without a login."""
    data_set_hash: str = ""
    data_set_cases: int = 0
    """Hash and number of cases of the full data set that its cases are from; empty and 0 if unknown."""
    hypothesis: Hypothesis | None = None

    @property
    def data_set(self) -> str:
        """The data set that its cases are all or part of, which case keys begin with."""
        return data_set_of(self.case_set)

    @property
    def study(self) -> str:
        """The study that it came with (``core.store.sample``), the empty text for one's own.

        An imported run is of the study "imported": no condition has runs of both kinds, and its name says so.
        """
        return "imported" if self.source in IMPORTED else str(self.settings.get("study") or "")

    @property
    def origin(self) -> Origin:
        if self.source in IMPORTED:
            return "imported"
        return "published" if self.source == "release" else "sample" if self.study else "mine"

    @property
    def planned(self) -> int | None:
        """Trials of the whole run, ``None`` where the number of its cases is not known."""
        return self.cases * self.trials if self.cases else None


@dataclass(frozen=True)
class RoleUse:
    """What the calls of one role used: tokens, US dollars where every price is known, calls that failed.

    ``cached_tokens`` and ``cache_write_tokens`` are among ``prompt_tokens``, ``reasoning_tokens`` among
    ``completion_tokens``, as far as providers tell. ``price_source`` names whose prices these are.
    """

    calls: int
    failed: int
    prompt_tokens: int
    cached_tokens: int
    cache_write_tokens: int
    completion_tokens: int
    reasoning_tokens: int
    cost_usd: float | None
    tokens_estimated: bool
    price_source: str | None


@dataclass(frozen=True)
class RunProgress(Run):
    """A run and how far it is.

    ``done`` trials are stored, ``failed`` of them broke off. ``verdicts`` counts the answers by the one verdict that an
    accuracy reads, also the answers that a broken-off trial misses; the most frequent verdict comes first.
    """

    done: int = 0
    failed: int = 0
    verdicts: dict[Verdict | Literal["ungraded"], int] = field(default_factory=dict)
    use: dict[RoleName, RoleUse] = field(default_factory=dict)

    @property
    def answers(self) -> int:
        return sum(self.verdicts.values())

    @property
    def excluded(self) -> int:
        """The number of answers that count in no figure."""
        return sum(n for verdict, n in self.verdicts.items() if verdict not in COUNTED)

    @property
    def state(self) -> State:
        """``complete`` once every planned trial is stored. Whether an engine works on a run, only that engine knows."""
        return "complete" if self.planned is not None and self.done >= self.planned else "partial"

    @property
    def cost_usd(self) -> float | None:
        """US dollars of all roles, ``None`` where the price of some call is unknown."""
        return total(use.cost_usd for use in self.use.values())


def cases_without_trial(cursor: duckdb.DuckDBPyConnection, sources: Sequence[str]) -> dict[str, str]:
    """Return run id → case key for the runs of these sources without a finished trial (one case each: watched runs)."""
    sql = """
        SELECT run_id, case_key FROM run_cases JOIN runs USING (run_id) ANTI JOIN trials USING (run_id)
        WHERE list_contains(?, source)"""
    return dict(cursor.execute(sql, [list(sources)]).fetchall())


def run_records(
    cursor: duckdb.DuckDBPyConnection, run_ids: Sequence[str] | None = None, sources: Sequence[str] | None = None
) -> list[Run]:
    """Return the runs with these ids, or of these sources, or all, newest first; unknown ids are ignored."""
    wanted = {"run_ids": _list(run_ids), "sources": _list(sources)}
    key = ("runs", *(None if names is None else tuple(names) for names in wanted.values()))
    return list(while_open(cursor, key, lambda: [_run(row) for row in records(cursor.execute(_RECORDS, wanted))]))


def _run(row: Mapping[str, Any]) -> Run:
    return Run(
        **{
            **row,
            "settings": orjson.loads(row["settings"]),
            "hypothesis": Hypothesis.model_validate_json(row["hypothesis"]) if row["hypothesis"] else None,
            "arms": tuple((format_, kind) for format_, _, kind in (arm.partition(":") for arm in row["arms"])),
        }
    )


def run_record(cursor: duckdb.DuckDBPyConnection, run_id: str) -> Run | None:
    return next(iter(run_records(cursor, [run_id])), None)


def header_of(cursor: duckdb.DuckDBPyConnection, run_id: str) -> RunHeader | None:
    """Return a run's header as far as it is stored: without its cases and the choices of ``mcq_many``."""
    record = run_record(cursor, run_id)
    return RunHeader.model_validate({**vars(record), "cases": []}) if record else None


def runs(cursor: duckdb.DuckDBPyConnection, run_ids: Sequence[str] | None = None) -> list[RunProgress]:
    """Return the runs with their progress, newest first; all, or those with these ids."""
    parameters = {"run_ids": _list(run_ids)}
    use: dict[str, dict[RoleName, RoleUse]] = {}
    for run_id, role, *numbers in cursor.execute(_USE.format(by="run_id, role"), parameters).fetchall():
        use.setdefault(run_id, {})[role] = RoleUse(*numbers)
    values = {**parameters, "mcq_rule": "usual", "strictly": strictly()}
    rows = records(cursor.execute(_PROGRESS, values))
    progress = {row.pop("run_id"): row for row in rows}
    return [
        RunProgress(**vars(record), **progress.get(record.run_id, {}), use=use.get(record.run_id, {}))
        for record in run_records(cursor, run_ids)
    ]


def spending(cursor: duckdb.DuckDBPyConnection, run_ids: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Return the use of every run and job, or of these runs, by model and role, with the fields of ``RoleUse``.

    ``run_id`` is ``None`` for old calls whose trials were deleted.
    """
    sql = _USE.format(by="run_id, model, role")
    return records(cursor.execute(sql, {"run_ids": _list(run_ids)}))


def run(cursor: duckdb.DuckDBPyConnection, run_id: str) -> RunProgress | None:
    """Return one run with its progress, or ``None`` if it is not stored."""
    return next(iter(runs(cursor, [run_id])), None)


def run_ids(cursor: duckdb.DuckDBPyConnection) -> list[str]:
    sql = "SELECT run_id FROM runs ORDER BY created_at DESC, run_id"
    return [run_id for (run_id,) in cursor.execute(sql).fetchall()]


class StoredNames(NamedTuple):
    """Names that filters accept: doctors, models that completed cases, and data sets."""

    models: tuple[str, ...]
    data_sets: tuple[str, ...]


def stored_names(cursor: duckdb.DuckDBPyConnection) -> StoredNames:
    """Return the names of models and data sets in runs and completions, in alphabetical order."""
    models, data_sets = (
        cursor.execute(f"SELECT list(DISTINCT name ORDER BY name) FROM ({sql})").fetchall()[0][0] or ()
        for sql in (_MODEL_NAMES, _DATA_SET_NAMES)
    )
    return StoredNames(tuple(models), tuple(data_sets))


def _list(names: Sequence[str] | None) -> list[str] | None:
    return None if names is None else list(names)


_MODEL_NAMES = "SELECT doctor AS name FROM runs UNION ALL SELECT model FROM completions"


# the same data set as ``Run.data_set``
_DATA_SET_NAMES = """
    SELECT split_part(split_part(case_set, ':', 1), ' (', 1) AS name FROM runs
    UNION ALL SELECT split_part(case_key, '/', 1) FROM completions"""

LATER_ARMS = """
    SELECT run_id, list(DISTINCT format || ':' || question_type) AS arms FROM tallies
    WHERE format = 'closing' AND answered GROUP BY run_id"""
"""Arms that were read in the stored conversations of a run later, so that its header may lack them."""
_RECORDS = f"""
    SELECT {", ".join(f"runs.{f.name}" for f in fields(Run) if f.name not in ("cases", "arms"))},
        list_concat(runs.arms, list_filter(later.arms, lambda arm: NOT list_contains(runs.arms, arm))) AS arms,
        coalesce(counts.cases, 0) AS cases
    FROM runs LEFT JOIN (SELECT run_id, count(*) AS cases FROM run_cases GROUP BY run_id) AS counts USING (run_id)
    LEFT JOIN ({LATER_ARMS}) AS later USING (run_id)
    WHERE ($run_ids::VARCHAR[] IS NULL OR list_contains($run_ids, run_id))
        AND ($sources::VARCHAR[] IS NULL OR list_contains($sources, source))
    ORDER BY created_at DESC, run_id"""

_PROGRESS = f"""
    WITH mine AS (
        SELECT run_id, status FROM trials
        WHERE $run_ids::VARCHAR[] IS NULL OR list_contains($run_ids, run_id)
    ), progress AS (
        SELECT run_id, count(*) AS done, count(*) FILTER (status = 'failed') AS failed FROM mine GROUP BY run_id
    ), outcome AS (
        SELECT run_id, map_from_entries(list((verdict, n) ORDER BY n DESC, verdict)) AS verdicts
        FROM (
            SELECT tallies.run_id, if({BY_STRICT}, strict, loose) AS verdict, sum(n)::BIGINT AS n
            FROM tallies JOIN runs ON runs.run_id = tallies.run_id
            WHERE $run_ids::VARCHAR[] IS NULL OR list_contains($run_ids, tallies.run_id)
            GROUP BY ALL HAVING sum(n) > 0
        )
        GROUP BY run_id
    )
    SELECT progress.*, coalesce(verdicts, MAP {{}}) AS verdicts FROM progress LEFT JOIN outcome USING (run_id)"""

# Calls know their run themselves: those of a trial that is not finished were paid for, too.
_USE = """
    SELECT {by}, count(*) AS calls, count(*) FILTER (error IS NOT NULL) AS failed,
        sum(prompt_tokens)::BIGINT AS prompt_tokens, coalesce(sum(cached_tokens), 0)::BIGINT AS cached_tokens,
        coalesce(sum(cache_write_tokens), 0)::BIGINT AS cache_write_tokens,
        sum(completion_tokens)::BIGINT AS completion_tokens,
        coalesce(sum(reasoning_tokens), 0)::BIGINT AS reasoning_tokens,
        CASE WHEN count(*) FILTER (cost_usd IS NULL AND error IS NULL) = 0 THEN coalesce(sum(cost_usd), 0) END
            AS cost_usd,
        bool_or(tokens_estimated) AS tokens_estimated,
        string_agg(DISTINCT price_source, '; ' ORDER BY price_source) AS price_source
    FROM calls WHERE $run_ids::VARCHAR[] IS NULL OR list_contains($run_ids, run_id)
    GROUP BY {by} ORDER BY {by}"""


def campaign_ids(cursor: duckdb.DuckDBPyConnection) -> list[str]:
    """Return the ids of the runs that count in figures: campaigns and imported releases, the oldest first."""
    sql = "SELECT run_id FROM runs WHERE list_contains(?, source) ORDER BY created_at, run_id"
    return [run_id for (run_id,) in cursor.execute(sql, [list(CAMPAIGNS)]).fetchall()]
