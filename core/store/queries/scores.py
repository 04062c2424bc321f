"""Scores of all measures, stored by trial in one table: missing scores, current scores, and what measures read.

A score is identified by its trial, its measure with the version, and what it was computed ``against``: the content of
the case and, for some measures, the newest saved list of the case. If any of these has changed, the trial counts as not
measured. Queries start with two steps: ``selected_trials`` and ``current_scores``, the scores of these trials.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import duckdb
import orjson
import pandas as pd

from core.short_calls import followed
from core.store.queries.cases import CaseKey
from core.store.rows import calls_in
from core.store.selection import Selection, select, select_all
from core.store.tables import ScoreRow, insert, records
from core.text.unsaid import MEASURE, VERSION

Trials = Literal["all", "replies", "consultations", "whole", "summarised", "probed"]
"""The trials that a measure reads: those with a reply of a patient, finished ones of doctor and patient, whole ones,
those with a summary, and probed ones of doctor and patient.

A whole consultation did not end by an error or a refusal. Trials whose case is not stored are never read.
"""


TrialPart = Literal["answers", "calls", "summary", "probes"]
"""Parts of a trial, in addition to its conversation, that a measure may need."""


Lists = Literal["facts", "items"]
"""Kinds of lists of cases, by people, models or rules; the newest of a case counts."""


class Evidence(NamedTuple):
    """Evidence for a score: words of a message, ``turn`` counted from 0 (``None``: of no message).

    ``start`` is the position of the words in the message, if it is known; ``detail`` is a remark on them.
    """

    turn: int | None
    words: str
    start: int | None = None
    detail: str = ""


class Score(NamedTuple):
    """A named score of a trial; ``value`` is ``None`` if there was nothing to measure.

    ``series`` has the value point by point over the conversation, for scores that have a course.
    """

    name: str
    value: float | None
    evidence: tuple[Evidence, ...] = ()
    series: tuple[float | None, ...] = ()


class Reader(Protocol):
    """The measure whose scores are read (``core.measures.base.Measure``)."""

    name: ClassVar[str]
    version: ClassVar[str]
    reads: ClassVar[Trials]
    against: ClassVar[Lists | None]


class ToMeasure(NamedTuple):
    """A trial to measure, and against what (see the module)."""

    trial_id: str
    case_key: str
    content_hash: str
    against: str


def current_scores(measure: Reader) -> str:
    """Return SQL steps up to ``selected_trials`` and ``current_scores``; call ``select`` before, and pass ``key``.

    ``selected_trials`` has the selected trials: trial_id, run_id, model (the condition), place, case_key, content_hash,
    dataset, specialty, staffed, ``broken`` (failed), ``ended``, ``whole`` (regular end), against, ``listed`` (the
    length of the case's list), ``measured``; ``looked`` has these columns but the last, and takes less time.
    ``current_scores`` has these columns and name, value, evidence, series, ordinal of each score. All scores of a
    trial by a measure are against the same: only one of them, the one without a name, is compared.
    """
    lists, against, listed = "", "content_hash", "NULL"
    if measure.against:
        # of each list once, not of each trial
        of_list = "case_key, content_hash, md5(items::VARCHAR) AS digest, json_array_length(items) AS listed"
        lists = f"LEFT JOIN (SELECT {of_list} FROM {newest(measure.against)}) AS lists USING (case_key, content_hash)"
        against, listed = "content_hash || coalesce(':' || digest, '')", "lists.listed"
    return f"""own AS NOT MATERIALIZED (
        SELECT *, rowid AS ordinal FROM scores WHERE measure = $measure AND measure_version = $version
    ), looked AS (
        SELECT trial_id, chosen.run_id, model, place, case_key, content_hash, dataset, specialty, staffed,
            status = 'failed' AS broken, end_reason IS NOT NULL AS ended,
            coalesce(end_reason IN ('final_diagnosis', 'no_question', 'turn_cap'), false) AS whole, against, listed
        FROM (SELECT chosen.*, {against} AS against, {listed} AS listed FROM chosen {lists}) AS chosen
        JOIN seated ON seated.run_id = chosen.run_id
        JOIN (SELECT trial_id, status, end_reason FROM trials) AS trials USING (trial_id)
    ), selected_trials AS (
        SELECT looked.*, empty.trial_id IS NOT NULL AS measured
        FROM looked LEFT JOIN (FROM own WHERE name = '') AS empty USING (trial_id, against)
    ), current_scores AS (
        SELECT read.*, name, value, evidence, series, ordinal
        FROM own JOIN (FROM selected_trials WHERE measured) AS read USING (trial_id) WHERE name <> ''
    )"""


def key(measure: Reader) -> dict[str, str]:
    return {"measure": measure.name, "version": measure.version}


def newest(lists: Lists) -> str:
    """Return SQL for a table of the newest list of each case."""
    last = "row_number() OVER (PARTITION BY case_key, content_hash ORDER BY made_at DESC, rowid DESC) = 1"
    return f"(SELECT * FROM case_lists WHERE kind = '{lists}' QUALIFY {last})"


def lists_of(cursor: duckdb.DuckDBPyConnection, lists: Lists, cases: Iterable[CaseKey]) -> dict[CaseKey, str]:
    """Return case → its newest list as JSON; cases without a list are omitted."""
    sql = f"SELECT case_key, content_hash, items FROM {newest(lists)} WHERE list_contains($keys, case_key)"
    rows = cursor.execute(sql, {"keys": [case_key for case_key, _ in cases]}).fetchall()
    return {(case_key, content_hash): items for case_key, content_hash, items in rows}


def unmeasured(
    cursor: duckdb.DuckDBPyConnection, measure: Reader, selection: Selection | None = None
) -> list[ToMeasure]:
    """Return the trials of a selection, or all, that a measure reads and has not scored, ordered by case."""
    if selection is None:
        select_all(cursor)
    else:
        select(cursor, selection)
    sql = f"""
        WITH {current_scores(measure)} SELECT trial_id, case_key, content_hash, against FROM selected_trials
        WHERE NOT measured AND {_READ[measure.reads]} ORDER BY case_key, content_hash, trial_id"""
    return [ToMeasure(*row) for row in cursor.execute(sql, key(measure)).fetchall()]


def add_scores(
    connection: duckdb.DuckDBPyConnection, measure: Reader, new: Sequence[tuple[ToMeasure, Sequence[Score]]]
) -> None:
    """Store scores of trials; they replace the measure's older scores. Needs a write lease.

    A row without a name says that the trial was measured, even if it has no scores.
    """
    now = time.time()
    rows = []
    listed = [trial.trial_id for trial, _ in new]
    # a trial may have been deleted since it was read
    sql = "SELECT trial_id FROM trials WHERE trial_id IN (SELECT unnest(?::VARCHAR[]))"
    stored = {trial_id for (trial_id,) in connection.execute(sql, [listed]).fetchall()}
    for trial, scores in ((trial, scores) for trial, scores in new if trial.trial_id in stored):
        for s in (Score("", None), *scores):
            pieces = [{k: v for k, v in piece._asdict().items() if v not in (None, "")} for piece in s.evidence]
            evidence = orjson.dumps(pieces).decode() if pieces else None
            rows.append(
                ScoreRow(
                    trial_id=trial.trial_id,
                    measure=measure.name,
                    measure_version=measure.version,
                    name=s.name,
                    value=s.value,
                    evidence=evidence,
                    computed_at=now,
                    against=trial.against,
                    series=s.series or None,
                )
            )
    connection.execute(
        "DELETE FROM scores WHERE measure = ? AND trial_id IN (SELECT unnest(?::VARCHAR[]))", [measure.name, listed]
    )
    # a plain INSERT keeps the order of the scores, by which equal ones are listed and cases are resampled
    insert(connection, rows, "INSERT INTO scores BY NAME SELECT * FROM incoming")


def means(measure: Reader) -> str:
    """Return the SQL steps up to ``means``: a row for each condition, case and score, over the case's trials.

    Columns: model, case_key, name, ``mean``, ``n`` (trials with a value), ``n_broken`` (failed ones of these),
    ``trials`` (trials with a row), ordinal.
    """
    return f"""{current_scores(measure)}, means AS (
        SELECT model, case_key, name, avg(value) AS mean, count(value) AS n,
            count(value) FILTER (broken) AS n_broken, count(*) AS trials, min(ordinal) AS ordinal
        FROM current_scores GROUP BY model, case_key, name
    )"""


def case_means(
    cursor: duckdb.DuckDBPyConnection, measure: Reader, selection: Selection | None = None
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the rows of ``means``, and the numbers of trials of each condition, in the order of ``select``.

    Columns of the second table: model, ``broken`` (failed), ``missing`` (neither failed nor measured), ``trials``.
    """
    select(cursor, selection)
    table = cursor.execute(f"WITH {means(measure)} FROM means ORDER BY ordinal", key(measure)).df()
    sql = f"""
        WITH {current_scores(measure)} SELECT model, count(*) FILTER (broken) AS broken, count(*) AS trials,
            count(*) FILTER (NOT broken AND NOT measured AND {_READ[measure.reads]}) AS missing
        FROM selected_trials WHERE content_hash IS NOT NULL
        GROUP BY model, place ORDER BY place"""
    return table, cursor.execute(sql, key(measure)).df()


def series_of_trials(
    cursor: duckdb.DuckDBPyConnection, measure: Reader, selection: Selection | None = None
) -> list[tuple[str, str, dict[str, list[float]]]]:
    """Return model, case and score → series of each trial with scores, in the order of condition, case and trial."""
    select(cursor, selection)
    sql = f"""
        WITH {current_scores(measure)}
        SELECT model, case_key, map_from_entries(list((name, series))) FROM current_scores
        GROUP BY place, model, case_key, trial_id ORDER BY place, case_key, trial_id"""
    return cursor.execute(sql, key(measure)).fetchall()


def evidence(
    cursor: duckdb.DuckDBPyConnection, measure: Reader, selection: Selection | None = None
) -> list[dict[str, Any]]:
    """Return the evidence, ordered by condition, case and trial: model, case, trial_id, score, value, turn, words."""
    select(cursor, selection)
    sql = f"""
        WITH {current_scores(measure)}
        SELECT model, case_key AS case, trial_id, name AS score, value, evidence
        FROM current_scores WHERE evidence IS NOT NULL ORDER BY place, case_key, trial_id, ordinal"""
    return [
        {**row, **Evidence(**{"turn": None, "words": "", **piece})._asdict()}
        for row in records(cursor.execute(sql, key(measure)))
        for piece in orjson.loads(row.pop("evidence"))
    ]


def parts_of(
    cursor: duckdb.DuckDBPyConnection, part: TrialPart, trials: Sequence[str]
) -> dict[str, list[dict[str, Any]]]:
    """Return trial → the rows of a part.

    Answers have format, question_type, response and ``verdicts`` by rule; calls and probes (turn, ranked) are in order.
    """
    parts: dict[str, list[dict[str, Any]]] = {}
    rows = records(cursor.execute(_PARTS[part], {"trials": list(trials)}))
    calls = calls_in(rows) if part == "calls" else {}
    for row in rows:
        if part == "calls" and followed(orjson.loads(row["request"])):
            call = calls[row["call_id"]].model_dump(mode="json", include={"request", "parts"})
            row |= {name: orjson.dumps(value).decode() for name, value in call.items()}
        parts.setdefault(row.pop("trial_id"), []).append(row)
    return parts


class Summaries(NamedTuple):
    """Summaries of some trials: ``measured`` for claims that no message makes, and ``unsaid`` with such a claim."""

    stored: int = 0
    measured: int = 0
    unsaid: int = 0

    def __or__(self, other: Summaries) -> Summaries:
        return Summaries(*map(sum, zip(self, other, strict=True)))


NO_SUMMARIES = Summaries()


def summaries_by_run(cursor: duckdb.DuckDBPyConnection, run_ids: Sequence[str]) -> dict[str, Summaries]:
    parameters = {"measure": MEASURE, "version": VERSION, "run_ids": list(run_ids)}
    return {run_id: Summaries(*numbers) for run_id, *numbers in cursor.execute(_UNSAID, parameters).fetchall()}


_READ: Mapping[Trials, str] = {
    "all": "content_hash IS NOT NULL",
    "replies": "content_hash IS NOT NULL "
    "AND trial_id IN (SELECT trial_id FROM utterances WHERE role = 'patient' AND turn > 0)",
    "consultations": "content_hash IS NOT NULL AND ended AND NOT staffed",
    "whole": "content_hash IS NOT NULL AND whole AND NOT staffed",
    "summarised": "content_hash IS NOT NULL AND trial_id IN (SELECT trial_id FROM trials WHERE summary IS NOT NULL)",
    "probed": "content_hash IS NOT NULL AND NOT staffed AND trial_id IN (SELECT trial_id FROM probes)",
}
"""The condition on a row of ``selected_trials``. Rules for two speakers do not support clinical staff."""


_PARTS: Mapping[TrialPart, str] = {
    "answers": """
    SELECT answers.trial_id, answers.format, answers.question_type, any_value(response) AS response,
        map_from_entries(list((rule, verdict) ORDER BY rule)) AS verdicts
    FROM answers JOIN verdicts USING (trial_id, format, question_type)
    WHERE answers.trial_id IN (SELECT unnest($trials::VARCHAR[])) GROUP BY ALL ORDER BY ALL""",
    "calls": """
    SELECT * EXCLUDE (run_id, position) FROM calls WHERE trial_id IN (SELECT unnest($trials::VARCHAR[]))
    ORDER BY trial_id, position""",
    "summary": "SELECT trial_id, summary FROM trials WHERE trial_id IN (SELECT unnest($trials::VARCHAR[]))",
    "probes": """
    SELECT trial_id, turn, list((diagnosis, probability) ORDER BY rank) AS ranked FROM probes
    WHERE trial_id IN (SELECT unnest($trials::VARCHAR[])) GROUP BY trial_id, turn ORDER BY trial_id, turn""",
}

_UNSAID = """
    SELECT run_id, count(*), count(claims), count(*) FILTER (claims > 0) FROM trials LEFT JOIN (
        SELECT trial_id, coalesce(sum(value), 0) AS claims FROM scores
        WHERE measure = $measure AND measure_version = $version GROUP BY trial_id
    ) AS read USING (trial_id)
    WHERE summary IS NOT NULL AND list_contains($run_ids::VARCHAR[], run_id) GROUP BY run_id"""
