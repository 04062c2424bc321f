"""A judge's mean score corrected by experts: prediction-powered inference with cases as clusters.

A judge scores all items; experts score a random part of them. The estimate is the experts' mean on their items, plus
λ times how much the judge's mean on all items differs from its mean on the experts' items (PPI++: Angelopoulos, Duchi,
Zrnic, arXiv 2311.01453). λ is fitted to make the variance smallest: 0 if the judge's scores say nothing about the
experts', near 1 if they agree. The estimate is unbiased for any judge, provided that the experts' items are a random
sample, of all items or of strata with known sizes (weights). Cases are resampled with all their items, and λ is fitted
again in each resample. Two pseudo-cases, one with the lowest and one with the highest scores, stand for cases that no
expert saw (as in ``core.stats.smoothed``): without them three conversations in which every criterion is met would give
an interval from 1 to 1.

``resemblance`` compares the experts' items with the rest, since the correction is worth nothing on a selected sample.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import scipy  # type: ignore[import-untyped]
from numpy.typing import ArrayLike, NDArray

from core.errors import UsageError
from core.stats.bootstrap import SEED
from core.stats.differences import changes
from core.stats.intervals import NOTHING, Interval
from core.stats.ratios import percentiles, resampled_sums
from core.stats.smoothed import pseudo_shape, tail_share

Floats = NDArray[np.float64]
MARGIN = 0.25
"""Standardised difference from which a sample counts as selected (Stuart, Statistical Science 25 (2010), 1–21)."""
LEVEL = 0.95
FEWEST = 2
"""Cases with expert scores below which there is no interval."""


class JudgedItem(NamedTuple):
    """An item that a judge scored, and experts perhaps; both scores on one scale, such as yes (1) or no (0).

    ``weight`` is the number of items of its stratum for which an item with an expert score stands. ``least`` and
    ``most`` are the lowest and the highest score that the item can get. ``worth`` is what a score of 1 adds to the
    figure; ``features`` describe the item for the audit.
    """

    case: Hashable
    judge: float
    expert: float | None = None
    weight: float = 1.0
    least: float = 0.0
    most: float = 1.0
    worth: float = 1.0
    features: Mapping[str, float] | None = None

    @property
    def yes_or_no(self) -> bool:
        return (self.least, self.most) == (0.0, 1.0)

    @property
    def adds(self) -> tuple[float, float | None]:
        """What the judge's and the expert's score add to the figure."""
        return self.worth * self.judge, None if self.expert is None else self.worth * self.expert


@dataclass(frozen=True)
class CalibratedMean:
    """A mean by judge and experts together, and by each alone, with 95 % intervals in the unit of the scores.

    ``half_width`` is that of the model of ``planned``; NaN and ``NOTHING`` if too few cases have expert scores.
    """

    estimate: float
    interval: Interval
    experts: float
    experts_interval: Interval
    judge: float
    judge_interval: Interval
    tuning: float
    """λ, from 0 (experts alone) upwards; near 1 for a judge that agrees with the experts."""
    items: int
    labelled: int
    labelled_cases: int
    _spread_of_judge: float
    _spread_of_rest: float
    _spread_of_pseudo_cases: float
    _cases: int

    def half_width(self, more_cases: int = 0) -> float:
        """Return half the width of the interval that experts' scores on ``more_cases`` further cases would leave.

        The variance is λ² · variance of the judge's case means / cases + variance of the experts' difference from
        λ · judge / cases with expert scores, and that of the pseudo-cases / the square of these cases: a forecast,
        exact for many cases of equal size.
        """
        labelled = min(self.labelled_cases + more_cases, self._cases)
        if labelled < FEWEST:
            return math.nan
        of_experts = self._spread_of_rest / labelled + self._spread_of_pseudo_cases / labelled**2
        quantile = -float(scipy.special.ndtri(tail_share(labelled, LEVEL)))
        return quantile * math.sqrt(self._spread_of_judge / self._cases + of_experts)


def calibrated_mean(items: Sequence[JudgedItem]) -> CalibratedMean:
    """Return the mean expert score of all items, estimated from the judge's scores and the experts' on a part."""
    table = _by_case(items)
    labelled_cases = int((table[:, 2] > 0).sum())
    labelled = sum(item.expert is not None for item in items)
    estimate, experts, judge, tuning = (float(figure[0]) for figure in _figures(table.mean(axis=0)[None], table))
    intervals = dict.fromkeys(("together", "experts", "judge"), NOTHING)
    spreads = math.nan, math.nan, math.nan
    if len(table) >= FEWEST:
        intervals["judge"] = _including(judge, _judge_means(items, table), len(table))
    if labelled_cases >= FEWEST:
        pseudo_cases = _pseudo_cases(items, table, judge)
        together, by_experts = _resampled(table, pseudo_cases)
        intervals["together"] = _including(estimate, together, labelled_cases)
        intervals["experts"] = _including(experts, by_experts, labelled_cases)
        spreads = _spreads(table, pseudo_cases, judge, tuning)
    return CalibratedMean(
        estimate,
        intervals["together"],
        experts,
        intervals["experts"],
        judge,
        intervals["judge"],
        tuning,
        len(items),
        labelled,
        labelled_cases,
        *spreads,
        len(table),
    )


def calibrated_difference(first: Sequence[JudgedItem], second: Sequence[JudgedItem]) -> tuple[float, Interval]:
    """Return the second calibrated mean minus the first, with its 95 % interval: cases are resampled on both sides.

    Each side has its own λ, so that the judge may err differently there. NaN and ``NOTHING`` if a side has fewer than
    ``FEWEST`` cases with expert scores.
    """
    sides = (first, second)
    means = [calibrated_mean(items) for items in sides]
    labelled = min(mean.labelled_cases for mean in means)
    if labelled < FEWEST:
        return math.nan, NOTHING
    cases = list(dict.fromkeys(item.case for items in sides for item in items))
    tables = [_by_case(items, cases) for items in sides]
    sums = np.split(resampled_sums(np.hstack([np.hstack([table, _products(table)]) for table in tables])), 2, axis=1)
    drawn = []
    for number, (items, table, mean) in enumerate(zip(sides, tables, means, strict=True)):
        gamma = _pseudo_weights(len(sums[number]), mean.labelled_cases, number)
        drawn.append(_estimates(sums[number], gamma @ _pseudo_cases(items, table, mean.judge), len(cases))[0])
    difference = float(changes(means[1].estimate, means[0].estimate))
    return difference, _including(difference, drawn[1] - drawn[0], labelled)


def _by_case(items: Sequence[JudgedItem], cases: Sequence[Hashable] = ()) -> Floats:
    """Return case × (items, Σ judge, Σ weight of labelled, Σ weight · expert, Σ weight · judge of labelled).

    ``cases`` come first, also those without items.
    """
    sums: dict[Hashable, Floats] = {case: np.zeros(5) for case in cases}
    for item in items:
        (judge, expert), weight = item.adds, item.weight
        values = [judge, weight, judge if expert is None else expert]
        if not all(math.isfinite(value) for value in values) or weight <= 0:
            raise UsageError("Calibration needs finite scores and positive weights.")
        row = sums.setdefault(item.case, np.zeros(5))
        row[:2] += 1, judge
        if expert is not None:
            row[2:] += weight, weight * expert, weight * judge
    if not sums:
        raise UsageError("There are no judged items to calibrate.")
    return np.array(list(sums.values()))


_FIRST, _SECOND = np.triu_indices(5)


def _products(table: Floats) -> Floats:
    """Return case × 15: the products of every two of the five sums, from which variances are computed."""
    return table[:, _FIRST] * table[:, _SECOND]


def _pseudo_cases(items: Sequence[JudgedItem], table: Floats, judge: float) -> Floats:
    """Return two cases of mean size, as rows of the table: experts give one the lowest scores, the other the highest.

    The judge's scores of both are the judge's mean, so that they say nothing about the judge.
    """
    labelled = [item for item in items if item.expert is not None]
    weight = table[table[:, 2] > 0, 2].mean()
    lowest, highest = np.average(_ranges(labelled), axis=0, weights=[item.weight for item in labelled])
    return np.array([[0.0, 0.0, weight, weight * score, weight * judge] for score in (lowest, highest)])


def _ranges(items: Sequence[JudgedItem]) -> Floats:
    """Return item × (lowest, highest possible score), which include the scores that the item has."""
    ranges = []
    for item in items:
        judge, expert = item.adds
        scores = (judge, judge if expert is None else expert, item.worth * item.least, item.worth * item.most)
        ranges.append([min(scores), max(scores)])
    return np.array(ranges)


def _resampled(table: Floats, pseudo_cases: Floats) -> Floats:
    """Return the estimate and the experts' mean in each resample of the cases: 2 × resample."""
    sums = resampled_sums(np.hstack([table, _products(table)]))
    labelled = int((table[:, 2] > 0).sum())
    return _estimates(sums, _pseudo_weights(len(sums), labelled) @ pseudo_cases, len(table))


