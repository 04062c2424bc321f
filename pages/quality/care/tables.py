"""Words and tables of the part CARE: the parts and how each is computed, failures with causes, what is published."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pandas as pd

from core.datasets import published
from core.events import EndReason
from core.frameworks.automedic.measures.profile import PARTS, CareProfile, Estimate, Part
from core.frameworks.automedic.queries import CareQuestion, Cause, FailureKind
from core.frameworks.automedic.tags import TagMisuse
from core.frameworks.base import publisher
from core.words import VERDICT
from pages.kit.names import dataset_name

QUESTION: Final[dict[CareQuestion, str]] = {"mcq": "With choices", "frq": "Free response"}
PART: Final[dict[Part, tuple[str, str]]] = {
    "accuracy": (
        "Accuracy", "Share of right answers after the conversation, times the penalty for the drop from the same "
        "model’s accuracy on the whole question at once: conversational ÷ static accuracy, at most 1."
    ),
    "efficiency": (
        "Efficiency and strategy", "100 times the mean over cases of 1 ÷ the mean number of words a query where the "
        "answer was right, and of 0 where it was not or nothing was asked. Words outside the tags count, too."
    ),
    "empathy": (
        "Empathy", "Mean of the ratings (1 to 5) that the patient gave after the conversation, divided by 5."
    ),
    "robustness": (
        "Robustness", "1 minus the share of cases with a failure: the doctor played the others itself, the "
        "conversation ended within three turns for a fault of the doctor, or the answer named nothing or several, or "
        "was blank."
    ),
}  # fmt: skip
"""Part of CARE → its name and how it is computed."""
FORMULA_NOTE: Final = (
    "The paper’s printed formula of the accuracy part is not known to us; what stands here is our choice for what it "
    "describes, so both accuracies and the penalty stand in the table."
)
SOURCE: Final = "Oh, Park, Kim, arXiv 2512.10195"

FAILURE_WORDS: Final[dict[FailureKind, str]] = {
    "role_breaking": "The doctor wrote the patient’s or the staff’s reply itself.",
    "abrupt_termination": "The conversation ended after at most three turns, for want of a tag or by an end tag.",
    "invalid_answer": "The answer after the conversation named nothing, or several, or refused, or was blank.",
}
CAUSE: Final[dict[Cause, tuple[str, str, str]]] = {
    "speaks_for_others": ("Speaks for others", "#D55E00", "white"),
    "no_tag": ("No tag", "#0072B2", "white"),
    "misplaced_end": ("End tag beside a query", "#56B4E9", "#1A2B2B"),
    "early_end": ("Ended early", "#6A51A3", "white"),
    "no_diagnosis": ("No answer named", "#E69F00", "#1A2B2B"),
    "multiple": ("Several answers named", "#F0E442", "#1A2B2B"),
    "refused_in_words": ("Refused in words", "#CC79A7", "#1A2B2B"),
    "empty": ("Blank", "#8C8C8C", "white"),
}  # fmt: skip
"""Cause of a failure → its name, its colour and the colour of what is written on it, in the order of their kinds."""
RATING: Final[dict[int | None, tuple[str, str, str]]] = {
    1: ("Rating 1", "#B2182B", "white"), 2: ("Rating 2", "#EF8A62", "#1A2B2B"), 3: ("Rating 3", "#D9D9D9", "#1A2B2B"),
    4: ("Rating 4", "#67A9CF", "#1A2B2B"), 5: ("Rating 5", "#2166AC", "white"),
    None: ("No rating read", "#8C8C8C", "white"),
}  # fmt: skip
"""Rating → its name, its colour and the colour of what is written on it."""

PUBLISHED_PART: Final[dict[str, Part]] = {
    "care_metric:accuracy": "accuracy", "care_metric:conversational_efficiency_strategy": "efficiency",
    "care_metric:empathy": "empathy", "care_metric:robustness": "robustness",
}  # fmt: skip
"""Section of the published figures → the part that they are of."""
PUBLISHED_MODEL: Final[dict[str, str]] = {"claude_sonnet_4": "Claude Sonnet 4", "llama_3_70b": "LLaMA-3 70B"}
PUBLISHED_SET: Final = "MedQA by the paper’s text, MedBullets by the table’s note"
MISUSE: Final[dict[TagMisuse, str]] = {
    "no_tag": "No tag", "text_outside": "Words outside the tags", "several_queries": "Several queries",
    "unclosed": "Tag left open", "nested": "Tag inside a tag", "empty": "Empty tag", "unknown_tag": "Unknown tag",
    "end_with_query": "End tag beside words", "speaks_for_others": "Speaks for others",
}  # fmt: skip
"""What a message does against the tag protocol, as a head of a column."""
ENDING: Final[dict[EndReason, tuple[str, str]]] = {
    "end_tag": ("#56B4E9", "#1A2B2B"),
    "turn_cap": ("#D55E00", "white"),
    "no_tag": ("#F0E442", "#1A2B2B"),
}
"""Why a conversation of the protocol came to an end of its own → its colour and the colour of its writing."""


def case_name(case_key: str) -> str:
    """Return a case's key without its data set's name, which stands beside it."""
    return case_key.partition("/")[2] or case_key


def why_excluded(verdict: str) -> str:
    """Return in words why an answer does not count, to follow a number."""
    if verdict == "ungraded":
        return "not judged yet"
    return VERDICT[verdict].partition(",")[0].lower()  # type: ignore[index]


COUNTS = ("Cases", "With both answers", "Trials", "Excluded", "Not rated")
COLUMNS = (
    "Model", "From", *(PART[part][0] for part in PARTS), "After the conversation", "Whole question", "Penalty",
    *COUNTS, "Data set",
)  # fmt: skip
"""Of the table of profiles, in their order."""


@dataclass(frozen=True)
class PublishedProfile:
    """A model of the paper (Oh et al., table 3) with the parts printed for the conversations that experts rated."""

    model: str
    values: Mapping[Part, float]
    conversations: int


def published_profiles() -> list[PublishedProfile]:
    """Return the models of which the paper prints all four parts."""
    rows = published.rows(publisher("care").name)
    each = next(int(row["value"]) for row in rows if row["metric"] == "n_simulations_rated_per_model")
    found: dict[str, dict[Part, float]] = {}
    for row in rows:
        if row["section"] in PUBLISHED_PART:
            found.setdefault(row["model"], {})[PUBLISHED_PART[row["section"]]] = float(row["value"])
    return [PublishedProfile(PUBLISHED_MODEL[model], values, each) for model, values in found.items()]


def published_r() -> float:
    """Return the paper's Pearson r of conversational on static accuracy over all its models and data sets."""
    rows = published.rows(publisher("care").name)
    return next(float(row["value"]) for row in rows if row["section"] == "static_vs_conversational")


