"""Suitability of data sets: the cases that can be played as consultations, and the fields of their profiles.

Source: Oh, Park, Kim, arXiv 2512.10195, suitability of data sets.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final, Literal

from core.case import Case
from core.datasets import published
from core.datasets.select import cases_of, datasets
from core.frameworks.automedic.measures.published import PAPER
from core.frameworks.base import publisher
from core.frameworks.starts import PROFILES
from core.measures.base import Columns, MetricRequest, Positional, Row, Section, counts_in_words, metric
from core.measures.case_views import CaseView
from core.stats.intervals import wilson
from core.store.queries.profiles import newest_profiles
from core.text.profiles import WITHOUT_PROFILE, CaseId, Coverage, Generated, coverage, own_profile

SUITABLE = "suitable"
"""The outcome of cases that can be played; other outcomes are reasons."""


def case_profiles(cases: Sequence[Case], stored: Mapping[CaseId, Generated]) -> list[Generated]:
    """Return the profiles of cases that have one: the stored profile, else that of the case."""
    profiles = [stored.get((case.case_key, case.content_hash)) or own_profile(case) for case in cases]
    return [profile for profile in profiles if profile is not None]


def suitable_row(dataset: str, cases: int, profiles: Sequence[Generated]) -> Row:
    """Return the share of suitable cases among the judged cases, with Wilson's interval and the makers of profiles."""
    counts = coverage(profiles)
    return Row(
        {
            "dataset": dataset,
            "cases": cases,
            "unjudged": cases - counts.n,
            "judged": counts.n,
            "suitable": counts.suitable,
        },
        counts.share,
        *counts.interval,
        counts.n,
        more={
            "reasons": counts_in_words(dict(counts.reasons)),
            "made_by": counts_in_words(dict(Counter(profile.made_by for profile in profiles).most_common())),
        },
        columns=Columns("share", n=None),
    )


def reason_rows(dataset: str, counts: Coverage) -> Iterator[Row]:
    """Yield for each reason, the most frequent first, the share of judged cases that it makes unsuitable."""
    for reason in sorted(counts.reasons, key=lambda reason: -counts.reasons[reason]):
        cases = counts.reasons[reason]
        yield Row(
            {"dataset": dataset, "reason": reason},
            cases / counts.n,
            *wilson(cases, counts.n),
            counts.n,
            more={"cases": cases},
            unit="judged cases",
            columns=Columns("share", n="n_judged"),
        )


def outcome_rows(dataset: str, counts: Coverage) -> Iterator[Row]:
    """Yield the share of judged cases that are suitable, and the share of each reason; together they are 1."""
    yield Row(
        {"dataset": dataset, "reason": SUITABLE},
        counts.share,
        *counts.interval,
        counts.n,
        more={"cases": counts.suitable},
        unit="judged cases",
        columns=Columns("share", n="n_judged"),
    )
    yield from reason_rows(dataset, counts)


def field_rows(dataset: str, counts: Coverage) -> Iterator[Row]:
    """Yield for each field of a profile the share of suitable cases whose source has it, with Wilson's interval."""
    for shares in counts.fields:
        yield Row(
            {"dataset": dataset, "field": shares.field},
            shares.share("present") if shares.n else None,
            *wilson(shares.present, shares.n),
            shares.n,
            more={state: shares.share(state) if shares.n else None for state in ("imputed", "absent")},
            unit="suitable cases",
            columns=Columns("present", n="n_suitable"),
        )


@metric("suitability", empty="None of these cases has a profile.", starts=(PROFILES,), page="cases")
def report_suitability(
    request: MetricRequest,
    dataset: Annotated[list[str] | None, Positional("Data sets; all that have profiles by default.")] = None,
    part: Annotated[
        Literal["reasons", "each_reason", "outcomes", "fields"],
        "Share of suitable cases and reasons in one row, a row for each reason, these with a row for suitable cases, "
        "or fields.",
    ] = "reasons",
) -> Iterator[Row]:
    """Report how many cases of a data set can be played as consultations, and which fields their profiles fill."""
    with request.store.read() as cursor:
        stored = {case_id: profile.generated for case_id, profile in newest_profiles(cursor).items()}
    for name in dataset or datasets():
        cases = cases_of(name)
        profiles = case_profiles(cases, stored)
        if profiles and part == "reasons":
            yield suitable_row(name, len(cases), profiles)
        elif profiles:
            rows_of = {"each_reason": reason_rows, "outcomes": outcome_rows, "fields": field_rows}[part]
            yield from rows_of(name, coverage(profiles))


