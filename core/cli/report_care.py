"""``report care`` and ``report suitability``: AutoMedic's doctors on the four parts of CARE, and its data sets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

import pandas as pd
import typer

from core.cli.comparisons import Models, Printed
from core.cli.folded import folded_store
from core.cli.report_failures import Row, Runs, print_rows, selection_of
from core.datasets.select import cases_of, datasets
from core.errors import AnamnesisError
from core.measures.care import (
    PARTS,
    CareProfile,
    CareQuestion,
    DatasetSuitability,
    Estimate,
    dataset_suitability,
    failures,
    fit,
    fits,
    habits_of,
    normalised,
    profiles,
    ratings,
    read_care,
    scatter,
)
from core.measures.care.profile import Slice
from core.models.registry import load_registry
from core.store.database import Store
from core.store.queries.cases import newest_profiles
from core.text.profile_rules import profile_by_rule

CarePart = Literal["parts", "kinds", "failures", "habits", "ratings", "normalised", "fit"]
By = Literal["dataset", "all"]
SuitabilityPart = Literal["reasons", "fields"]


def report_care(
    run: Runs = None, models: Models = None,
    by: Annotated[By, typer.Option(help="Each data set by itself, or all items together.")] = "dataset",
    question_type: Annotated[
        CareQuestion, typer.Option("--question-type", help="Answers with choices (exactly one named), or free ones.")
    ] = "mcq",
    part: Annotated[
        CarePart,
        typer.Option(help="The four parts with both accuracies; kinds of failures, or each; habits; ratings with their "
                          "words; parts normalised over data sets; static against conversational accuracy."),
    ] = "parts",
    format_: Printed = "table",
) -> int:  # fmt: skip
    """Report accuracy, conversational efficiency and strategy, empathy and robustness of AutoMedic's doctors.

    The accuracy is Acc_conv × min(1, Acc_conv / Acc_static); the formula printed in the paper is not known to us.
    """
    store = folded_store()
    trials = read_care(store, question_type, selection_of(store, run, models))
    slice_: Slice | None = "dataset" if by == "dataset" else None
    tables: dict[CarePart, Callable[[], list[Row]]] = {
        "parts": lambda: [row for p in profiles(trials, slice_) for row in _part_rows(p)],
        "kinds": lambda: [row for p in profiles(trials, slice_) for row in _kind_rows(p)],
        "failures": lambda: _failure_rows(store, trials),
        "habits": lambda: _habit_rows(trials, slice_),
        "ratings": lambda: _rating_rows(store, trials),
        "normalised": lambda: _normalised_rows(trials),
        "fit": lambda: _fit_rows(trials),
    }
    if trials.empty:
        raise AnamnesisError(
            f"There is no AutoMedic trial with {question_type} answers to report: run `python -m core run --protocol "
            "automedic --doctor reference/bayes`, or choose another --question-type."
        )
    rows = tables[part]()
    if not rows:
        raise AnamnesisError(f"These trials have no {part} to list.")
    print_rows(rows, format_)
    return 0


def report_suitability(
    dataset: Annotated[list[str] | None, typer.Argument(help="Data sets; all that have profiles by default.")] = None,
    by_rule: Annotated[bool, typer.Option("--by-rule", help="Judge by rule the cases that have no profile.")] = False,
    part: Annotated[SuitabilityPart, typer.Option(help="Share of suitable cases and reasons, or fields.")] = "reasons",
    format_: Printed = "table",
) -> int:
    """Report how many cases of a data set can be played as consultations, and which fields their profiles fill."""
    store = folded_store()
    with store.read() as cursor:
        stored = {known: found.generated for known, found in newest_profiles(cursor).items()}
    rule = profile_by_rule if by_rule else None
    read = (dataset_suitability(name, cases_of(name), stored, rule) for name in dataset or datasets())
    found = [one for one in read if one.coverage.n]
    if not found:
        raise AnamnesisError(
            "None of these cases has a profile: make some with `python -m core profile DATASET`, or add --by-rule."
        )
    print_rows([row for one in found for row in (_reason_rows if part == "reasons" else _field_rows)(one)], format_)
    return 0


def _head(seat: str, group: str | None) -> Row:
    return {"model": seat, "dataset": "all" if group is None else group}


def _estimate(found: Estimate) -> Row:
    return {"value": found.value, "ci_low": found.low, "ci_high": found.high, "n_items": found.n}


def _told(counts: dict[Any, int]) -> str:
    return " ".join(f"{name}={n}" for name, n in counts.items() if n)


def _part_rows(profile: CareProfile) -> list[Row]:
    measures: dict[str, Estimate] = {name: profile.part(name) for name in PARTS}
    measures |= {"acc_conv": profile.acc_conv, "acc_static": profile.acc_static}
    return [
        {
            **_head(profile.seat, profile.group), "measure": name, **_estimate(found),
            "n_without": profile.items - found.n, "trials": profile.trials, "excluded": _told(profile.excluded),
            "excluded_static": _told(profile.excluded_static),
        }
        for name, found in measures.items()
    ]  # fmt: skip


def _kind_rows(profile: CareProfile) -> list[Row]:
    counted = profile.trials - sum(profile.excluded.values())
    return [
        {**_head(profile.seat, profile.group), "kind": kind, "cause": cause, "trials": n, "counted": counted,
         "share": n / counted if counted else None}
        for (kind, cause), n in profile.causes.items()
    ]  # fmt: skip


def _failure_rows(store: Store, trials: pd.DataFrame) -> list[Row]:
    with store.read() as cursor:
        return [vars(failure) for failure in failures(cursor, trials)]


def _rating_rows(store: Store, trials: pd.DataFrame) -> list[Row]:
    with store.read() as cursor:
        return [vars(rating) for rating in ratings(cursor, trials)]


def _habit_rows(trials: pd.DataFrame, by: Slice | None) -> list[Row]:
    rows = []
    for h in habits_of(trials, by):
        figures = {name: getattr(h, name) for name in ("items", "conversations", "queries", "turns", "words_per_turn",
                                                       "to_staff", "repeated")}  # fmt: skip
        counts = {name: _told(getattr(h, name)) for name in ("misuses", "endings", "ratings")}
        rows.append({**_head(h.seat, h.group), **figures, **counts})
    return rows


def _normalised_rows(trials: pd.DataFrame) -> list[Row]:
    return [
        {"model": one.seat, "measure": one.part, "value": one.value, "n_datasets": one.n_datasets, **one.by_dataset}
        for one in normalised(profiles(trials, "dataset"))
    ]


def _fit_rows(trials: pd.DataFrame) -> list[Row]:
    points = scatter(profiles(trials, "dataset"), load_registry().group)
    return [{"group": name, **vars(found)} for name, found in {"all": fit(points), **fits(points)}.items()]


def _reason_rows(one: DatasetSuitability) -> list[Row]:
    found = one.coverage
    return [
        {
            "dataset": one.dataset, "cases": one.cases, "unjudged": one.unjudged, "judged": found.n,
            "suitable": found.suitable, "share": found.share, "ci_low": found.interval.low,
            "ci_high": found.interval.high, "reasons": _told(dict(found.reasons)), "made_by": _told(one.made_by),
        }
    ]  # fmt: skip


def _field_rows(one: DatasetSuitability) -> list[Row]:
    return [
        {"dataset": one.dataset, "field": shares.field, "present": shares.share("present"),
         "imputed": shares.share("imputed"), "absent": shares.share("absent"), "n_suitable": shares.n}
        for shares in one.coverage.fields
    ]  # fmt: skip
