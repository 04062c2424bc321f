"""The statistics: exact bootstrap against resampling (speed, agreement), and whether 95 % and 5 % are what they say.

Speed compares in one run: the loop of the published test, the same digits from one matrix of counts, the vectorised
resampling, and the exact distribution. Calibration simulates two models that are equally good on average.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field

import numpy as np
from common import SMOKE, median_s, sized, table
from numpy.typing import NDArray
from paper_bootstrap import RESAMPLES, SEED, paper_p_values, resamples_of

from core.stats.bootstrap import bootstrap_interval
from core.stats.differences import Difference, bootstrap_difference
from core.stats.intervals import Interval, t_interval

Arms = tuple[NDArray[np.float64], NDArray[np.float64]]
TRIALS = 5
TOGETHER = 24
"""Tests of one size made together, as a table of the publication does (4 models × 6 pairs of formats)."""
SHAPES = {"accuracy .50, even": (1, 1), "accuracy .80, skewed": (2, 0.5), "accuracy .90, all or none": (0.9, 0.1)}
SIZES = {20: 10_000, 100: 10_000, 2_000: 2_000}
_Z = 1.96


def arms_of(rng: np.random.Generator, n: int, shape: tuple[float, float] = (1, 1), shift: float = 0.0) -> Arms:
    """Return scores of two models on the same cases; on half of them the chances are drawn separately."""
    chance = rng.beta(*shape, n)
    other = np.where(rng.random(n) < 0.5, chance, rng.beta(*shape, n))
    return rng.binomial(TRIALS, chance, n) / TRIALS, rng.binomial(TRIALS, (other + shift).clip(0, 1), n) / TRIALS


def exact(first: NDArray[np.float64], second: NDArray[np.float64]) -> Difference:
    return bootstrap_difference(first, second, engine="exact", expanded=False)


def by_loop(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Return the published p-value by 10,000 draws in a row."""
    differences, generator = first - second, np.random.RandomState(SEED)
    draws = (second + generator.choice(differences, differences.size) - first for _ in range(RESAMPLES))
    deviations = np.array([np.mean(draw) for draw in draws])
    hits = int(np.sum(np.abs(deviations) >= np.abs(np.mean(differences))))
    return round((hits + 1) / (RESAMPLES + 1), 4)


def timed(n: int) -> list[str]:
    """Return a row: milliseconds of each way to compare two arms of ``n`` cases, and how much faster than the loop."""
    rng = np.random.default_rng(n)
    many = [arms_of(rng, n) for _ in range(TOGETHER)]
    pair = many[0]

    def together() -> None:
        resamples_of.cache_clear()
        paper_p_values(many)

    loop = median_s(lambda: by_loop(*pair), 5)
    others = [
        median_s(together, 5) / TOGETHER,
        median_s(lambda: bootstrap_difference(*pair, engine="resampled")),
        median_s(lambda: exact(*pair), 100),
    ]
    assert paper_p_values(many) == [by_loop(*pair), *paper_p_values(many[1:])]
    return [str(n), *(f"{1000 * s:.2f}" for s in (loop, *others)), *(f"{loop / s:.0f}×" for s in others)]


def speed() -> None:
    ways = ["same digits", "vectorised", "exact"]
    table(
        f"One comparison, ms, and times as fast as the loop ({TOGETHER} at once for the same digits)",
        ["cases", "loop", *ways, *ways],
        [timed(n) for n in ((20,) if SMOKE else (20, 100, 500, 2_004))],
    )


def agreement() -> None:
    """Compare exact with both resampled p-values on random arms, in units of the resampling error."""
    arms, rng = sized(200, 5), np.random.default_rng(1)
    apart: dict[str, list[float]] = {"seeded": [], "published": []}
    bounds = []
    for _ in range(arms):
        n = int(rng.integers(20, 1_000))
        pair = arms_of(rng, n, (0.7, 0.7), rng.normal(scale=1 / n**0.5))
        true, seeded = exact(*pair), bootstrap_difference(*pair, engine="resampled", expanded=False)
        error = max((true.p * (1 - true.p) / 10_000) ** 0.5, 1e-4)
        apart["seeded"].append(abs(seeded.p - true.p) / error)
        apart["published"].append(abs(paper_p_values([pair])[0] - true.p) / error)
        standard_error = (true.interval.high - true.interval.low) / (2 * _Z)
        bounds.append(np.abs(np.subtract(seeded.interval, true.interval)).max() / standard_error)
    rows = [
        [f"p, {name}", f"{np.median(x):.2f}", f"{np.mean(np.array(x) < _Z):.1%}", f"{max(x):.1f}"]
        for name, x in apart.items()
    ]
    table(
        f"Exact against resampled on {arms} random arms, in resampling errors", ["", "median", "< 1.96", "most"], rows
    )
    print("  published: one fixed seed, and rounding errors decide which of the tied resamples count")
    print(f"  bounds of the seeded interval: at most {max(bounds):.2f} standard errors of the difference apart")


@dataclass
class Tally:
    """How often events happened in ``runs`` simulated comparisons."""

    runs: int = 0
    hits: dict[str, int] = field(default_factory=dict)

    def count(self, **happened: bool) -> None:
        self.runs += 1
        for name, yes in happened.items():
            self.hits[name] = self.hits.get(name, 0) + bool(yes)

    def percent(self, name: str) -> str:
        return f"{100 * self.hits[name] / self.runs:.1f}"


def covers(interval: Interval, truth: float) -> bool:
    return interval.low - 1e-9 <= truth <= interval.high + 1e-9


def simulated(n: int, runs: int, shape: tuple[float, float]) -> Tally:
    rng = np.random.default_rng(n)
    truth = shape[0] / sum(shape)
    tally = Tally()
    for _ in range(runs):
        first, second = arms_of(rng, n, shape)
        plain, expanded_difference = (
            bootstrap_difference(first, second, expanded=expanded) for expanded in (False, True)
        )
        tally.count(
            mean_t=covers(t_interval(first), truth),
            mean_plain=covers(bootstrap_interval(first, expanded=False), truth),
            mean_ours=covers(bootstrap_interval(first), truth),
            difference_plain=covers(plain.interval, 0),
            difference_ours=covers(expanded_difference.interval, 0),
            rejected_t=not covers(t_interval(first - second), 0),
            rejected_plain=plain.p <= 0.05,
            rejected_ours=expanded_difference.p <= 0.05,
        )
    return tally


def calibration(share: float) -> None:
    columns = ["mean_t", "mean_plain", "mean_ours", "difference_plain", "difference_ours"]
    columns += ["rejected_t", "rejected_plain", "rejected_ours"]
    rows = []
    for n, full in SIZES.items():
        runs = sized(max(100, int(full * share)), 5)
        for name, shape in SHAPES.items():
            tally = simulated(n, runs, shape)
            rows.append([f"{n} cases, {name}", f"{runs:,}", *(tally.percent(c) for c in columns)])
    heads = ["", "runs", "mean: t", "plain", "expanded", "difference: plain", "expanded"]
    heads += ["p ≤ .05: t", "plain", "expanded"]
    table("Per cent of 95 % intervals that cover, and of tests that reject where nothing differs", heads, rows)
    errors = ", ".join(f"±{196 * (0.05 * 0.95 / runs) ** 0.5 * share**-0.5:.1f} at {n}" for n, runs in SIZES.items())
    print(f"  simulation error in points (95 %): {errors}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=float, default=0.2, help="share of the simulations to run; 1 takes minutes")
    share: float = parser.parse_args().share
    speed()
    agreement()
    calibration(share)


if __name__ == "__main__":
    main()
