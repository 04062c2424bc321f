"""Tables of the Graders page, with plain heads."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import pandas as pd

from core.measures.graders.accuracy import CorrectedAccuracy, JudgeAccuracy
from core.measures.graders.agreement import FlipRate, GraderAgreement
from core.store.queries.graders import Difference, GraderHeld
from pages.parts.accuracy_tables import reasons_text
from pages.parts.look import FORMAT, QUESTION_TYPE, VERDICT, arm

KINDS = {"right or not": "Right or not", "all kinds": "All kinds"}
AGAIN = {
    "response": "The same response", "diagnosis": "The same diagnosis read out", "answer": "One answer, judged again",
}  # fmt: skip


def held_table(held: Sequence[GraderHeld], names: Mapping[str, str]) -> pd.DataFrame:
    """Return who judged how much, and when last."""
    return pd.DataFrame(
        [
            {
                "Grader": names[one.grader], "Answers judged": one.answers, "Verdicts": one.verdicts,
                "Prompts": ", ".join(one.prompts) or "the run’s own, or none",
                "Last verdict": datetime.fromtimestamp(one.newest_at, UTC),
            }
            for one in held if one.grader in names
        ]
    )  # fmt: skip


def agreement_table(found: Sequence[GraderAgreement], names: Mapping[str, str]) -> pd.DataFrame:
    """Return every measure of every pair, and of all together, with its interval."""
    return pd.DataFrame(
        [
            {
                "Graders": " · ".join(names[g] for g in one.graders), "Verdicts": KINDS[one.kinds],
                "Measure": measure[0].upper() + measure[1:], "Value": _number(value.value),
                "Low": _number(value.interval.low), "High": _number(value.interval.high), "Answers": one.n,
                "Cases": one.n_cases, "Not judged by all": one.left_out,
            }
            for one in found for measure, value in one.measures.items()
        ]
    )  # fmt: skip


def accuracy_table(
    rows: Sequence[JudgeAccuracy], corrected: Sequence[CorrectedAccuracy], models: Mapping[str, str],
    judges: Mapping[str, str],
) -> pd.DataFrame:  # fmt: skip
    """Return accuracy by model, arm and judge; the corrected one beside it where there is any."""
    held = {(one.judge, one.found.model, one.format): one.found for one in corrected}
    lines = []
    for one in rows:
        row, found = one.row, held.get((one.judge, one.row.model, one.row.format))
        beside = found if row.question_type == "frq" else None
        lines.append(
            {
                "Model": models[row.model], "Format": FORMAT[row.format], "Question": QUESTION_TYPE[row.question_type],
                "Judged by": judges[one.judge], "Accuracy": row.mean, "Low": row.ci_low, "High": row.ci_high,
                "Corrected": beside.value if beside else None,
                "Corrected, low": _number(beside.interval.low) if beside else None,
                "Corrected, high": _number(beside.interval.high) if beside else None,
                "Cases": row.n_cases, "Answers": row.n_trials, "Excluded": row.n_excluded,
                "Why excluded": reasons_text(row.excluded_by_reason), "Ties": one.ties,
            }
        )  # fmt: skip
    table = pd.DataFrame(lines)
    table = table.drop(columns=[] if held else ["Corrected", "Corrected, low", "Corrected, high"])
    return table if table["Ties"].any() else table.drop(columns="Ties")


def flips_table(found: Sequence[FlipRate], names: Mapping[str, str]) -> pd.DataFrame:
    """Return how often each grader contradicted itself."""
    return pd.DataFrame(
        [
            {
                "Grader": names.get(one.grader, one.grader), "Judged more than once": AGAIN[one.same],
                "Judged both ways": one.both, "Of pairs": one.pairs, "Share": one.share, "Low": one.interval.low,
                "High": one.interval.high, "Verdicts": one.verdicts,
            }
            for one in found
        ]
    )  # fmt: skip


def differences_table(
    found: Sequence[Difference], models: Mapping[str, str], graders: Mapping[str, str]
) -> pd.DataFrame:
    """Return the answers on which two verdicts differ; the graders stand in the heads where they are the same."""
    named = len({(one.first_grader, one.second_grader) for one in found}) == 1
    first, second = "Before", "Newest"
    if named and found[0].first_grader != found[0].second_grader:
        first, second = (graders.get(g, g) for g in (found[0].first_grader, found[0].second_grader))
        named = False
    by = not named and first == "Before"
    return pd.DataFrame(
        [
            {
                "Case": one.case_key.partition("/")[2] or one.case_key, "Model": models.get(one.model, one.model),
                "Arm": arm(one.format, one.question_type), "Trial": one.trial + 1, "Right answer": one.answer,
                "Read as": _read(one), first: VERDICT[one.first_verdict][0], second: VERDICT[one.second_verdict][0],
                "Response": " ".join(one.response.replace("**", "").split()),
                **({"Graders": f"{graders.get(one.first_grader, one.first_grader)} → "
                               f"{graders.get(one.second_grader, one.second_grader)}"} if by else {}),
            }
            for one in found
        ]
    )  # fmt: skip


def _read(one: Difference) -> str:
    """Return what both read out of the response, once where it is the same."""
    first, second = one.first_extracted or "nothing", one.second_extracted or "nothing"
    return first if first.casefold() == second.casefold() else f"{first} / {second}"


def _number(value: float) -> float | None:
    return None if value != value else value
