"""Verdicts of single trials, with the repeated gradings of an answer by the same grader under the same prompts."""

from __future__ import annotations

import duckdb
import pandas as pd

from core.events import COUNTED
from core.store.queries.answers import OUTCOMES
from core.store.queries.grades_by_grader import FREE, name_graders
from core.store.selection import IN_ARMS, Selection, select


def trial_gradings(cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None) -> pd.DataFrame:
    """Return a row for each answer of the selected conditions, in the order of conditions, cases and trials.

    Columns: model (the condition), format, question_type, case_key, verdict, ``counted``, and ``gradings``: whether
    each grading of the answer is right, one for a verdict by rule. Of a model's gradings only those with requests of
    their own count: a verdict that was reused is no second grading.
    """
    chosen = selection or Selection()
    select(cursor, chosen)
    name_graders(cursor)
    parameters = {**chosen.parameters(_GRADINGS), "counting": list(COUNTED), "free": list(FREE)}
    return cursor.execute(_GRADINGS, parameters).df()


_GRADINGS = f"""
    WITH {OUTCOMES}, asked AS (
        SELECT grades.trial_id, format, question_type, rule, grades.grader, coalesce(name, grades.grader) AS version,
            verdict = 'correct' AS is_right, graded_at
        FROM grades JOIN chosen USING (trial_id)
        LEFT JOIN graded_under ON graded_under.run_id = chosen.run_id AND graded_under.grader = grades.grader
            AND graded_under.stored_hash = coalesce(grades.prompt_hash, '')
        WHERE list_contains($free, rule) AND list_contains($counting, verdict) AND len(call_ids) > 0
        QUALIFY row_number() OVER (PARTITION BY grades.trial_id, format, question_type, rule, grades.grader, version,
            call_ids ORDER BY graded_at) = 1
    ), repeated AS (
        SELECT trial_id, format, question_type, rule, grader, list(is_right ORDER BY graded_at) AS gradings
        FROM asked GROUP BY trial_id, format, question_type, rule, grader, version
        QUALIFY row_number() OVER (PARTITION BY trial_id, format, question_type, rule, grader
            ORDER BY max(graded_at) DESC) = 1
    )
    SELECT model, format, question_type, trials.case_key, verdict, list_contains($counting, verdict) AS counted,
        coalesce(gradings, [verdict = 'correct']) AS gradings
    FROM outcomes AS verdicts JOIN trials USING (trial_id) JOIN selected USING (trial_id)
    LEFT JOIN repeated USING (trial_id, format, question_type, rule, grader)
    WHERE {IN_ARMS}
    ORDER BY place, format, question_type, trials.case_key, trials.trial, trial_id"""
