"""CARE across data sets: parts normalised within each, and accuracy in conversation against that on the whole question.

Source: Oh, Park, Kim, arXiv 2512.10195, results across data sets.

How far a data set can be played as consultations: which cases pass the filter, and what their profiles hold.

Source: Oh, Park, Kim, arXiv 2512.10195, suitability of data sets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from core.case import Case
from core.measures.care.profile import PARTS, CareProfile, Part
from core.text.profile.fields import Coverage, coverage
from core.text.profile.profiles import CaseId, Generated, own_profile

_LEAST_FOR_INTERVAL = 4
_SAME = 1e-12
"""Figures this close differ by rounding alone."""


@dataclass(frozen=True)
class Normalised:
    """One part of one seat, from 0 (the worst seat of a data set) to 1 (the best), then the mean over data sets.

    ``None`` in a data set where the seat has no value, or where fewer than two seats differ: there is then no scale.
    Such a data set is left out of the mean; ``value`` is ``None`` where no data set is left.
    """

    seat: str
    doctor: str
    part: Part
    value: float | None
    by_dataset: dict[str, float | None]

    @property
    def n_datasets(self) -> int:
        """How many data sets the mean is over."""
        return sum(value is not None for value in self.by_dataset.values())


@dataclass(frozen=True)
class Point:
    """Accuracy of one seat on one data set: on the whole question and after the conversation, over the same items."""

    seat: str
    doctor: str
    group: str
    dataset: str
    static: float
    conv: float
    n: int


@dataclass(frozen=True)
class Fit:
    """The least-squares line of conversational on static accuracy and Pearson's r with its 95 % interval.

    The interval is by Fisher's z, which takes the ``n`` points as independent; points of one doctor or data set are
    not, so it is rather too narrow. ``None``: slope and intercept where static accuracies do not differ, r where either
    does not, the interval of fewer than four points.
    """

    slope: float | None
    intercept: float | None
    r: float | None
    low: float | None
    high: float | None
    n: int


def normalised(profiles: Sequence[CareProfile]) -> list[Normalised]:
    """Return every part of every seat from profiles by data set, in the order of parts and seats."""
    datasets = sorted({str(p.group) for p in profiles})
    doctors = {p.seat: p.doctor for p in profiles}
    found = []
    for part in PARTS:
        scaled = {name: _scaled([p for p in profiles if str(p.group) == name], part) for name in datasets}
        for seat in sorted(doctors):
            by_dataset = {name: scaled[name].get(seat) for name in datasets}
            held = [value for value in by_dataset.values() if value is not None]
            mean = float(np.mean(held)) if held else None
            found.append(Normalised(seat, doctors[seat], part, mean, by_dataset))
    return found


def scatter(profiles: Sequence[CareProfile], group_of: Callable[[str], str]) -> list[Point]:
    """Return a point for each profile by data set that has items with both answers; ``group_of`` takes the doctor."""
    return [
        Point(p.seat, p.doctor, group_of(p.doctor), str(p.group), p.acc_static.value, p.acc_conv.value, p.acc_conv.n)
        for p in profiles
        if p.acc_static.value is not None and p.acc_conv.value is not None
    ]


def fit(points: Sequence[Point]) -> Fit:
    """Return the line through the points; all figures ``None`` for fewer than two."""
    static, conv = np.array([p.static for p in points]), np.array([p.conv for p in points])
    n = len(points)
    if n < 2 or np.ptp(static) < _SAME:
        return Fit(None, None, None, None, None, n)
    from scipy import stats  # type: ignore[import-untyped]  # slow to load

    line = stats.linregress(static, conv)
    slope, intercept = float(line.slope), float(line.intercept)
    if np.ptp(conv) < _SAME:
        return Fit(slope, intercept, None, None, None, n)
    r = stats.pearsonr(static, conv)
    bounds = r.confidence_interval(0.95) if n >= _LEAST_FOR_INTERVAL else (None, None)
    low, high = (None if bound is None else float(bound) for bound in bounds)
    return Fit(slope, intercept, float(r.statistic), low, high, n)


def fits(points: Sequence[Point]) -> dict[str, Fit]:
    """Return the fit of each group of models, by name."""
    ordered = sorted(points, key=lambda point: point.group)
    return {group: fit(list(members)) for group, members in groupby(ordered, key=lambda point: point.group)}


def _scaled(profiles: Sequence[CareProfile], part: Part) -> dict[str, float]:
    values = {p.seat: value for p in profiles if (value := p.part(part).value) is not None}
    if not values:
        return {}
    least, most = min(values.values()), max(values.values())
    return {seat: (value - least) / (most - least) for seat, value in values.items()} if most - least > _SAME else {}


@dataclass(frozen=True)
class DatasetSuitability:
    """``coverage`` is over the cases that somebody has judged, ``made_by`` who judged how many; ``unjudged`` are left.

    A profile that came with its case is a judgement too: the case is suitable.
    """

    dataset: str
    cases: int
    unjudged: int
    coverage: Coverage
    made_by: dict[str, int]


def dataset_suitability(
    dataset: str,
    cases: Sequence[Case],
    stored: Mapping[CaseId, Generated],
    by_rule: Callable[[Case], Generated] | None = None,
) -> DatasetSuitability:
    """Return the suitability of a data set: by a stored profile, else the case's own, else ``by_rule`` where given."""
    words = [stored.get((case.case_key, case.content_hash)) or own_profile(case) for case in cases]
    if by_rule is not None:
        words = [word or by_rule(case) for word, case in zip(words, cases, strict=True)]
    judged = [word for word in words if word is not None]
    made_by = dict(Counter(word.made_by for word in judged).most_common())
    return DatasetSuitability(dataset, len(words), len(words) - len(judged), coverage(judged), made_by)
