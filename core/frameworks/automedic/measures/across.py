"""CARE across data sets: parts normalised within each, the fall from the whole question, and suitable cases.

Source: Oh, Park, Kim, arXiv 2512.10195, results across data sets and suitability of data sets: which cases pass the
filter and can be played as consultations, and what their profiles hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Annotated, Literal

import duckdb
import numpy as np

from core.case import Case
from core.datasets.select import cases_of, datasets
from core.errors import AnamnesisError
from core.events import Rule
from core.frameworks.automedic.measures.profile import (
    PARTS,
    CareProfile,
    Part,
    Slice,
    habits_of,
    profiles,
    read_care,
    without_blank,
)
from core.frameworks.automedic.queries import RULES, CareQuestion, failures, ratings
from core.frameworks.base import publisher
from core.measures.base import Asked, Columns, Listed, Positional, Row, counts_in_words, metric
from core.measures.choice_rules import gaps_in_words, rule_gaps
from core.models.registry import load_registry
from core.stats.intervals import wilson
from core.store.conditions import SEPARATOR
from core.store.queries.profiles import newest_profiles
from core.store.selection import Selection, select, staffed
from core.text.profile_rules import profile_by_rule
from core.text.profiles import CaseId, Coverage, Generated, coverage, own_profile

_LEAST_FOR_INTERVAL = 4
_SAME = 1e-12
"""Figures this close differ by rounding alone."""


@dataclass(frozen=True)
class Normalised:
    """One part of one doctor, from 0 (the worst of a data set) to 1 (the best), then the mean over data sets.

    ``seat`` names the doctor with all but the data set that makes its condition (``across_data_sets``).
    ``None`` in a data set where it has no value, or where fewer than two seats differ: there is then no scale.
    Such a data set is left out of the mean; ``value`` is ``None`` where no data set is left.
    """

    seat: str
    doctor: str
    part: Part
    value: float | None
    by_dataset: dict[str, float | None]

    @property
    def n_datasets(self) -> int:
        """How many data sets the mean is over."""
        return sum(value is not None for value in self.by_dataset.values())


@dataclass(frozen=True)
class Point:
    """Accuracy of one seat on one data set: on the whole question and after the conversation, over the same items."""

    seat: str
    doctor: str
    group: str
    dataset: str
    static: float
    conv: float
    n: int


@dataclass(frozen=True)
class Fit:
    """The least-squares line of conversational on static accuracy and Pearson's r with its 95 % interval.

    The interval is by Fisher's z, which takes the ``n`` points as independent; points of one doctor or data set are
    not, so it is rather too narrow. ``None``: slope and intercept where static accuracies do not differ, r where either
    does not, the interval of fewer than four points.
    """

    slope: float | None
    intercept: float | None
    r: float | None
    low: float | None
    high: float | None
    n: int


def across_data_sets(cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None) -> dict[str, str]:
    """Return condition → the name under which it is one with the conditions of other data sets.

    They share the doctor and all that makes a condition but the data set and which of its cases were asked.
    """
    chosen = replace(selection or Selection(), frameworks=staffed())
    whole = [condition for condition in select(cursor, chosen) if not condition.partial]
    if chosen.pooled:  # a doctor's conditions on a data set are one on purpose
        named = ((one.name, one.doctor, one.newest.study) for one in whole)
        return {name: SEPARATOR.join(filter(None, (doctor, study))) for name, doctor, study in named}
    joined = select(cursor, chosen, without=("data_set", "case_set"))
    by_run = {run: condition.name for condition in joined if not condition.partial for run in condition.runs}
    return {condition.name: by_run[condition.runs[0]] for condition in whole}


def normalised(profiles: Sequence[CareProfile], joined: Mapping[str, str]) -> list[Normalised]:
    """Return every part of every doctor from profiles by data set, in the order of parts and names.

    ``joined`` is ``across_data_sets``. Where several conditions of one name met the same data set, each stays apart
    there, under its own name: which of them belongs to those of the other data sets cannot be told.
    """
    datasets = sorted({str(p.group) for p in profiles})
    alike = Counter((joined.get(p.seat, p.seat), p.group) for p in profiles)
    names = {
        (p.seat, p.group): name if alike[name := joined.get(p.seat, p.seat), p.group] == 1 else p.seat for p in profiles
    }
    doctors = {names[p.seat, p.group]: p.doctor for p in profiles}
    rows = []
    for part in PARTS:
        scaled: dict[str, dict[str, float]] = {}
        for group in datasets:
            members = [p for p in profiles if str(p.group) == group]
            scaled[group] = {names[p.seat, p.group]: value for p, value in _scaled(members, part)}
        for name in sorted(doctors):
            by_dataset = {group: scaled[group].get(name) for group in datasets}
            values = [value for value in by_dataset.values() if value is not None]
            mean = float(np.mean(values)) if values else None
            rows.append(Normalised(name, doctors[name], part, mean, by_dataset))
    return rows


def scatter(profiles: Sequence[CareProfile], group_of: Callable[[str], str]) -> list[Point]:
    """Return a point for each profile by data set that has items with both answers; ``group_of`` takes the doctor."""
    return [
        Point(p.seat, p.doctor, group_of(p.doctor), str(p.group), p.acc_static.value, p.acc_conv.value, p.acc_conv.n)
        for p in profiles
        if p.acc_static.value is not None and p.acc_conv.value is not None
    ]


def fit(points: Sequence[Point]) -> Fit:
    """Return the line through the points; all figures ``None`` for fewer than two."""
    static, conv = np.array([p.static for p in points]), np.array([p.conv for p in points])
    n = len(points)
    if n < 2 or np.ptp(static) < _SAME:
        return Fit(None, None, None, None, None, n)
    from scipy import stats  # type: ignore[import-untyped]  # slow to load

    line = stats.linregress(static, conv)
    slope, intercept = float(line.slope), float(line.intercept)
    if np.ptp(conv) < _SAME:
        return Fit(slope, intercept, None, None, None, n)
    r = stats.pearsonr(static, conv)
    bounds = r.confidence_interval(0.95) if n >= _LEAST_FOR_INTERVAL else (None, None)
    low, high = (None if bound is None else float(bound) for bound in bounds)
    return Fit(slope, intercept, float(r.statistic), low, high, n)


def fits(points: Sequence[Point]) -> dict[str, Fit]:
    """Return the fit of each group of models, by name."""
    ordered = sorted(points, key=lambda point: point.group)
    return {group: fit(list(members)) for group, members in groupby(ordered, key=lambda point: point.group)}


def _scaled(profiles: Sequence[CareProfile], part: Part) -> list[tuple[CareProfile, float]]:
    values = [(p, value) for p in profiles if (value := p.part(part).value) is not None]
    least, most = min((value for _, value in values), default=0.0), max((value for _, value in values), default=0.0)
    return [(p, (value - least) / (most - least)) for p, value in values] if most - least > _SAME else []


@dataclass(frozen=True)
class DatasetSuitability:
    """``coverage`` is over the cases that somebody has judged, ``made_by`` who judged how many; ``unjudged`` are left.

    A profile that came with its case is a judgement too: the case is suitable.
    """

    dataset: str
    cases: int
    unjudged: int
    coverage: Coverage
    made_by: dict[str, int]


def dataset_suitability(
    dataset: str,
    cases: Sequence[Case],
    stored: Mapping[CaseId, Generated],
    by_rule: Callable[[Case], Generated] | None = None,
) -> DatasetSuitability:
    """Return the suitability of a data set: by a stored profile, else the case's own, else ``by_rule`` where given."""
    words = [stored.get((case.case_key, case.content_hash)) or own_profile(case) for case in cases]
    if by_rule is not None:
        words = [word or by_rule(case) for word, case in zip(words, cases, strict=True)]
    judged = [word for word in words if word is not None]
    made_by = dict(Counter(word.made_by for word in judged).most_common())
    return DatasetSuitability(dataset, len(words), len(words) - len(judged), coverage(judged), made_by)


