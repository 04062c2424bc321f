"""Answers with choices that a grader judged as well as a rule: verdicts of both, counted and one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import duckdb

from core.events import Format, QuestionType, Rule, Verdict
from core.store.queries.grades_by_grader import select_graders
from core.store.selection import IN_ARMS, Selection
from core.store.tables import records

JUDGED: tuple[Rule, ...] = ("mcq_graded", "mcq_many")
"""Rules of the verdicts of graders on choices."""
RULES: tuple[Rule, ...] = ("mcq_loose", "mcq_strict")


class ChoiceVerdicts(NamedTuple):
    """``n`` answers to one case in one arm of one model with the same verdicts of a rule and of a grader.

    Without a ``grader`` it counts all answers that the rule judged, whoever judged them as well.
    """

    model: str
    format: Format
    question_type: QuestionType
    rule: Rule
    grader: str | None
    case_key: str
    by_rule: Verdict
    by_grader: Verdict | None
    n: int


def choice_verdicts(cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None) -> list[ChoiceVerdicts]:
    """Count the combinations of the newest verdicts of rules and graders on the answers with choices of a selection.

    Graders are compared with rules, so they are not part of the conditions here; provider errors are no verdicts.
    """
    return [ChoiceVerdicts(*row) for row in _execute(cursor, selection, _COUNTS).fetchall()]


def differing_choices(
    cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the answers that a rule or a grader alone calls correct, by case, model, arm and trial."""
    yield from records(_execute(cursor, selection, _DIFFERING))


def _execute(cursor: duckdb.DuckDBPyConnection, selection: Selection | None, sql: str) -> duckdb.DuckDBPyConnection:
    chosen = selection or Selection()
    select_graders(cursor, chosen, JUDGED)
    return cursor.execute(sql, chosen.parameters(sql) | {"judged": list(JUDGED), "rules": list(RULES)})


_NEWEST = """
    QUALIFY row_number() OVER (
        PARTITION BY trial_id, format, question_type, {by} ORDER BY graded_at DESC, {place} DESC) = 1"""
_JUDGED_BY_BOTH = f"""
    WITH by_grader AS (
        SELECT trial_id, format, question_type, grader, verdict AS by_grader, extracted AS read_as FROM named_grades
        WHERE list_contains($judged, rule) AND verdict <> 'provider_error' {_NEWEST.format(by="grader", place="place")}
    ), by_rule AS (
        SELECT trial_id, format, question_type, rule, verdict AS by_rule FROM grades
        WHERE list_contains($rules, rule) AND question_type IN ('mcq', 'mcq_many')
        {_NEWEST.format(by="rule", place="rowid")}
    ), of_selection AS (
        SELECT verdicts.*, model, seated.place, selected.case_key, selected.content_hash
        FROM by_rule AS verdicts JOIN selected USING (trial_id) JOIN seated USING (run_id)
        ANTI JOIN repeats ON repeats.trial_id = verdicts.trial_id AND repeats.format = verdicts.format
            AND repeats.question_type = verdicts.question_type AND repeats.whole
        WHERE {IN_ARMS}
    ), by_both AS (FROM of_selection JOIN by_grader USING (trial_id, format, question_type))"""
_COUNTS = f"""
    {_JUDGED_BY_BOTH}
    SELECT model, format, question_type, rule, grader, case_key, by_rule, by_grader, count(*)
    FROM (
        SELECT model, place, format, question_type, rule, grader, case_key, by_rule, by_grader FROM by_both
        UNION ALL SELECT model, place, format, question_type, rule, NULL, case_key, by_rule, NULL FROM of_selection
    )
    GROUP BY model, place, format, question_type, rule, grader, case_key, by_rule, by_grader
    ORDER BY place, question_type, format, grader, rule, case_key, by_rule, by_grader"""
_DIFFERING = f"""
    {_JUDGED_BY_BOTH}
    SELECT model, by_both.case_key AS case, trial + 1 AS trial, format, question_type, cases.answer,
        answers.response, rule, by_rule, grader, read_as, by_grader, trial_id
    FROM by_both JOIN answers USING (trial_id, format, question_type)
    JOIN (SELECT trial_id, trial FROM trials) USING (trial_id)
    LEFT JOIN cases ON cases.case_key = by_both.case_key AND cases.content_hash = by_both.content_hash
    WHERE (by_rule = 'correct') <> (by_grader = 'correct')
    ORDER BY length(by_both.case_key), by_both.case_key, place, format, question_type, trial, rule, grader"""
