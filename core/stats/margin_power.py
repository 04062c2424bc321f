"""Power of the test with a margin of ``core.stats.margins``: how often it would pass if nothing differs.

If few cases differ, the power depends on how many do, and no normal approximation has it: it is 7 points too low for 20
cases. So the decision is made for 1,024 samples of the differences that two runs can have. They are evenly spread
instead of random (the number of cases that differ and their signs: a Kronecker sequence), so that a power is always the
same, and within a point of that of 100,000 random samples. A sample's interval is not solved for: the chance that its
resampled mean lies below a threshold is the saddlepoint approximation of Lugannani and Rice (Advances in Applied
Probability 12 (1980), 475–490), whose error in the normal quantile is below 0.03.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy  # type: ignore[import-untyped]
from numpy.typing import ArrayLike, NDArray

from core.errors import UsageError
from core.stats.bootstrap import SEED
from core.stats.margins import FEWEST_CASES
from core.stats.power import MOST_CASES
from core.stats.smoothed import Floats, pseudo_shape, tail_share

_SAMPLES = 1_024
_STEPS = 20
"""Differences on a finer scale than this number of steps, such as those of cases with different numbers of trials, are
rounded to it."""
_GOLDEN = 1.32471795724474602596
"""The root of x³ = x + 1: its inverse powers make the most even sequence of pairs."""
_PSEUDO_CASE = 0.5
"""Weight of the pseudo-case, in cases. Of 0, ¼, ½, 1 and 2 it gives the mean stated power that is
closest to the true one, for 20 to 100 cases of which 5 to 25 % differ."""
_MARGIN_STEP = 0.001
_MOST_ROUNDS = 60
_CLOSE = 1e-3
"""Change of a saddle point, in its standard deviations, after which it is no longer improved."""
_NEAR = 1e-2
"""A bound nearer to the mean than this, in standard deviations, gets no correction."""


class DifferenceLaw(NamedTuple):
    """How much a case differs between two runs of equal accuracy: |difference| (0 to 1), each with its probability."""

    sizes: Floats
    chances: Floats


def observed_law(differences: ArrayLike) -> DifferenceLaw:
    """Return the law of observed differences of cases, and of a part of a pseudo-case that may differ.

    Without the pseudo-case, cases that do not differ would promise a power of 1.
    """
    sizes = np.abs(np.asarray(differences, dtype=np.float64))
    return _law(_on_steps(sizes), np.ones(sizes.size), _PSEUDO_CASE)


def chance_to_pass(law: DifferenceLaw, margin: float, cases: int, level: float = 0.05) -> float:
    """Return the probability of a pass if nothing differs.

    ``level`` is the one-sided error rate. Raises ``UsageError`` for a margin or a level that no test has.
    """
    if not 0 < margin < 1 or not 0 < level < 0.5:
        raise UsageError("A margin lies between 0 and 1, and a level between 0 and 0.5.")
    return _passing(_samples(law, cases), margin, level)


def smallest_margin(law: DifferenceLaw, cases: int, level: float = 0.05, target: float = 0.8) -> float:
    """Return the smallest margin with the power ``target``, rounded up by less than 0.001; 1 if none has it."""
    samples = _samples(law, cases)
    low, high = 0.0, 1.0
    while high - low > _MARGIN_STEP:
        middle = (low + high) / 2
        low, high = (low, middle) if _passing(samples, middle, level) >= target else (middle, high)
    return high


def cases_to_pass(
    law: DifferenceLaw, margin: float, cases: int, level: float = 0.05, target: float = 0.8
) -> int | None:
    """Return the number of cases with the power ``target``, within 1 %; ``None`` if over ten million are needed.

    ``cases`` is where the search begins: if these have the power, the result is no larger. At least ``FEWEST_CASES``.
    """

    def enough(number: int) -> bool:
        return chance_to_pass(law, margin, number, level) >= target

    low, high = FEWEST_CASES - 1, max(FEWEST_CASES, cases)
    while not enough(high):
        low, high = high, 2 * high
        if high > MOST_CASES:
            return None
    while high - low > max(1, low // 100):
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _on_steps(sizes: Floats) -> Floats:
    return np.rint(sizes * _STEPS) / _STEPS if np.unique(sizes).size > _STEPS else sizes


def _law(sizes: Floats, weights: Floats, pseudo_case: float) -> DifferenceLaw:
    """Return the law of weighted differences, and of a pseudo-case that differs with a chance of one half."""
    distinct, place = np.unique(np.append(sizes, [0.0, 1.0]).round(9), return_inverse=True)
    chances = np.bincount(place, np.append(weights, [pseudo_case / 2, pseudo_case / 2]))
    return DifferenceLaw(distinct, chances / chances.sum())


class _Samples(NamedTuple):
    """Samples of differences: their distinct ``values``, and sample × value: how many cases have it."""

    values: Floats
    counts: Floats


def _samples(law: DifferenceLaw, cases: int) -> _Samples:
    """Return samples of the differences of ``cases`` whose true mean is 0."""
    differing = law.sizes > 0
    sizes, chances = law.sizes[differing], law.chances[differing]
    number = np.arange(1, _SAMPLES // 2 + 1)
    differ = float(chances.sum())
    n_differ = _quantiles(number / _GOLDEN % 1, np.full(number.size, cases), differ)
    n_positive = _quantiles(number / _GOLDEN**2 % 1, n_differ, 0.5 if differ else 0.0)
    rng = np.random.default_rng(SEED)
    half = chances / 2
    shares = half / half.sum() if half.any() else half
    gains, losses = (rng.multinomial(total, shares) for total in (n_positive, n_differ - n_positive))
    # each sample is as probable as the one with all signs reversed: using both halves the error
    counts = np.column_stack([np.vstack([gains, losses]), np.vstack([losses, gains]), np.tile(cases - n_differ, 2)])
    return _Samples(np.concatenate([sizes, -sizes, [0.0]]), counts.astype(np.float64))


def _quantiles(shares: Floats, trials: NDArray[np.int64], chance: float) -> NDArray[np.int64]:
    """Return the quantile of each binomial distribution at its share."""
    if not 0 < chance < 1:
        return trials if chance else np.zeros_like(trials)
    above = np.ceil(np.nan_to_num(scipy.special.bdtrik(shares, trials, chance)))
    return np.asarray(np.clip(above, 0, trials), dtype=np.int64)


def _passing(samples: _Samples, margin: float, level: float) -> float:
    """Return the share of samples that pass."""
    cases = int(samples.counts[0].sum())
    threshold = float(scipy.special.ndtri(tail_share(cases, 1 - 2 * level)))
    return float((_scores_below(samples, -margin) < threshold).mean())


def _scores_below(samples: _Samples, bound: float) -> Floats:
    """Return the normal quantile of the chance that the resampled mean of each sample is below ``bound``."""
    cases = int(samples.counts[0].sum())
    distances = np.append(samples.values, [-1.0, 1.0]) - bound
    shapes = np.column_stack([samples.counts, np.full((len(samples.counts), 2), pseudo_shape(cases))])
    low, high = np.full(len(shapes), 1 / distances.min()), np.full(len(shapes), 1 / distances.max())
    saddle = np.clip(-(shapes @ distances) / (shapes @ distances**2), 0.9 * low, 0.9 * high)
    for _ in range(_MOST_ROUNDS):
        part = distances / (1 - distances * saddle[:, None])
        slope, second = np.einsum("rj,rj->r", part, shapes), np.einsum("rj,rj->r", part**2, shapes)
        low, high = np.where(slope < 0, saddle, low), np.where(slope > 0, saddle, high)
        following = saddle - slope / second
        following = np.where((following > low) & (following < high), following, (low + high) / 2)
        moved = np.abs((following - saddle) * np.sqrt(second)).max()
        saddle = following
        if moved < _CLOSE:
            break
    exponent = np.einsum("rj,rj->r", np.log(1 - distances * saddle[:, None]), shapes)
    distance = np.sign(saddle) * np.sqrt(2 * np.maximum(exponent, 0.0))
    # near the mean the correction is a difference of two large numbers, and no threshold is there
    usual = np.abs(distance) > _NEAR
    correction = np.log(np.where(usual, saddle * np.sqrt(second) / np.where(usual, distance, 1.0), 1.0))
    return np.asarray(distance + correction / np.where(usual, distance, 1.0))
