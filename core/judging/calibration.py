"""How far a judge agrees with experts, and whether it is calibrated.

A judge is a model, its prompts and, if it has several, one of its questions. It is *calibrated* if enough of its
verdicts were also judged by people and enough of them are equal.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from core.stats.agreement import agreement_by_case
from core.stats.calibrated import FEWEST, JudgedItem
from core.stats.intervals import NOTHING, Interval
from core.stats.ratios import percentiles, resampled_sums
from core.stats.smoothed import ratio_interval

Status = Literal["calibrated", "inconsistent with itself", "not calibrated"]
ENOUGH_LABELS = 50
ENOUGH_AGREEMENT = 0.85
ENOUGH_OF_EACH = 0.5
"""Share of equal verdicts among those that people answered with yes, and among those with no, that a judge needs: where
no is rare, a judge that always says yes is nearly always right."""
CONSISTENT = 0.9
"""Share of equal verdicts of a judge on the same item from which it counts as consistent."""


class Trust(NamedTuple):
    """When a judge counts as calibrated: the number of items that people judged, and shares of equal verdicts."""

    least_items: int = ENOUGH_LABELS
    least_agreement: float = ENOUGH_AGREEMENT
    consistency: float = CONSISTENT
    least_of_each: float = ENOUGH_OF_EACH


class Agreement(NamedTuple):
    """Equal verdicts of a judge and experts; coefficients are NaN if undefined, intervals (95 %) are over cases.

    ``of_each`` are sensitivity and specificity: the shares of equal verdicts among those that experts answered with
    yes, and with no. ``excess`` is the share that the judge answers with yes minus the share that experts do, −1 to 1.
    """

    n: int
    share: float = math.nan
    interval: Interval = NOTHING
    kappa: float = math.nan
    of_each: tuple[float, float] = (math.nan, math.nan)
    excess: float = math.nan
    excess_interval: Interval = NOTHING


def agreement_with_experts(items: Iterable[JudgedItem]) -> Agreement:
    """Compare the verdicts on the items that experts judged; an item counts by its weight, figures are 0 to 1."""
    labelled = [item for item in items if item.expert is not None]
    if not labelled:
        return Agreement(0)
    mean_weight = sum(item.weight for item in labelled) / len(labelled)
    by_case: dict[Hashable, NDArray[np.float64]] = defaultdict(lambda: np.zeros((2, 2)))
    for item in labelled:
        by_case[item.case][int(not item.judge), int(not item.expert)] += item.weight / mean_weight
    table = np.array(list(by_case.values()))
    figures = agreement_by_case(table)
    share = figures["percent_agreement"]
    (both, judge_only), (expert_only, neither) = table.sum(axis=0)
    sizes = table.sum(axis=(1, 2))
    excess = table[:, 0, 1] - table[:, 1, 0]
    low, high = ratio_interval((sizes + excess) / 2, sizes)
    return Agreement(
        len(labelled),
        share.value,
        share.interval,
        figures["cohen_kappa"].value,
        (
            both / (both + expert_only) if both + expert_only else math.nan,
            neither / (neither + judge_only) if neither + judge_only else math.nan,
        ),
        float(excess.sum() / sizes.sum()),
        Interval(2 * low - 1, 2 * high - 1),
    )


def status_of(
    n: int, agreement: float, trust: Trust, consistency: float | None = None, of_each: Sequence[float] = ()
) -> Status:
    """Return the status of a judge.

    Args:
        n: Items that people judged, too.
        agreement: The share of equal verdicts among them, or percent agreement with ordinal weights (0 to 1).
        trust: What a calibrated judge needs.
        consistency: The share of equal verdicts of its repeats; ``None`` if it never judged an item twice.
        of_each: The share of equal verdicts among those that people answered with yes, and with no; NaN without any.
    """
    if consistency is not None and consistency < trust.consistency:
        return "inconsistent with itself"
    enough = n >= trust.least_items and agreement >= trust.least_agreement
    return "calibrated" if enough and all(share >= trust.least_of_each for share in of_each) else "not calibrated"


def in_words(status: Status, agreement: Agreement) -> str:
    """Return a status with what it rests on."""
    if not agreement.n:
        return f"{status}: no verdict was judged by people"
    words = [f"n = {agreement.n:,}", f"{agreement.share:.0%} equal"]
    for share, verdict in zip(agreement.of_each, ("yes", "no"), strict=True):
        if math.isnan(share):
            words.append(f"people never say {verdict}")
        elif share < ENOUGH_OF_EACH:
            words.append(f"{share:.0%} where people say {verdict}")
    return f"{status} ({', '.join(words)})"


def differing_errors(by_condition: Mapping[str, Sequence[JudgedItem]]) -> Iterator[tuple[str, Literal["high", "low"]]]:
    """Yield notes on a judge whose error is not known to be the same under all conditions that are compared.

    A difference of errors moves the difference of the judge's scores. It is noted if its interval excludes 0, widened
    for the number of pairs (Šidák); cases are resampled.
    """
    measured = {name: agreement_with_experts(items) for name, items in by_condition.items()}
    labelled = [name for name, agreement in measured.items() if agreement.n]
    if labelled and (unknown := [name for name in measured if name not in labelled]):
        yield (
            f"People judged verdicts on {', '.join(labelled)} only: how the judge errs on {', '.join(unknown)} is not "
            "known.",
            "high",
        )
    pairs = list(combinations(labelled, 2))
    level = 0.95 ** (1 / max(1, len(pairs)))
    differing = {
        name
        for first, second in pairs
        if _errors_differ(by_condition[first], by_condition[second], level)
        for name in (first, second)
    }
    if differing:
        excesses = "; ".join(
            f"{name} {measured[name].excess:+.2f} (n = {measured[name].n:,})" for name in labelled if name in differing
        )
        yield (
            f"The judge errs differently on these conditions: its share of yes minus that of people is {excesses}. "
            "Compare the scores of judge and experts together.",
            "high",
        )


def _errors_differ(first: Sequence[JudgedItem], second: Sequence[JudgedItem], level: float) -> bool:
    by_case: dict[Hashable, NDArray[np.float64]] = defaultdict(lambda: np.zeros(4))
    for side, items in enumerate((first, second)):
        for item in items:
            if item.expert is not None:
                by_case[item.case][2 * side : 2 * side + 2] += (
                    item.weight,
                    item.weight * (item.judge - float(item.expert)),
                )
    table = np.array(list(by_case.values()))
    fewer = int(min((table[:, 0] > 0).sum(), (table[:, 2] > 0).sum()))
    if fewer < FEWEST:
        return False
    n_first, of_first, n_second, of_second = resampled_sums(table).T
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = percentiles(of_second / n_second - of_first / n_first, fewer, level)
    return low > 1e-12 or high < -1e-12  # equal errors differ by rounding


def _sums(items: Sequence[JudgedItem]) -> NDArray[np.float64]:
    """Return case × (Σ worth · judge, items, Σ worth, and the weighted counts of judge × expert)."""
    by_case: dict[Hashable, NDArray[np.float64]] = {}
    for item in items:
        row = by_case.setdefault(item.case, np.zeros(7))
        row[:3] += item.worth * item.judge, 1, item.worth
        if item.expert is not None:
            row[3 + 2 * (not item.judge) + (not item.expert)] += item.weight
    return np.array(list(by_case.values()))


def rogan_gladen_mean(items: Sequence[JudgedItem]) -> tuple[float | None, Interval]:
    """Return the mean of worth · (verdict − false positive rate) / (sensitivity + specificity − 1), with 95 %."""
    table = _sums(items)

    def corrected(sums: NDArray[np.float64]) -> NDArray[np.float64]:
        judged, n, worth, both, judge_only, expert_only, neither = sums.T
        with np.errstate(divide="ignore", invalid="ignore"):
            false_positives = judge_only / (judge_only + neither)
            youden = both / (both + expert_only) - false_positives
            return np.where(youden > 0, (judged - false_positives * worth) / (youden * n), np.nan)

    value = float(corrected(table.sum(axis=0)[None])[0])
    labelled_cases = int((table[:, 3:].sum(axis=1) > 0).sum())
    if math.isnan(value) or labelled_cases < FEWEST:
        return (None if math.isnan(value) else value), NOTHING
    return value, percentiles(corrected(resampled_sums(table)), labelled_cases)
