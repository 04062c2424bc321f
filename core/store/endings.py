"""How conversations ended, and what the answers given after them came to under either multiple-choice rule."""

from __future__ import annotations

from typing import Any

import duckdb
import pandas as pd

from core.events import COUNTED
from core.protocols.conversation import FINAL_DIAGNOSIS
from core.store.figures import CAMPAIGNS, POOLED, UNANSWERED

_NAMES = ("model", "format", "question_type", "case_key", "case_set", "dataset", "specialty", "end_reason")


def conversation_endings(cursor: duckdb.DuckDBPyConnection) -> pd.DataFrame:
    """Return a row for each trial of all campaigns and releases.

    Columns: model, case_set (what case keys begin with), case_key, dataset, specialty, end_reason (missing where there
    was no conversation), doctor_turns (without the greeting) and ``concluded``: whether the last message holds the
    words "final diagnosis", in any case of letters.
    """
    return _table(cursor, _ENDINGS, {"sources": list(CAMPAIGNS)})


def ending_outcomes(cursor: duckdb.DuckDBPyConnection) -> pd.DataFrame:
    """Return how often each case was right in each arm, apart by how its conversations ended.

    Columns: those of ``conversation_endings`` but the turns, format, question_type, and numbers of answers: ``answers``
    in all, ``counted`` and ``correct`` by the loose multiple-choice rule, ``strict_counted`` and ``strict_correct`` by
    the strict one, ``differ`` where just one of the rules says correct. Other question types have one rule. Of those
    that do not count, ``excluded`` are all to questions that the case allows, ``refused`` among them, and the same by
    the strict rule.
    """
    return _table(cursor, _OUTCOMES, {"sources": list(CAMPAIGNS), "counting": list(COUNTED)})


def _table(cursor: duckdb.DuckDBPyConnection, sql: str, parameters: dict[str, Any]) -> pd.DataFrame:
    table = cursor.execute(sql, parameters).df()
    return table.astype({name: "category" for name in table.columns if name in _NAMES})


_LAST = f"""last AS (
        SELECT trial_id, contains(lower(arg_max(text, position)), '{FINAL_DIAGNOSIS.lower()}') AS concluded
        FROM utterances GROUP BY trial_id
    ), held AS (
        SELECT runs.doctor AS model, trials.*, split_part(trials.case_key, '/', 1) AS case_set, cases.dataset,
            cases.specialty, coalesce(concluded, false) AS concluded
        FROM trials JOIN runs USING (run_id) LEFT JOIN last USING (trial_id)
        LEFT JOIN cases ON cases.case_key = trials.case_key AND cases.content_hash = trials.content_hash
        WHERE list_contains($sources, runs.source) AND {POOLED}
    )"""

_ENDINGS = f"""
    WITH {_LAST}
    SELECT model, case_set, case_key, dataset, specialty, end_reason, concluded, doctor_turns
    FROM held ORDER BY model, case_key, trial"""

_OUTCOMES = f"""
    WITH {UNANSWERED}, {_LAST}, outcomes AS (
        SELECT trial_id, format, question_type, any_value(verdict) FILTER (rule <> 'mcq_strict') AS loose,
            any_value(verdict) FILTER (rule <> 'mcq_loose') AS strict
        FROM verdicts GROUP BY ALL
        UNION ALL SELECT trial_id, format, question_type, verdict, verdict FROM unanswered
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
    FROM outcomes JOIN held USING (trial_id)
    GROUP BY model, format, question_type, case_key, end_reason, concluded
    ORDER BY model, format, question_type, case_key, end_reason, concluded"""
