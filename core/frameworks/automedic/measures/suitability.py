"""Suitability of data sets: the cases that can be played as consultations, and the fields of their profiles.

Source: Oh, Park, Kim, arXiv 2512.10195, suitability of data sets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Literal

from core.case import Case
from core.datasets.select import cases_of, datasets
from core.frameworks.starts import PROFILES
from core.measures.base import Columns, MetricRequest, Positional, Row, Section, counts_in_words, metric
from core.stats.intervals import wilson
from core.store.queries.profiles import newest_profiles
from core.text.profiles import CaseId, Coverage, Generated, coverage, own_profile

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


@metric("suitability", empty="None of these cases has a profile.", starts=(PROFILES,), page="data")
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


REASONS = Section(
    "Why cases are not suitable",
    report_suitability,
    {"part": "each_reason"},
    kind="reasons",
    series="reason",
    axis="Share of judged cases",
    columns=("reason", "cases", "share", "ci_low", "ci_high", "meaning"),
    folded=True,
    page="data",
)
FIELDS = Section(
    "Fields of the profiles",
    report_suitability,
    {"part": "fields"},
    kind="fields",
    series="field",
    axis="Share of suitable cases",
    columns=("field", "present", "imputed", "absent", "n_suitable"),
    heads={"present": "Present", "n_suitable": "Suitable cases"},
    folded=True,
    page="data",
)
OUTCOMES_BY_SET = Section(
    "Suitability by data set",
    report_suitability,
    {"part": "outcomes"},
    kind="outcomes",
    series="reason",
    axis="Share of judged cases",
    columns=("dataset", "reason", "cases", "share", "ci_low", "ci_high", "n_judged"),
    heads={"dataset": "Data set", "reason": "Outcome", "n_judged": "Judged cases"},
    words={SUITABLE: "Suitable"},
    folded=True,
    page="data",
)
FIELDS_BY_SET = Section(
    "Profile fields by data set",
    report_suitability,
    {"part": "fields"},
    kind="fields_by_set",
    series="field",
    place="dataset",
    axis="Present",
    caption="Share of suitable cases whose source states the field; in brackets, imputed.",
    columns=("dataset", "field", "present", "imputed", "absent", "n_suitable"),
    heads={"dataset": "Data set", "n_suitable": "Suitable cases"},
    folded=True,
    page="data",
)
SECTIONS = (REASONS, FIELDS, OUTCOMES_BY_SET, FIELDS_BY_SET)
