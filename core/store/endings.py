"""How conversations ended, and what the answers given after them came to under either multiple-choice rule."""

from __future__ import annotations

from typing import Any

import duckdb
import pandas as pd

from core.events import COUNTED, Rule
from core.frameworks.conversation import FINAL_DIAGNOSIS
from core.store.selection import NO_ARM, OUTCOMES, SELECTED, Selection, select

_NAMES = ("model", "format", "question_type", "case_key", "case_set", "dataset", "specialty", "end_reason")


def conversation_endings(cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None) -> pd.DataFrame:
    """Return a row for each trial of a selection's conditions; AutoMedic's end by tags and are left out.

    Columns: model (the condition), case_set (what case keys begin with), case_key, dataset, specialty, end_reason
    (missing where there was no conversation), doctor_turns (without the greeting) and ``concluded``: whether the last
    message holds the words "final diagnosis", in any case of letters.
    """
    return _table(cursor, _ENDINGS, _selected(cursor, selection))


def ending_outcomes(cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None) -> pd.DataFrame:
    """Return how often each case was right in each arm, apart by how its conversations ended.

    Columns: those of ``conversation_endings`` but the turns, format, question_type, and numbers of answers: ``answers``
    in all, ``counted`` and ``correct`` by the loose multiple-choice rule, ``strict_counted`` and ``strict_correct`` by
    the strict one, ``differ`` where just one of the rules says correct. Other question types have one rule. Of those
    that do not count, ``excluded`` are all to questions that the case allows, ``refused`` among them, and the same by
    the strict rule.
    """
    rules: list[Rule] = ["mcq_loose", "mcq_strict", "frq", "frq_top3"]
    return _table(cursor, _OUTCOMES, {**_selected(cursor, selection), "rules": rules, "counting": list(COUNTED)})


def _selected(cursor: duckdb.DuckDBPyConnection, selection: Selection | None) -> dict[str, Any]:
    """Seat the conditions of a selection and return its values."""
    chosen = (selection or Selection()).of_talks()
    select(cursor, chosen)
    return chosen.parameters()


def _table(cursor: duckdb.DuckDBPyConnection, sql: str, parameters: dict[str, Any]) -> pd.DataFrame:
    table = cursor.execute(sql, parameters).df()
    return table.astype({name: "category" for name in table.columns if name in _NAMES})


_LAST = f"""last AS (
        SELECT trial_id, contains(lower(arg_max(text, position)), '{FINAL_DIAGNOSIS.lower()}') AS concluded
        FROM utterances GROUP BY trial_id
    ), held AS (
        SELECT trials.*, split_part(trials.case_key, '/', 1) AS case_set, cases.dataset,
            cases.specialty, coalesce(concluded, false) AS concluded
        FROM trials JOIN runs USING (run_id) LEFT JOIN last USING (trial_id)
        LEFT JOIN cases ON cases.case_key = trials.case_key AND cases.content_hash = trials.content_hash
        {NO_ARM}
        WHERE runs.protocol <> 'automedic' AND {SELECTED}
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
