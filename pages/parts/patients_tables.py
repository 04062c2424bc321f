"""Tables of the Patients page, with plain heads."""

from collections.abc import Mapping, Sequence

import pandas as pd

from core.measures.patients.figures import ALL, PatientRate, TermsAgreement
from core.measures.patients.rules import ABOUT, About
from core.store.queries.patients import Hit
from pages.parts.figures import model_name

Group = tuple[str, str, str, str]
"""What was grouped by, the persona, the protocol and the condition."""


def group_of(row: PatientRate) -> Group:
    """Return what tells a row's group from all others."""
    return row.group, row.persona, row.protocol, row.condition


def read_right(about: About) -> str:
    """Return in words how many of a kind's hits were right among those that were read."""
    right, read = about.read
    return f"{right} of {read} read were right" if read else "none to read"


def rates_table(rows: Sequence[PatientRate], names: Mapping[Group, str], head: str) -> pd.DataFrame:
    """Return rates with their intervals where anything was looked at; ``head`` names what was grouped by.

    Shares are 0 to 1.
    """
    return pd.DataFrame(
        [
            {
                head: names[group_of(row)], "Kind": ABOUT[row.kind].name, "With a hit": _number(row.rate),
                "Low": _number(row.interval.low), "High": _number(row.interval.high),
                "Hits per 100 replies": _number(row.per_100), "Per 100, low": _number(row.per_100_interval.low),
                "Per 100, high": _number(row.per_100_interval.high), "Conversations": row.n, "Hit": row.n_hit,
                "Cases": row.cases, "Hits": row.hits, "Replies": row.replies,
                "Hits right when read": _read(ABOUT[row.kind].read),
            }
            for row in rows if row.n
        ]
    )  # fmt: skip


def hits_table(
    found: Sequence[Hit], patients: Mapping[str, str], doctors: Mapping[str, str], *, whole: bool = False
) -> pd.DataFrame:
    """Return hits; ``whole`` adds the doctor's message, the run and the trial, for a download."""
    return pd.DataFrame(
        [
            {
                "Kind": ABOUT[hit.mark.kind].name, "Words": hit.mark.words, "Why": hit.mark.detail,
                "Reply": " ".join(hit.text.split()),
                "Message": hit.mark.turn + 1, "Patient": patients.get(hit.patient, hit.patient),
                "Doctor": doctors.get(hit.doctor, hit.doctor), "Case": hit.case_key.partition("/")[2] or hit.case_key,
                "Trial": hit.trial + 1,
                **({"Question": hit.question, "Persona": hit.persona or "plain", "Run": hit.run_id,
                    "Trial id": hit.trial_id} if whole else {}),
            }
            for hit in found
        ]
    )  # fmt: skip


def experts_table(rows: Sequence[TermsAgreement]) -> pd.DataFrame:
    """Return the rule for medical terms beside the experts, by doctor's model. Shares are 0 to 1."""
    return pd.DataFrame(
        [
            {
                "Doctor": "All" if row.model == ALL else model_name(row.model), "Conversations": row.n,
                "Experts found a term": row.both + row.experts_only, "The rule did": row.both + row.rule_only,
                "Both": row.both, "Precision": _number(row.precision), "Recall": _number(row.recall),
                "Cohen’s kappa": _number(row.kappa), "No text": row.unmatched,
            }
            for row in rows
        ]
    )  # fmt: skip


def rules_table() -> pd.DataFrame:
    """Return what each rule says and how often hits that were read were right, before and after it was mended."""
    return pd.DataFrame(
        [
            {
                "Kind": about.name, "What counts": about.rule, "Right of those read": _read(about.read),
                "Before mending": _read(about.first), "Rates stated": "yes" if about.claimed else "no",
                "False alarms": about.false_alarms,
            }
            for about in ABOUT.values()
        ]
    )  # fmt: skip


def _read(sample: tuple[int, int] | None) -> str | None:
    return f"{sample[0]} of {sample[1]}" if sample and sample[1] else None


def _number(value: float) -> float | None:
    return None if value != value else value
