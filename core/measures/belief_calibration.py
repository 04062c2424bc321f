"""Calibration: how far the probability of the leading diagnosis agrees with how often it is right.

Each case weighs the same, and the probes of a case share its weight, so that long conversations do not outweigh others.
Brier score: the mean squared distance of the leader's probability from 1 where it is right and 0 where not (0 is best).
Expected calibration error: over ten bins of equal width ([0, 0.1), …, [0.9, 1]), the mean distance between the mean
probability of a bin and the share that is right in it, weighted by the bin (Naeini et al. 2015). Intervals (95 %)
resample cases; that of the calibration error lies high, since chance alone moves every bin away from its diagonal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from core.measures.belief import Belief
from core.measures.belief_many import Course, by_model
from core.stats.bootstrap import bootstrap_interval
from core.stats.intervals import Interval
from core.stats.ratios import percentiles, ratio, ratio_intervals, resampled_sums

Floats = NDArray[np.float64]
When = Literal["every probe", "at the end"]
BINS = 10


@dataclass(frozen=True)
class ReliabilityBin:
    """Leaders whose probability lies from ``low`` (included) to ``high`` (excluded, but for 1).

    ``probability`` is their mean, ``right`` the share of them that is right, both weighted; NaN in an empty bin.
    """

    low: float
    high: float
    n_probes: int
    n_cases: int
    probability: float
    right: float
    interval: Interval


@dataclass(frozen=True)
class Calibration:
    """Calibration of one model's leading diagnosis, at every probe or at the last one of each conversation."""

    model: str
    when: When
    n_cases: int
    n_probes: int
    brier: float
    brier_interval: Interval
    ece: float
    ece_interval: Interval
    bins: tuple[ReliabilityBin, ...]


def calibrations(courses: Iterable[Course]) -> list[Calibration]:
    """Return each model's calibration, at every probe and at the end."""
    found = []
    for model, held in by_model(courses):
        whens: tuple[When, ...] = ("every probe", "at the end")
        found += [calibration(model, held, when) for when in whens]
    return found


def calibration(model: str, courses: Sequence[Course], when: When) -> Calibration:
    """Return the calibration over conversations of one model, each with at least one probe."""
    by_case: dict[str, list[Belief]] = {}
    for course in courses:
        beliefs = course.trajectory.beliefs
        by_case.setdefault(course.case_key, []).extend(beliefs if when == "every probe" else beliefs[-1:])
    held = list(by_case.values())
    brier = np.array([np.mean([(b.leading - b.leads) ** 2 for b in beliefs]) for beliefs in held])
    counts, sums = _binned(held)
    return Calibration(
        model=model, when=when, n_cases=len(held), n_probes=int(counts.sum()),
        brier=float(brier.mean()) if brier.size else float("nan"), brier_interval=bootstrap_interval(brier),
        ece=float(_ece(sums.sum(axis=0)[None])[0]),
        ece_interval=percentiles(_ece(resampled_sums(sums)), len(held)),
        bins=_bins(counts, sums),
    )  # fmt: skip


def bin_of(probability: float) -> int:
    """Return the bin of a probability; 1 lies in the last one."""
    return min(BINS - 1, int(probability * BINS + 1e-9))


def _binned(held: Sequence[Sequence[Belief]]) -> tuple[NDArray[np.int64], Floats]:
    """Return case × bin numbers of probes, and case × 3 bins sums of weight, weight × probability, weight × right."""
    counts, sums = np.zeros((len(held), BINS), dtype=np.int64), np.zeros((len(held), 3 * BINS))
    for row, beliefs in enumerate(held):
        for belief in beliefs:
            index, weight = bin_of(belief.leading), 1 / len(beliefs)
            counts[row, index] += 1
            sums[row, index::BINS] += (weight, weight * belief.leading, weight * belief.leads)
    return counts, sums


def _ece(sums: Floats) -> Floats:
    """Return the calibration error of each row of sums: Σ over bins |Σ w p − Σ w right| / Σ w."""
    weight, probability, right = np.split(sums, 3, axis=1)
    return np.asarray(np.abs(probability - right).sum(axis=1) / weight.sum(axis=1))


def _bins(counts: NDArray[np.int64], sums: Floats) -> tuple[ReliabilityBin, ...]:
    weight, probability, right = np.split(sums, 3, axis=1)
    intervals = ratio_intervals(right, weight)
    return tuple(
        ReliabilityBin(
            low=index / BINS, high=(index + 1) / BINS, n_probes=int(counts[:, index].sum()),
            n_cases=int((counts[:, index] > 0).sum()), interval=intervals[index],
            probability=ratio(probability[:, index], weight[:, index]), right=ratio(right[:, index], weight[:, index]),
        )
        for index in range(BINS)
    )  # fmt: skip
