"""CARE across data sets: parts normalised within each, and the drop of accuracy from the whole question.

Source: Oh, Park, Kim, arXiv 2512.10195, results across data sets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import duckdb
import numpy as np

from core.frameworks.automedic.measures.profile import PARTS
from core.measures.base import Columns, MetricRequest, Row
from core.store.conditions import SEPARATOR, doctor_of
from core.store.database import Store
from core.store.selection import Selection, select, staffed

FitBy = Literal["group", "dataset"]
"""Part of the labels of points that lines are fitted by."""
_LEAST_FOR_LINE = 3
_LEAST_FOR_INTERVAL = 4
_SAME = 1e-12
"""Figures that differ by less than this differ only by rounding."""


def across_data_sets(cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None) -> dict[str, str]:
    """Return condition → a name that it shares with the corresponding conditions on other data sets.

    They are equal in all parts of a condition except the data set and the selected cases.
    """
    chosen = replace(selection or Selection(), frameworks=staffed())
    complete = [condition for condition in select(cursor, chosen) if not condition.partial]
    if chosen.pooled:  # all conditions of a doctor on a data set are pooled on purpose
        return {
            condition.name: SEPARATOR.join(filter(None, (condition.doctor, condition.newest.study)))
            for condition in complete
        }
    joined = select(cursor, chosen, without=("data_set", "case_set"))
    by_run = {run: condition.name for condition in joined if not condition.partial for run in condition.runs}
    return {condition.name: by_run[condition.runs[0]] for condition in complete}


def names_across(rows: Sequence[Row], joined: Mapping[str, str]) -> dict[tuple[str, str], str]:
    """Return (condition, data set) of rows → the name that the condition shares with those on other data sets.

    ``joined`` is ``across_data_sets``. If several conditions with one joined name have the same data set, they stay
    separate under their own names, because it is unknown which of them corresponds to the other data sets.
    """
    places = {_model_and_dataset(row) for row in rows}
    counts = Counter((joined.get(model, model), dataset) for model, dataset in places)
    return {
        (model, dataset): name if counts[name := joined.get(model, model), dataset] == 1 else model
        for model, dataset in places
    }


def joined_names(store: Store, selection: Selection) -> dict[str, str]:
    with store.read() as cursor:
        return across_data_sets(cursor, selection)


def on_all_sets(rows: Sequence[Row], request: MetricRequest, options: Mapping[str, Any]) -> list[Row]:
    """Return rows by data set under the names that conditions share across data sets, for one series each."""
    if all(row.label["dataset"] == "all" for row in rows):
        return list(rows)
    shared = names_across(rows, request.read(joined_names, request.selection))
    return [replace(row, label={**row.label, "model": shared[_model_and_dataset(row)]}) for row in rows]


def with_lines(rows: Sequence[Row], request: MetricRequest, options: Mapping[str, Any]) -> list[Row]:
    """Return the points of ``on_all_sets``, and a row without an estimate for each fitted line."""
    line: FitBy = options.get("line", "group")
    lines = [
        Row(
            {
                "model": f"{'All models' if row.label[line] == 'all' else row.label[line]}: fitted line"
                + ("" if row.estimate is None else f", r = {row.estimate:.2f}"),
                "dataset": "",
            },
            None,
            more={"slope": row["slope"], "intercept": row["intercept"], "static": None},
        )
        for row in fits(rows, line)
    ]
    return [*on_all_sets(rows, request, options), *lines]


def normalised(rows: Sequence[Row], joined: Mapping[str, str]) -> list[Row]:
    """Return every part of every doctor from ``parts`` by data set, from 0 (its worst there) to 1 (its best).

    The estimate is the mean over ``n`` data sets, which are in ``more``. A data set is ``None``, and not in the mean,
    if a condition has no value, or if its conditions do not differ, so that there is no scale. ``joined``: see
    ``names_across``.
    """
    rows = [row for row in rows if row.label["measure"] in PARTS]
    datasets = sorted({row.label["dataset"] for row in rows})
    names = names_across(rows, joined)
    scaled_rows = []
    for part in PARTS:
        scaled: dict[str, dict[str, float]] = {}
        for dataset in datasets:
            members = [row for row in rows if (row.label["dataset"], row.label["measure"]) == (dataset, part)]
            scaled[dataset] = {names[_model_and_dataset(row)]: value for row, value in _scaled(members)}
        for name in sorted(set(names.values())):
            by_dataset = {dataset: scaled[dataset].get(name) for dataset in datasets}
            values = [value for value in by_dataset.values() if value is not None]
            mean = float(np.mean(values)) if values else None
            label = {"model": name, "measure": part}
            scaled_rows.append(Row(label, mean, n=len(values), more=by_dataset, unit="data sets", columns=_NORMALISED))
    return scaled_rows


def points(rows: Sequence[Row], group_of: Callable[[str], str]) -> list[Row]:
    """Return accuracy after the conversation next to that on the whole question (``static``), by data set.

    A row for each condition and data set of ``parts`` that has items with both answers; ``group_of`` takes the doctor.
    """
    static = {_model_and_dataset(row): row.estimate for row in rows if row.label["measure"] == "acc_static"}
    return [
        Row(
            {name: row.label[name] for name in ("model", "dataset")}
            | {"group": group_of(doctor_of(row.label["model"]))},
            row.estimate,
            row.low,
            row.high,
            row.n,
            more={"static": static[_model_and_dataset(row)]},
            unit="items",
            columns=Columns("conversation", n="n_items"),
        )
        for row in rows
        if row.label["measure"] == "acc_conv" and row.estimate is not None
    ]


def fit(points: Sequence[Row], name: str = "all", by: FitBy = "group") -> Row:
    """Return Pearson's r of ``points`` with its 95 % interval, and the least-squares line of conversation on static.

    The interval is by Fisher's z, which assumes independent points; points of one doctor or data set are correlated, so
    it is too narrow. All are ``None`` for fewer than three points, because a line always runs through two. Slope and
    intercept are ``None`` if static accuracies do not differ, r if either accuracy does not differ, the interval for
    fewer than four points.
    """
    static, conv = np.array([row.more["static"] for row in points]), np.array([row.estimate for row in points])
    slope = intercept = r = low = high = None
    if len(points) >= _LEAST_FOR_LINE and np.ptp(static) > _SAME:
        from scipy import stats  # type: ignore[import-untyped]  # slow to load

        line = stats.linregress(static, conv)
        slope, intercept = float(line.slope), float(line.intercept)
        if np.ptp(conv) > _SAME:
            pearson = stats.pearsonr(static, conv)
            r = float(pearson.statistic)
            if len(points) >= _LEAST_FOR_INTERVAL:
                low, high = map(float, pearson.confidence_interval(0.95))
    more = {"slope": slope, "intercept": intercept}
    return Row({by: name}, r, low, high, len(points), more=more, unit="points", columns=_FIT)


def fits(points: Sequence[Row], by: FitBy = "group") -> list[Row]:
    """Return the fit of all points, then that of each group of models or of each data set, by name."""
    names = sorted({row.label[by] for row in points})
    return [fit(points, by=by), *(fit([row for row in points if row.label[by] == name], name, by) for name in names)]


_NORMALISED = Columns("value", None, None, n="n_datasets")
_FIT = Columns("r", "low", "high", n="n")


def _model_and_dataset(row: Row) -> tuple[str, str]:
    return row.label["model"], row.label["dataset"]


def _scaled(rows: Sequence[Row]) -> list[tuple[Row, float]]:
    values = [(row, row.estimate) for row in rows if row.estimate is not None]
    least, most = min((value for _, value in values), default=0.0), max((value for _, value in values), default=0.0)
    return [(row, (value - least) / (most - least)) for row, value in values] if most - least > _SAME else []
