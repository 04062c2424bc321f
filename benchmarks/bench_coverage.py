"""How often 95 % intervals of means over cases and of paired differences contain the truth, and how long they take.

For scores that are neither right nor wrong, the width is compared with that of Student's interval.
Compares the smoothed interval with the expanded percentile bootstrap, on the same samples. Cases' chances are beta
distributed with a mean and an intraclass correlation; for one trial per case the coverage is exact. Coverage below 93 %
is marked.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from itertools import product

import numpy as np
import scipy  # type: ignore[import-untyped]
from common import SMOKE, median_s, sized, table
from numpy.typing import NDArray

from core.stats.bootstrap import bootstrap_interval
from core.stats.differences import bootstrap_difference, paired_difference
from core.stats.intervals import Interval, t_interval
from core.stats.scores import score_interval
from core.stats.smoothed import mean_interval

CASES = (5, 20) if SMOKE else (5, 10, 20, 60, 317)
MEANS = (0.02, 0.3) if SMOKE else (0.02, 0.05, 0.1, 0.3, 0.5)
CORRELATIONS = (0.5,) if SMOKE else (0.2, 0.5, 0.8)
PAIRS = ((0.5, 0.5), (0.1, 0.2), (0.02, 0.9))
Floats = NDArray[np.float64]


def holds(interval: Interval, truth: float) -> bool:
    return interval.low - 1e-9 <= truth <= interval.high + 1e-9


def of_one_trial(cases: int, mean: float) -> tuple[float, float]:
    """Return the exact coverage of both methods, in per cent."""
    smoothed = percentiles = 0.0
    for right in range(cases + 1):
        chance = float(scipy.stats.binom.pmf(right, cases, mean))
        if chance > 1e-9:
            sample = [1.0] * right + [0.0] * (cases - right)
            smoothed += chance * holds(mean_interval(sample), mean)
            percentiles += chance * holds(bootstrap_interval(sample), mean)
    return 100 * smoothed, 100 * percentiles


def chances(rng: np.random.Generator, quantiles: Floats, mean: float, icc: float) -> Floats:
    size = 1 / icc - 1
    return np.asarray(scipy.special.betaincinv(mean * size, (1 - mean) * size, quantiles))


def of_several_trials(cases: int, mean: float, icc: float, runs: int, trials: int = 5) -> tuple[float, float]:
    """Return the simulated coverage of both methods, in per cent; samples that are alike are looked at once."""
    rng = np.random.default_rng(20)
    samples = np.sort(rng.binomial(trials, chances(rng, rng.random((runs, cases)), mean, icc)), axis=1)
    distinct, counts = np.unique(samples, axis=0, return_counts=True)
    smoothed = [holds(mean_interval(sample / trials), mean) for sample in distinct]
    percentiles = [holds(bootstrap_interval(sample / trials), mean) for sample in distinct]
    return 100 * float(counts @ smoothed) / runs, 100 * float(counts @ percentiles) / runs


def of_differences(cases: int, means: tuple[float, float], icc: float, runs: int, trials: int = 5) -> list[float]:
    """Return coverage by both methods, and how often p is at most .05 by sign flips and by the bootstrap, in per cent.

    Half of the cases are as hard for both models.
    """
    rng, truth = np.random.default_rng(20), means[1] - means[0]
    hits = np.zeros(4)
    for _ in range(runs):
        first = rng.random(cases)
        second = np.where(rng.random(cases) < 0.5, first, rng.random(cases))
        a, b = (
            rng.binomial(trials, chances(rng, q, mean, icc)) / trials
            for q, mean in zip((first, second), means, strict=True)
        )
        smoothed, resampled = paired_difference(b, a), bootstrap_difference(b, a)
        covered = (
            smoothed.p > 0.05 if truth == 0 else holds(smoothed.interval, truth)
        )  # a bound of 0 itself is no cover
        hits += [covered, holds(resampled.interval, truth), smoothed.p <= 0.05, resampled.p <= 0.05]
    return [float(share) for share in 100 * hits / runs]


def marked(percent: float) -> str:
    return f"{percent:.1f}{' !' if percent < 93 else ''}"


def coverage_of_means(runs: int) -> None:
    heads = ["cases", "mean", "1 trial", "before", *(f"ICC {icc}{b}" for icc in CORRELATIONS for b in ("", " before"))]
    rows = []
    for cases, mean in product(CASES, MEANS):
        pairs = [of_one_trial(cases, mean)]
        few = runs if cases < 317 else max(1, runs // 4)
        pairs += [of_several_trials(cases, mean, icc, few) for icc in CORRELATIONS]
        rows.append([str(cases), str(mean), *(marked(percent) for pair in pairs for percent in pair)])
    table(f"Per cent of 95 % intervals that hold the mean: 1 trial exact, 5 trials from {runs:,} samples", heads, rows)


def coverage_of_differences(runs: int) -> None:
    rows = []
    for cases, means, icc in product(CASES, PAIRS, CORRELATIONS[:1] if SMOKE else (0.2, 0.8)):
        few = runs if cases < 317 else max(1, runs // 4)
        percents = of_differences(cases, means, icc, few)
        rows.append(
            [
                str(cases),
                f"{means[0]} and {means[1]}",
                str(icc),
                *map(marked, percents[:2]),
                *(f"{p:.1f}" for p in percents[2:]),
            ]
        )
    heads = ["cases", "means", "ICC", "interval", "before", "p ≤ .05", "before"]
    table(f"Paired differences, 5 trials, {runs:,} samples: per cent that hold the truth, and that reject", heads, rows)


def gamma(shape: float) -> Callable[[np.random.Generator, tuple[int, int]], Floats]:
    return lambda rng, size: np.minimum(1.0, rng.gamma(shape, 0.05 / shape, size))


SHAPES: dict[str, Callable[[np.random.Generator, tuple[int, int]], Floats]] = {
    **{f"gamma, shape {shape}": gamma(shape) for shape in (0.5, 1, 2, 4, 8)},
    "half of them 0, else gamma": lambda rng, size: rng.gamma(2, 0.05, size).clip(0, 1) * (rng.random(size) < 0.5),
    "log-normal, deviation 1": lambda rng, size: np.minimum(1.0, 0.05 * np.exp(rng.normal(-0.5, 1, size))),
    "beta, mean 0.9": lambda rng, size: rng.beta(9, 1, size),
    "normal, deviation 0.006": lambda rng, size: rng.normal(0.05, 0.006, size),
    "even from 0 to 1": lambda rng, size: rng.random(size),
}
"""Name → scores with the mean .05, if not named."""


def coverage_of_scores(runs: int) -> None:
    rows = []
    for name, draw in SHAPES.items():
        rng = np.random.default_rng(20)
        truth = float(draw(rng, (1_000, 2_000)).mean())
        row = [name]
        for cases in (20,) if SMOKE else (5, 20, 60, 300):
            samples = draw(rng, (runs, cases))
            intervals, plain = [score_interval(s) for s in samples], [t_interval(s) for s in samples]
            width = sum(i.high - i.low for i in intervals) / sum(i.high - i.low for i in plain)
            held = (100 * sum(holds(i, truth) for i in kind) / runs for kind in (intervals, plain))
            row += [*map(marked, held), f"{width:.2f}"]
        rows.append(row)
    heads = [f"{head} {n}" for n in ((20,) if SMOKE else (5, 20, 60, 300)) for head in ("scores", "t", "width")]
    table(f"Scores, {runs:,} samples: per cent that hold the mean, and width over that of t", ["shape", *heads], rows)


def errors() -> None:
    rows = []
    for wrong in range(4):
        sample = [1.0] * 19 + [1 - wrong / 5]
        rows.append(
            [f"{wrong} of 100", *(f"{x:.3f}–{y:.3f}" for x, y in (mean_interval(sample), bootstrap_interval(sample)))]
        )
    table("20 cases of 5 trials, wrong ones of one case", ["wrong", "smoothed", "before"], rows)


def speed() -> None:
    rng = np.random.default_rng(1)
    cells, cases = sized(240, 4), sized(2_004, 50)
    samples = rng.binomial(5, rng.beta(0.6, 0.6, (cells, cases))) / 5
    smoothed = median_s(lambda: [mean_interval(sample) for sample in samples], 5)
    before = median_s(lambda: [bootstrap_interval(sample) for sample in samples], 5)
    print(
        f"\n{cells} cells of {cases:,} cases × 5 trials: {smoothed:.2f} s, before {before:.2f} s, "
        f"{smoothed / before:.2f} times"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=400, help="samples for each place of the tables")
    runs = sized(parser.parse_args().runs, 5)
    speed()
    errors()
    coverage_of_scores(sized(10 * runs, 50))
    coverage_of_means(runs)
    coverage_of_differences(runs)


if __name__ == "__main__":
    main()
