"""Answers on which two graders differ, or a verdict and the one before it: found, counted, and read page by page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import duckdb

from core.events import COUNTED, Format, QuestionType, Verdict
from core.store.graders import FREE
from core.store.records import records
from core.store.selection import SELECTED, Selection, select

Direction = Literal["first", "second", "kind"]
"""Only the first verdict says correct, only the second does, or neither does and they name different reasons."""


@dataclass(frozen=True)
class Wanted:
    """Which differences: of two graders, or with ``graders`` empty of every answer's newest verdict and the one before.

    ``case_set`` is what the keys of cases begin with; without it, and without ``directions``, all count.
    """

    graders: tuple[str, str] | None = None
    case_set: str | None = None
    selection: Selection = field(default_factory=Selection)
    directions: Sequence[Direction] = ()


@dataclass(frozen=True)
class Difference:
    """One answer with two verdicts that differ. Without named graders the first is the older one."""

    trial_id: str
    trial: int
    model: str
    case_key: str
    format: Format
    question_type: QuestionType
    answer: str | None
    response: str
    first_grader: str
    first_extracted: str | None
    first_verdict: Verdict
    second_grader: str
    second_extracted: str | None
    second_verdict: Verdict

    @property
    def direction(self) -> Direction:
        """Who says correct."""
        if self.first_verdict == "correct":
            return "first"
        return "second" if self.second_verdict == "correct" else "kind"


def count_differences(cursor: duckdb.DuckDBPyConnection, wanted: Wanted) -> dict[Direction, int]:
    """Return how many differences there are in each direction that is wanted."""
    sql = f"{_PAIRED[wanted.graders is None]} SELECT direction, count(*) FROM chosen GROUP BY ALL"
    return dict(cursor.execute(sql, _parameters(cursor, wanted)).fetchall())


def differences(
    cursor: duckdb.DuckDBPyConnection, wanted: Wanted, limit: int | None = None, offset: int = 0
) -> list[Difference]:
    """Return differences in the order of case, model, arm and trial."""
    sql = f"{_PAIRED[wanted.graders is None]} {_READ}"
    found = records(cursor.execute(sql, {**_parameters(cursor, wanted), "limit": limit, "offset": offset}))
    return [Difference(**row) for row in found]


def difference_at(
    cursor: duckdb.DuckDBPyConnection, wanted: Wanted, trial_id: str, format_: str, question_type: str
) -> Difference | None:
    """Return the difference on one answer, ``None`` where there is none."""
    sql = f"""{_PAIRED[wanted.graders is None].replace("/* one answer */", _ONE)} {_READ}"""
    more = {"trial_id": trial_id, "format": format_, "question_type": question_type, "limit": 1, "offset": 0}
    found = records(cursor.execute(sql, {**_parameters(cursor, wanted), **more}))
    return Difference(**found[0]) if found else None


def _parameters(cursor: duckdb.DuckDBPyConnection, wanted: Wanted) -> dict[str, Any]:
    select(cursor, wanted.selection, without=("grader",))
    first, second = wanted.graders or (None, None)
    named = {} if wanted.graders is None else {"first": first, "second": second}
    common = {"free": list(FREE), "counted": list(COUNTED), "directions": list(wanted.directions) or None}
    return {**wanted.selection.parameters(), **named, **common, "case_set": wanted.case_set}


_ONE = "AND trial_id = $trial_id AND format = $format AND question_type = $question_type"
_NEWEST_OF = """
        SELECT trial_id, format, question_type, grader, extracted, verdict FROM grades
        WHERE grader = ${who} AND list_contains($free, rule) AND verdict <> 'provider_error' /* one answer */
        QUALIFY row_number() OVER (PARTITION BY trial_id, format, question_type
            ORDER BY graded_at DESC, grades.rowid DESC) = 1"""
_TWO = """
        SELECT f.trial_id, f.format, f.question_type,
            f.grader AS first_grader, f.extracted AS first_extracted, f.verdict AS first_verdict,
            s.grader AS second_grader, s.extracted AS second_extracted, s.verdict AS second_verdict
        FROM f JOIN s ON s.trial_id = f.trial_id AND s.format = f.format AND s.question_type = f.question_type"""
_IN_TURN = """
    WITH ranked AS (
        SELECT *, row_number() OVER (PARTITION BY trial_id, format, question_type
            ORDER BY graded_at DESC, grades.rowid DESC) AS place
        FROM grades WHERE list_contains($free, rule) AND verdict <> 'provider_error' /* one answer */
    ), f AS (SELECT * FROM ranked WHERE place = 2), s AS (SELECT * FROM ranked WHERE place = 1)"""
_BY_NAME = f"""
    WITH f AS ({_NEWEST_OF.format(who="first")}), s AS ({_NEWEST_OF.format(who="second")})"""
_CHOSEN = f""", paired AS ({_TWO}
        WHERE f.verdict <> s.verdict AND list_contains($counted, f.verdict) AND list_contains($counted, s.verdict)
    ), chosen AS (
        SELECT verdicts.*, model, trials.trial, trials.case_key, cases.answer,
            CASE WHEN first_verdict = 'correct' THEN 'first' WHEN second_verdict = 'correct' THEN 'second'
                 ELSE 'kind' END AS direction
        FROM paired AS verdicts JOIN trials USING (trial_id) JOIN seated ON seated.run_id = trials.run_id
        LEFT JOIN cases ON cases.case_key = trials.case_key AND cases.content_hash = trials.content_hash
        WHERE {SELECTED} AND ($case_set::VARCHAR IS NULL OR starts_with(trials.case_key, $case_set || '/'))
            AND ($directions::VARCHAR[] IS NULL OR list_contains($directions, direction))
    )"""
_PAIRED = {True: _IN_TURN + _CHOSEN, False: _BY_NAME + _CHOSEN}
"""By whether the newest verdict is held against the one before it."""
_READ = """
    SELECT chosen.trial_id, trial, model, case_key, chosen.format, chosen.question_type, answer, response,
        first_grader, first_extracted, first_verdict, second_grader, second_extracted, second_verdict
    FROM chosen JOIN answers ON answers.trial_id = chosen.trial_id AND answers.format = chosen.format
        AND answers.question_type = chosen.question_type
    ORDER BY length(case_key), case_key, model, chosen.format, chosen.question_type, trial, chosen.trial_id
    LIMIT $limit OFFSET $offset"""
