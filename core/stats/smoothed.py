"""Interval of a mean or a share over cases that is valid near 0 and 1 and for few cases: the smoothed bootstrap.

A resample gives every case a random weight, gamma-distributed with shape 1 (the Bayesian bootstrap: Rubin, The Annals
of Statistics 9 (1981), 130–134), and two pseudo-cases, one all wrong and one all right, a weight of a smaller shape.
They stand for cases that the sample does not contain: if all cases are right, the next one may be wrong. With one trial
per case the interval is that of the beta distribution, Jeffreys' interval for a shape of 1/2 (Brown, Cai, DasGupta,
Statistical Science 16 (2001), 101–133). Cases are clusters: the correlation of a case's trials is part of the spread of
the cases' values, so it needs no assumption, and numbers of trials may differ.

No random numbers are drawn: a share lies below r if a weighted sum of gamma variables lies below 0, and the probability
of this is one integral of their characteristic function (Gil-Pelaez, Biometrika 38 (1951), 481–482). A resampled mean
rises with each of its values, and so do both bounds: one more wrong answer never raises a bound.

The shape of the pseudo-cases and the tails were chosen for coverage: benchmarks/bench_coverage.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable

import numpy as np
import scipy  # type: ignore[import-untyped]
from numpy.typing import ArrayLike, NDArray

from core.errors import UsageError
from core.stats.intervals import NOTHING, Interval

Floats = NDArray[np.float64]

_DF_PER_CASE = 4
_STEPS = 100
"""More distinct values than this are rounded to this number of steps: the width grows by less than 1 %."""
_NODE_DISTANCE = 0.25
_NODES = np.arange(0.0, 10.0, _NODE_DISTANCE)
"""Nodes of the trapezoidal rule, logarithmic in the far tail; the error is below 1e-9."""
_NOTHING_LEFT = 40.0
"""Fall of the exponent after which the integrand is below the last digit."""
_FAR = 10.0
_CLOSE = 1e-8
_MOST_ROUNDS = 80


def mean_interval(values: ArrayLike, level: float = 0.95, *, low: float = 0.0, high: float = 1.0) -> Interval:
    """Return the interval of the mean of one value per case, each between ``low`` and ``high``; NaN without values."""
    sample = np.asarray(values, dtype=np.float64)
    if not sample.size or not high > low:
        return NOTHING
    distinct, counts = np.unique(sample, return_counts=True)
    bounds = _interval((distinct - low) / (high - low), np.ones_like(distinct), counts, level)
    return Interval(*(low + (high - low) * bound for bound in bounds))


def ratio_interval(numerators: ArrayLike, denominators: ArrayLike, level: float = 0.95) -> Interval:
    """Return the interval of the share Σ numerators / Σ denominators of items that are clustered by case.

    Each case has one numerator and one denominator; cases without items do not count. Shares above 1 (marks per reply,
    say) are possible: the right pseudo-case then has the largest share in the data.
    """
    above, below = np.asarray(numerators, dtype=np.float64), np.asarray(denominators, dtype=np.float64)
    if above.shape != below.shape:
        raise UsageError("Ratios need as many numerators as denominators.")
    used = below > 0
    if not used.any():
        return NOTHING
    # complex numbers sort like pairs, in a tenth of the time
    pairs, counts = np.unique(above[used] + 1j * below[used], return_counts=True)
    most = max(1.0, float((pairs.real / pairs.imag).max()))
    scale = most * float(below[used].mean())
    bounds = _interval(pairs.real / scale, pairs.imag * most / scale, counts, level)
    return Interval(*(most * bound for bound in bounds))


def share_of(hits: Iterable[tuple[Hashable, bool]]) -> tuple[float | None, float, float, int]:
    """Return the share of items that are hits (``None`` without items), its interval, and the number of items.

    ``hits`` are the case of each item and whether it is a hit.
    """
    above, below = Counter[Hashable](), Counter[Hashable]()
    for case, hit in hits:
        above[case] += hit
        below[case] += 1
    low, high = ratio_interval([above[case] for case in below], list(below.values()))
    return (above.total() / below.total() if below else None), low, high, below.total()


def pseudo_shape(n_cases: int) -> float:
    """Return the shape of each pseudo-case: 1/2 up to five cases, rising to 3/4 for many."""
    return max(0.5, 0.75 - 1.25 / n_cases)


def tail_share(n_cases: int, level: float) -> float:
    """Return the share outside each bound: the normal tail of Student's quantile, four degrees of freedom per case."""
    return float(scipy.special.ndtr(-scipy.special.stdtrit(_DF_PER_CASE * n_cases, (1 + level) / 2)))


