"""Agreement of judges on items: percent agreement and chance-corrected coefficients, with intervals.

Percent agreement, Fleiss' kappa, Gwet's AC1 and AC2, and Krippendorff's alpha are for any number of judges (Gwet,
Handbook of Inter-Rater Reliability, 4th edition, chapters 2 and 3), Cohen's kappa for two. On a scale neighbours agree
in part (``ordinal_weights``), which makes AC1 Gwet's AC2. A coefficient is NaN if chance alone would make it 1 (all
judges always give the same answer). irrCAC 0.4.4 gives the same AC1 and AC2 to the five decimals that it rounds to, but
it pins scipy 1.12 and pandas 2, and its intervals treat items as independent.

Items of one case (several answers to it) are correlated, so intervals leave out one case at a time (the jackknife). If
judges agree on everything, or on nothing, all these values are identical; the interval is then Wilson's interval of the
percent agreement over cases, corrected with the same agreement by chance. Percent agreement itself is a share and has
the interval of every share (``core.stats.smoothed``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import scipy  # type: ignore[import-untyped]
from numpy.typing import ArrayLike, NDArray

from core.stats.intervals import NOTHING, Interval, wilson
from core.stats.smoothed import ratio_interval

Floats = NDArray[np.float64]


class Coefficient(NamedTuple):
    """A coefficient with its 95 % interval over cases; all NaN if the coefficient is undefined."""

    value: float
    interval: Interval


def agreement_by_case(table: ArrayLike, ordered: bool = False) -> dict[str, Coefficient]:
    """Return every coefficient of two judges, by name: those of many judges, and Cohen's kappa.

    Args:
        table: Case × first judge's category × second judge's category: the number of the case's items that the judges
            put there.
        ordered: The categories are a scale, lowest first.
    """
    counts = np.asarray(table, dtype=np.float64)
    cases, kinds = counts.shape[:2]
    flat = counts.reshape(cases, kinds * kinds)
    if not flat.sum():
        return dict.fromkeys((*_OF_MANY, "cohen_kappa"), Coefficient(math.nan, NOTHING))
    first, second = np.eye(kinds)[np.indices((kinds, kinds)).reshape(2, -1)]  # the categories of each cell
    weights, credit = _with_jackknife(flat), ordinal_weights(kinds) if ordered else np.eye(kinds)
    with np.errstate(divide="ignore", invalid="ignore"):
        n = weights.sum(axis=1)
        observed = weights @ credit.reshape(-1) / n
        by_chance = ((weights @ first) @ credit * (weights @ second)).sum(axis=1) / n**2
    cohen = _estimates({"cohen_kappa": (observed, by_chance)}, cases)
    return many_judges_by_case(first + second, flat, ordered) | cohen


def many_judges_by_case(patterns: ArrayLike, items: ArrayLike, ordered: bool = False) -> dict[str, Coefficient]:
    """Return every coefficient of any number of judges, by name.

    Args:
        patterns: Pattern × category: the number of judges that chose the category, at least two judges per pattern.
        items: Case × pattern: the number of the case's items with that pattern. Cases are left out one at a time.
        ordered: The categories are a scale, lowest first.
    """
    votes = np.asarray(patterns, dtype=np.float64)
    of_cases = np.asarray(items, dtype=np.float64)
    weights = _with_jackknife(of_cases)
    kinds, n = votes.shape[1], weights.sum(axis=1)
    credit = ordinal_weights(kinds) if ordered else np.eye(kinds)
    judges = votes.sum(axis=1)
    agreeing = (votes * (votes @ credit - 1)).sum(axis=1) / (judges * (judges - 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        observed = weights @ agreeing / n
        shares = weights @ (votes / judges[:, None]) / n[:, None]
        # alpha counts answers, so that an item counts as often as it is judged
        values, value_counts = weights @ judges, weights @ votes
        observed_of_answers = weights @ (judges * agreeing) / values
        chance_of_answers = (value_counts * (value_counts @ credit - 1)).sum(axis=1) / (values * (values - 1))
    of_many = (
        (observed, np.zeros_like(observed)),
        (observed, (shares @ credit * shares).sum(axis=1)),
        (observed, credit.sum() * (shares * (1 - shares)).sum(axis=1) / (kinds * (kinds - 1))),
        (observed_of_answers, chance_of_answers),
    )
    found = _estimates(dict(zip(_OF_MANY, of_many, strict=True)), len(of_cases))
    # a plain share over cases, for which the jackknife's interval of few cases reaches nearly 0
    share = ratio_interval(of_cases @ agreeing, of_cases.sum(axis=1))
    return found | {"percent_agreement": Coefficient(found["percent_agreement"].value, share)}


def ordinal_weights(categories: int) -> Floats:
    """Return category × category the credit (0 to 1) for two judges who chose them: 1 for the same category.

    Gwet's ordinal weights (4th edition, section 3.5): 1 − C(d + 1, 2) / C(categories, 2) for categories d apart.
    """
    distance = np.abs(np.subtract.outer(np.arange(categories), np.arange(categories)))
    return np.asarray(1 - distance * (distance + 1) / (categories * (categories - 1)), dtype=np.float64)


_OF_MANY = ("percent_agreement", "fleiss_kappa", "gwet_ac", "krippendorff_alpha")


def _all_corrected(observed: Floats, by_chance: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.isclose(by_chance, 1, rtol=1e-9), np.nan, (observed - by_chance) / (1 - by_chance))


def _with_jackknife(by_case: Floats) -> Floats:
    total = by_case.sum(axis=0)
    return np.vstack([total, total - by_case])


def _estimates(named: Mapping[str, tuple[Floats, Floats]], cases: int) -> dict[str, Coefficient]:
    """Return coefficients with intervals from name → observed agreement and that by chance.

    Row 0 is of the sample, each other row leaves one case out.

    The interval is symmetric on the scale −log(1 − coefficient), where the coefficient's error is nearly normal, with
    the jackknife's standard error and t quantiles. Percentiles of resamples cover 92 % with 30 cases, these 95 to 96 %.
    """
    estimates: dict[str, Coefficient] = {}
    for name, (observed, chance) in named.items():
        identical = bool(np.nanmax(observed) - np.nanmin(observed) < 1e-9)
        values = _all_corrected(observed, chance)
        if not np.isfinite(values[0]):
            interval = NOTHING
        elif identical:
            bounds = np.array(wilson(observed[0] * cases, cases))
            interval = Interval(*_all_corrected(bounds, np.full(2, chance[0])).tolist())
        else:
            interval = _jackknife_interval(float(values[0]), values[1:])
        estimates[name] = Coefficient(float(values[0]), interval)
    return estimates


_NO_ERROR = 1e-12
_FAR = 50.0
"""Half the width of an interval on the scale −log(1 − x) that reaches the lowest value anyway."""


def _jackknife_interval(value: float, without_a_case: Floats) -> Interval:
    """Return the interval; with few cases the scale would go far below −1, which no coefficient can."""
    left = without_a_case[np.isfinite(without_a_case)]
    n = len(left)
    if n < 2 or value >= 1:
        return NOTHING
    error = math.sqrt((n - 1) / n * float(((left - left.mean()) ** 2).sum()))
    if error < _NO_ERROR:  # as of kappa if one of two judges always gives the same answer: 0 whatever the other does
        return NOTHING
    half = min(float(scipy.special.stdtrit(n - 1, 0.975)) * error / (1 - value), _FAR)
    return Interval(max(-1.0, 1 - (1 - value) * math.exp(half)), 1 - (1 - value) * math.exp(-half))
