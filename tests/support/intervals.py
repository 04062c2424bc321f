"""The smoothed interval of cases that are right or wrong, by scipy's beta distribution."""

from __future__ import annotations

from scipy import stats


def beta_bounds(right: float, cases: int) -> tuple[float, float]:
    """Return the 95 % bounds of ``right`` of ``cases``: 0 and 1 are bounds themselves if none or all are right."""
    shape = max(0.5, 0.75 - 1.25 / cases)
    tail = stats.norm.sf(stats.t.ppf(0.975, 4 * cases))
    low, high = stats.beta.ppf([tail, 1 - tail], right + shape, cases - right + shape)
    return (0.0 if right == 0 else float(low), 1.0 if right == cases else float(high))
