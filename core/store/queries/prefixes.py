"""Answers of solvers who were shown the beginning of a stored conversation only: what can be asked, what came of it.

Conversations that came to a regular end count, those with clinical staff aside. Of several answers of a solver at one
share of a dialogue, judged by one grader, the newest that no provider broke counts, as long as the case is the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import duckdb
import pandas as pd

from core.events import QuestionType, Verdict
from core.store.selection import Selection, select


class Solver(NamedTuple):
    """Who answers, under which prompt, and who grades it under which: answers of different ones are never pooled.

    Hashes are empty for rules, and all of the grader for choices.
    """

    question_type: QuestionType
    solver: str
    prompt_hash: str
    grader: str
    grader_prompts: str


class PrefixAnswer(NamedTuple):
    """A row of the table: what came at a ``share`` of a dialogue, in per cent; the ``messages`` of it were shown."""

    trial_id: str
    content_hash: str
    question_type: QuestionType
    share: int
    messages: int
    solver: str
    prompt_hash: str
    grader: str
    grader_prompts: str
    response: str | None
    verdict: Verdict | None
    extracted: str | None
    detail: str
    call_ids: Sequence[str]
    answered_at: float

    @property
    def by(self) -> Solver:
        """Who answered, and who graded it."""
        return Solver(self.question_type, self.solver, self.prompt_hash, self.grader, self.grader_prompts)


class TalkToSolve(NamedTuple):
    """A conversation whose question can be asked of a solver.

    ``grader`` is that of its run and ``arms`` what was asked in it, ``exchanges`` roughly how many it has, and
    ``characters`` the length of its messages and of the question with its choices.
    """

    trial_id: str
    case_key: str
    content_hash: str
    number: int
    seed: int
    grader: str
    arms: Sequence[str]
    choices: int
    exchanges: int
    characters: int


def talks_to_solve(
    cursor: duckdb.DuckDBPyConnection, selection: Selection, limit: int | None = None
) -> list[TalkToSolve]:
    """Return the selected conversations in an order as if shuffled, always the same; only the first ``limit``.

    So the first N are a random sample of them, and more go on with it.
    """
    select(cursor, selection)
    return [TalkToSolve(*row) for row in cursor.execute(_TO_SOLVE, {"limit": limit}).fetchall()]


def answers_by(
    cursor: duckdb.DuckDBPyConnection, solver: str, prompt_hash: str, trials: Sequence[str]
) -> list[PrefixAnswer]:
    """Return what counts of a solver's answers about these conversations, by any grader."""
    values = {"solver": solver, "prompt_hash": prompt_hash, "trials": list(trials)}
    return [PrefixAnswer(*row) for row in cursor.execute(_BY, values).fetchall()]


def prefix_answers(cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None) -> pd.DataFrame:
    """Return a row for each answer that counts, about the selected conversations, by condition, case and trial.

    Columns: model, case_key, dataset, specialty, ``trial`` (its number), those of ``PrefixAnswer``, and ``answer`` and
    ``choices`` of the case.
    """
    select(cursor, selection)
    return cursor.execute(_ANSWERS).df()


def solvable(cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None) -> pd.DataFrame:
    """Return a row for each condition and case: how many ``conversations`` could be asked about.

    Columns: model, case_key, dataset, specialty, ``choices`` of the case, conversations.
    """
    select(cursor, selection)
    return cursor.execute(_SOLVABLE).df()


_TALKS = """talks AS (
        SELECT chosen.*, model, place, trials.trial, trials.seed, end_reason, cases.question, cases.choices,
            cases.answer
        FROM chosen JOIN seated USING (run_id) JOIN trials USING (trial_id)
        JOIN cases ON cases.case_key = chosen.case_key AND cases.content_hash = chosen.content_hash
        WHERE NOT staffed AND end_reason IN ('final_diagnosis', 'no_question', 'turn_cap')
    )"""
_TO_SOLVE = f"""
    WITH {_TALKS}, drawn AS (FROM talks ORDER BY md5(trial_id), trial_id LIMIT $limit),
    said AS (
        SELECT *, min(turn) FILTER (role = 'patient') OVER (PARTITION BY trial_id) AS opening
        FROM utterances SEMI JOIN drawn USING (trial_id)
    ), counts AS (
        SELECT trial_id, count(*) FILTER (role <> 'patient' AND turn > opening) AS asked, sum(length(text)) AS length
        FROM said GROUP BY trial_id
    )
    SELECT trial_id, case_key, content_hash, trial, drawn.seed, grader, arms, len(choices),
        greatest(0, asked - (end_reason <> 'turn_cap')::INT),
        (length + length(question) + length(array_to_string(choices, ' ')))::BIGINT
    FROM drawn JOIN counts USING (trial_id) JOIN runs USING (run_id) ORDER BY md5(trial_id), trial_id"""
_COUNTING = """counting AS (
        SELECT * FROM prefix_answers
        QUALIFY row_number() OVER (
            PARTITION BY trial_id, content_hash, question_type, share, solver, prompt_hash, grader, grader_prompts
            ORDER BY (verdict IS DISTINCT FROM 'provider_error') DESC, answered_at DESC, rowid DESC) = 1
    )"""
_BY = f"""
    WITH {_COUNTING} SELECT {", ".join(PrefixAnswer._fields)} FROM counting
    WHERE solver = $solver AND prompt_hash = $prompt_hash AND trial_id IN (SELECT unnest($trials::VARCHAR[]))
    ORDER BY answered_at, trial_id, share"""
_ANSWERS = f"""
    WITH {_TALKS}, {_COUNTING}
    SELECT model, case_key, dataset, specialty, trial, counting.*, answer, choices
    FROM talks JOIN counting USING (trial_id, content_hash) ORDER BY place, case_key, trial_id, question_type, share"""
_SOLVABLE = f"""
    WITH {_TALKS}
    SELECT model, case_key, any_value(dataset) AS dataset, any_value(specialty) AS specialty,
        min(len(choices)) AS choices, count(*) AS conversations
    FROM talks GROUP BY model, place, case_key ORDER BY place, case_key"""
