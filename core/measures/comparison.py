"""Comparison of two figures case by case; all metrics use it to compare rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from core.measures.base import Comparison, Row
from core.stats.corrections import Correction, adjusted
from core.stats.differences import bootstrap_difference, paired_difference
from core.stats.intervals import t_interval

DifferenceInterval = Literal["smoothed", "bootstrap", "normal"]
ComparisonVerdict = Literal["rose", "fell", "unclear"]
LEVEL = 0.05
"""A difference counts as a rise or a fall if its adjusted p-value is at most this."""


def compare_cases(
    first: Mapping[str, float],
    second: Mapping[str, float],
    interval: DifferenceInterval = "smoothed",
    *,
    most: float | None = 1.0,
) -> Comparison:
    """Compare values by case key, on the cases with a value on both sides; NaN counts as missing.

    ``most`` is the largest possible difference: 1 for shares, ``None`` for measures without a limit, such as lengths.
    ``interval``: see ``core.measures.compare.compare``. Test: ``core.stats.differences.paired_difference``.
    """
    firsts = {key: value for key, value in first.items() if not np.isnan(value)}
    seconds = {key: value for key, value in second.items() if not np.isnan(value)}
    shared = [key for key in firsts if key in seconds]
    a, b = (np.array([side[key] for key in shared], dtype=np.float64) for side in (firsts, seconds))
    tested = paired_difference(b, a, most=most)
    if interval == "smoothed":
        bounds = tested.interval
    else:
        bounds = bootstrap_difference(b, a).interval if interval == "bootstrap" else t_interval(b - a)
    changes = b - a
    return Comparison(
        n=len(shared),
        first_mean=float(a.mean()) if shared else float("nan"),
        second_mean=float(b.mean()) if shared else float("nan"),
        difference=tested.mean,
        low=bounds.low,
        high=bounds.high,
        p=tested.p,
        improved=int((changes > 0).sum()),
        regressed=int((changes < 0).sum()),
        equal=int((changes == 0).sum()),
        first_alone=len(firsts) - len(shared),
        second_alone=len(seconds) - len(shared),
        spread=float(changes.std(ddof=1)) if len(shared) > 1 else None,
    )


def corrected(rows: Sequence[Row], correction: Correction) -> list[Row]:
    """Return rows that are shown together, with the p-values of their comparisons corrected over all rows."""
    comparisons = [row.comparison for row in rows if row.comparison is not None]
    p_values = iter(adjusted([comparison.p for comparison in comparisons], correction))
    return [
        row if row.comparison is None else replace(row, comparison=replace(row.comparison, adjusted_p=next(p_values)))
        for row in rows
    ]


def verdict(comparison: Comparison) -> ComparisonVerdict:
    if comparison.adjusted_p is None or not comparison.adjusted_p <= LEVEL:
        return "unclear"
    return "rose" if comparison.difference > 0 else "fell"
