"""The figures of a bundle: results of a fixed list of metrics as JSON, compared with those computed again."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from pydantic import BaseModel, ConfigDict, Field

from core.callbacks import StepProgress
from core.errors import AnamnesisError
from core.frameworks.base import frameworks
from core.measures.base import Listed, MetricRequest, Result, Row
from core.measures.notes import result_of
from core.measures.registry import metrics
from core.store.database import Store
from core.store.queries.runs import run_records
from core.store.selection import Selection

FIGURES: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("accuracy", {}),
    ("accuracy", {"by": "specialty"}),
    ("pairs", {"against": "both"}),
    ("repeatability", {}),
    ("endings", {}),
    ("failures", {}),
    ("graders", {}),
    ("belief", {}),
    ("ledger", {}),
    ("rubric_scores", {}),
    ("rubric_safety", {}),
    ("spend", {}),
)
"""The metrics of every bundle with their options; one without a row is left out. The usual reports of the runs'
frameworks and the ratings of the reviews inside follow."""
_RELATIVE, _ABSOLUTE = 1e-9, 1e-12
"""Numbers are equal within these tolerances: another processor may round the last digits differently."""


class FigureRow(BaseModel):
    """One row: what it is about, and its numbers by column; a missing number is ``None``.

    ``estimate`` with its bounds is among the values; it is not stored a second time.
    """

    model_config = ConfigDict(frozen=True)

    label: dict[str, Any]
    values: dict[str, Any]
    estimate: float | None = Field(None, exclude=True)
    low: float | None = Field(None, exclude=True)
    high: float | None = Field(None, exclude=True)


class Figure(BaseModel):
    """The result of a metric. ``recomputable``: the contents of the bundle suffice to compute it again."""

    model_config = ConfigDict(frozen=True)

    metric: str
    options: dict[str, Any] = Field(default_factory=dict)
    title: str = ""
    rows: list[FigureRow]
    notes: list[str] = Field(default_factory=list)
    recomputable: bool = True

    @property
    def name(self) -> str:
        options = " ".join(f"{name}={value}" for name, value in self.options.items())
        return f"{self.metric} ({options})" if options else self.metric


@dataclass(frozen=True)
class FigureDifference:
    """A number that differs: the figure, its row in words, the column, and both values.

    ``column`` is empty if the whole row is missing on one side; ``recorded`` or ``computed`` is then ``None``.
    """

    figure: str
    row: str
    column: str
    recorded: Any
    computed: Any

    def __str__(self) -> str:
        if not self.column:
            return f"{self.figure}: {self.row}: {'not computed again' if self.computed is None else 'not recorded'}"
        return (
            f"{self.figure}: {self.row}: {self.column} is recorded as {self.recorded!r}, computed as {self.computed!r}"
        )


def figures_of(
    store: Store, run_ids: Sequence[str], reviews: Sequence[str] = (), progress: StepProgress = lambda *_: None
) -> list[Figure]:
    """Return the figures of some runs; a metric that has nothing to report on them is left out."""
    with store.read() as cursor:
        protocols = {run.protocol for run in run_records(cursor, list(run_ids))}
    usual: list[tuple[str, Mapping[str, Any]]] = [
        (framework.usual.report, {}) for name, framework in frameworks().items() if name in protocols
    ]
    wanted = [*FIGURES, *(entry for entry in usual if entry not in FIGURES)]
    wanted += [("ratings", {"review": name}) for name in reviews]
    figures = []
    for number, (name, options) in enumerate(wanted):
        progress(number, len(wanted), "Figures")
        if (figure := _figure(store, run_ids, name, options)) is not None:
            figures.append(figure)
    return figures


def _figure(store: Store, run_ids: Sequence[str], name: str, options: Mapping[str, Any]) -> Figure | None:
    metric = metrics().get(name)
    if metric is None:  # a metric of a later version or an extension
        return None
    request = MetricRequest(store, Selection(runs=list(run_ids)))
    try:
        result = result_of(metric, request, options)
    except AnamnesisError:  # the metric says that there is nothing to report
        return None
    return as_figure(result, name, options) if result.rows else None


def as_figure(result: Result, name: str, options: Mapping[str, Any]) -> Figure:
    rows = []
    for row in result.rows:
        label, values = _parts(row)
        bounds = (row.estimate, row.low, row.high) if isinstance(row, Row) else (None, None, None)
        estimate, low, high = (None if bound is None or math.isnan(bound) else bound for bound in bounds)
        rows.append(FigureRow(label=label, values=values, estimate=estimate, low=low, high=high))
    return Figure(
        metric=name, options=dict(options), title=result.title, rows=rows, notes=[note.text for note in result.notes]
    )


def _parts(row: Listed) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return label and numbers of a row as plain JSON values."""
    if isinstance(row, Row):  # some labels have the two means of a comparison, which are numbers of the row
        label = {name: value for name, value in row.label.items() if not isinstance(value, float)}
        values = {name: value for name, value in row.cells(plain=True).items() if name not in label}
        values |= {"excluded": dict(row.excluded)} if row.excluded else {}
        if row.comparison is not None:
            names = ("n", "first_mean", "second_mean", "difference", "low", "high", "p", "adjusted_p")
            values |= {f"comparison {name}": getattr(row.comparison, name) for name in names}
    else:
        label = {name: value for name, value in row.items() if value is None or isinstance(value, str)}
        values = {name: value for name, value in row.items() if name not in label}
    plain: dict[str, Any] = orjson.loads(orjson.dumps([label, values], default=str, option=_PLAIN))
    return plain[0], plain[1]  # type: ignore[index]


