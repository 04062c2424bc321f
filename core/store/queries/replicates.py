"""Replicates, which measure noise: answers given again to the same dialogue, and gradings of an answer made again.

An answer has a number, 0 for the answer of the run, and so has each grading of it; grading 0 of answer 0 is the verdict
in ``grades`` that counts. Replicates count in no figure but those of noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import duckdb
import pandas as pd

from core.events import COUNTED, Format, QuestionType
from core.store.queries.answers import OUTCOMES
from core.store.queries.cases import CaseKey
from core.store.selection import IN_ARMS, Selection, select


class AnswerReplicate(NamedTuple):
    """An answer of a trial with its number, 0 for that of the run; ``response`` is ``None`` if there is none to grade.

    ``gradings`` are the numbers of its stored gradings by one grader.
    """

    format: Format
    question_type: QuestionType
    answer: int
    response: str | None
    gradings: tuple[int, ...]


@dataclass(frozen=True)
class TrialToReplicate:
    """A stored trial with its answers and their replicates. ``ended``: its conversation, if any, ended regularly."""

    trial_id: str
    case: CaseKey
    number: int
    seed: int
    ended: bool
    answers: tuple[AnswerReplicate, ...]


def trials_to_replicate(
    cursor: duckdb.DuckDBPyConnection, run_id: str, grader: str, prompt_hash: str, limit: int | None = None
) -> list[TrialToReplicate]:
    """Return the finished trials of a run by number and case, so that the first N have each case before a second time.

    Answers given again are returned with the gradings by ``grader`` under these prompts.
    """
    trials = cursor.execute(_TRIALS, {"run_id": run_id, "limit": limit}).fetchall()
    parameters = {"run_id": run_id, "grader": grader, "prompt_hash": prompt_hash}
    answers: dict[str, list[AnswerReplicate]] = {}
    for trial_id, format_, question_type, answer, response, gradings in cursor.execute(_ANSWERS, parameters).fetchall():
        stored = AnswerReplicate(format_, question_type, answer, response, tuple(gradings or ()))
        answers.setdefault(trial_id, []).append(stored)
    return [
        TrialToReplicate(trial_id, (case_key, content_hash), number, seed, ended, tuple(answers.get(trial_id, ())))
        for trial_id, case_key, content_hash, number, seed, ended in trials
    ]


def noise_scores(cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None) -> pd.DataFrame:
    """Return a row for each answer and grading of the selected conditions, with those that count as number 0.

    Columns: model (the condition), format, question_type, case_key, trial_id, answer, grading, verdict, ``counted``,
    ``correct``, grader (missing for an answer without a verdict), ``shared``: whether another answer of the arm has its
    verdict from the same call of the grader. In the order of conditions, cases and trials. A replicate has the rule and
    the grader of the verdict that counts; replicates by other graders are left out.
    """
    chosen = selection or Selection()
    select(cursor, chosen)
    parameters = {**chosen.parameters(_SCORES), "counting": list(COUNTED)}
    return cursor.execute(_SCORES, parameters).df()


def graders_of_replicates(cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None) -> Sequence[str]:
    """Return the graders of the replicates of the selected trials, in alphabetical order."""
    select(cursor, selection)
    sql = """
        SELECT DISTINCT grader FROM replicates SEMI JOIN chosen USING (trial_id)
        WHERE grader NOT IN ('', 'rule')"""
    return sorted(grader for (grader,) in cursor.execute(sql).fetchall())


_TRIALS = """
    SELECT trial_id, case_key, content_hash, trial, seed,
        end_reason IS NULL OR end_reason NOT IN ('error', 'refusal') AS ended
    FROM trials WHERE run_id = $run_id AND status = 'finished' ORDER BY trial, case_key, trial_id LIMIT $limit"""

_ANSWERS = """
    SELECT trial_id, format, question_type, 0 AS answer, if(answers.status = 'answered', answers.response, NULL),
        own.gradings
    FROM answers JOIN trials USING (trial_id)
    LEFT JOIN (
        SELECT trial_id, format, question_type, list(DISTINCT grading) AS gradings FROM replicates
        WHERE answer = 0 AND grader = $grader AND prompt_hash = $prompt_hash GROUP BY ALL
    ) AS own USING (trial_id, format, question_type)
    WHERE run_id = $run_id
    UNION ALL
    SELECT trial_id, format, question_type, answer, arg_max(response, judged_at),
        list(DISTINCT grading) FILTER (grader = $grader AND prompt_hash = $prompt_hash)
    FROM replicates JOIN trials USING (trial_id) WHERE run_id = $run_id AND answer > 0
    GROUP BY trial_id, format, question_type, answer
    ORDER BY trial_id, answer, format, question_type"""

COUNTING = f"""{OUTCOMES}, counting AS (
        SELECT verdicts.*, trials.case_key, trials.trial AS number, newest.prompt_hash AS prompts,
            len(coalesce(newest.call_ids, [])) > 0 AND greatest(
                count(*) OVER (PARTITION BY model, verdicts.format, verdicts.question_type, newest.call_ids[1]),
                count(*) OVER (PARTITION BY model, verdicts.format, verdicts.question_type, newest.call_ids[-1])
            ) > 1 AS shared
        FROM outcomes AS verdicts JOIN trials USING (trial_id) JOIN selected USING (trial_id)
        LEFT JOIN newest_grades AS newest ON newest.trial_id = verdicts.trial_id AND newest.format = verdicts.format
            AND newest.question_type = verdicts.question_type AND newest.rule = verdicts.rule
            AND newest.grader = verdicts.grader
        WHERE {IN_ARMS}
    ), judges AS (
        SELECT model, format, question_type, any_value(rule) AS rule, any_value(grader) AS grader,
            coalesce(any_value(prompts), '') AS prompts
        FROM counting WHERE rule IS NOT NULL AND grader IS NOT NULL GROUP BY model, format, question_type
    )"""
"""Queries up to ``counting``, the verdicts that count of the selected conditions, and ``judges``, who gave them.

``shared``: whether another answer of the arm has its verdict from the same call of the grader. Needs what ``OUTCOMES``
needs.
"""
SAME_JUDGE = """
    (given.rule = '' OR given.rule = judges.rule AND given.grader = judges.grader
        AND (given.prompt_hash = judges.prompts OR '' IN (given.prompt_hash, judges.prompts)))"""
"""Condition: a row of ``given`` is by the grader of the verdict that counts, with the same prompts, or has no answer.

An empty hash stands for the run's own prompts.
"""

_SCORES = f"""
    WITH {COUNTING}, again AS (
        SELECT trial_id, format, question_type, answer, grading, given.verdict, given.grader, model, place, case_key,
            number, false AS shared
        FROM replicates AS given
        JOIN counting USING (trial_id, format, question_type)
        JOIN judges USING (model, format, question_type)
        WHERE {SAME_JUDGE}
        QUALIFY row_number() OVER (PARTITION BY trial_id, format, question_type, model, answer, grading
            ORDER BY judged_at DESC) = 1
    )
    SELECT model, format, question_type, case_key, trial_id, answer, grading, verdict,
        list_contains($counting, verdict) AS counted, verdict = 'correct' AS correct, grader, shared
    FROM (
        SELECT model, place, format, question_type, case_key, number, trial_id, 0 AS answer, 0 AS grading, verdict,
            grader, shared
        FROM counting
        UNION ALL BY NAME SELECT * FROM again
    ) ORDER BY place, format, question_type, case_key, number, trial_id, answer, grading"""