def _estimates(sums: Floats, pseudo_sums: Floats, cases: int) -> Floats:
    """Return the estimate and the experts' mean from sums over cases and their products; λ is fitted without pseudo."""
    means = (sums[:, :5] + pseudo_sums) / cases
    estimate, experts, _, _ = _figures(means, sums[:, 5:] / cases, given=True)
    return np.array([estimate, experts])


def _judge_means(items: Sequence[JudgedItem], table: Floats) -> Floats:
    """Return the judge's mean in each resample of the cases."""
    sums = resampled_sums(table[:, :2])
    size = table[:, 0].mean()
    pseudo_cases = np.column_stack([[size, size], _ranges(items).mean(axis=0) * size])
    sums += _pseudo_weights(len(sums), len(table)) @ pseudo_cases
    return np.asarray(sums[:, 1] / sums[:, 0])


def _pseudo_weights(resamples: int, cases: int, stream: int = 0) -> Floats:
    """Return resample × pseudo-case: random weights with the gamma distribution of ``core.stats.smoothed``."""
    return np.random.default_rng([SEED, stream]).gamma(pseudo_shape(cases), size=(resamples, 2))


def _including(value: float, resampled: Floats, cases: int) -> Interval:
    """Return the interval of a figure from its values in resamples, widened to the figure itself if need be."""
    tail = tail_share(cases, LEVEL)
    low, high = np.nanquantile(resampled, [tail, 1 - tail]).tolist()
    return Interval(min(low, value), max(high, value))


