"""Scores of all measures, kept by trial in one table: what is missing, what counts, and the records they are read from.

A score is known by its trial, by its measure with the version, and by what it was read ``against``: the case's content
and, where the measure goes by one, the newest list that was saved for the case. Where any of these changed, the trial
counts as not measured. Queries name two steps: ``held``, the selected trials, and ``kept``, their scores that count.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import duckdb
import orjson
import pandas as pd

from core.store.queries.cases import CaseKey
from core.store.selection import Selection, select
from core.store.tables import insert, records

Trials = Literal["all", "replies", "consultations", "whole"]
"""Which trials a measure reads: with a patient's reply to a doctor; held to an end between these two; to a regular one.

A regular end is any but an error or a refusal. Of trials whose case is not stored there is no record.
"""


Part = Literal["answers", "calls"]
"""What of a trial, beside its conversation, a measure may need."""


Lists = Literal["history_items", "fact_sets"]
"""Tables with lists of cases that people, models or rules make, of which the newest of a case counts."""


class Evidence(NamedTuple):
    """What a score rests on: words of a message, ``turn`` counted from 0 (``None``: of no message).

    ``start`` is where the words lie in the message, where that is known; ``detail`` what is said of them.
    """

    turn: int | None
    words: str
    start: int | None = None
    detail: str = ""


class Score(NamedTuple):
    """What a measure says of a trial under one name; ``value`` is ``None`` where there was nothing to measure.

    ``series`` is the way to the value, point by point, of a score that has one.
    """

    name: str
    value: float | None
    evidence: tuple[Evidence, ...] = ()
    series: tuple[float | None, ...] = ()


class Reader(Protocol):
    """What says whose scores are meant: a measure (``core.measures.base.Measure``)."""

    name: ClassVar[str]
    version: ClassVar[str]
    reads: ClassVar[Trials]
    against: ClassVar[Lists | None]


class ToMeasure(NamedTuple):
    """A trial that is to be measured, and against what."""

    trial_id: str
    case_key: str
    content_hash: str
    against: str


def kept(measure: Reader) -> str:
    """Return the queries up to ``held`` and ``kept``; they need ``select`` before them, and the values of ``key``.

    ``held`` has the selected trials: trial_id, run_id, model (the condition), place, case_key, content_hash, dataset,
    specialty, staffed, ``broken`` (failed), ``ended``, ``whole`` (to a regular end), against, ``listed`` (how much the
    case's list holds), ``measured``. ``kept`` has these with name, value, evidence, series and ordinal of each score.
    """
    lists, against, listed = "", "content_hash", "NULL"
    if measure.against:
        column = _LISTS[measure.against]
        lists = f"LEFT JOIN (SELECT *, md5({column}::VARCHAR) AS digest FROM {newest(measure.against)}) AS lists "
        lists += "USING (case_key, content_hash)"
        against, listed = "content_hash || coalesce(':' || digest, '')", f"json_array_length({column})"
    return f"""own AS NOT MATERIALIZED (
        SELECT *, rowid AS ordinal FROM scores WHERE measure = $measure AND measure_version = $version
    ), looked AS (
        SELECT trial_id, chosen.run_id, model, place, case_key, content_hash, dataset, specialty, staffed,
            status = 'failed' AS broken, end_reason IS NOT NULL AS ended,
            coalesce(end_reason IN ('final_diagnosis', 'no_question', 'turn_cap'), false) AS whole, against, listed
        FROM (SELECT chosen.*, {against} AS against, {listed} AS listed FROM chosen {lists}) AS chosen
        JOIN seated ON seated.run_id = chosen.run_id
        JOIN (SELECT trial_id, status, end_reason FROM trials) AS trials USING (trial_id)
    ), held AS (
        SELECT looked.*, empty.trial_id IS NOT NULL AS measured
        FROM looked LEFT JOIN (FROM own WHERE name = '') AS empty USING (trial_id, against)
    ), kept AS (
        SELECT looked.*, name, value, evidence, series, ordinal
        FROM own JOIN looked USING (trial_id, against) WHERE name <> ''
    )"""


def key(measure: Reader) -> dict[str, str]:
    """Return the values that ``kept`` asks for."""
    return {"measure": measure.name, "version": measure.version}


def newest(lists: Lists) -> str:
    """Return, as a table in SQL, the newest of these lists of each case; openings (``OPENING``) are none."""
    last = "row_number() OVER (PARTITION BY case_key, content_hash ORDER BY made_at DESC, rowid DESC) = 1"
    return f"(SELECT * FROM {lists} WHERE NOT starts_with(made_by, '{OPENING}') QUALIFY {last})"


def lists_of(cursor: duckdb.DuckDBPyConnection, lists: Lists, cases: Iterable[CaseKey]) -> dict[CaseKey, str]:
    """Return case → its newest list as JSON; cases without one are left out."""
    sql = f"SELECT case_key, content_hash, {_LISTS[lists]} FROM {newest(lists)} WHERE list_contains($keys, case_key)"
    rows = cursor.execute(sql, {"keys": [case_key for case_key, _ in cases]}).fetchall()
    return {(case_key, content_hash): held for case_key, content_hash, held in rows}


def unmeasured(
    cursor: duckdb.DuckDBPyConnection, measure: Reader, selection: Selection | None = None
) -> list[ToMeasure]:
    """Return the selected trials that a measure reads and has no scores of, those about one case together."""
    select(cursor, selection)
    sql = f"""
        WITH {kept(measure)} SELECT trial_id, case_key, content_hash, against FROM held
        WHERE NOT measured AND {_READ[measure.reads]} ORDER BY case_key, content_hash, trial_id"""
    return [ToMeasure(*row) for row in cursor.execute(sql, key(measure)).fetchall()]


def add_scores(
    connection: duckdb.DuckDBPyConnection, measure: Reader, new: Sequence[tuple[ToMeasure, Sequence[Score]]]
) -> None:
    """Keep the scores of trials in place of the measure's older ones. Needs a write lease.

    A row without a name says that a trial was measured, whatever came of it.
    """
    now = time.time()
    rows = []
    for one, scores in new:
        for s in (Score("", None), *scores):
            held = [{k: v for k, v in piece._asdict().items() if v not in (None, "")} for piece in s.evidence]
            rested_on = orjson.dumps(held).decode() if held else None
            said = (measure.name, measure.version, s.name, s.value, rested_on, now, one.against, s.series or None)
            rows.append((one.trial_id, *said))
    connection.execute(
        "DELETE FROM scores WHERE measure = ? AND trial_id IN (SELECT unnest(?::VARCHAR[]))",
        [measure.name, [one.trial_id for one, _ in new]],
    )
    insert(connection, "INSERT INTO scores BY NAME SELECT * FROM incoming", "scores", rows)


def means(measure: Reader) -> str:
    """Return the queries up to ``means``: a row for each condition, case and score, over the case's trials.

    Columns: model, case_key, name, ``mean``, ``n`` (trials that have it), ``n_broken`` of them, ``trials`` (that have a
    row of it), ordinal.
    """
    return f"""{kept(measure)}, means AS (
        SELECT model, case_key, name, avg(value) AS mean, count(value) AS n,
            count(value) FILTER (broken) AS n_broken, count(*) AS trials, min(ordinal) AS ordinal
        FROM kept GROUP BY model, case_key, name
    )"""


def case_means(
    cursor: duckdb.DuckDBPyConnection, measure: Reader, selection: Selection | None = None
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the rows of ``means``, and the number of trials of each condition, in the order of ``select``.

    The second has the columns model, ``broken``, ``missing`` (not measured, of the others) and ``trials``.
    """
    select(cursor, selection)
    found = cursor.execute(f"WITH {means(measure)} FROM means ORDER BY ordinal", key(measure)).df()
    sql = f"""
        WITH {kept(measure)} SELECT model, count(*) FILTER (broken) AS broken, count(*) AS trials,
            count(*) FILTER (NOT broken AND NOT measured AND {_READ[measure.reads]}) AS missing
        FROM held WHERE content_hash IS NOT NULL
        GROUP BY model, place ORDER BY place"""
    return found, cursor.execute(sql, key(measure)).df()


def evidence(
    cursor: duckdb.DuckDBPyConnection, measure: Reader, selection: Selection | None = None
) -> list[dict[str, Any]]:
    """Return each piece of evidence by condition, case and trial: model, case, trial_id, score, value, turn, words."""
    select(cursor, selection)
    sql = f"""
        WITH {kept(measure)}
        SELECT model, case_key AS case, trial_id, name AS score, value, evidence
        FROM kept WHERE evidence IS NOT NULL ORDER BY place, case_key, trial_id, ordinal"""
    return [
        {**row, **Evidence(**{"turn": None, "words": "", **piece})._asdict()}
        for row in records(cursor.execute(sql, key(measure)))
        for piece in orjson.loads(row.pop("evidence"))
    ]


def parts_of(cursor: duckdb.DuckDBPyConnection, part: Part, trials: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """Return trial → its answers (format, question_type, response, ``verdicts`` by rule), or its calls in order."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in records(cursor.execute(_PARTS[part], {"trials": list(trials)})):
        found.setdefault(row.pop("trial_id"), []).append(row)
    return found


OPENING = "opening "
"""Begins ``made_by`` of a row of ``history_items`` that holds the opening request of a case, as one item or none."""


_LISTS: Mapping[Lists, str] = {"history_items": "items", "fact_sets": "facts"}
"""Table → the column with the list."""


_READ: Mapping[Trials, str] = {
    "all": "content_hash IS NOT NULL",
    "replies": "content_hash IS NOT NULL "
    "AND trial_id IN (SELECT trial_id FROM utterances WHERE role = 'patient' AND turn > 0)",
    "consultations": "content_hash IS NOT NULL AND ended AND NOT staffed",
    "whole": "content_hash IS NOT NULL AND whole AND NOT staffed",
}
"""The condition on a row of ``held``. With clinical staff two are asked, which rules for two speakers do not know."""


_PARTS: Mapping[Part, str] = {
    "answers": """
    SELECT answers.trial_id, answers.format, answers.question_type, any_value(response) AS response,
        map_from_entries(list((rule, verdict) ORDER BY rule)) AS verdicts
    FROM answers JOIN verdicts USING (trial_id, format, question_type)
    WHERE answers.trial_id IN (SELECT unnest($trials::VARCHAR[])) GROUP BY ALL ORDER BY ALL""",
    "calls": """
    SELECT * EXCLUDE (run_id, position) FROM calls WHERE trial_id IN (SELECT unnest($trials::VARCHAR[]))
    ORDER BY trial_id, position""",
}
