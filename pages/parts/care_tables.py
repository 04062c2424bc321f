"""Tables of the CARE page, with plain heads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from core.datasets import published
from core.frameworks.base import publisher
from core.measures.care.across import Fit, Normalised
from core.measures.care.profile import PARTS, CareProfile, Estimate, Habits, Part
from core.store.queries.care import FAILURES, MISUSES, Failure, Rating
from pages.parts.care_words import (
    CAUSE,
    ENDING,
    FAILURE,
    MISUSE,
    PART,
    PUBLISHED_MODEL,
    PUBLISHED_PART,
    case_name,
    why_excluded,
)
from pages.parts.figure_controls import dataset_name, natural
from pages.parts.figures import model_name


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


def profile_table(
    profiles: Sequence[CareProfile], names: Mapping[str, str], printed: Sequence[PublishedProfile], *, bounds: bool
) -> pd.DataFrame:
    """Return a row for each profile, then the published ones; with ``bounds`` the parts as text with intervals."""
    lines = [
        {
            "Model": names[p.seat], "From": "run here", "Data set": dataset_name(p.group) if p.group else "all chosen",
            **{PART[part][0]: _shown(p.part(part), bounds) for part in PARTS},
            "After the conversation": _shown(p.acc_conv, bounds), "Whole question": _shown(p.acc_static, bounds),
            "Penalty": p.penalty, "Cases": p.items, "With both answers": p.acc_conv.n, "Trials": p.trials,
            "Excluded": sum(p.excluded.values()), "Not rated": p.unrated,
        }
        for p in in_order(profiles, names)
    ]  # fmt: skip
    lines += [
        {
            "Model": p.model, "From": "published, table 3", "Data set": "MedQA / MedBullets",
            **{PART[part][0]: _printed(p.values[part], bounds) for part in PARTS}, "Trials": p.conversations,
        }
        for p in printed
    ]  # fmt: skip
    first = ["Model", "Data set"] if any(p.group for p in profiles) else ["Model"]
    columns = [*first, *(name for name in COLUMNS if name not in first)]
    return pd.DataFrame(lines, columns=columns).astype({name: "Int64" for name in COUNTS})


COUNTS = ("Cases", "With both answers", "Trials", "Excluded", "Not rated")
COLUMNS = (
    "Model", "From", *(PART[part][0] for part in PARTS), "After the conversation", "Whole question", "Penalty",
    *COUNTS, "Data set",
)  # fmt: skip
"""Of the table of profiles, in their order."""


def intervals_table(profiles: Sequence[CareProfile], names: Mapping[str, str]) -> pd.DataFrame:
    """Return every figure in a row of its own, with its interval and the cases that it rests on."""
    return pd.DataFrame(
        [
            {
                "Model": names[p.seat], "Data set": dataset_name(p.group) if p.group else "all chosen", "Figure": label,
                "Value": e.value, "Low": e.low, "High": e.high, "Cases": e.n, "Penalty": p.penalty,
                "Trials": p.trials, **{f"Excluded: {why_excluded(v)}": n for v, n in p.excluded.items()},
                **{f"Excluded, whole question: {why_excluded(v)}": n for v, n in p.excluded_static.items()},
            }
            for p in in_order(profiles, names) for label, e in _figures(p)
        ]
    )  # fmt: skip


def _figures(profile: CareProfile) -> list[tuple[str, Estimate]]:
    parts = [(PART[part][0], profile.part(part)) for part in PARTS]
    return [
        *parts,
        ("Accuracy after the conversation", profile.acc_conv), ("Accuracy on the whole question", profile.acc_static),
        ("Accuracy after the conversation, all cases that have it", profile.conv_all),
        ("Accuracy on the whole question, all cases that have it", profile.static_all),
    ]  # fmt: skip


def in_order(profiles: Sequence[CareProfile], names: Mapping[str, str]) -> list[CareProfile]:
    """Return profiles in the order of data sets, and in each of pages."""
    order = list(names)
    return sorted(profiles, key=lambda p: (p.group or "", order.index(p.seat)))


def _shown(estimate: Estimate, bounds: bool) -> float | str | None:
    if not bounds or estimate.value is None:
        return estimate.value if not bounds else "–"
    held = estimate.low is not None and estimate.high is not None
    return f"{estimate.value:.3f} ({estimate.low:.3f}–{estimate.high:.3f})" if held else f"{estimate.value:.3f}"


def _printed(value: float, bounds: bool) -> float | str:
    return f"{value:.3f}" if bounds else value


def normalised_table(rows: Sequence[Normalised], names: Mapping[str, str]) -> pd.DataFrame:
    """Return the parts between 0 and 1, with what they are in each data set."""
    return pd.DataFrame(
        [
            {
                "Model": names[row.seat], "Part": PART[row.part][0], "Normalised": row.value,
                "Data sets in it": row.n_datasets,
                **{dataset_name(name): value for name, value in row.by_dataset.items()},
            }
            for row in sorted(rows, key=lambda r: (list(names).index(r.seat), PARTS.index(r.part)))
        ]
    )  # fmt: skip


def fits_table(fits: Mapping[str, Fit]) -> pd.DataFrame:
    """Return the fitted lines."""
    return pd.DataFrame(
        [
            {"Models": name, "Marks": f.n, "r": f.r, "Low": f.low, "High": f.high, "Slope": f.slope,
             "Intercept": f.intercept}
            for name, f in fits.items()
        ]
    ).astype({name: "float64" for name in ("r", "Low", "High", "Slope", "Intercept")})  # fmt: skip


def counts_table(profiles: Sequence[CareProfile], names: Mapping[str, str]) -> pd.DataFrame:
    """Return how many trials of each model failed in which way."""
    return pd.DataFrame(
        [
            {
                "Model": names[p.seat], "Failed in any way": p.failed,
                **{FAILURE[kind]: p.kinds[kind] for kind in FAILURES},
                **{f"{FAILURE[kind]}: {CAUSE[cause][0].lower()}": n for (kind, cause), n in p.causes.items()
                   if kind != "role_breaking"},
                "Trials that count": p.trials - sum(p.excluded.values()), "Excluded": sum(p.excluded.values()),
            }
            for p in in_order(profiles, names)
        ]
    )  # fmt: skip


def failures_table(found: Sequence[Failure], models: Sequence[str]) -> pd.DataFrame:
    """Return failures as rows; messages are counted from 1. ``models``: the name of each failure's model."""
    rows = [
        (case_name(f.case_key), dataset_name(f.dataset), FAILURE[f.kind], CAUSE[f.cause][0],
         None if f.turn is None else f.turn + 1, f.quote, model, f.trial_id)
        for f, model in zip(found, models, strict=True)
    ]  # fmt: skip
    columns = ["Case", "Data set", "Failure", "Cause", "Message", "What shows it", "Model", "Trial"]
    return pd.DataFrame(rows, columns=columns).astype({"Message": "Int64"})