CarePart = Literal["parts", "kinds", "failures", "habits", "ratings", "normalised", "fit"]
_VALUE = Columns("value", n="n_items")
_HABITS = ("items", "conversations", "queries", "turns", "words_per_turn", "to_staff", "repeated")


@metric("care", "run", "models", empty="These trials have nothing of this part to list.", page="quality")
def report(
    asked: Asked,
    by: Annotated[Literal["dataset", "all"], "Each data set by itself, or all items together."] = "dataset",
    question_type: Annotated[CareQuestion, "Answers with choices (exactly one named), or free ones."] = "mcq",
    part: Annotated[
        CarePart,
        "The four parts with both accuracies; kinds of failures, or each; habits; ratings with their words; parts "
        "normalised over data sets; static against conversational accuracy.",
    ] = "parts",
    blank: Annotated[
        Literal["failed", "excluded"], "A blank answer is a failure and not correct, or is left out."
    ] = "failed",
) -> Iterator[Listed]:
    """Report accuracy, conversational efficiency and strategy, empathy and robustness where staff answers, too.

    The accuracy is Acc_conv × min(1, Acc_conv / Acc_static); the formula printed in the paper is not known to us.
    """
    trials = read_care(asked.store, question_type, asked.selection)
    if blank == "excluded":
        trials = without_blank(trials)
    if trials.empty:
        raise AnamnesisError(
            f"There is no trial of {publisher('care').title} with {question_type} answers to report: run `python -m "
            f"core run --protocol {publisher('care').name} --doctor reference/bayes`, or choose another "
            "--question-type."
        )
    if question_type == "mcq":
        for sentence in gaps_in_words(rule_gaps(asked.store, replace(asked.selection, frameworks=staffed()))):
            asked.note(sentence, "high", kind="choice_rules")
    slice_: Slice | None = "dataset" if by == "dataset" else None
    if part == "parts":
        rule = RULES[question_type]
        yield from (row for one in profiles(trials, slice_) for row in _part_rows(one, rule))
    elif part == "kinds":
        for profile in profiles(trials, slice_):
            counted = profile.trials - sum(profile.excluded.values())
            for (kind, cause), number in profile.causes.items():
                shares = {"trials": number, "counted": counted, "share": number / counted if counted else None}
                yield {**_head(profile.seat, profile.group), "kind": kind, "cause": cause, **shares}
    elif part in ("failures", "ratings"):
        with asked.store.read() as cursor:
            yield from [vars(one) for one in (failures if part == "failures" else ratings)(cursor, trials)]
    elif part == "habits":
        for h in habits_of(trials, slice_):
            counts = {name: counts_in_words(getattr(h, name)) for name in ("misuses", "endings", "ratings")}
            yield {**_head(h.seat, h.group), **{name: getattr(h, name) for name in _HABITS}, **counts}
    elif part == "normalised":
        with asked.store.read() as cursor:
            joined = across_data_sets(cursor, asked.selection)
        for n in normalised(profiles(trials, "dataset"), joined):
            yield {"model": n.seat, "measure": n.part, "value": n.value, "n_datasets": n.n_datasets, **n.by_dataset}
    else:
        points = scatter(profiles(trials, "dataset"), load_registry().group)
        yield from ({"group": name, **vars(f)} for name, f in {"all": fit(points), **fits(points)}.items())