def in_order(profiles: Iterable[CareProfile], names: Mapping[str, str]) -> list[CareProfile]:
    """Return profiles in the order of data sets, and in each of pages."""
    order = list(names)
    return sorted(profiles, key=lambda p: (p.group or "", order.index(p.seat)))


def profile_table(
    profiles: Sequence[CareProfile], names: Mapping[str, str], printed: Sequence[PublishedProfile], *, bounds: bool
) -> pd.DataFrame:
    """Return a row for each profile, then the published ones; with ``bounds`` the parts as text with intervals."""

    def shown(estimate: Estimate) -> float | str | None:
        if not bounds:
            return estimate.value
        if estimate.value is None:
            return "–"
        held = estimate.low is not None and estimate.high is not None
        return f"{estimate.value:.3f}" + (f" ({estimate.low:.3f}–{estimate.high:.3f})" if held else "")

    lines = [
        {
            "Model": names[p.seat],
            "From": "run here",
            "Data set": dataset_name(p.group) if p.group else "all chosen",
            **{PART[part][0]: shown(p.part(part)) for part in PARTS},
            "After the conversation": shown(p.acc_conv),
            "Whole question": shown(p.acc_static),
            "Penalty": p.penalty,
            "Cases": p.items,
            "With both answers": p.acc_conv.n,
            "Trials": p.trials,
            "Excluded": sum(p.excluded.values()),
            "Not rated": p.unrated,
        }
        for p in in_order(profiles, names)
    ]
    lines += [
        {
            "Model": p.model,
            "From": "published, table 3",
            "Data set": "MedQA / MedBullets",
            **{PART[part][0]: shown(Estimate(p.values[part])) for part in PARTS},
            "Trials": p.conversations,
        }
        for p in printed
    ]
    first = ["Model", "Data set"] if any(p.group for p in profiles) else ["Model"]
    columns = [*first, *(name for name in COLUMNS if name not in first)]
    return pd.DataFrame(lines, columns=columns).astype({name: "Int64" for name in COUNTS})


def intervals_table(profiles: Iterable[CareProfile], names: Mapping[str, str]) -> pd.DataFrame:
    """Return every figure in a row of its own, with its interval and the cases that it rests on."""
    return pd.DataFrame(
        [
            {
                "Model": names[p.seat],
                "Data set": dataset_name(p.group) if p.group else "all chosen",
                "Figure": label,
                "Value": e.value,
                "Low": e.low,
                "High": e.high,
                "Cases": e.n,
                "Penalty": p.penalty,
                "Trials": p.trials,
                **{f"Excluded: {why_excluded(v)}": n for v, n in p.excluded.items()},
                **{f"Excluded, whole question: {why_excluded(v)}": n for v, n in p.excluded_static.items()},
            }
            for p in in_order(profiles, names)
            for label, e in (
                *((PART[part][0], p.part(part)) for part in PARTS),
                ("Accuracy after the conversation", p.acc_conv),
                ("Accuracy on the whole question", p.acc_static),
                ("Accuracy after the conversation, all cases that have it", p.conv_all),
                ("Accuracy on the whole question, all cases that have it", p.static_all),
            )
        ]
    )