def ratings_table(found: Sequence[Rating], models: Sequence[str]) -> pd.DataFrame:
    """Return ratings as rows. ``models``: the name of each rating's model."""
    rows = [
        (r.rating, r.words, case_name(r.case_key), dataset_name(r.dataset), model, model_name(r.rater), r.trial_id)
        for r, model in zip(found, models, strict=True)
    ]
    columns = ["Rating", "The rater’s words", "Case", "Data set", "Model", "Rated by", "Trial"]
    return pd.DataFrame(rows, columns=columns).astype({"Rating": "Int64"})


def habits_table(rows: Sequence[Habits], names: Mapping[str, str]) -> pd.DataFrame:
    """Return how each model converses."""
    order = list(names)
    occurring = [kind for kind in MISUSES if any(h.misuses[kind] for h in rows)]
    return pd.DataFrame(
        [
            {
                "Model": names[h.seat], "Turns": h.turns, "Words a turn": h.words_per_turn, "To the staff": h.to_staff,
                "Asked again": h.repeated, **{MISUSE[kind]: h.misuses[kind] for kind in occurring},
                **{f"Ended: {words[0].lower()}": h.endings.get(reason, 0) for reason, words in ENDING.items()},
                "Conversations": h.conversations, "Queries": h.queries, "Cases": h.items,
            }
            for h in sorted(rows, key=lambda h: order.index(h.seat))
        ]
    )  # fmt: skip


def items_table(items: pd.DataFrame) -> pd.DataFrame:
    """Return one model's cases with their means, in the order of their keys, which are the index."""
    ordered = items.set_index(items["case_key"].astype(str)).drop(columns="case_key")
    ordered = ordered.loc[sorted(ordered.index, key=natural)]
    told = {
        "Case": [case_name(key) for key in ordered.index], "Data set": ordered["dataset"].astype(object),
        "Specialty": ordered["specialty"].astype(object), "After the conversation": ordered["conv"],
        "Whole question": ordered["static"], "Empathy": ordered["empathy"], "Failed": ordered["failed"],
        "Turns": ordered["turns"], "Words a turn": ordered["words_per_turn"], "Trials": ordered["trials"],
    }  # fmt: skip
    return pd.DataFrame(told).assign(**{"Data set": lambda t: t["Data set"].map(dataset_name)})