@metric(
    "suitability",
    empty="None of these cases has a profile: make some with `python -m core job profiles DATASET`, or add --by-rule.",
    page="data",
)
def report_suitability(
    asked: Asked,
    dataset: Annotated[list[str] | None, Positional("Data sets; all that have profiles by default.")] = None,
    by_rule: Annotated[bool, "Judge by rule the cases that have no profile."] = False,
    part: Annotated[Literal["reasons", "fields"], "Share of suitable cases and reasons, or fields."] = "reasons",
) -> Iterator[Listed]:
    """Report how many cases of a data set can be played as consultations, and which fields their profiles fill."""
    with asked.store.read() as cursor:
        stored = {known: found.generated for known, found in newest_profiles(cursor).items()}
    rule = profile_by_rule if by_rule else None
    for name in dataset or datasets():
        one = dataset_suitability(name, cases_of(name), stored, rule)
        found = one.coverage
        if found.n and part == "reasons":
            counts = {"unjudged": one.unjudged, "judged": found.n, "suitable": found.suitable}
            words = {"reasons": counts_in_words(dict(found.reasons)), "made_by": counts_in_words(one.made_by)}
            yield Row(
                {"dataset": one.dataset, "cases": one.cases, **counts},
                found.share,
                *found.interval,
                found.n,
                more=words,
                columns=Columns("share", n=None),
            )
        elif found.n:
            for shares in found.fields:
                yield Row(
                    {"dataset": one.dataset, "field": shares.field},
                    shares.share("present") if shares.n else None,
                    *wilson(shares.present, shares.n),
                    shares.n,
                    more={state: shares.share(state) if shares.n else None for state in ("imputed", "absent")},
                    unit="suitable cases",
                    columns=Columns("present", n="n_suitable"),
                )


def _head(seat: str, group: str | None) -> dict[str, str]:
    return {"model": seat, "dataset": "all" if group is None else group}


def _part_rows(profile: CareProfile, rule: Rule) -> Iterator[Row]:
    found = {name: profile.part(name) for name in PARTS}
    for name, one in (*found.items(), ("acc_conv", profile.acc_conv), ("acc_static", profile.acc_static)):
        yield Row(
            {**_head(profile.seat, profile.group), "measure": name},
            one.value,
            one.low,
            one.high,
            one.n,
            more={
                "rule": rule,
                "n_without": profile.items - one.n,
                "trials": profile.trials,
                "excluded": counts_in_words(profile.excluded),
                "excluded_static": counts_in_words(profile.excluded_static),
            },
            unit="items",
            columns=_VALUE,
        )
