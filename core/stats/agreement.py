"""Agreement of judges on items: percent agreement and the coefficients that correct it for chance.

All take what each judge said of each item, with gaps where a judge saw an item not. Percent agreement, Fleiss' kappa
and Gwet's AC1 and AC2 follow the general form for any number of judges, gaps and weights (Gwet, Handbook of Inter-Rater
Reliability, 4th edition, chapters 2 and 3); Cohen's kappa is statsmodels', Krippendorff's alpha the library's of that
name. A coefficient that chance alone would make 1 (everybody always says the same) is undefined: NaN. Intervals:
``core.stats.agreement_resampled``. irrCAC 0.4.4 gives the same AC1 and AC2 to the five decimals that it rounds to, but
demands scipy 1.12 and pandas 2, installs beside no later ones, and its intervals take items as independent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from core.errors import UsageError

Said = Sequence[Sequence[str | None]]
"""Items × judges: what each said, ``None`` where a judge said nothing."""
Weights = Literal["identity", "ordinal", "linear", "quadratic"]
Level = Literal["nominal", "ordinal"]
Floats = NDArray[np.float64]
NAN = float("nan")


def percent_agreement(said: Said, categories: Sequence[str]) -> float:
    """Return the share of pairs of judges that agree, averaged over the items that two or more judged."""
    return _observed(_counts(said, categories), np.eye(len(categories)))


def cohen_kappa(said: Said, categories: Sequence[str], weights: Weights = "identity") -> float:
    """Return Cohen's kappa of two judges on the items that both judged; raises ``UsageError`` for other than two."""
    if any(len(item) != 2 for item in said):
        raise UsageError("Cohen's kappa compares two judges: choose Fleiss' kappa, Gwet's AC or Krippendorff's alpha.")
    place = {name: index for index, name in enumerate(categories)}
    table = np.zeros((len(categories), len(categories)))
    for first, second in said:
        if first is not None and second is not None:
            table[_place(first, place), _place(second, place)] += 1
    total = table.sum()
    agreement = weight_matrix(weights, len(categories))
    by_chance = np.outer(table.sum(axis=1), table.sum(axis=0)) / max(total, 1) ** 2
    if not total or math.isclose(float((agreement * by_chance).sum()), 1):
        return NAN
    from statsmodels.stats import inter_rater  # type: ignore[import-untyped]  # slow to load

    return float(inter_rater.cohens_kappa(table, weights=1 - agreement, return_results=False))


def fleiss_kappa(said: Said, categories: Sequence[str], weights: Weights = "identity") -> float:
    """Return Fleiss' kappa; judges may differ from item to item."""
    counts, agreement = _counts(said, categories), weight_matrix(weights, len(categories))
    shares = _shares(counts)
    return _corrected(_observed(counts, agreement), float(shares @ agreement @ shares))


def gwet_ac(said: Said, categories: Sequence[str], weights: Weights = "identity") -> float:
    """Return Gwet's AC1 (identity weights), or AC2 with weights for categories in order."""
    counts, agreement = _counts(said, categories), weight_matrix(weights, len(categories))
    shares = _shares(counts)
    kinds = len(categories)
    by_chance = agreement.sum() / (kinds * (kinds - 1)) * float((shares * (1 - shares)).sum()) if kinds > 1 else 1.0
    return _corrected(_observed(counts, agreement), float(by_chance))


def krippendorff_alpha(said: Said, categories: Sequence[str], level: Level = "nominal") -> float:
    """Return Krippendorff's alpha; ordinal takes the categories in their order."""
    import krippendorff

    place = {name: index for index, name in enumerate(categories)}
    codes = [[NAN if one is None else float(_place(one, place)) for one in item] for item in said]
    paired = [item for item in codes if sum(not math.isnan(code) for code in item) > 1]
    values = {code for item in paired for code in item if not math.isnan(code)}
    if len(values) < 2:
        return NAN
    data = np.array(paired, dtype=float).T
    return float(krippendorff.alpha(reliability_data=data, level_of_measurement=level))


def weight_matrix(weights: Weights, kinds: int) -> Floats:
    """Return how much agreement there is between any two of so many categories: 1 for the same, 0 for the farthest."""
    apart = np.abs(np.subtract.outer(np.arange(kinds), np.arange(kinds))).astype(float)
    widest = max(kinds - 1, 1)
    if weights == "identity":
        return np.eye(kinds)
    if weights == "linear":
        return np.asarray(1 - apart / widest)
    if weights == "quadratic":
        return np.asarray(1 - (apart / widest) ** 2)
    return np.asarray(1 - apart * (apart + 1) / (widest * (widest + 1)))


def _place(name: str, place: dict[str, int]) -> int:
    if name not in place:
        raise UsageError(f"{name!r} is none of the categories {', '.join(place)}.")
    return place[name]


def _counts(said: Said, categories: Sequence[str]) -> Floats:
    """Return items × categories: how many judges chose each; items that nobody judged are left out."""
    place = {name: index for index, name in enumerate(categories)}
    counts = np.zeros((len(said), len(categories)))
    for row, item in enumerate(said):
        for one in item:
            if one is not None:
                counts[row, _place(one, place)] += 1
    return np.asarray(counts[counts.sum(axis=1) > 0])


def _shares(counts: Floats) -> Floats:
    """Return how often each category was chosen: the mean of the items' shares."""
    if not len(counts):
        return np.zeros(counts.shape[1])
    return np.asarray((counts / counts.sum(axis=1, keepdims=True)).mean(axis=0))


def _observed(counts: Floats, agreement: Floats) -> float:
    judged = counts.sum(axis=1)
    several = counts[judged > 1]
    if not len(several):
        return NAN
    n = several.sum(axis=1)
    agreeing = (several * (several @ agreement.T - 1)).sum(axis=1)
    return float((agreeing / (n * (n - 1))).mean())


def _corrected(observed: float, by_chance: float) -> float:
    return NAN if math.isclose(by_chance, 1) else (observed - by_chance) / (1 - by_chance)
