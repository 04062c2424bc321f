"""What the tables of the CRAFT-MD paper are made of: a release's verdicts case by case, in its data set's order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import duckdb

from core.events import COUNTED, Format, QuestionType
from core.store.release import OWN_CASES

Arm = tuple[Format, QuestionType]


@dataclass(frozen=True)
class ReleasedCase:
    """A case of a released run; ``position`` is its place in the data set's file, from 0."""

    case_key: str
    position: int
    dataset: str
    specialty: str
    single_diagnosis: bool | None


@dataclass(frozen=True)
class ReleasedRun:
    """A released model: its cases in order, and (arm, case key) → (correct trials, trials that are not missing)."""

    run_id: str
    model: str
    cases: list[ReleasedCase]
    counts: dict[tuple[Arm, str], tuple[int, int]]


def released_runs(cursor: duckdb.DuckDBPyConnection) -> list[ReleasedRun]:
    """Return the CRAFT-MD runs that were imported from a release, those with the most cases last.

    Those on cases that the results brought themselves (pictures) are left out: they are about other cases.
    ``mcq`` by the paper's rule, ``frq`` as the release's own grader judged: what came with the release, however
    it was graded later. A trial without
    a response or with an unreadable evaluation is missing.
    """
    cases: dict[tuple[str, str], list[ReleasedCase]] = {}
    for run_id, model, *fields in cursor.execute(_CASES).fetchall():
        cases.setdefault((run_id, model), []).append(ReleasedCase(*fields))
    counts: dict[str, dict[tuple[Arm, str], tuple[int, int]]] = {}
    for run_id, format_, question_type, key, *pair in cursor.execute(_COUNTS, {"counting": list(COUNTED)}).fetchall():
        counts.setdefault(run_id, {})[(format_, question_type), key] = (pair[0], pair[1])
    found = [ReleasedRun(run_id, model, held, counts.get(run_id, {})) for (run_id, model), held in cases.items()]
    return sorted(found, key=lambda run: len(run.cases))


class Overlooked(NamedTuple):
    """Answers that name the right choice and were judged wrong all the same, and on how many cases."""

    answers: int
    cases: int


def overlooked_answers(cursor: duckdb.DuckDBPyConnection) -> Overlooked:
    """Count what the paper's rule misses because of spaces around an answer in the release's files."""
    return Overlooked(*cursor.execute(_OVERLOOKED).fetchall()[0])


_RELEASED = f"runs.source = 'release' AND runs.protocol = 'craftmd' AND runs.case_set <> '{OWN_CASES}'"

_CASES = f"""
    SELECT run_id, doctor, run_cases.case_key, position, cases.dataset, specialty, single_diagnosis
    FROM runs JOIN run_cases USING (run_id) JOIN cases USING (case_key, content_hash)
    WHERE {_RELEASED}
    ORDER BY run_id, position, run_cases.case_key"""

_COUNTS = f"""
    WITH judged AS (
        SELECT trials.run_id, trials.case_key, grades.trial_id, grades.format, grades.question_type, grades.verdict
        FROM grades JOIN trials USING (trial_id) JOIN runs USING (run_id)
        WHERE {_RELEASED}
            AND (grades.rule = 'mcq_loose' OR grades.rule = 'frq' AND grades.grader = runs.grader)
        QUALIFY row_number() OVER (
            PARTITION BY grades.trial_id, grades.format, grades.question_type
            ORDER BY grades.graded_at, grades.rowid) = 1
    )
    SELECT run_id, judged.format, judged.question_type, case_key,
        count(*) FILTER (verdict = 'correct'), count(*) FILTER (list_contains($counting, verdict))
    FROM judged JOIN answers USING (trial_id, format, question_type)
    WHERE answers.status = 'answered'
    GROUP BY ALL"""

_OVERLOOKED = f"""
    SELECT count(*), count(DISTINCT trials.case_key)
    FROM grades JOIN answers USING (trial_id, format, question_type)
    JOIN trials ON trials.trial_id = grades.trial_id JOIN runs USING (run_id)
    JOIN cases ON cases.case_key = trials.case_key AND cases.content_hash = trials.content_hash
    WHERE {_RELEASED} AND rule = 'mcq_loose' AND verdict = 'incorrect'
        AND contains(lower(answers.response), lower(cases.answer))"""
