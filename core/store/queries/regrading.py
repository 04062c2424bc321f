"""Queries for grading stored answers again: which there are, who judged them last, and what a grader said before.

Free responses are judged by graders, choices by the strict rule (``core.agents.mcq``): its verdicts carry its version.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import duckdb

from core.case import Case
from core.errors import AnamnesisError
from core.events import Format, QuestionType, Verdict
from core.store.queries.cases import CASE_COLUMNS, case_from
from core.store.queries.failures import CaseKey
from core.store.runs import CAMPAIGNS
from core.store.selection import IN_ARMS, Selection, select
from core.store.tables import records


@dataclass(frozen=True)
class AnswerToGrade:
    """A stored answer, with the verdict on it that counts now.

    Of a free response ``grader`` gave that under prompts of ``prompt_hash`` (empty: the run's own, or none); all of
    it is ``None`` where nobody has judged yet. An answer with choices was read by the strict rule.
    """

    trial_id: str
    case_key: str
    content_hash: str | None
    format: Format
    question_type: QuestionType
    response: str
    verdict: Verdict | None
    grader: str | None = None
    prompt_hash: str | None = None
    rule_version: int | None = None

    @property
    def case(self) -> CaseKey:
        """The case that was answered."""
        return self.case_key, self.content_hash


@dataclass(frozen=True)
class GivenVerdict:
    """What a grader said of a response to a case with this answer, and the calls that led to it."""

    question_type: QuestionType
    answer: str
    response: str
    extracted: str | None
    verdict: Verdict
    call_ids: Sequence[str]


def answers_to_grade(
    cursor: duckdb.DuckDBPyConnection, run_id: str, question_types: Sequence[QuestionType], limit: int | None = None
) -> list[AnswerToGrade]:
    """Return the answers of a run that can be graded, those of one trial together, trial by trial over the cases."""
    parameters: dict[str, Any] = {"run_id": run_id, "types": list(question_types), "limit": limit}
    return [AnswerToGrade(*row) for row in cursor.execute(_TO_GRADE, parameters).fetchall()]


def cases_answered(cursor: duckdb.DuckDBPyConnection, run_id: str) -> dict[CaseKey, Case]:
    """Return the cases of a run's trials, each as its trials held it.

    Raises ``AnamnesisError`` where a case is not stored.
    """
    found = {(row["case_key"], row.pop("held")): case_from(row) for row in records(cursor.execute(_CASES, [run_id]))}
    held = cursor.execute("SELECT DISTINCT case_key, content_hash FROM trials WHERE run_id = ?", [run_id]).fetchall()
    missing = [key for key in held if key not in found]
    if missing:
        raise AnamnesisError(
            f"{len(missing)} cases of run {run_id} are not stored, {missing[0][0]} the first, so their answers cannot "
            "be graded: import their data set."
        )
    return found


def given_verdicts(
    cursor: duckdb.DuckDBPyConnection, model: str, prompt_hash: str, reading: int = 1
) -> list[GivenVerdict]:
    """Return what a model said under these prompts in earlier re-gradings, the newest of each answer and response.

    What was unreadable to a version of the reading before ``reading`` is left out: it may be readable by now. The name
    of a prompt pack behind the model's (``openai/gpt-4o [mine]``) makes no difference where the prompts are
    the same.
    """
    rows = cursor.execute(_GIVEN, {"model": model, "prompt_hash": prompt_hash, "reading": reading}).fetchall()
    return [GivenVerdict(*row) for row in rows]


def choices_to_read(cursor: duckdb.DuckDBPyConnection, run_id: str, version: int) -> list[AnswerToGrade]:
    """Return a run's answers that the strict rule read in a version before ``version``, those of one trial together."""
    rows = cursor.execute(_TO_READ, {"run_id": run_id, "version": version}).fetchall()
    return [AnswerToGrade(*row) for row in rows]


def runs_read_before(cursor: duckdb.DuckDBPyConnection, version: int) -> list[str]:
    """Return the ids of the runs that ``choices_to_read`` has something of, the oldest first."""
    return [run_id for (run_id,) in cursor.execute(_READ_BEFORE, {"version": version}).fetchall()]


def count_read_before(cursor: duckdb.DuckDBPyConnection, version: int, selection: Selection | None = None) -> int:
    """Return how many of the selected answers the strict rule read in a version before ``version``."""
    chosen = selection or Selection()
    select(cursor, chosen, without=("reader",))
    parameters = chosen.parameters(_COUNT_READ_BEFORE) | {"version": version}
    (count,) = cursor.execute(_COUNT_READ_BEFORE, parameters).fetchone() or (0,)
    return int(count)


def campaign_ids(cursor: duckdb.DuckDBPyConnection) -> list[str]:
    """Return the ids of the runs that count in figures: campaigns and imported releases, the oldest first."""
    sql = "SELECT run_id FROM runs WHERE list_contains(?, source) ORDER BY created_at, run_id"
    return [run_id for (run_id,) in cursor.execute(sql, [list(CAMPAIGNS)]).fetchall()]


_MODEL = "split_part(grades.grader, ' [', 1)"
"""The model of a stored name, which may end in the name of a prompt pack."""

_TO_GRADE = """
    WITH mine AS (SELECT trial_id, case_key, content_hash, trial FROM trials WHERE run_id = $run_id),
    newest AS (
        SELECT trial_id, format, question_type, verdict, grader, prompt_hash, rule_version
        FROM grades SEMI JOIN mine USING (trial_id)
        WHERE list_contains($types, rule)
        QUALIFY row_number() OVER (
            PARTITION BY trial_id, format, question_type, rule ORDER BY graded_at DESC, rowid DESC) = 1
    )
    SELECT trial_id, case_key, content_hash, answers.format, answers.question_type, answers.response,
        newest.verdict, newest.grader, newest.prompt_hash, newest.rule_version
    FROM mine JOIN answers USING (trial_id) LEFT JOIN newest USING (trial_id, format, question_type)
    WHERE answers.status = 'answered' AND answers.response IS NOT NULL AND list_contains($types, answers.question_type)
    ORDER BY trial, case_key, trial_id, answers.format, answers.question_type LIMIT $limit"""

_CASES = f"""
    WITH held AS (SELECT DISTINCT case_key, content_hash FROM trials WHERE run_id = ?),
    last_cases AS (
        SELECT case_key, content_hash FROM cases
        QUALIFY row_number() OVER (PARTITION BY case_key ORDER BY added_at DESC, rowid DESC) = 1
    )
    SELECT {CASE_COLUMNS}, held.content_hash AS held FROM held
    LEFT JOIN last_cases USING (case_key)
    JOIN cases ON cases.case_key = held.case_key
        AND cases.content_hash = coalesce(held.content_hash, last_cases.content_hash)"""

_GIVEN = f"""
    SELECT grades.question_type, cases.answer, answers.response, grades.extracted, grades.verdict, grades.call_ids
    FROM grades JOIN answers USING (trial_id, format, question_type)
    JOIN trials ON trials.trial_id = grades.trial_id
    JOIN cases ON cases.case_key = trials.case_key AND cases.content_hash = trials.content_hash
    WHERE {_MODEL} = $model AND grades.prompt_hash = $prompt_hash
        AND grades.verdict <> 'provider_error'
        AND (grades.verdict <> 'ungradable' OR coalesce(grades.rule_version, 1) >= $reading)
        AND answers.response IS NOT NULL
    QUALIFY row_number() OVER (PARTITION BY grades.question_type, cases.answer, answers.response
        ORDER BY grades.graded_at DESC, grades.rowid DESC) = 1"""

_STRICT = """
    SELECT trial_id, format, question_type, verdict, rule_version FROM grades {where} rule = 'mcq_strict'
    QUALIFY row_number() OVER (
        PARTITION BY trial_id, format, question_type ORDER BY graded_at DESC, rowid DESC) = 1"""
"""The verdict of the strict rule that counts."""

_TO_READ = f"""
    WITH mine AS (SELECT trial_id, case_key, content_hash, trial FROM trials WHERE run_id = $run_id),
    newest AS ({_STRICT.format(where="SEMI JOIN mine USING (trial_id) WHERE")})
    SELECT trial_id, case_key, content_hash, answers.format, answers.question_type, answers.response, newest.verdict
    FROM mine JOIN answers USING (trial_id) JOIN newest USING (trial_id, format, question_type)
    WHERE rule_version < $version AND answers.status = 'answered' AND answers.response IS NOT NULL
    ORDER BY trial, case_key, trial_id, answers.format, answers.question_type"""

_READ_BEFORE = f"""
    WITH newest AS ({_STRICT.format(where="WHERE")})
    SELECT run_id FROM newest JOIN trials USING (trial_id) JOIN runs USING (run_id)
    JOIN answers USING (trial_id, format, question_type)
    WHERE rule_version < $version AND answers.status = 'answered' AND answers.response IS NOT NULL
    GROUP BY run_id ORDER BY min(runs.created_at), run_id"""

_COUNT_READ_BEFORE = f"""
    WITH newest AS ({_STRICT.format(where="WHERE")})
    SELECT count(*) FROM newest AS verdicts JOIN selected USING (trial_id) JOIN seated USING (run_id)
    JOIN answers USING (trial_id, format, question_type)
    WHERE rule_version < $version AND answers.status = 'answered' AND answers.response IS NOT NULL AND {IN_ARMS}"""
