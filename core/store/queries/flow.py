"""What became of the trials and answers of runs, by outcome."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import duckdb

from core.events import EndReason, Format, QuestionType, Verdict
from core.store.counted_rule import BY_STRICT
from core.store.queries.answers import OF_ITS_TYPE, OF_SHARED
from core.store.selection import TRIALS, Selection, select
from core.store.tallies import count_selected


class TrialCount(NamedTuple):
    """The trials of a run with the same outcome.

    ``end_reason`` is ``None`` without the end of a conversation; ``where`` and ``failure`` are the first failure that
    a result depends on.
    """

    run_id: str
    status: str
    end_reason: EndReason | None
    where: str | None
    failure: str | None
    n: int


class AnswerCount(NamedTuple):
    """The answers in an arm of a run with the same verdict, by the run's own grader and the rule that counts.

    ``answered`` is false for answers that a trial that broke off does not have. ``development``: the case was used to
    write prompts. Without a verdict, ``verdict`` is ``ungraded``.
    """

    run_id: str
    format: Format
    question_type: QuestionType
    answered: bool
    development: bool
    verdict: Verdict | str
    n: int


@dataclass(frozen=True)
class FlowCounts:
    """The trials of runs by outcome, and their answers by verdict.

    ``counted`` are the answers without those of trials that another of the runs played with the same seed before.
    ``invalid`` maps reasons to the numbers of stored answers that have no reply to grade.
    """

    trials: tuple[TrialCount, ...]
    answers: tuple[AnswerCount, ...]
    counted: tuple[AnswerCount, ...]
    invalid: Mapping[str, int]


def flow_counts(cursor: duckdb.DuckDBPyConnection, runs: Sequence[str]) -> FlowCounts:
    """Return the numbers of trials and answers of these runs, each answer once.

    ``answers`` are all, ``counted`` those without repeats; a verdict of another grader than the run's own has no part
    in it.
    """
    chosen = Selection(runs=list(runs), development=True)
    conditions = select(cursor, chosen)
    # an answer stands once for each grader with a condition of its own: only the run's own condition is read
    cursor.register("judging", cursor.sql("SELECT * FROM judging WHERE whole").to_arrow_table())
    counted = None
    if any(condition.repeats for condition in conditions):
        count_selected(cursor, repeats=True)
        counted = _answers(cursor, chosen, "(FROM tallies UNION ALL BY NAME FROM selected_tallies)")
        cursor.execute("DELETE FROM repeats")
    answers = _answers(cursor, chosen, "tallies")
    names = {"runs": list(runs)}
    trials = tuple(TrialCount(*row) for row in cursor.execute(_TRIALS, names).fetchall())
    invalid = dict(cursor.execute(_INVALID, names).fetchall())
    return FlowCounts(trials, answers, answers if counted is None else counted, invalid)


def _answers(cursor: duckdb.DuckDBPyConnection, chosen: Selection, tallies: str) -> tuple[AnswerCount, ...]:
    sql = _ANSWERS.format(tallies=tallies)
    parameters = {**chosen.parameters(sql), "runs": list(chosen.runs or ())}
    return tuple(AnswerCount(*row) for row in cursor.execute(sql, parameters).fetchall())


_OF_RUNS = "list_contains($runs, run_id)"
_TRIALS = f"""
    SELECT run_id, status, end_reason, failed_where, failure, count(*) FROM trials WHERE {_OF_RUNS}
    GROUP BY ALL ORDER BY ALL"""
_INVALID = f"""
    SELECT coalesce(reason, 'ungradable') AS verdict, count(*)
    FROM answers JOIN (FROM trials WHERE {_OF_RUNS}) AS trials USING (trial_id)
    WHERE answers.status = 'invalid' GROUP BY ALL ORDER BY ALL"""
_SHARED_TRIALS = f"""
    SELECT trials.trial_id, trials.run_id, runs.protocol, coalesce(cases.development, false) AS development
    {TRIALS} WHERE list_contains($runs, trials.run_id)"""
_ANSWERS = f"""
    WITH {OF_SHARED}, loosely AS (
        SELECT trial_id, format, question_type, arg_max(verdict, ROW(graded_at, grades.rowid)) AS loose_verdict
        FROM grades SEMI JOIN (FROM of_shared WHERE starts_with(question_type, 'mcq')) AS choices USING (trial_id)
        WHERE rule = 'mcq_loose' GROUP BY trial_id, format, question_type
    ), counts AS (
        SELECT trials.run_id, format, question_type, answered, coalesce(cases.development, false) AS development,
            if({BY_STRICT}, strict, loose) AS verdict, n
        {TRIALS.replace("FROM trials", "FROM {tallies} AS trials")}
        ANTI JOIN shared ON shared.run_id = trials.run_id AND answered AND {OF_ITS_TYPE}
        WHERE list_contains($runs, trials.run_id)
        UNION ALL
        SELECT runs.run_id, format, question_type, true, development,
            CASE WHEN {BY_STRICT} OR invalid OR NOT starts_with(question_type, 'mcq') THEN judged.verdict
                 ELSE coalesce(loose_verdict, 'ungraded') END, 1
        FROM of_shared AS judged JOIN ({_SHARED_TRIALS}) AS runs USING (trial_id)
        LEFT JOIN loosely USING (trial_id, format, question_type)
    )
    SELECT run_id, format, question_type, answered, development, verdict, sum(n)::BIGINT AS n
    FROM counts GROUP BY ALL HAVING n > 0 ORDER BY ALL"""
