"""Interval of a share of independent items, such as cases or conversations."""

from __future__ import annotations

from core.stats.intervals import NOTHING, Interval


def wilson(count: int, n: int, level: float = 0.95) -> Interval:
    """Return Wilson's score interval of ``count`` of ``n``; NaN for none."""
    if not n:
        return NOTHING
    from statsmodels.stats import proportion  # type: ignore[import-untyped]  # slow to load

    low, high = proportion.proportion_confint(count, n, alpha=1 - level, method="wilson")
    return Interval(float(low), float(high))