def _interval(above: Floats, below: Floats, counts: NDArray[np.int64], level: float) -> Interval:
    """Return the interval of Σ above / Σ below, between 0 and 1; row j stands for ``counts[j]`` cases."""
    n = int(counts.sum())
    shape, tail = pseudo_shape(n), tail_share(n, level)
    above, below = np.append(above, [0.0, 1.0]), np.append(below, [1.0, 1.0])
    shapes = np.append(counts.astype(np.float64), [shape, shape])

    def normal_score(shares: Floats) -> Floats:
        return np.asarray(_score_below_zero(above - shares[:, None] * below, shapes))

    targets = np.array([scipy.special.ndtri(tail), -scipy.special.ndtri(tail)])
    low, high = _solved(normal_score, targets, _first_guess(above, below, shapes, tail))
    all_wrong, all_right = not above[:-2].any(), bool((below - above)[:-2].max() <= _CLOSE)
    return Interval(0.0 if all_wrong else float(low), 1.0 if all_right else float(high))


def _first_guess(above: Floats, below: Floats, shapes: Floats, tail: float) -> Floats:
    """Return the two quantiles of the beta distribution with the same mean and variance."""
    total = shapes.sum()
    mean = float(shapes @ above / (shapes @ below))
    variance = float(shapes @ (above - mean * below) ** 2) / (shapes @ below) ** 2 * total / (total + 1)
    size = max(mean * (1 - mean) / variance - 1, 1e-3) if variance else total
    guess = scipy.special.betaincinv(mean * size, (1 - mean) * size, np.array([tail, 1 - tail]))
    return np.asarray(np.clip(guess, 1e-9, 1 - 1e-9), dtype=np.float64)


def _score_below_zero(coefficients: Floats, shapes: Floats) -> Floats:
    """Return, for each row of coefficients, the normal quantile of P(Σ coefficient · gamma(shape) ≤ 0)."""
    if coefficients.shape[1] > _STEPS + 2:
        rows = [_on_steps(row, shapes) for row in coefficients]
        return np.concatenate([_score_below_zero(values[None], weights) for values, weights in rows])
    # integrate the smaller tail, so that no digits are lost: the sum is mirrored to have a mean below 0
    sign = np.where(coefficients @ shapes > 0, -1.0, 1.0)
    size = np.abs(coefficients).max(axis=1)
    tails = _chance_above_zero(coefficients * (sign / size)[:, None], shapes)
    return np.asarray(-sign * scipy.special.ndtri(np.clip(tails, 1e-300, 1.0)))


