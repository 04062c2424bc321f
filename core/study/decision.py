"""What a study decides in one look or two, the smallest difference that it can show, and the cases that it needs.

The data are the differences of cases, new minus present doctor, between −1 and 1; trials of a case are averaged first.
The mean difference has the smoothed interval of the gate (``core.stats.margins``). An extension (more cases, or more
trials) is a second look at all data. The error rate of each bound, one-sided 5 %, is spent in two halves, 2.5 % at each
look, before the first (Lan and DeMets, Biometrika 70 (1983), 659–663). The halves add up whatever the correlation of
the looks is (Bonferroni), so that nobody needs to plan the extension or its size. That costs little: a first look at a
tenth of the cases correlates with the second by 0.3. The interval of the study is what both looks have in common.
benchmarks/bench_study.py measures the errors and the power of the whole procedure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy  # type: ignore[import-untyped]
from numpy.typing import ArrayLike

from core.errors import UsageError
from core.stats.intervals import Interval
from core.stats.margin_power import observed_law
from core.stats.margins import margin_interval
from core.stats.power import PairedComponents, cases_needed, detectable_difference

Verdict = Literal["better", "not worse", "worse", "cannot tell"]
SPENT = (0.025, 0.025)
"""One-sided error rate of each bound at the first and at the second look."""
FEWEST_CASES = 12
"""With fewer cases a study decides nothing: error rates are measured from here on."""
POWER = 0.8
"""Power behind the smallest difference that a number of cases shows."""
TARGET = 0.9
"""Power for which further cases are counted: few cases show their variance only roughly."""
MOST_CASES = 5_000
"""A study that needs more cases than this is told that no realistic number decides."""
MOST_TRIALS = 20


@dataclass(frozen=True)
class Decision:
    """``sizes``, ``means`` and ``looks`` are the cases, mean differences and their intervals in the one or two looks.

    ``needed`` is the number of cases with a power of ``TARGET`` to show *not worse* at the second look if nothing
    differs; ``None`` if that is over ``MOST_CASES``.
    """

    margin: float
    sizes: tuple[int, ...]
    means: tuple[float, ...]
    looks: tuple[Interval, ...]
    needed: int | None

    @property
    def cases(self) -> int:
        return self.sizes[-1]

    @property
    def interval(self) -> Interval | None:
        """What the looks with enough cases have in common, or the last look if they contradict each other."""
        looks = [look for look, cases in zip(self.looks, self.sizes, strict=True) if cases >= FEWEST_CASES]
        return in_common(looks) if looks else None

    @property
    def verdict(self) -> Verdict:
        return verdict_of(self.interval, self.margin) if self.interval else "cannot tell"

    @property
    def more_cases(self) -> int | None:
        """How many more cases decide if nothing differs; ``None`` if no realistic number does."""
        return None if self.needed is None else max(0, self.needed - self.cases, FEWEST_CASES - self.cases)


def in_common(looks: Sequence[Interval]) -> Interval:
    low, high = max(look.low for look in looks), min(look.high for look in looks)
    return Interval(low, high) if low <= high else looks[-1]


def verdict_of(interval: Interval, margin: float) -> Verdict:
    if interval.low > -margin:
        return "better" if interval.low > 0 else "not worse"
    return "worse" if interval.high < -margin else "cannot tell"


def decide(*differences: ArrayLike, margin: float) -> Decision:
    """Return the decision after the first look, or after a second one, whose data include those of the first."""
    looks = [np.asarray(data, dtype=np.float64) for data in differences[: len(SPENT)]]
    last = looks[-1]
    return Decision(
        margin,
        tuple(look.size for look in looks),
        tuple(float(look.mean()) if look.size else float("nan") for look in looks),
        tuple(margin_interval(look, level) for look, level in zip(looks, SPENT, strict=False)),
        cases_for(last, margin) if last.size else None,
    )


def cases_for(differences: ArrayLike, margin: float) -> int | None:
    """Return ``Decision.needed`` by the sizes of observed differences, whatever their signs.

    Normal approximation with the variance of the law behind the gate's power, which has half a case that may differ.
    """
    law = observed_law(differences)
    variance = float(law.chances @ law.sizes**2)
    quantiles = float(scipy.special.ndtri(1 - SPENT[1]) + scipy.special.ndtri(TARGET))
    number = math.ceil(variance * (quantiles / margin) ** 2)
    return max(number, FEWEST_CASES) if number <= MOST_CASES else None


@dataclass(frozen=True)
class Resolution:
    """What a planned study can show, before any call.

    ``smallest`` is the smallest difference, and the smallest margin if nothing differs, with a power of ``POWER``; 1 if
    there is none. ``cases`` and ``trials`` are those that see the margin, each without more of the other; ``None`` if
    no realistic number does.
    """

    smallest: float
    cases: int | None
    trials: int | None


def resolution(components: PairedComponents, cases: int, trials: int, margin: float) -> Resolution:
    """Return what ``cases`` with ``trials`` each show, by the variance of differences that is assumed or stored."""
    level = 2 * SPENT[0]
    try:
        needed = cases_needed(components, margin, trials, POWER, level)
    except UsageError:  # over ten million
        needed = MOST_CASES + 1
    enough = (
        number
        for number in range(trials, MOST_TRIALS + 1)
        if detectable_difference(components, cases, number, POWER, level) <= margin
    )
    return Resolution(
        detectable_difference(components, cases, trials, POWER, level),
        max(needed, FEWEST_CASES) if needed <= MOST_CASES else None,
        next(enough, None),
    )
