"""How often each case was right in each arm, what was excluded and why; the same by how conversations ended."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import duckdb
import pandas as pd

from core.events import COUNTED, Format, QuestionType, Rule, Verdict
from core.frameworks.conversation import FINAL_DIAGNOSIS
from core.store.selection import IN_ARMS, OUTCOMES, McqRule, Selection, select


@dataclass(frozen=True)
class CaseScore:
    """One case in one arm of one model: ``correct`` of ``counted`` trials were right, others were excluded."""

    model: str
    format: Format
    question_type: QuestionType
    case_key: str
    dataset: str | None
    specialty: str | None
    correct: int
    counted: int
    excluded: dict[Verdict | Literal["ungraded"], int]

    @property
    def score(self) -> float | None:
        """The share of counted trials that were right; ``None`` where none counts."""
        return self.correct / self.counted if self.counted else None


def case_scores(
    cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None, mcq_rule: McqRule = "mcq_loose"
) -> list[CaseScore]:
    """Return every case of every arm and condition: conditions in the order of ``select``, cases in that of their keys.

    Trials of a condition's runs are pooled.
    """
    chosen = replace(selection or Selection(), mcq_rule=mcq_rule)
    select(cursor, chosen)
    parameters = chosen.parameters(_CASE_SCORES) | {"rules": chosen.rules, "counting": list(COUNTED)}
    return [CaseScore(*row) for row in cursor.execute(_CASE_SCORES, parameters).fetchall()]


_CASE_SCORES = f"""
    WITH {OUTCOMES}, counts AS (
        SELECT model, place, verdicts.format, verdicts.question_type, case_key,
            any_value(dataset) AS dataset, any_value(specialty) AS specialty, verdict, count(*) AS n
        FROM outcomes AS verdicts JOIN chosen USING (trial_id)
        WHERE {IN_ARMS}
        GROUP BY ALL
    )
    SELECT model, format, question_type, case_key, any_value(dataset), any_value(specialty),
        coalesce(sum(n) FILTER (verdict = 'correct'), 0)::BIGINT,
        coalesce(sum(n) FILTER (list_contains($counting, verdict)), 0)::BIGINT,
        coalesce(map_from_entries(list((verdict, n)) FILTER (NOT list_contains($counting, verdict))), MAP {{}})
    FROM counts
    GROUP BY model, place, format, question_type, case_key
    ORDER BY place, format, question_type, case_key"""


_NAMES = ("model", "format", "question_type", "case_key", "case_set", "dataset", "specialty", "end_reason")


def conversation_endings(cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None) -> pd.DataFrame:
    """Return a row for each trial of a selection's conditions; those with clinical staff end by tags and are left out.

    Columns: model (the condition), case_set (what case keys begin with), case_key, dataset, specialty, end_reason
    (missing where there was no conversation), doctor_turns (without the greeting) and ``concluded``: whether the last
    message holds the words "final diagnosis", in any case of letters.
    """
    select(cursor, selection)
    return _table(cursor, _ENDINGS, {})


def ending_outcomes(cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None) -> pd.DataFrame:
    """Return how often each case was right in each arm, apart by how its conversations ended.

    Columns: those of ``conversation_endings`` but the turns, format, question_type, and numbers of answers: ``answers``
    in all, ``counted`` and ``correct`` by the loose multiple-choice rule, ``strict_counted`` and ``strict_correct`` by
    the strict one, ``differ`` where just one of the rules says correct. Other question types have one rule. Of those
    that do not count, ``excluded`` are all to questions that the case allows, ``refused`` among them, and the same by
    the strict rule.
    """
    rules: list[Rule] = ["mcq_loose", "mcq_strict", "frq", "frq_top3"]
    select(cursor, selection)
    return _table(cursor, _OUTCOMES, {"rules": rules, "counting": list(COUNTED)})


def _table(cursor: duckdb.DuckDBPyConnection, sql: str, parameters: dict[str, Any]) -> pd.DataFrame:
    table = cursor.execute(sql, parameters).df()
    return table.astype({name: "category" for name in table.columns if name in _NAMES})


_LAST = f"""last AS (
        SELECT trial_id, contains(lower(arg_max(text, position)), '{FINAL_DIAGNOSIS.lower()}') AS concluded
        FROM utterances GROUP BY trial_id
    ), held AS (
        SELECT chosen.*, trial, end_reason, doctor_turns, split_part(chosen.case_key, '/', 1) AS case_set,
            coalesce(concluded, false) AS concluded
        FROM chosen JOIN trials USING (trial_id) LEFT JOIN last USING (trial_id) WHERE NOT staffed
    )"""

_ENDINGS = f"""
    WITH {_LAST}
    SELECT model, case_set, case_key, dataset, specialty, end_reason, concluded, doctor_turns
    FROM held JOIN seated USING (run_id) ORDER BY place, case_key, trial"""

_OUTCOMES = f"""
    WITH {OUTCOMES}, {_LAST}, by_rule AS (
        SELECT trial_id, format, question_type, model, place,
            any_value(verdict) FILTER (coalesce(rule, '') <> 'mcq_strict') AS loose,
            any_value(verdict) FILTER (coalesce(rule, '') <> 'mcq_loose') AS strict
        FROM outcomes GROUP BY ALL
    )
    SELECT model, format, question_type, any_value(case_set) AS case_set, case_key, any_value(dataset) AS dataset,
        any_value(specialty) AS specialty,
        end_reason, concluded, count(*) AS answers,
        count(*) FILTER (list_contains($counting, loose)) AS counted, count(*) FILTER (loose = 'correct') AS correct,
        count(*) FILTER (list_contains($counting, strict)) AS strict_counted,
        count(*) FILTER (strict = 'correct') AS strict_correct,
        count(*) FILTER ((loose = 'correct') <> (strict = 'correct')) AS differ,
        count(*) FILTER (NOT list_contains($counting, loose) AND loose <> 'not_applicable') AS excluded,
        count(*) FILTER (loose = 'refused') AS refused,
        count(*) FILTER (NOT list_contains($counting, strict) AND strict <> 'not_applicable') AS strict_excluded,
        count(*) FILTER (strict = 'refused') AS strict_refused
    FROM by_rule JOIN held USING (trial_id)
    GROUP BY model, place, format, question_type, case_key, end_reason, concluded
    ORDER BY place, format, question_type, case_key, end_reason, concluded"""


@dataclass(frozen=True)
class Course:
    """Conversations of one condition: how many, the doctor's mean turns without the greeting, and why they ended."""

    model: str
    conversations: int
    mean_turns: float | None
    endings: dict[str, int] = field(default_factory=dict)


def courses(cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None) -> dict[str, Course]:
    """Return condition → the course of its conversations."""
    select(cursor, selection)
    return {row[0]: Course(*row) for row in cursor.execute(_COURSES).fetchall()}


_COURSES = """
    WITH talks AS (
        SELECT model, place, end_reason, doctor_turns
        FROM chosen JOIN seated USING (run_id) JOIN trials USING (trial_id) WHERE end_reason IS NOT NULL
    ), counts AS (
        SELECT model, place, end_reason, count(*) AS n, sum(doctor_turns) AS turns FROM talks GROUP BY ALL
    )
    SELECT model, sum(n)::BIGINT, sum(turns) / sum(n), map_from_entries(list((end_reason, n) ORDER BY n DESC))
    FROM counts GROUP BY model, place ORDER BY place"""