def _chance_above_zero(coefficients: Floats, shapes: Floats) -> Floats:
    """Return P(Σ coefficient · gamma(shape) > 0) of each row, whose mean is not above 0.

    The integral of exp(K(s)) / s along a parabola through the saddle point, which follows the steepest descent; K is
    the logarithm of the moment generating function.
    """
    end = 1 / coefficients.max(axis=1)
    mean, variance = coefficients @ shapes, coefficients**2 @ shapes
    low, high = np.zeros_like(end), end
    saddle = np.minimum((np.sqrt(mean**2 + 4 * variance) - mean) / (2 * variance), 0.75 * end)  # of a normal sum
    for _ in range(_MOST_ROUNDS):
        part = coefficients / (1 - coefficients * saddle[:, None])
        slope, second = part @ shapes - 1 / saddle, part**2 @ shapes + 1 / saddle**2
        low, high = np.where(slope < 0, saddle, low), np.where(slope < 0, high, saddle)
        following = saddle - slope / second
        following = np.where((following > low) & (following < high), following, (low + high) / 2)
        moved = np.abs(following - saddle).max()
        saddle = following
        if moved < 0.02 * end.min():  # a rough saddle point is enough
            break
    part = coefficients / (1 - coefficients * saddle[:, None])
    second, third = part**2 @ shapes + 1 / saddle**2, 2 * (part**3 @ shapes) - 2 / saddle**3
    bend, width = (third / (6 * second))[:, None], (1 / np.sqrt(second))[:, None]
    # in the far tail many small coefficients make exp(K) grow on one side: the parabola opens to the other side
    drift = (coefficients / (1 + (_FAR * width * coefficients) ** 2)) @ shapes
    bend = np.where(bend * drift[:, None] > 0, -bend / 2, bend)
    y, step = width * np.sinh(_NODES), width * np.cosh(_NODES)
    while True:
        path, along = saddle[:, None] + bend * y**2 + 1j * y, (2 * bend * y + 1j) * step
        exponent = -np.einsum("j,rjk->rk", shapes, np.log(1 - coefficients[:, :, None] * path[:, None, :]))
        uphill = exponent.real.max(axis=1) > exponent.real[:, 0] + 1
        if not uphill.any():
            break
        bend = np.where(uphill[:, None], 0.0, bend)  # a straight line never rises
    # in the far tail, after the integrand has vanished, the parabola may leave the valley and climb again
    over = np.logical_or.accumulate(exponent.real < exponent.real[:, :1] - _NOTHING_LEFT, axis=1)
    values = (np.exp(np.where(over, -np.inf, exponent)) / path * along).imag
    return np.asarray(_NODE_DISTANCE * (values.sum(axis=1) - values[:, 0] / 2) / np.pi)


def _on_steps(values: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return at most ``_STEPS`` + 1 weighted values with the same mean: each value is split between its neighbours."""
    low, step = float(values.min()), float(np.ptp(values)) / _STEPS
    below, beyond = np.divmod((values - low) / step, 1)
    ticks = np.concatenate([below, below + 1]).astype(np.int64)
    shared = np.bincount(ticks, np.concatenate([weights * (1 - beyond), weights * beyond]))
    used = shared > 0
    return np.asarray(low + step * np.flatnonzero(used), dtype=np.float64), np.asarray(shared[used], dtype=np.float64)


def _solved(score: Callable[[Floats], Floats], targets: Floats, guess: Floats) -> Floats:
    """Return the shares at which a rising function has the ``targets``: secant method on log odds, within bounds."""
    low, high = np.full_like(guess, -60.0), np.full_like(guess, 60.0)
    x = np.log(guess / (1 - guess))
    slope = np.full_like(x, (targets[1] - targets[0]) / max(x[1] - x[0], 1e-6))
    earlier, earlier_miss = x, np.zeros_like(x)
    for number in range(_MOST_ROUNDS):
        miss = score(1 / (1 + np.exp(-x))) - targets
        low, high = np.where(miss < 0, x, low), np.where(miss < 0, high, x)
        if number:
            with np.errstate(divide="ignore", invalid="ignore"):
                slope = (miss - earlier_miss) / (x - earlier)
        with np.errstate(divide="ignore", invalid="ignore"):
            following = x - miss / slope
        following = np.where((following > low) & (following < high), following, (low + high) / 2)
        following = np.where(np.abs(miss) < _CLOSE, x, following)
        earlier, earlier_miss, moved = x, miss, np.abs(following - x).max()
        x = following
        if moved < _CLOSE:
            break
    return np.asarray(1 / (1 + np.exp(-x)))
