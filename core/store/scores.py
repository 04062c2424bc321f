"""Scores of measures, kept by trial in one table: what is missing, what is held, and the records they are read from."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import duckdb
import orjson
import pandas as pd
import pyarrow as pa

from core.store.selection import Selection, select
from core.store.tables import records


class ToMeasure(NamedTuple):
    """A trial that is to be measured; ``against`` names what its scores also depend on, such as a list of facts."""

    trial_id: str
    case_key: str
    content_hash: str | None
    against: str = ""


class KeptScore(NamedTuple):
    """A score as it is stored; ``evidence`` holds (turn or ``None``, words) pairs."""

    trial_id: str
    name: str
    value: float | None
    evidence: tuple[tuple[int | None, str], ...] = ()


def unmeasured(
    cursor: duckdb.DuckDBPyConnection, measure: str, version: str, selection: Selection | None = None
) -> list[ToMeasure]:
    """Return the selected trials that this version of a measure has not read, those about one case together."""
    sql = f"""
        WITH {_HELD} SELECT DISTINCT trial_id, case_key, content_hash FROM held
        ANTI JOIN (SELECT trial_id FROM scores WHERE measure = $measure AND measure_version = $version) USING (trial_id)
        ORDER BY case_key, content_hash, trial_id"""
    select(cursor, selection)
    values = {"measure": measure, "version": version}
    return [ToMeasure(*row) for row in cursor.execute(sql, values).fetchall()]


def add_scores(
    connection: duckdb.DuckDBPyConnection, measure: str, version: str, new: Mapping[str, Iterable[KeptScore]]
) -> None:
    """Keep the scores of trials (trial → its scores, which may be none) that are not there yet. Needs a write lease."""
    now = time.time()
    rows = [
        (one.trial_id, measure, version, one.name, one.value, _json(one.evidence), now)
        for trial, scores in new.items()
        for one in (KeptScore(trial, "", None), *scores)
    ]
    names = ("trial_id", "measure", "measure_version", "name", "value", "evidence", "computed_at")
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    types = pa.schema([(name, pa.float64() if name in ("value", "computed_at") else pa.string()) for name in names])
    connection.register("incoming", pa.table(columns, schema=types))
    try:
        connection.execute(
            "INSERT INTO scores BY NAME SELECT * FROM incoming ANTI JOIN (FROM scores) USING (trial_id, measure, "
            "measure_version)"
        )
    finally:
        connection.unregister("incoming")


def score_table(
    cursor: duckdb.DuckDBPyConnection, measure: str, version: str, selection: Selection | None = None
) -> pd.DataFrame:
    """Return a row for each selected trial and score, conditions in the order of ``select``.

    Columns: model (the condition), trial_id, case_key, dataset, specialty, ``measured``, ``broken`` (the trial failed),
    name, value and evidence (JSON). A trial without scores has one row with an empty name.
    """
    sql = f"""
        WITH {_HELD}, kept AS (
            SELECT *, rowid AS ordinal FROM scores WHERE measure = $measure AND measure_version = $version
        )
        SELECT model, held.trial_id, case_key, dataset, specialty, kept.trial_id IS NOT NULL AS measured, broken,
            coalesce(kept.name, '') AS name, value, coalesce(evidence::VARCHAR, '[]') AS evidence
        FROM held LEFT JOIN kept ON kept.trial_id = held.trial_id
        ORDER BY place, case_key, held.trial_id, ordinal"""
    select(cursor, selection)
    values = {"measure": measure, "version": version}
    return cursor.execute(sql, values).df()


def answers_of(cursor: duckdb.DuckDBPyConnection, trials: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """Return trial → its answers: format, question_type, response, and ``verdicts`` by rule."""
    return _by_trial(cursor, _ANSWERS, trials)


def calls_of(cursor: duckdb.DuckDBPyConnection, trials: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """Return trial → the calls that it made, in order, as the table ``calls`` holds them."""
    return _by_trial(cursor, _CALLS, trials)


def _by_trial(
    cursor: duckdb.DuckDBPyConnection, sql: str, trials: Sequence[str]
) -> dict[str, list[dict[str, Any]]]:  # fmt: skip
    found: dict[str, list[dict[str, Any]]] = {}
    for row in records(cursor.execute(sql, {"trials": list(trials)})):
        found.setdefault(row.pop("trial_id"), []).append(row)
    return found


def _json(evidence: Iterable[tuple[int | None, str]]) -> str:
    return orjson.dumps([{"turn": turn, "words": words} for turn, words in evidence]).decode()


_HELD = """held AS (
        SELECT chosen.trial_id, model, place, chosen.case_key, chosen.content_hash, chosen.dataset, chosen.specialty,
            trials.status = 'failed' AS broken
        FROM chosen JOIN trials ON trials.trial_id = chosen.trial_id JOIN seated ON seated.run_id = chosen.run_id
        WHERE chosen.content_hash IS NOT NULL
    )"""
_ANSWERS = """
    SELECT answers.trial_id, answers.format, answers.question_type, any_value(response) AS response,
        map_from_entries(list((rule, verdict) ORDER BY rule)) AS verdicts
    FROM answers JOIN verdicts USING (trial_id, format, question_type)
    WHERE answers.trial_id IN (SELECT unnest($trials::VARCHAR[])) GROUP BY ALL ORDER BY ALL"""
_CALLS = """
    SELECT * EXCLUDE (run_id, position) FROM calls WHERE trial_id IN (SELECT unnest($trials::VARCHAR[]))
    ORDER BY trial_id, position"""
