"""Accuracy on cases from before and after the end of a doctor's training data: ``report accuracy --by period``.

A case with a date from after the cutoff cannot have been in the training data, as far as both dates are right. Where
the days that the two dates can mean overlap, such as a case of the month of the cutoff, the case is excluded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from core.dates import Order, order, read_date
from core.frameworks.casting import is_model
from core.frameworks.starts import LABELS, Missing
from core.measures.base import Columns, MetricRequest, Row, bounded
from core.measures.paired import Cases, by_arm
from core.models.registry import load_registry
from core.stats.differences import unpaired_difference
from core.stats.intervals import NOTHING, Interval
from core.store.queries.answers import CaseScore
from core.store.queries.case_labels import case_dates
from core.store.selection import conditions

IntervalOf = Callable[[Sequence[float]], Interval]
"""Returns the 95 % interval of a mean over cases."""
Period = Literal["before", "after"]
PERIODS: tuple[Period, ...] = ("before", "after")
NO_DATE, UNCLEAR, NO_ANSWER = "no date", "date too near to the cutoff", "no answer that counts"


def period_rows(
    label: Mapping[str, Any], cases: Cases, dates: Mapping[str, str], cutoff: str, interval_of: IntervalOf
) -> list[Row]:
    """Return the accuracy of an arm before and after ``cutoff``: the mean over a case's trials, then over cases.

    The row of ``after`` has the ``difference`` to before (−1 to 1) with its 95 % interval by the unpaired bootstrap,
    which is missing with fewer than two cases in a period. Both rows have the cases that are in neither period among
    their exclusions.
    """
    scores: dict[Order, list[float]] = {"before": [], "after": [], "unclear": []}
    without_answer: Counter[Order] = Counter()
    undated = unclear = 0
    for key, case in cases.items():
        if key not in dates:
            undated += 1
            continue
        period = order(dates[key], cutoff)
        if period == "unclear":
            unclear += 1
        elif case.score is None:
            without_answer[period] += 1
        else:
            scores[period].append(case.score)
    rows = []
    for period in PERIODS:
        values = np.array(scores[period], dtype=np.float64)
        more: dict[str, Any] = bounded("difference", None, NOTHING)
        if period == "after" and values.size and scores["before"]:
            tested = unpaired_difference(values, scores["before"])
            interval = tested.interval if tested.n > 1 else NOTHING
            more = bounded("difference", tested.mean, interval)
        excluded = {NO_DATE: undated, UNCLEAR: unclear, NO_ANSWER: without_answer[period]}
        rows.append(
            Row(
                {**label, "group": period},
                float(values.mean()) if values.size else None,
                *interval_of(values.tolist()),
                values.size,
                {reason: n for reason, n in excluded.items() if n},
                {"cutoff": cutoff}
                | {name: None if value is None or np.isnan(value) else value for name, value in more.items()},
                columns=Columns(excluded="excluded"),
                by="period",
            )
        )
    return rows


def by_period(request: MetricRequest, scores: Iterable[CaseScore], cutoff: str, interval_of: IntervalOf) -> list[Row]:
    """Return the accuracy of each arm before and after its doctor's cutoff, or ``cutoff`` for all models.

    Cases without a date, and cases whose date cannot be told from the cutoff, are excluded and counted. Raises
    ``AnamnesisError`` if no model with a cutoff has answered a case with a date.
    """
    if cutoff:
        read_date(cutoff)
    registry = load_registry()
    matching = conditions(request.store, request.selection)
    stated = {condition.name: registry.cutoff(condition.doctor) for condition in matching}
    cutoffs = {name: cutoff or date for name, (date, _) in stated.items()}
    with request.store.read() as cursor:
        dates = case_dates(cursor)
    rows: list[Row] = []
    for (name, format_, question_type), cases in by_arm(scores).items():
        if cutoffs.get(name) and not dates.keys().isdisjoint(cases):
            label = {"model": name, "format": format_, "question_type": question_type}
            rows += period_rows(label, cases, dates, cutoffs[name], interval_of)
    if not rows:
        raise Missing(
            "No model with a cutoff has answered a case with a date. A date is a label of a case, or the column date "
            "of its file; a cutoff is part of a model’s entry in the models file.",
            LABELS,
        )
    without = [condition for condition in matching if not cutoffs[condition.name]]
    models = [condition.name for condition in without if is_model(condition.doctor)]
    _note(request, rows, models, len(without) - len(models))
    if not cutoff:
        _name_sources(request, {row.label["model"]: stated[row.label["model"]] for row in rows})
    return rows


def _name_sources(request: MetricRequest, stated: Mapping[str, tuple[str, str]]) -> None:
    """Add a note on where the cutoffs come from; ``stated`` is condition → (cutoff, source)."""
    by_source: dict[str, list[str]] = {}
    for name, (date, source) in stated.items():
        by_source.setdefault(source, []).append(f"{request.name(name)} {date}")
    own = by_source.pop("", [])
    lines = [f"{', '.join(names)}: {source}" for source, names in by_source.items()]
    lines += [f"{', '.join(own)}: entered in your models file, without a source"] if own else []
    request.note(f"Cutoffs: {'; '.join(lines)}.", kind="dates", page="models")


def _note(request: MetricRequest, rows: Sequence[Row], without_cutoff: Sequence[str], untrained: int) -> None:
    """Add the notes; ``untrained`` is the number of conditions whose doctor is a person or rules."""
    request.note(
        "Before and after are different cases, which may differ in difficulty: a lower accuracy after the cutoff is a "
        "hint of training on the cases before it, and no proof.",
        "high",
        kind="dates",
    )
    if without_cutoff:
        names = ", ".join(request.name(name) for name in without_cutoff)
        request.note(f"Left out, because no cutoff is stated: {names}.", "high", kind="dates", page="models")
    if untrained:
        request.note(f"Left out, because rules and people have no cutoff: {untrained:,} conditions.", kind="dates")
    worst = max(rows, key=lambda row: row.excluded.get(NO_DATE, 0) + row.excluded.get(UNCLEAR, 0))
    if worst.excluded.get(NO_DATE, 0) + worst.excluded.get(UNCLEAR, 0):
        counts = " and ".join(
            f"{worst.excluded[reason]:,} ({reason})" for reason in (NO_DATE, UNCLEAR) if worst.excluded.get(reason)
        )
        request.note(f"In neither period: up to {counts} of the cases of an arm.", kind="dates")
    request.note(
        "A cutoff is what the maker of the model states, of pretraining, of tuning or of the model's knowledge. Models "
        "are often trained on later texts after it, and a case may be older than its date.",
        kind="dates",
    )
