"""What became of the cases, trials and answers of runs: the numbers behind a flow diagram."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import duckdb

from core.events import COUNTED, EndReason, Format, QuestionType, Verdict
from core.store.conditions import ACCEPTED, FREE_RULES
from core.store.queries.answers import OF_ITS_TYPE, OF_SHARED
from core.store.selection import BY_STRICT, TRIALS, Selection, select
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


class InvalidCount(NamedTuple):
    """The answers in an arm of a run that have no reply to grade, by reason."""

    run_id: str
    format: Format
    question_type: QuestionType
    verdict: Verdict
    n: int


@dataclass(frozen=True)
class Evaluators:
    """Who judged the answers and conversations of runs.

    ``graders`` maps each grader to its number of verdicts; the rules are the grader "rule". ``people`` is the number of
    people with an annotation of ``items`` conversations or answers. Of ``by_rules`` answers with counting verdicts by
    both rules for choices, ``rules_differ`` are right by one rule only; of ``by_graders`` answers with counting
    verdicts of several graders, ``graders_differ`` are right by some of them only.
    """

    graders: dict[str, int]
    people: int
    items: int
    by_rules: int
    rules_differ: int
    by_graders: int
    graders_differ: int


@dataclass(frozen=True)
class FlowCounts:
    """The trials of runs by outcome, and their answers by verdict.

    ``counted`` are the answers without those of trials that another of the runs played with the same seed before.
    ``cases`` is the number of different cases with a trial, ``cases_by_run`` their sum over the runs.
    ``first_at`` and ``last_at`` are the times of the first and the last trial of runs that are no releases, in seconds
    since 1970, ``None`` without any.
    """

    trials: tuple[TrialCount, ...]
    answers: tuple[AnswerCount, ...]
    counted: tuple[AnswerCount, ...]
    invalid: tuple[InvalidCount, ...]
    cases: int
    cases_by_run: int
    first_at: float | None
    last_at: float | None


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
    invalid = tuple(InvalidCount(*row) for row in cursor.execute(_INVALID, names).fetchall())
    span = cursor.execute(_SPAN, names).fetchall()[0]
    return FlowCounts(trials, answers, answers if counted is None else counted, invalid, *span)


def _answers(cursor: duckdb.DuckDBPyConnection, chosen: Selection, tallies: str) -> tuple[AnswerCount, ...]:
    sql = _ANSWERS.format(tallies=tallies)
    parameters = {**chosen.parameters(sql), "runs": list(chosen.runs or ())}
    return tuple(AnswerCount(*row) for row in cursor.execute(sql, parameters).fetchall())


def evaluators(cursor: duckdb.DuckDBPyConnection, runs: Sequence[str]) -> Evaluators:
    """Return who judged the answers and conversations of these runs."""
    values = {"runs": list(runs)}
    graders = dict(cursor.execute(_GRADERS, values).fetchall())
    people, items = cursor.execute(_PEOPLE, values).fetchall()[0]
    counting = {**values, "counting": list(COUNTED)}
    by_rules = cursor.execute(_RULES_DIFFER, counting).fetchall()[0]
    by_graders = cursor.execute(_GRADERS_DIFFER, {**counting, "free": list(FREE_RULES)}).fetchall()[0]
    return Evaluators(graders, people, items, *by_rules, *by_graders)


_OF_RUNS = "list_contains($runs, run_id)"
_TRIALS = f"""
    SELECT run_id, status, end_reason, failed_where, failure, count(*) FROM trials WHERE {_OF_RUNS}
    GROUP BY ALL ORDER BY ALL"""
_INVALID = f"""
    SELECT run_id, format, question_type, coalesce(reason, 'ungradable') AS verdict, count(*)
    FROM answers JOIN (FROM trials WHERE {_OF_RUNS}) AS trials USING (trial_id)
    WHERE answers.status = 'invalid' GROUP BY ALL ORDER BY ALL"""
_SPAN = f"""
    SELECT count(DISTINCT case_key), count(DISTINCT (run_id, case_key)),
        min(coalesce(started_at, finished_at)) FILTER (source <> 'release'),
        max(finished_at) FILTER (source <> 'release')
    FROM trials JOIN runs USING (run_id) WHERE {_OF_RUNS}"""
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
_GRADERS = (
    f"SELECT grader, sum(n)::BIGINT AS n FROM judged WHERE {_OF_RUNS} GROUP BY grader HAVING n > 0 ORDER BY grader"
)
_PEOPLE = f"""
    SELECT count(DISTINCT annotator), count(DISTINCT item) FROM annotations
    WHERE value IS NOT NULL AND regexp_matches(item, '^(talk|answer):') AND split_part(item, ':', 2) IN (
        SELECT trial_id FROM trials WHERE {_OF_RUNS})"""
_RULES_DIFFER = f"""
    SELECT coalesce(sum(n), 0)::BIGINT, coalesce(sum(n) FILTER ((loose = 'correct') <> (strict = 'correct')), 0)::BIGINT
    FROM tallies WHERE {_OF_RUNS} AND answered AND starts_with(question_type, 'mcq')
        AND list_contains($counting, loose) AND list_contains($counting, strict)"""
_SEVERAL_GRADERS = f"""
    SELECT run_id, rule FROM (
        SELECT run_id, rule, grader FROM judged
        WHERE {_OF_RUNS} AND list_contains($free, rule) AND NOT starts_with(prompt_hash, '{ACCEPTED}')
        GROUP BY ALL HAVING sum(n) > 0
    ) GROUP BY ALL HAVING count(*) > 1"""
_GRADERS_DIFFER = f"""
    SELECT count(*), count(*) FILTER (least_right <> most_right) FROM (
        SELECT min("right") AS least_right, max("right") AS most_right FROM (
            SELECT trial_id, format, question_type, rule, grader,
                arg_max(verdict = 'correct', ROW(graded_at, grades.rowid)) AS "right"
            FROM grades JOIN trials USING (trial_id) SEMI JOIN ({_SEVERAL_GRADERS}) AS several USING (run_id, rule)
            WHERE list_contains($counting, verdict) AND NOT starts_with(coalesce(prompt_hash, ''), '{ACCEPTED}')
            GROUP BY ALL
        ) GROUP BY trial_id, format, question_type, rule HAVING count(*) > 1
    )"""