def _figures(means: Floats, rest: Floats, *, given: bool = False) -> tuple[Floats, Floats, Floats, Floats]:
    """Return estimate, experts' mean, judge's mean and λ of each row of means over cases.

    ``rest`` is the table of cases, or, if ``given``, the means of the products in each row.
    """
    products = rest if given else _products(rest).mean(axis=0)[None]
    moments = np.zeros((len(means), 5, 5))
    moments[:, _FIRST, _SECOND] = moments[:, _SECOND, _FIRST] = products
    with np.errstate(divide="ignore", invalid="ignore"):
        items, judged, weight, expert, judged_part = means.T
        judge, experts, judge_there = judged / items, expert / weight, judged_part / weight
        zero = np.zeros_like(items)
        # the influence of a case on the experts' mean, and on the difference of the judge's two means
        own = np.stack([zero, zero, -experts / weight, 1 / weight, zero], axis=1)
        difference = np.stack([-judge / items, 1 / items, judge_there / weight, zero, -1 / weight], axis=1)
        shared = np.einsum("ri,rij,rj->r", own, moments, difference)
        alone = np.einsum("ri,rij,rj->r", difference, moments, difference)
        tuning = np.where(alone > 1e-15, np.maximum(0.0, -shared / np.where(alone > 1e-15, alone, 1.0)), 0.0)
        return experts + tuning * (judge - judge_there), experts, judge, tuning


