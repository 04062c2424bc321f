"""What figures are made of: how often each case was right in each arm, and what was excluded and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import duckdb

from core.events import COUNTED, Format, QuestionType, Rule, Verdict
from core.questions import AsksFor

CAMPAIGNS = ("local", "release")
"""Sources of runs that count in figures unless runs are named: not single live conversations, not replays."""
WATCHED = ("live", "bench", "fork")
"""Sources of runs that somebody made to look at single cases."""
McqRule = Literal["mcq_loose", "mcq_strict"]


@dataclass(frozen=True)
class Selection:
    """Which answers are looked at. ``None`` is no restriction.

    ``single_diagnosis`` and ``asks_for``, what its question asks for, are properties of the case.
    """

    runs: Sequence[str] | None = None
    models: Sequence[str] | None = None
    datasets: Sequence[str] | None = None
    specialties: Sequence[str] | None = None
    formats: Sequence[Format] | None = None
    question_types: Sequence[QuestionType] | None = None
    single_diagnosis: bool | None = None
    sources: Sequence[str] | None = None
    asks_for: Sequence[AsksFor] | None = None

    def parameters(self) -> dict[str, object]:
        """Return the values for ``SELECTED``."""
        values = {k: list(v) if isinstance(v, (list, tuple)) else v for k, v in asdict(self).items()}
        if self.sources is None and self.runs is None:
            values["sources"] = list(CAMPAIGNS)
        return values


POOLED = (
    "(runs.protocol = 'craftmd' AND coalesce(json_extract_string(runs.settings, '$.persona'), '') = '' "
    "AND coalesce(json_extract_string(runs.settings, '$.images'), '') = '')"
)
"""Runs that may be pooled under their doctor's name: of one protocol, with the patient as the case has it, and with
nothing shown to the doctor beside what is said and written."""
SELECTED = " AND ".join(
    [
        *(
            f"(${name}::VARCHAR[] IS NULL OR list_contains(${name}, {column}))"
            for name, column in (
                ("runs", "runs.run_id"),
                ("models", "runs.doctor"),
                ("datasets", "cases.dataset"),
                ("specialties", "cases.specialty"),
                ("formats", "verdicts.format"),
                ("question_types", "verdicts.question_type"),
                ("sources", "runs.source"),
                ("asks_for", "cases.asks_for"),
            )
        ),
        "($single_diagnosis::BOOLEAN IS NULL OR cases.single_diagnosis = $single_diagnosis)",
        f"($runs::VARCHAR[] IS NOT NULL OR {POOLED})",
    ]
)
"""The condition of a ``Selection`` on runs, cases and verdicts."""


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
    """Return every case of every arm and model, in the order of the case's key.

    The newest grade of a rule counts. Trials of one model in several selected runs are pooled.
    """
    rules: list[Rule] = [mcq_rule, "frq", "frq_top3"]
    parameters = {**(selection or Selection()).parameters(), "rules": rules, "counting": list(COUNTED)}
    return [CaseScore(*row) for row in cursor.execute(_CASE_SCORES, parameters).fetchall()]


# A trial that broke off has no answer in some of its run's arms: it is excluded there, for its failure.
UNANSWERED = """broken AS (
        SELECT trial_id, string_split(unnest(arms), ':') AS arm,
            CASE failure WHEN 'refused' THEN 'refused' ELSE 'provider_error' END AS verdict
        FROM trials JOIN runs USING (run_id) WHERE trials.status = 'failed'
    ), unanswered AS (
        SELECT trial_id, arm[1] AS format, arm[2] AS question_type, verdict
        FROM broken ANTI JOIN answers
            ON answers.trial_id = broken.trial_id AND format = arm[1] AND question_type = arm[2]
    )"""
"""Queries named ``broken`` and ``unanswered``: the answers that trials which broke off do not have."""

_CASE_SCORES = f"""
    WITH {UNANSWERED}, outcomes AS (
        SELECT trial_id, format, question_type, verdict FROM verdicts WHERE list_contains($rules, rule)
        UNION ALL SELECT * FROM unanswered
    ), counts AS (
        SELECT runs.doctor AS model, verdicts.format, verdicts.question_type, trials.case_key,
            any_value(cases.dataset) AS dataset, any_value(cases.specialty) AS specialty, verdict, count(*) AS n
        FROM outcomes AS verdicts
        JOIN trials USING (trial_id)
        JOIN runs ON runs.run_id = trials.run_id
        LEFT JOIN cases ON cases.case_key = trials.case_key AND cases.content_hash = trials.content_hash
        WHERE {SELECTED}
        GROUP BY ALL
    )
    SELECT model, format, question_type, case_key, any_value(dataset), any_value(specialty),
        coalesce(sum(n) FILTER (verdict = 'correct'), 0)::BIGINT,
        coalesce(sum(n) FILTER (list_contains($counting, verdict)), 0)::BIGINT,
        coalesce(map_from_entries(list((verdict, n)) FILTER (NOT list_contains($counting, verdict))), MAP {{}})
    FROM counts
    GROUP BY ALL
    ORDER BY model, format, question_type, case_key"""
