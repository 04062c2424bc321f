"""Comparison of two figures case by case; all metrics use it to compare rows."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from math import isnan
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from core.measures.base import Comparison, DifferenceTest, Row
from core.stats.corrections import LABELS, Correction, adjusted
from core.stats.differences import bootstrap_difference, changes, paired_difference, unpaired_difference
from core.stats.intervals import t_interval

_Case = TypeVar("_Case", bound=Hashable)
DifferenceInterval = Literal["smoothed", "bootstrap", "normal"]
TESTS: dict[DifferenceTest, str] = {
    "sign_flip": "exact sign-flip test",
    "paired_bootstrap": "paired bootstrap (Johri et al. 2025)",
    "unpaired_bootstrap": "unpaired bootstrap (Johri et al. 2023, preprint)",
}
ComparisonVerdict = Literal["rose", "fell", "unclear"]
LEVEL = 0.05
"""A difference counts as a rise or a fall if its adjusted p-value is at most this."""


def compare_cases(
    first: Mapping[_Case, float],
    second: Mapping[_Case, float],
    interval: DifferenceInterval = "smoothed",
    *,
    most: float | None = 1.0,
    scores: bool = False,
    test: DifferenceTest = "sign_flip",
) -> Comparison:
    """Compare values by case, on the cases with a value on both sides; NaN counts as missing.

    See ``compare_values``.
    """
    firsts = {key: value for key, value in first.items() if not isnan(value)}
    seconds = {key: value for key, value in second.items() if not isnan(value)}
    shared = [key for key in firsts if key in seconds]
    a, b = (np.array([side[key] for key in shared], dtype=np.float64) for side in (firsts, seconds))
    return replace(
        compare_values(a, b, interval, most=most, scores=scores, test=test),
        first_alone=len(firsts) - len(shared),
        second_alone=len(seconds) - len(shared),
    )


def compare_values(
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    interval: DifferenceInterval = "smoothed",
    *,
    most: float | None = 1.0,
    scores: bool = False,
    test: DifferenceTest = "sign_flip",
) -> Comparison:
    """Compare the values of the same cases, in the same order, on the first side (``a``) and the second.

    ``most`` is the largest possible difference: 1 for shares, ``None`` for measures without a limit, such as lengths.
    ``scores``: the values are no shares of right trials.
    ``interval`` and ``test``: see ``core.measures.paired.compare``. Tests: ``core.stats.differences``.
    """
    by_case = changes(b, a)
    spread = float(by_case.std(ddof=1)) if a.size > 1 else None
    if test == "sign_flip":
        tested = paired_difference(b, a, most=most, scores=scores)
        bounds = tested.interval
        if interval != "smoothed":
            bounds = bootstrap_difference(b, a).interval if interval == "bootstrap" else t_interval(by_case)
    elif test == "paired_bootstrap":
        tested = bootstrap_difference(b, a)
        bounds = tested.interval
    else:
        tested = unpaired_difference(b, a)
        bounds = tested.interval
        if spread is not None:
            spread = float(np.hypot(a.std(ddof=1), b.std(ddof=1)))
    return Comparison(
        n=a.size,
        first_mean=float(a.mean()) if a.size else float("nan"),
        second_mean=float(b.mean()) if a.size else float("nan"),
        difference=tested.mean,
        low=bounds.low,
        high=bounds.high,
        p=tested.p,
        improved=int((by_case > 0).sum()),
        regressed=int((by_case < 0).sum()),
        equal=int((by_case == 0).sum()),
        spread=spread,
        test=test,
    )


def corrected(rows: Sequence[Row], correction: Correction) -> list[Row]:
    """Return rows that are shown together, with the p-values of their comparisons corrected over all rows."""
    p_values = [row.comparison.p for row in rows if row.comparison is not None]
    family = f"{LABELS[correction]} over {sum(not np.isnan(p) for p in p_values):,} tests"
    adjusted_p = iter(adjusted(p_values, correction))
    return [
        replace(row, comparison=replace(row.comparison, adjusted_p=next(adjusted_p), family=family))
        if row.comparison is not None
        else row
        for row in rows
    ]


def verdict(comparison: Comparison) -> ComparisonVerdict:
    if comparison.adjusted_p is None or not comparison.adjusted_p <= LEVEL:
        return "unclear"
    return "rose" if comparison.difference > 0 else "fell"