def _spreads(table: Floats, pseudo_cases: Floats, judge: float, tuning: float) -> tuple[float, float, float]:
    """Return the variances of λ · judge and of experts minus λ · judge over cases, then the spread of pseudo-cases."""
    size = table[:, 0] / table[:, 0].mean()
    of_judge = size * (table[:, 1] / table[:, 0] - judge) * tuning
    labelled = table[table[:, 2] > 0]
    weight = labelled[:, 2] / labelled[:, 2].mean()
    differences = (labelled[:, 3] - tuning * labelled[:, 4]) / labelled[:, 2]
    centre = float((weight * differences).sum() / weight.sum())
    pseudo = (pseudo_cases[:, 3] - tuning * pseudo_cases[:, 4]) / pseudo_cases[:, 2] - centre
    return (
        float(of_judge.var(ddof=1)) if len(table) > 1 else 0.0,
        float((weight * (differences - centre)).var(ddof=1)),
        pseudo_shape(len(labelled)) * float(pseudo @ pseudo),
    )


Verdict = Literal["alike", "shifted", "cannot say"]


class Resemblance(NamedTuple):
    """How labelled items differ from the others in one feature, in standard deviations of the feature, with 95 %."""

    feature: str
    difference: float
    interval: Interval
    verdict: Verdict


def resemblance(
    cases: Sequence[Hashable], labelled: Sequence[bool], features: Mapping[str, ArrayLike], margin: float = MARGIN
) -> list[Resemblance]:
    """Compare labelled items with the others: one row a feature (the judge's score, the length of a dialogue, …).

    *Shifted*: the interval excludes 0 and the difference reaches ``margin``. *Alike*: the whole interval lies within
    the margin. Otherwise the sample is too small to say. Intervals are widened for the number of features (Šidák);
    cases are resampled. An item's case may have labelled items and others.
    """
    codes = np.unique([str(case) for case in cases], return_inverse=True)[1]
    part = np.asarray(labelled, dtype=bool)
    level = 0.95 ** (1 / max(1, len(features)))
    rows = []
    for name, given in features.items():
        values = np.asarray(given, dtype=np.float64)
        if values.shape != part.shape or len(codes) != len(part):
            raise UsageError(f"The feature {name} needs a value for each item.")
        spread = float(values.std())
        columns = np.column_stack([part, part * values, ~part, ~part * values])
        table = np.zeros((int(codes.max(initial=-1)) + 1, 4))
        np.add.at(table, codes, columns)
        rows.append(_resemblance(name, table, spread, level, margin))
    return rows


def _resemblance(name: str, table: Floats, spread: float, level: float, margin: float) -> Resemblance:
    if not (table[:, 0].any() and table[:, 2].any()):
        return Resemblance(name, math.nan, NOTHING, "cannot say")
    if not spread:
        return Resemblance(name, 0.0, Interval(0.0, 0.0), "alike")

    def difference(sums: Floats) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray((sums[:, 1] / sums[:, 0] - sums[:, 3] / sums[:, 2]) / spread)

    value = float(difference(table.sum(axis=0)[None])[0])
    fewer = int(min((table[:, 0] > 0).sum(), (table[:, 2] > 0).sum()))
    interval = percentiles(difference(resampled_sums(table)), fewer, level) if fewer >= FEWEST else NOTHING
    verdict: Verdict = "cannot say"
    if abs(value) >= margin and (interval.low > 0 or interval.high < 0):
        verdict = "shifted"
    elif -margin < interval.low and interval.high < margin:
        verdict = "alike"
    return Resemblance(name, value, interval, verdict)
