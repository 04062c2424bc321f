"""Agreement of judges on items: percent agreement and chance-corrected coefficients, with intervals.

Percent agreement, Fleiss' kappa and Gwet's AC1 follow the general form for any number of judges (Gwet, Handbook of
Inter-Rater Reliability, 4th edition, chapters 2 and 3); Cohen's kappa and Krippendorff's alpha are those of two judges.
A coefficient is NaN if chance alone would make it 1 (all judges always give the same answer). irrCAC 0.4.4 gives the
same AC1 to the five decimals that it rounds to, but it pins scipy 1.12 and pandas 2, and its intervals treat items as
independent.

The coefficients of the sample and of thousands of resamples are computed in one step. Items of one case (several
answers to it) are correlated, so cases are resampled. If judges agree on everything, or on nothing, all resamples are
identical; the interval is then Wilson's interval of the percent agreement over cases, corrected with the same agreement
by chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.stats.intervals import NOTHING, Interval, wilson
from core.stats.ratios import percentiles, resampled_sums

Floats = NDArray[np.float64]


class Coefficient(NamedTuple):
    """A coefficient with its interval, cases resampled; all NaN if the coefficient is undefined."""

    value: float
    interval: Interval


def agreement_by_case(tables: Sequence[ArrayLike]) -> list[dict[str, Coefficient]]:
    """Return every coefficient of two judges, by name, for each table.

    Args:
        tables: Arrays case × first judge's category × second judge's category: the number of the case's items that the
            judges put there. All tables have the same cases, so one set of resamples serves them all.
    """
    counts_by_case = [np.asarray(table, dtype=np.float64) for table in tables]
    flat = [table.reshape(len(table), -1) for table in counts_by_case]
    weights = np.split(_with_resamples(np.hstack(flat)), np.cumsum([table.shape[1] for table in flat])[:-1], axis=1)
    estimates = []
    for table, sums in zip(counts_by_case, weights, strict=True):
        if not sums[0].sum():
            estimates.append(dict.fromkeys(_OF_TWO, Coefficient(float("nan"), NOTHING)))
            continue
        n, kinds = sums.sum(axis=1), table.shape[1]
        chosen = np.eye(kinds)[np.indices((kinds, kinds)).reshape(2, -1).T]
        with np.errstate(divide="ignore", invalid="ignore"):
            observed = sums @ np.einsum("pc,pc->p", chosen[:, 0], chosen[:, 1]) / n
            first, second = sums @ chosen[:, 0] / n[:, None], sums @ chosen[:, 1] / n[:, None]
            shares, values = (first + second) / 2, 2 * n  # two values per item
            value_counts = shares * values[:, None]
            by_chance = (
                np.zeros_like(observed),
                (first * second).sum(axis=1),
                (shares**2).sum(axis=1),
                (shares * (1 - shares)).sum(axis=1) / (kinds - 1),
                (value_counts * (value_counts - 1)).sum(axis=1) / (values * (values - 1)),
            )
        estimates.append(_estimates(observed, dict(zip(_OF_TWO, by_chance, strict=True)), len(table)))
    return estimates


def many_judges_by_case(patterns: ArrayLike, items: ArrayLike) -> dict[str, Coefficient]:
    """Return percent agreement, Fleiss' kappa and Gwet's AC1 of any number of judges, by name.

    Args:
        patterns: Pattern × category: the number of judges that chose the category, at least two judges per pattern.
        items: Case × pattern: the number of the case's items with that pattern. Cases are resampled.
    """
    chosen = np.asarray(patterns, dtype=np.float64)
    weights = _with_resamples(np.asarray(items, dtype=np.float64))
    kinds, n = chosen.shape[1], weights.sum(axis=1)
    judges = chosen.sum(axis=1)
    agreeing = (chosen * (chosen - 1)).sum(axis=1) / (judges * (judges - 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        observed = weights @ agreeing / n
        shares = weights @ (chosen / judges[:, None]) / n[:, None]
    by_chance = {
        "percent_agreement": np.zeros_like(observed),
        "fleiss_kappa": (shares**2).sum(axis=1),
        "gwet_ac": (shares * (1 - shares)).sum(axis=1) / (kinds - 1),
    }
    return _estimates(observed, by_chance, len(np.asarray(items)))


_OF_TWO = ("percent_agreement", "cohen_kappa", "fleiss_kappa", "gwet_ac", "krippendorff_alpha")


def _all_corrected(observed: Floats, by_chance: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.isclose(by_chance, 1, rtol=1e-9), np.nan, (observed - by_chance) / (1 - by_chance))


def _with_resamples(by_case: Floats) -> Floats:
    return np.vstack([by_case.sum(axis=0), resampled_sums(by_case)])


def _estimates(observed: Floats, by_chance: dict[str, Floats], cases: int) -> dict[str, Coefficient]:
    """Return every coefficient with its interval; row 0 of ``observed`` is the sample, the other rows are resamples."""
    estimates: dict[str, Coefficient] = {}
    identical = bool(np.nanmax(observed) - np.nanmin(observed) < 1e-9)
    for name, chance in by_chance.items():
        values = _all_corrected(observed, chance)
        if not np.isfinite(values[0]):
            interval = NOTHING
        elif identical:
            bounds = np.array(wilson(observed[0] * cases, cases))
            interval = Interval(*_all_corrected(bounds, np.full(2, chance[0])).tolist())
        else:
            interval = percentiles(values[1:], cases)
        estimates[name] = Coefficient(float(values[0]), interval)
    return estimates
