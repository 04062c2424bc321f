"""Intervals of agreement coefficients on plain categories: all resamples of the items computed at once.

``core.stats.agreement`` computes one set of items; here the same coefficients, by the same definitions, are computed
for thousands of resampled sets from how often each pattern of answers was drawn. Items stand alone, or hang together
by case (several answers to one case), which is then resampled whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.stats.agreement import Said
from core.stats.intervals import NOTHING, Interval
from core.stats.ratios import percentiles, resampled_sums

Floats = NDArray[np.float64]
RESAMPLES = 2_000
SEED = 20


def agreement_intervals(said: Said, categories: Sequence[str], level: float = 0.95) -> dict[str, Interval]:
    """Return the percentile bootstrap interval of each coefficient for two judges a item, by its function's name.

    ``cohen_kappa`` takes the first of an item's two answers as one judge's and the second as the other's. Resamples on
    which a coefficient is undefined are left out; NaN where it is on the items themselves.
    """
    patterns = Counter((first, second) for first, second in said)
    if not patterns:
        return dict.fromkeys(_NAMES, NOTHING)
    held = np.array(list(patterns.values()), dtype=np.float64)
    drawn = np.random.default_rng(SEED).multinomial(len(said), held / held.sum(), RESAMPLES)
    weights = np.vstack([held, drawn])  # the items themselves come first
    values = _coefficients(_one_hot(list(patterns), categories), weights)
    tails = [(1 - level) / 2, (1 + level) / 2]
    return {name: _interval(found, tails) for name, found in values.items()}


_NAMES = ("percent_agreement", "cohen_kappa", "fleiss_kappa", "gwet_ac", "krippendorff_alpha")


def _one_hot(patterns: Sequence[tuple[str | None, str | None]], categories: Sequence[str]) -> Floats:
    """Return pattern × judge × category: 1 where the judge chose it."""
    return np.array([[[float(one == name) for name in categories] for one in pattern] for pattern in patterns])


def _coefficients(chosen: Floats, weights: Floats) -> dict[str, Floats]:
    n = weights.sum(axis=1)
    same = np.einsum("pc,pc->p", chosen[:, 0], chosen[:, 1])
    observed = weights @ same / n
    first, second = weights @ chosen[:, 0] / n[:, None], weights @ chosen[:, 1] / n[:, None]
    shares = (first + second) / 2
    kinds = chosen.shape[2]
    values = 2 * n  # each item has two
    counts = shares * values[:, None]
    by_chance = (counts * (counts - 1)).sum(axis=1) / (values * (values - 1))
    return {
        "percent_agreement": observed,
        "cohen_kappa": _corrected(observed, (first * second).sum(axis=1)),
        "fleiss_kappa": _corrected(observed, (shares**2).sum(axis=1)),
        "gwet_ac": _corrected(observed, (shares * (1 - shares)).sum(axis=1) / (kinds - 1)),
        "krippendorff_alpha": _corrected(observed, by_chance),
    }


def _corrected(observed: Floats, by_chance: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.isclose(by_chance, 1), np.nan, (observed - by_chance) / (1 - by_chance))


def _interval(values: Floats, tails: Sequence[float]) -> Interval:
    resampled = values[1:][np.isfinite(values[1:])]
    if not np.isfinite(values[0]) or not resampled.size:
        return NOTHING
    low, high = np.quantile(resampled, tails)
    return Interval(float(low), float(high))


class Estimate(NamedTuple):
    """A coefficient with the interval that resamples cases; all NaN where it is undefined."""

    value: float
    interval: Interval


def agreement_by_case(tables: Sequence[ArrayLike]) -> list[dict[str, Estimate]]:
    """Return, for each table, every coefficient of two judges whose items hang together by case, by function's name.

    A table is case × first judge's category × second's: how many of the case's items they put there. All tables are of
    the same cases, which are resampled whole, once for all.
    """
    held = [np.asarray(table, dtype=np.float64) for table in tables]
    flat = [table.reshape(len(table), -1) for table in held]
    weights = np.split(_with_resamples(np.hstack(flat)), np.cumsum([table.shape[1] for table in flat])[:-1], axis=1)
    return [_of_table(table.shape[1], found, len(table)) for table, found in zip(held, weights, strict=True)]


def _of_table(kinds: int, weights: Floats, cases: int) -> dict[str, Estimate]:
    if not weights[0].sum():
        return dict.fromkeys(_NAMES, Estimate(float("nan"), NOTHING))
    places = np.indices((kinds, kinds)).reshape(2, -1).T
    with np.errstate(divide="ignore", invalid="ignore"):
        found = _coefficients(np.eye(kinds)[places], weights)
    return {name: _estimate(values, cases) for name, values in found.items()}


def many_judges_by_case(patterns: ArrayLike, held: ArrayLike) -> dict[str, Estimate]:
    """Return percent agreement, Fleiss' kappa and Gwet's AC1 of any number of judges, by function's name.

    ``patterns`` is pattern × category: how many judges chose it, two or more in all; ``held`` is case × pattern: how
    many of the case's items were judged so. Cases are resampled whole.
    """
    chosen = np.asarray(patterns, dtype=np.float64)
    weights = _with_resamples(np.asarray(held, dtype=np.float64))
    kinds, n = chosen.shape[1], weights.sum(axis=1)
    judges = chosen.sum(axis=1)
    agreeing = (chosen * (chosen - 1)).sum(axis=1) / (judges * (judges - 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        observed = weights @ agreeing / n
        shares = weights @ (chosen / judges[:, None]) / n[:, None]
    found = {
        "percent_agreement": observed,
        "fleiss_kappa": _corrected(observed, (shares**2).sum(axis=1)),
        "gwet_ac": _corrected(observed, (shares * (1 - shares)).sum(axis=1) / (kinds - 1)),
    }
    return {name: _estimate(values, len(np.asarray(held))) for name, values in found.items()}


def _with_resamples(by_case: Floats) -> Floats:
    """Return the sums over all cases, then those over resampled ones."""
    return np.vstack([by_case.sum(axis=0), resampled_sums(by_case)])


def _estimate(values: Floats, cases: int) -> Estimate:
    whole = float(values[0])
    return Estimate(whole, percentiles(values[1:], cases)) if np.isfinite(whole) else Estimate(float("nan"), NOTHING)
