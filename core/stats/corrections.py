"""Correction of p-values for multiplicity, stars, and how a p-value is printed.

Johri et al. 2025 name Holm–Bonferroni, but their tables contain Benjamini–Hochberg. A figure or table with adjusted
p-values names the correction.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal

import numpy as np

Correction = Literal["holm", "bh", "none"]
LABELS: dict[Correction, str] = {"holm": "Holm–Bonferroni", "bh": "Benjamini–Hochberg", "none": "uncorrected"}
SMALLEST = 0.0001
_STARS = ((0.0001, "****"), (0.001, "***"), (0.01, "**"), (0.05, "*"))


def adjusted(p_values: Iterable[float], correction: Correction) -> list[float]:
    """Return the adjusted p-values in the same order; NaN stays NaN and is not part of the family.

    Holm–Bonferroni controls the chance of any false finding in the family, Benjamini–Hochberg the expected share of
    false findings.
    """
    values = np.array(list(p_values), dtype=np.float64)
    present = ~np.isnan(values)
    p = values[present]
    # not by statsmodels, which runs the garbage collector at every call: seconds each in a dashboard with large caches
    if correction == "holm":
        order = np.argsort(p, kind="stable")
        p[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1)), 1)
    elif correction == "bh":
        order = np.argsort(p, kind="stable")[::-1]
        # divided by rank / n in this order of operations, whose rounding errors are those of the published tables
        p[order] = np.minimum(np.minimum.accumulate(p[order] / (np.arange(p.size, 0, -1) / p.size)), 1)
    values[present] = p
    return [float(p) for p in values]


def stars(p: float) -> str:
    """Return ``****`` to ``*`` for p ≤ .0001, .001, .01, .05, else ``ns``; an empty string for NaN."""
    if math.isnan(p):
        return ""
    return next((mark for bound, mark in _STARS if p <= bound), "ns")


def format_p(p: float) -> str:
    """Return p with four decimals, ``< 0.0001`` below that, a dash for NaN."""
    if math.isnan(p):
        return "–"
    return f"< {SMALLEST}" if p < SMALLEST else f"{p:.4f}"