_PLAIN = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS


def differences(recorded: Figure, computed: Figure | None) -> Iterator[FigureDifference]:
    """Yield the numbers of a recorded figure that differ from those computed again; texts are not compared.

    Columns that only the computed figure has are those of another version of the program and are ignored.
    """
    before, after = rows_by_label(recorded), rows_by_label(computed) if computed is not None else {}
    for key, row in before.items():
        again = after.get(key)
        if again is None:
            yield FigureDifference(recorded.name, words_of(row), "", row.values, None)
            continue
        for column, value in row.values.items():
            if not same(value, again.values.get(column)):
                yield FigureDifference(recorded.name, words_of(row), column, value, again.values.get(column))
    for key, row in after.items():
        if key not in before:
            yield FigureDifference(recorded.name, words_of(row), "", None, row.values)


def rows_by_label(figure: Figure, without: Sequence[str] = ()) -> dict[tuple[str, int], FigureRow]:
    """Return label, and the number of earlier rows with this label → row; ``without`` parts of the labels."""
    earlier = Counter[str]()
    rows = {}
    for row in figure.rows:
        label = json.dumps({name: value for name, value in row.label.items() if name not in without}, sort_keys=True)
        rows[label, earlier[label]] = row
        earlier[label] += 1
    return rows


def words_of(row: FigureRow) -> str:
    return " ".join(str(value) for value in row.label.values() if value not in (None, ""))


def same(recorded: Any, computed: Any) -> bool:
    """Return whether two values are equal; numbers within rounding, texts always."""
    if isinstance(recorded, str):
        return True
    if isinstance(recorded, dict):
        return isinstance(computed, dict) and all(same(value, computed.get(name)) for name, value in recorded.items())
    if isinstance(recorded, list):
        equal_length = isinstance(computed, list) and len(recorded) == len(computed)
        return equal_length and all(same(*pair) for pair in zip(recorded, computed, strict=True))
    if isinstance(recorded, (int, float)) and isinstance(computed, (int, float)):
        return math.isclose(recorded, computed, rel_tol=_RELATIVE, abs_tol=_ABSOLUTE)
    return recorded is None and computed is None
