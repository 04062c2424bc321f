"""Tables of the Endings page."""

from collections.abc import Mapping, Sequence

import pandas as pd

from core.measures.endings import END_REASONS, RULES, STANDARD, EndingRow, Rescored, TurnRow
from pages.parts.endings_charts import REASON
from pages.parts.look import arm

_LABEL = {rule.key: rule.label for rule in (STANDARD, *RULES)}


def endings_table(rows: Sequence[EndingRow], names: Mapping[str, str]) -> pd.DataFrame:
    """Return how conversations ended: shares by reason, conversations without a diagnosis, turns."""
    held = [reason for reason in END_REASONS if any(row.reasons.get(reason) for row in rows)]
    return pd.DataFrame(
        [
            {
                "Model": names[row.model],
                "Conversations": row.conversations,
                **{REASON[r]: row.reasons.get(r, 0) / max(1, row.conversations) for r in held},
                "No final diagnosis": row.unconcluded_share,
                "Low": row.unconcluded_interval.low,
                "High": row.unconcluded_interval.high,
                "Mean turns": round(row.turns_mean, 2),
                "Median": row.turns_median,
                "Most": row.turns_most,
                "Cases": row.cases,
                "No conversation": row.without,
            }
            for row in rows
        ]
    )


def turns_table(rows: Sequence[TurnRow], names: Mapping[str, str]) -> pd.DataFrame:
    """Return the distribution of doctor turns."""
    return pd.DataFrame(
        [
            {"Model": names[r.model], "Doctor’s turns": r.turns, "Conversations": r.conversations, "Share": r.share}
            for r in rows
        ]
    )


def what_if_table(rows: Sequence[Rescored], names: Mapping[str, str]) -> pd.DataFrame:
    """Return accuracy under each rule beside the standard one, with what changed."""
    standard = {(r.model, r.format, r.question_type): r.mean for r in rows if r.rule == STANDARD.key}
    return pd.DataFrame(
        [
            {
                "Model": names[r.model],
                "Arm": arm(r.format, r.question_type),
                "Rule": _LABEL[r.rule],
                "Standard": standard[r.model, r.format, r.question_type],
                "Accuracy": r.mean,
                "Low": r.interval.low,
                "High": r.interval.high,
                "Change": r.delta,
                "On the same cases": r.same_cases,
                "Same, low": r.same_cases_interval.low,
                "Same, high": r.same_cases_interval.high,
                "Concerned": r.concerned,
                "Changed": r.changed,
                "Answers": r.n_answers,
                "Excluded": r.n_excluded,
                "Cases": r.n_cases,
            }
            for r in rows
            if r.rule != STANDARD.key
        ]
    ).round(4)
