"""Tables of the part Experts, with plain heads; figures by model only of what may be shown."""

from collections.abc import Mapping, Sequence

import pandas as pd

from core.datasets import published
from core.measures.experts.adjudication import Agreement, Corrected, Pair, Rate, Share
from core.measures.graders.agreement import FlipRate
from core.stats.corrections import format_p
from core.stats.differences import PairedCounts
from core.stats.intervals import Interval
from core.store.review_records import ASKED, Question
from pages.judges.experts.data import MEASURE
from pages.kit.names import RELEASED, model_name

_PRINTED_SHARE: dict[str, Question] = {
    "single_most_likely_diagnosis_reached": "single_diagnosis",
    "complete_medical_history_elicited": "complete_history",
}
_PRINTED_P: dict[str, Question] = {
    "stopped_when_single_most_likely_diagnosis_mcnemar_p": "single_diagnosis",
    "elicited_relevant_medical_history_mcnemar_p": "complete_history",
}
PRINTED_GRADER = "grader_ai_agreement_with_experts"


def shares_table(
    rows: Sequence[Share], names: Mapping[str, str], printed: Mapping[tuple[str, str], str] | None = None
) -> pd.DataFrame:
    """Return a line for each question and model; ``printed`` are the paper's figures beside ours."""
    table = pd.DataFrame(
        [
            {
                "Question": ASKED[one.question],
                "Model": names[one.model],
                "Yes": one.yes,
                "Of": one.n,
                "Share": one.yes / one.n if one.n else None,
                "Low": _number(one.interval.low),
                "High": _number(one.interval.high),
                "Open ties": one.open,
                "Printed": (printed or {}).get((one.question, one.model)),
            }
            for one in rows
        ]
    )
    return table if printed else table.drop(columns="Printed", errors="ignore")


def pairs_table(
    rows: Sequence[Pair], names: Mapping[str, str], printed: Mapping[tuple[str, frozenset[str]], str] | None = None
) -> pd.DataFrame:
    """Return McNemar's test of every two models."""
    table = pd.DataFrame(
        [
            {
                "Question": ASKED[one.question],
                "First": names[one.first],
                "Second": names[one.second],
                "Cases": sum(one.test.counts),
                "Yes of the first only": one.test.counts.first_only,
                "Yes of the second only": one.test.counts.second_only,
                "p": format_p(one.test.p),
                "Printed p": (printed or {}).get((one.question, frozenset((one.first, one.second)))),
            }
            for one in rows
        ]
    )
    return table if printed else table.drop(columns="Printed p", errors="ignore")


def agreement_table(rows: Sequence[Agreement]) -> pd.DataFrame:
    """Return every coefficient with its interval."""
    return pd.DataFrame(
        [
            {
                "Question": ASKED[one.question],
                "Measure": MEASURE[one.measure],
                "Value": _number(one.value),
                "Low": _number(one.interval.low),
                "High": _number(one.interval.high),
                "Items": one.n,
            }
            for one in rows
        ]
    )


def confusion_table(table: PairedCounts) -> pd.DataFrame:
    """Return the two by two of experts and grader."""
    return pd.DataFrame(
        [
            {"": "Experts: right", "Grader: right": table.both, "Grader: wrong": table.second_only},
            {"": "Experts: wrong", "Grader: right": table.first_only, "Grader: wrong": table.neither},
        ]
    )


def trust_table(rates: Mapping[str, Rate]) -> pd.DataFrame:
    """Return agreement, sensitivity and specificity of a grader with their intervals."""
    return pd.DataFrame(
        [
            {"": name.capitalize(), "Value": _number(one.value), **_bounds(one.interval), "Answers": one.n}
            for name, one in rates.items()
        ]
    )


def corrected_table(rows: Sequence[Corrected], names: Mapping[str, str]) -> pd.DataFrame:
    """Return accuracies as graded and corrected for the grader's error."""
    return pd.DataFrame(
        [
            {
                "Model": names.get(one.model, one.model),
                "As graded": _number(one.apparent),
                "Corrected": one.value,
                **_bounds(one.interval),
                "Cases": one.n_cases,
                "Answers judged": one.n_items,
                "Clipped to 0–1": "yes" if one.clipped else "no",
            }
            for one in rows
        ]
    )


def flips_table(rows: Sequence[FlipRate]) -> pd.DataFrame:
    """Return how often each grader contradicted itself."""
    return pd.DataFrame(
        [
            {
                "Grader": model_name(one.grader),
                "Met again": f"the same {one.same}",
                "Pairs": one.pairs,
                "Judged both ways": one.both,
                "Share": one.share,
                "Verdicts": one.verdicts,
            }
            for one in rows
        ]
    )


def printed_shares() -> dict[tuple[str, str], str]:
    """Return (question, model) → the share that the paper prints, in per cent."""
    rows = published.rows(f"{RELEASED.name}_expert")
    return {
        (_PRINTED_SHARE[row["metric"]], row["model"]): f"{row['value']} %"
        for row in rows
        if row["metric"] in _PRINTED_SHARE
    }


def printed_tests() -> dict[tuple[str, frozenset[str]], str]:
    """Return (question, two models) → the p that table 18 prints."""
    rows = published.rows(f"{RELEASED.name}_expert")
    return {
        (_PRINTED_P[row["metric"]], frozenset(row["model"].split("_vs_"))): row["value"]
        for row in rows
        if row["metric"] in _PRINTED_P
    }


def printed_row(metric: str) -> dict[str, str]:
    """Return a printed figure about the experts by its name."""
    return next(row for row in published.rows(f"{RELEASED.name}_expert") if row["metric"] == metric)


def _bounds(interval: Interval) -> dict[str, float | None]:
    return {"Low": _number(interval.low), "High": _number(interval.high)}


def _number(value: float) -> float | None:
    return None if value != value else value
