"""How far a judge agrees with experts, and the figures that both give together.

A judge is a model, its prompts and, if it has several, one of its questions. It is *calibrated* if enough of its
verdicts were also judged by people and enough of them are equal. The figures of judge and experts together are
prediction-powered means (``core.stats.calibrated``), with the estimator of Rogan and Gladen as the second line: that
one assumes that the judge's error rates on the experts' items hold for all items.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from core.measures.base import Columns, Row
from core.stats.agreement import agreement_by_case
from core.stats.calibrated import FEWEST, CalibratedMean, JudgedItem, calibrated_mean, resemblance
from core.stats.intervals import NOTHING, Interval
from core.stats.ratios import percentiles, resampled_sums

Status = Literal["calibrated", "inconsistent with itself", "not calibrated"]
ENOUGH_LABELS = 50
ENOUGH_AGREEMENT = 0.85
CONSISTENT = 0.9
"""Share of equal verdicts of a judge on the same item from which it counts as consistent."""
_STEPS = (10, 25, 50, 100, 200)


class Trust(NamedTuple):
    """When a judge counts as calibrated: the number of items that people judged, and shares of equal verdicts."""

    least_items: int = ENOUGH_LABELS
    least_agreement: float = ENOUGH_AGREEMENT
    consistency: float = CONSISTENT


@dataclass(frozen=True)
class JudgedStatement:
    """A yes-or-no verdict of a judge on an item, with that of experts if they judged it.

    ``worth`` is what a yes adds to the figure (1 for a share, points for a score); ``weight`` is the number of items
    of its stratum for which an item with an expert's verdict stands; ``features`` describe the item for the audit.
    """

    case: str
    judge: bool
    expert: bool | None = None
    worth: float = 1.0
    weight: float = 1.0
    features: Mapping[str, float] | None = None

    @property
    def scores(self) -> JudgedItem:
        expert = None if self.expert is None else self.worth * self.expert
        return JudgedItem(
            self.case, self.worth * self.judge, expert, self.weight, min(0.0, self.worth), max(0.0, self.worth)
        )


class Agreement(NamedTuple):
    """Equal verdicts of a judge and experts; coefficients are NaN if undefined, intervals (95 %) are over cases."""

    n: int
    cases: int
    share: float
    interval: Interval
    kappa: float
    sensitivity: float
    specificity: float


def agreement_with_experts(items: Iterable[JudgedStatement]) -> Agreement:
    """Compare the verdicts on the items that experts judged; figures are shares from 0 to 1."""
    by_case: dict[str, NDArray[np.float64]] = defaultdict(lambda: np.zeros((2, 2)))
    for item in items:
        if item.expert is not None:
            by_case[item.case][int(not item.judge), int(not item.expert)] += 1
    table = np.array(list(by_case.values())).reshape(-1, 2, 2)
    counts = table.sum(axis=0)
    n = int(counts.sum())
    if not n:
        return Agreement(0, 0, math.nan, NOTHING, math.nan, math.nan, math.nan)
    (figures,) = agreement_by_case([table])
    share = figures["percent_agreement"]
    (both, judge_only), (expert_only, neither) = counts
    return Agreement(
        n,
        len(table),
        share.value,
        share.interval,
        figures["cohen_kappa"].value,
        both / (both + expert_only) if both + expert_only else math.nan,
        neither / (neither + judge_only) if neither + judge_only else math.nan,
    )


def status_of(n: int, agreement: float, trust: Trust, consistency: float | None = None) -> Status:
    """Return the status of a judge.

    Args:
        n: Items that people judged, too.
        agreement: The share of equal verdicts among them, or percent agreement with ordinal weights (0 to 1).
        trust: What a calibrated judge needs.
        consistency: The share of equal verdicts of its repeats; ``None`` if it never judged an item twice.
    """
    if consistency is not None and consistency < trust.consistency:
        return "inconsistent with itself"
    enough = n >= trust.least_items and agreement >= trust.least_agreement
    return "calibrated" if enough else "not calibrated"


def in_words(status: Status, agreement: Agreement) -> str:
    """Return a status with what it rests on."""
    if not agreement.n:
        return f"{status}: no verdict was judged by people"
    return f"{status} (n = {agreement.n:,}, {agreement.share:.0%} equal)"


SCORES = Columns("value", "low", "high", "n")
_METHODS = ("judge and experts (PPI++)", "corrected (Rogan and Gladen)", "experts alone", "judge alone")


def calibrated_rows(label: Mapping[str, Any], items: Sequence[JudgedStatement]) -> Iterator[Row]:
    """Yield the mean worth of the items in four ways: judge and experts together, corrected, and each alone.

    Means and bounds are shown within 0 to 1. n is the number of items behind each: all, or those that experts judged.
    ``lambda`` is the weight of the judge. Without experts there is the judge alone.
    """
    if not items:
        return
    result = calibrated_mean([item.scores for item in items])
    corrected, interval = _rogan_gladen(items)
    figures = (
        (result.estimate if result.labelled_cases >= FEWEST else None, result.interval, result.items),
        (corrected, interval, result.items),
        (result.experts if result.labelled else None, result.experts_interval, result.labelled),
        (result.judge, result.judge_interval, result.items),
    )
    for method, (value, (low, high), n) in zip(_METHODS, figures, strict=True):
        if (mean := _number(value)) is not None:
            more = {
                "unclipped": mean,
                "n_labelled": result.labelled,
                "lambda": result.tuning if method == _METHODS[0] else None,
            }
            shown, lowest, highest = np.clip([mean, low, high], 0.0, 1.0).tolist()
            yield Row({**label, "figure": method}, shown, lowest, highest, n, more=more, unit="items", columns=SCORES)


def _number(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else value


def _sums(items: Sequence[JudgedStatement]) -> NDArray[np.float64]:
    """Return case × (Σ worth · judge, items, Σ worth, and the weighted counts of judge × expert)."""
    by_case: dict[str, NDArray[np.float64]] = {}
    for item in items:
        row = by_case.setdefault(item.case, np.zeros(7))
        row[:3] += item.worth * item.judge, 1, item.worth
        if item.expert is not None:
            row[3 + 2 * (not item.judge) + (not item.expert)] += item.weight
    return np.array(list(by_case.values()))


def _rogan_gladen(items: Sequence[JudgedStatement]) -> tuple[float | None, Interval]:
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
        return _number(value), NOTHING
    return value, percentiles(corrected(resampled_sums(table)), labelled_cases)


def planned_rows(label: Mapping[str, Any], items: Sequence[JudgedStatement]) -> Iterator[Row]:
    """Yield half the width of the interval now, and with experts' verdicts on the items of more cases."""
    result: CalibratedMean = calibrated_mean([item.scores for item in items])
    if result.labelled_cases < FEWEST:
        return
    total = len({item.case for item in items})
    left = total - result.labelled_cases
    per_case = result.labelled / result.labelled_cases
    for more in (0, *(step for step in _STEPS if step < left), *([left] if left else [])):
        half = result.half_width(more)
        figures = {"more_judgements": round(more * per_case), "of_cases": total}
        yield Row(
            {**label, "more_cases": more}, half, None, None, result.labelled, more=figures, unit="items",
            columns=Columns("half_width", "low", "high", "n_labelled"),
        )  # fmt: skip


def audit_rows(label: Mapping[str, Any], items: Sequence[JudgedStatement]) -> Iterator[Row]:
    """Yield, for each feature of the items, how those with an expert's verdict differ from the others.

    The unit is a standard deviation of the feature. *Shifted* means that the experts' items are no random sample.
    """
    if not any(item.expert is not None for item in items):
        return
    features: dict[str, list[float]] = {"judge's verdict": [float(item.judge) for item in items]}
    for name in (items[0].features or {}) if items else {}:
        features[name] = [float((item.features or {})[name]) for item in items]
    labelled = [item.expert is not None for item in items]
    for row in resemblance([item.case for item in items], labelled, features):
        yield Row(
            {**label, "feature": row.feature},
            _number(row.difference),
            *row.interval,
            sum(labelled),
            more={"verdict": row.verdict},
            unit="items",
            columns=Columns("difference", "low", "high", "n"),
        )
