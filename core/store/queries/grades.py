"""Grades of answers, and the answers that a re-grading has to judge.

Free responses are judged by graders, choices by the strict rule (``core.agents.mcq``): its verdicts have its version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb

from core.events import Format, Graded, QuestionType, Rule, Verdict
from core.store.conditions import ACCEPTED
from core.store.queries.cases import CaseKey
from core.store.selection import IN_ARMS, Selection, select
from core.store.tables import records


def latest_grades(cursor: duckdb.DuckDBPyConnection, trial_id: str) -> list[Graded]:
    """Return the grades that count: the newest of each arm and rule."""
    return _grades(cursor, "newest_grades", trial_id)


def grade_history(cursor: duckdb.DuckDBPyConnection, trial_id: str) -> list[Graded]:
    """Return every grade of the answers of a trial, the oldest first."""
    return _grades(cursor, "grades", trial_id)


def _grades(cursor: duckdb.DuckDBPyConnection, table: str, trial_id: str) -> list[Graded]:
    sql = f"""
        SELECT format, question_type, grader, rule, extracted, verdict, call_ids, graded_at AS at, prompt_hash,
            rule_version
        FROM {table} WHERE trial_id = ? ORDER BY graded_at"""
    return [Graded(**row) for row in records(cursor.execute(sql, [trial_id]))]


@dataclass(frozen=True)
class AnswerToGrade:
    """A stored answer and its current verdict.

    The verdict on a free response is that of ``grader`` with prompts of ``prompt_hash`` (empty: those of the run, or
    none); all are ``None`` if it is not judged yet. An answer with choices is read by the strict rule.
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
    extracted: str | None = None

    @property
    def case(self) -> CaseKey:
        return self.case_key, self.content_hash


@dataclass(frozen=True)
class EarlierVerdict:
    """A grader's verdict on a response to a case with this answer, and the calls behind it."""

    question_type: QuestionType
    answer: str
    response: str
    extracted: str | None
    verdict: Verdict
    call_ids: Sequence[str]


def answers_to_grade(
    cursor: duckdb.DuckDBPyConnection,
    run_id: str,
    rules: Mapping[QuestionType, Rule],
    limit: int | None = None,
    *,
    accepting: str = "",
) -> list[AnswerToGrade]:
    """Return the answers of a run to questions of these types, ordered by trial number, case and trial.

    ``rules`` is question type → the rule under which its present verdict is stored. ``accepting`` is the prompt hash
    of verdicts that count further accepted answers; others have no such verdict.
    """
    parameters: dict[str, Any] = {
        "run_id": run_id, "types": list(rules), "rules": list(rules.values()), "limit": limit,
        "accepting": accepting, "prefix": ACCEPTED,
    }  # fmt: skip
    return [AnswerToGrade(*row) for row in cursor.execute(_TO_GRADE, parameters).fetchall()]


def earlier_verdicts(
    cursor: duckdb.DuckDBPyConnection, model: str, prompt_hash: str, reading: int = 1
) -> list[EarlierVerdict]:
    """Return a model's verdicts with these prompts in earlier gradings, the newest of each answer and response.

    Verdicts that a version of the parser before ``reading`` could not read are omitted: they may be readable now. The
    name of a prompt pack after that of the model (``openai/gpt-4o [mine]``) is ignored if the prompts are equal.
    """
    rows = cursor.execute(_EARLIER, {"model": model, "prompt_hash": prompt_hash, "reading": reading}).fetchall()
    return [EarlierVerdict(*row) for row in rows]


def choices_to_read(cursor: duckdb.DuckDBPyConnection, run_id: str, version: int) -> list[AnswerToGrade]:
    """Return a run's answers that the strict rule read in a version before ``version``, by trial number and case."""
    rows = cursor.execute(_TO_READ, {"run_id": run_id, "version": version}).fetchall()
    return [AnswerToGrade(*row) for row in rows]


def runs_read_before(cursor: duckdb.DuckDBPyConnection, version: int) -> list[str]:
    """Return the ids of the runs for which ``choices_to_read`` returns answers, the oldest first."""
    return [run_id for (run_id,) in cursor.execute(_READ_BEFORE, {"version": version}).fetchall()]


def count_read_before(cursor: duckdb.DuckDBPyConnection, version: int, selection: Selection | None = None) -> int:
    """Return the number of selected answers that the strict rule read in a version before ``version``."""
    chosen = selection or Selection()
    select(cursor, chosen, without=("reader",))
    parameters = chosen.parameters(_COUNT_READ_BEFORE) | {"version": version}
    (count,) = cursor.execute(_COUNT_READ_BEFORE, parameters).fetchone() or (0,)
    return int(count)


_MODEL = "split_part(grades.grader, ' [', 1)"
"""The model of a stored grader, whose name may end with that of a prompt pack."""

_TO_GRADE = """
    WITH of_run AS (SELECT trial_id, case_key, content_hash, trial FROM trials WHERE run_id = $run_id),
    newest AS (
        SELECT trial_id, format, question_type, verdict, grader, prompt_hash, rule_version, extracted
        FROM grades SEMI JOIN of_run USING (trial_id)
        WHERE list_contains($rules, rule)
            AND if(starts_with(coalesce(prompt_hash, ''), $prefix), prompt_hash, '') = $accepting
        QUALIFY row_number() OVER (
            PARTITION BY trial_id, format, question_type, rule ORDER BY graded_at DESC, rowid DESC) = 1
    )
    SELECT trial_id, case_key, content_hash, answers.format, answers.question_type, answers.response,
        newest.verdict, newest.grader, newest.prompt_hash, newest.rule_version, newest.extracted
    FROM of_run JOIN answers USING (trial_id) LEFT JOIN newest USING (trial_id, format, question_type)
    WHERE answers.status = 'answered' AND answers.response IS NOT NULL AND list_contains($types, answers.question_type)
    ORDER BY trial, case_key, trial_id, answers.format, answers.question_type LIMIT $limit"""

_EARLIER = f"""
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
"""The newest verdict of the strict rule."""

_TO_READ = f"""
    WITH of_run AS (SELECT trial_id, case_key, content_hash, trial FROM trials WHERE run_id = $run_id),
    newest AS ({_STRICT.format(where="SEMI JOIN of_run USING (trial_id) WHERE")})
    SELECT trial_id, case_key, content_hash, answers.format, answers.question_type, answers.response, newest.verdict
    FROM of_run JOIN answers USING (trial_id) JOIN newest USING (trial_id, format, question_type)
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
