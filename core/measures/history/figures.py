"""Figures of history taking by model: the mean over a case's conversations, then over cases, with an interval.

Intervals resample cases (95 %, expanded for few cases as everywhere). Conversations that broke off are excluded and
counted; a case counts in a figure where any of its conversations has the measure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from core.errors import UsageError
from core.measures.history.measures import LENGTHS, SCALARS, structure
from core.measures.history.measuring import VERSION
from core.measures.history.resampling import Floats, column_intervals
from core.stats.corrections import Correction, adjusted
from core.stats.differences import Difference, paired_difference
from core.store.database import Store
from core.store.queries.history import case_means
from core.store.selection import Selection


@dataclass(frozen=True)
class Figure:
    """A mean over cases with its 95 % interval; all ``None`` where no case has the measure."""

    mean: float | None
    ci_low: float | None
    ci_high: float | None
    n_cases: int


@dataclass(frozen=True)
class MeasureRow:
    """One measure of one model.

    ``n_conversations`` have the measure; ``n_without`` were measured and lack it (repetition of fewer than two
    queries); ``n_excluded`` broke off; ``n_missing`` are not measured yet.
    """

    model: str
    measure: str
    figure: Figure
    n_conversations: int
    n_without: int
    n_excluded: int
    n_missing: int


@dataclass(frozen=True)
class ComparisonRow:
    """First minus second model in one measure, paired by case; ``p_adjusted`` over the measures compared."""

    measure: str
    first: float
    second: float
    difference: Difference
    p_adjusted: float


def read_history(store: Store, selection: Selection | None = None) -> pd.DataFrame:
    """Return the table of ``core.store.queries.history.case_means``: a row for each model and case.

    What is not measured yet is counted in ``missing``: ``measure_missing`` first. Formats and question types of the
    selection have no bearing on conversations.
    """
    with store.read() as cursor:
        return case_means(cursor, VERSION, structure(), selection)


def figures_of(table: pd.DataFrame, columns: Sequence[str]) -> dict[tuple[str, str], Figure]:
    """Return (model, column) → figure, all from one resampling of the table's cases."""
    models = sorted(table["model"].unique())
    if not models:
        return {}
    wide = table.pivot(index="case_key", columns="model", values=list(columns))
    named = [(model, column) for column in columns for model in models]
    matrix = np.column_stack(
        [wide[column][model].to_numpy(dtype=np.float64, na_value=np.nan) for model, column in named]
    )
    bounds = column_intervals(matrix, shares=[column not in LENGTHS for _, column in named])
    return {name: _figure(matrix[:, i], bounds[i].low, bounds[i].high) for i, name in enumerate(named)}


def measure_rows(table: pd.DataFrame, measures: Sequence[str] = SCALARS) -> list[MeasureRow]:
    """Return every measure of every model, in the order of models and measures."""
    figures = figures_of(table, measures)
    counts = table.groupby("model")[["conversations", "excluded", "missing", *(f"n_{m}" for m in measures)]].sum()
    return [_measure_row(model, counts.loc[model], m, figures[model, m]) for model in counts.index for m in measures]


def _measure_row(model: str, counts: pd.Series, measure: str, figure: Figure) -> MeasureRow:
    having = int(counts[f"n_{measure}"])
    without = int(counts["conversations"]) - having
    return MeasureRow(model, measure, figure, having, without, int(counts["excluded"]), int(counts["missing"]))


def compare_models(
    table: pd.DataFrame,
    first: str,
    second: str,
    measures: Sequence[str] = SCALARS,
    correction: Correction = "holm",
) -> list[ComparisonRow]:
    """Compare two models on the cases that both have, measure by measure; p-values are corrected over the measures.

    Raises ``UsageError`` where the models share no case.
    """
    sides = [table[table["model"] == model].set_index("case_key")[list(measures)] for model in (first, second)]
    shared = sides[0].index.intersection(sides[1].index)
    if shared.empty:
        raise UsageError(
            f"{first} and {second} have no case in common: compare models that were run on the same cases."
        )
    compared = [_compared(*(side.loc[shared, m].to_numpy(dtype=np.float64) for side in sides)) for m in measures]
    p_values = adjusted((difference.p for _, _, difference in compared), correction)
    return [
        ComparisonRow(m, one, other, difference, p)
        for m, (one, other, difference), p in zip(measures, compared, p_values, strict=True)
    ]


def _compared(one: Floats, other: Floats) -> tuple[float, float, Difference]:
    both = ~(np.isnan(one) | np.isnan(other))
    one, other = one[both], other[both]
    difference = paired_difference(one, other, engine="resampled")
    return (float(one.mean()), float(other.mean()), difference) if one.size else (np.nan, np.nan, difference)


def _figure(values: Floats, low: float, high: float) -> Figure:
    held = values[~np.isnan(values)]
    return Figure(float(held.mean()), low, high, held.size) if held.size else Figure(None, None, None, 0)
