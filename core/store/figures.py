"""What figures are made of: how often each case was right in each arm, and what was excluded and why."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import duckdb

from core.events import COUNTED, Format, QuestionType, Verdict
from core.store.casts import CAMPAIGNS as CAMPAIGNS
from core.store.casts import WATCHED as WATCHED
from core.store.selection import OUTCOMES, SELECTED
from core.store.selection import McqRule as McqRule
from core.store.selection import Selection as Selection
from core.store.selection import select as select


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
    parameters = {**chosen.parameters(), "rules": chosen.rules, "counting": list(COUNTED)}
    return [CaseScore(*row) for row in cursor.execute(_CASE_SCORES, parameters).fetchall()]


_CASE_SCORES = f"""
    WITH {OUTCOMES}, counts AS (
        SELECT model, place, verdicts.format, verdicts.question_type, trials.case_key,
            any_value(cases.dataset) AS dataset, any_value(cases.specialty) AS specialty, verdict, count(*) AS n
        FROM outcomes AS verdicts
        JOIN trials USING (trial_id)
        LEFT JOIN cases ON cases.case_key = trials.case_key AND cases.content_hash = trials.content_hash
        WHERE {SELECTED}
        GROUP BY ALL
    )
    SELECT model, format, question_type, case_key, any_value(dataset), any_value(specialty),
        coalesce(sum(n) FILTER (verdict = 'correct'), 0)::BIGINT,
        coalesce(sum(n) FILTER (list_contains($counting, verdict)), 0)::BIGINT,
        coalesce(map_from_entries(list((verdict, n)) FILTER (NOT list_contains($counting, verdict))), MAP {{}})
    FROM counts
    GROUP BY model, place, format, question_type, case_key
    ORDER BY place, format, question_type, case_key"""
