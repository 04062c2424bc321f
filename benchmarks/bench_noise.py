"""How often 95 % intervals of the components of variance contain the truth, in 500 simulations of each design.

Cases have a beta distributed chance, trials are right or wrong, and the grader errs at random. Numbers of trials and
gradings are equal, or drawn for each unit (unequal). ``bias`` is in the unit of the component.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import numpy as np
from common import SMOKE, table

from core.stats.nested import CaseScores, components

SIMULATIONS = 5 if SMOKE else 500


class Design(NamedTuple):
    """Cases, trials and gradings; ``shape`` of the beta distribution of cases, and the share of gradings that err."""

    cases: int
    trials: int
    gradings: int
    shape: float
    flipped: float
    unequal: bool = False


DESIGNS = (
    Design(60, 3, 2, 1, 0.1),
    Design(60, 3, 2, 1, 0.02),
    Design(100, 4, 3, 1, 0.1, unequal=True),
    Design(30, 3, 2, 2, 0.05),
    Design(20, 5, 2, 1, 0.1),
    Design(200, 2, 2, 0.5, 0.05, unequal=True),
)


def truth(design: Design) -> dict[str, float]:
    a, attenuation = design.shape, (1 - 2 * design.flipped) ** 2
    return {
        "cases": attenuation / (4 * (2 * a + 1)),
        "trials": attenuation * a / (2 * (2 * a + 1)),  # the mean of p (1 - p)
        "gradings": design.flipped * (1 - design.flipped),
    }


def sampled(rng: np.random.Generator, design: Design) -> list[CaseScores]:
    def repeats(most: int) -> range:
        return range(int(rng.integers(1, most + 1)) if design.unequal else most)

    cases: list[CaseScores] = []
    for chance in rng.beta(design.shape, design.shape, design.cases):
        trials = []
        for _ in repeats(design.trials):
            right = rng.random() < chance
            trials.append([float(right != (rng.random() < design.flipped)) for _ in repeats(design.gradings)])
        cases.append(trials)
    return cases


def main() -> None:
    rows: list[list[str]] = []
    for design in DESIGNS:
        rng, truths = np.random.default_rng(20), truth(design)
        covered, estimates = defaultdict[str, int](int), defaultdict[str, list[float]](list)
        for _ in range(SIMULATIONS):
            for component in components(sampled(rng, design)):
                source = component.sources[0]
                covered[source] += component.interval.low - 1e-12 <= truths[source] <= component.interval.high
                estimates[source].append(component.estimate)
        counts = f"{design.cases} × {design.trials} × {design.gradings}"
        for name, value in truths.items():
            coverage = 100 * covered[name] / SIMULATIONS
            bias = float(np.mean(estimates[name])) - value
            repeats = "unequal, at most" if design.unequal else "equal"
            rows.append([counts, repeats, name, f"{value:.4f}", f"{bias:+.4f}", f"{coverage:.1f}"])
    heads = ["cases × trials × gradings", "repeats", "source", "truth", "bias", "coverage"]
    table(f"{SIMULATIONS} simulations of each design, coverage in per cent", heads, rows)


if __name__ == "__main__":
    main()
