"""Rubrics that users saved or imported, and the verdicts of judges on their criteria.

The newest version of a name counts, earlier ones stay as history. A verdict is identified by its conversation, its
judge, the hash of the criterion's wording and the number of the repeat; of several, the newest with a value counts. A
criterion whose wording changes counts as not judged; points, axis and priority are read from the rubric when scores are
computed.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import duckdb
import orjson
import pandas as pd

from core import access
from core.judging.judgement import Quotation
from core.store.queries.judgements import JUDGEABLE
from core.store.selection import Selection, select
from core.store.tables import records
from core.store.written import withdraw, write


class RubricVersion(NamedTuple):
    """A saved version of a rubric as JSON, by whom and when (seconds since 1970)."""

    name: str
    rubric_hash: str
    rubric: str
    made_by: str
    made_at: float


def add_rubric(connection: duckdb.DuckDBPyConnection, name: str, rubric_hash: str, rubric: str) -> RubricVersion:
    """Journal and add a version. Needs a write lease."""
    access.require("run")
    version = RubricVersion(name, rubric_hash, rubric, access.visitor().name, time.time())
    write(connection, "rubric", [version._asdict()])
    return version


def remove_rubric(connection: duckdb.DuckDBPyConnection, name: str) -> int:
    """Withdraw all versions of a rubric; return their number. Verdicts on it stay. Needs a write lease."""
    access.require("run")
    return withdraw(connection, "rubric", "name", [name])


def saved_rubrics(cursor: duckdb.DuckDBPyConnection, name: str | None = None) -> list[RubricVersion]:
    """Return the newest version of each rubric, by name; of one rubric if ``name`` is given."""
    rows = records(cursor.execute(_NEWEST, {"name": name}))
    return [RubricVersion(**row) for row in rows]


def rubric_conversations(cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None) -> pd.DataFrame:
    """Return a row for each selected conversation that can be judged, in the order of conditions and cases.

    Columns: trial_id, ``model`` (the condition), ``doctor``, case_key, dataset, specialty, ``characters`` of all the
    doctor's messages.
    """
    select(cursor, selection)
    return cursor.execute(f"WITH {_CONVERSATIONS} {_ORDERED}").df()


def unjudgeable_conversations(
    cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None
) -> list[tuple[str, str, str, str]]:
    """Return (condition, case key, specialty, end) of the selected conversations that cannot be judged."""
    select(cursor, selection)
    return cursor.execute(f"WITH {_CONVERSATIONS} {_UNJUDGEABLE}").fetchall()


def rubric_verdicts(cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None) -> pd.DataFrame:
    """Return the verdicts on the selected conversations that count, of all judges and repeats.

    Columns: trial_id, ``judge``, judge_kind, prompt_hash, together, rubric, criterion_hash, ``repeat`` from 1,
    ``verdict`` (``None`` without a readable reply), voided, failure, reason, ``quotations`` as JSON, judged_at.
    """
    select(cursor, selection)
    return cursor.execute(f"WITH {_CONVERSATIONS} {_VERDICTS}").df()


def quotations_from_json(text: str) -> tuple[Quotation, ...]:
    return tuple(Quotation(**fields) for fields in orjson.loads(text))


_COLUMNS = ", ".join(RubricVersion._fields)
_NEWEST = f"""
    SELECT {_COLUMNS} FROM rubrics WHERE $name::VARCHAR IS NULL OR name = $name
    QUALIFY row_number() OVER (PARTITION BY name ORDER BY made_at DESC, rowid DESC) = 1 ORDER BY name"""
_CONVERSATIONS = f"""conversations AS (
        SELECT chosen.trial_id, seated.model, place, runs.doctor, chosen.case_key, dataset, specialty, characters
        FROM chosen JOIN seated USING (run_id) JOIN runs ON runs.run_id = chosen.run_id
        JOIN trials ON trials.trial_id = chosen.trial_id
        JOIN (SELECT trial_id, (sum(length(text)) FILTER (role NOT IN ('patient', 'staff')))::BIGINT AS characters
              FROM utterances GROUP BY trial_id) AS lengths ON lengths.trial_id = chosen.trial_id
        WHERE {JUDGEABLE} AND characters IS NOT NULL
    )"""
# Runs of vignettes alone have no conversations.
_UNJUDGEABLE = """
    SELECT seated.model, chosen.case_key, coalesce(specialty, ''), coalesce(end_reason, status)
    FROM chosen JOIN seated USING (run_id) JOIN trials ON trials.trial_id = chosen.trial_id
    WHERE chosen.trial_id NOT IN (SELECT trial_id FROM conversations)
        AND chosen.run_id IN (SELECT run_id FROM trials WHERE end_reason IS NOT NULL)
    ORDER BY place, chosen.case_key, chosen.trial_id"""
_ORDERED = """
    SELECT trial_id, model, doctor, case_key, dataset, coalesce(specialty, '') AS specialty, characters
    FROM conversations ORDER BY place, case_key, trial_id"""
_VERDICTS = """
    SELECT trial_id, judge, judge_kind, prompt_hash, together, substr(form, 8) AS rubric, against AS criterion_hash,
        repeat, value AS verdict, void AS voided, failure, reason, quotations, judged_at
    FROM judgements SEMI JOIN conversations USING (trial_id)
    WHERE starts_with(form, 'rubric:') AND judge_kind <> 'person'
    QUALIFY row_number() OVER (
        PARTITION BY trial_id, judge, judge_kind, prompt_hash, together, against, repeat
        ORDER BY (value IS NOT NULL) DESC, judged_at DESC) = 1
    ORDER BY judged_at, trial_id, against"""