def _section(title: str, part: str, **fields: Any) -> Section:
    heads = {
        "dataset": "Data set",
        "n_suitable": "Suitable cases",
        "n_judged": "Judged cases",
        **fields.pop("heads", {}),
    }
    return Section(title, report_suitability, {"part": part}, heads=heads, folded=True, page="cases", **fields)


SHARE = replace(
    _section(
        "Suitable cases",
        "reasons",
        kind="table",
        columns=("suitable", "judged", "cases", "share", "ci_low", "ci_high"),
        heads={"judged": "Assessed", "cases": "Of"},
        help="Suitable among the assessed cases, with Wilson’s interval. A case’s newest profile counts.",
    ),
    folded=False,
)
REASONS = _section(
    "Why cases are not suitable",
    "each_reason",
    kind="dots",
    place="reason",
    axis="Share of judged cases",
    columns=("reason", "cases", "share", "ci_low", "ci_high"),
)
FIELDS = _section(
    "Fields of the profiles",
    "fields",
    kind="dots",
    place="field",
    axis="Present",
    caption="Share of suitable cases whose source states the field.",
    columns=("field", "present", "imputed", "absent", "n_suitable"),
)
OUTCOMES_BY_SET = _section(
    "Suitability by data set",
    "outcomes",
    kind="shares",
    series="reason",
    place="dataset",
    axis="Share of judged cases",
    columns=("dataset", "reason", "cases", "share", "ci_low", "ci_high", "n_judged"),
    heads={"reason": "Outcome"},
    words={SUITABLE: "Suitable"},
    colours={
        SUITABLE: "#0072B2", "general_knowledge": "#E69F00", "abstract_concept": "#CC79A7",
        "research_setting": "#6A51A3", "image_dependent": "#56B4E9", "details_in_choices": "#8C8C8C",
    },
)  # fmt: skip
FIELDS_BY_SET = _section(
    "Profile fields by data set",
    "fields",
    kind="dots",
    series="dataset",
    place="field",
    axis="Present",
    caption=FIELDS.caption,
    columns=("dataset", "field", "present", "imputed", "absent", "n_suitable"),
)
SECTIONS = (SHARE, REASONS, FIELDS, OUTCOMES_BY_SET, FIELDS_BY_SET)
_METRIC: Final = {
    "appropriate_pct": "Suitable",
    "n_appropriate": "Suitable items",
    "demographics_present": "With demographics",
    "basic_information_present_pct": "With basic information",
}
_NAME: Final = {
    "medqa": "MedQA", "medbullets": "MedBullets", "medxpertqa": "MedXpertQA", "medmcqa": "MedMCQA",
    "head_qa": "HEAD-QA", "mmlu_pro": "MMLU-Pro",
}  # fmt: skip


def published_figures() -> dict[str, dict[str, str]]:
    """Return data set → figure → value of the paper’s text, in words: often it is a bound such as “more than 90 %”."""
    figures: dict[str, dict[str, str]] = {}
    for row in published.rows(publisher("care").name):
        if row["section"] == "suitability":
            value = row["value"].replace("-", "–").replace(">", "more than ").replace("<", "less than ")
            words = {"count": f"{int(value):,}" if value.isdecimal() else value, "percent": f"{value} %"}
            name = _METRIC.get(row["metric"], row["metric"].replace("_", " ").capitalize())
            figures.setdefault(row["dataset"], {})[name] = words.get(row["unit"], value)
    return figures


def published_for(name: str) -> str:
    """Return the paper’s figures for a data set that is called ``name`` or begins with it (medqa-test), in words.

    Separators between the words of a name do not matter.
    """
    words = re.sub(r"[^a-z0-9]+", "_", name.lower())
    for dataset, figures in published_figures().items():
        if re.fullmatch(rf"({dataset}|{dataset.replace('_', '')})(_.*)?", words):
            parts = "; ".join(f"{figure.lower()}: {value}" for figure, value in figures.items())
            return f"{_NAME.get(dataset, dataset)} in the paper: {parts}"
    return ""


def published_table() -> list[dict[str, str]]:
    """Return a row for each data set with all figures."""
    figures = published_figures().items()
    return [
        {"Data set": _NAME.get(dataset, dataset)} | {head: values.get(head, "–") for head in _METRIC.values()}
        for dataset, values in figures
    ]


CASE_VIEW: Final = CaseView(
    "Suitability",
    {"fields": FIELDS, "suitable": SHARE, "reasons": REASONS},
    by_set={"outcomes": OUTCOMES_BY_SET, "fields-by-set": FIELDS_BY_SET},
    jobs=("profiles",),
    assessed=True,
    empty=f"Not assessed yet. Played without profiles, {WITHOUT_PROFILE}.",
    source=PAPER,
    printed=published_for,
    table=published_table,
    rank=1,
)
