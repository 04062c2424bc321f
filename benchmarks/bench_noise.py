"""How often 95 % intervals of the components of noise contain the truth, in 500 simulations of each design.

Cases have a beta distributed chance, conversations one around that of their case, answers are right or wrong, and the
grader errs at random. Numbers of repeats are equal, or drawn for each unit (unequal). ``bias`` is in the unit of the
component. A component of exactly 0 is contained more often than in 95 %, because its interval is cut off at 0.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import NamedTuple

import numpy as np
from common import SMOKE, table

from core.stats.nested import CaseScores, estimate_noise

SIMULATIONS = 5 if SMOKE else 500


class Design(NamedTuple):
    """Cases and repeats; ``shape`` and ``spread`` of the beta distributions of cases and conversations."""

    cases: int
    trials: int
    answers: int
    gradings: int
    shape: float
    spread: float
    flipped: float
    unequal: bool = False


DESIGNS = (
    Design(60, 3, 2, 2, 1, 4, 0.1),
    Design(60, 3, 2, 2, 1, 4, 0.02),
    Design(60, 3, 2, 2, 1, math.inf, 0.1),
    Design(100, 4, 3, 3, 1, 4, 0.1, unequal=True),
    Design(30, 3, 2, 2, 2, 2, 0.05),
    Design(20, 5, 2, 2, 1, 4, 0.1),
    Design(200, 2, 2, 2, 0.5, 3, 0.05, unequal=True),
)


def truth(design: Design) -> dict[str, float]:
    a, attenuation = design.shape, (1 - 2 * design.flipped) ** 2
    within = a / (2 * (2 * a + 1))  # the mean of p (1 - p)
    talks = 0.0 if math.isinf(design.spread) else 1 / (design.spread + 1)
    return {
        "cases": attenuation / (4 * (2 * a + 1)),
        "conversations": attenuation * within * talks,
        "answers": attenuation * within * (1 - talks),
        "gradings": design.flipped * (1 - design.flipped),
    }


def sampled(rng: np.random.Generator, design: Design) -> list[CaseScores]:
    def repeats(most: int) -> range:
        return range(int(rng.integers(1, most + 1)) if design.unequal else most)

    cases: list[CaseScores] = []
    for chance in rng.beta(design.shape, design.shape, design.cases):
        case = []
        for _ in repeats(design.trials):
            size = design.spread
            of_talk = chance if math.isinf(size) else rng.beta(chance * size, (1 - chance) * size)
            trial = []
            for _ in repeats(design.answers):
                right = rng.random() < of_talk
                trial.append([float(right != (rng.random() < design.flipped)) for _ in repeats(design.gradings)])
            case.append(trial)
        cases.append(case)
    return cases


def main() -> None:
    rows: list[list[str]] = []
    for design in DESIGNS:
        rng, truths = np.random.default_rng(20), truth(design)
        covered, estimates = defaultdict[str, int](int), defaultdict[str, list[float]](list)
        for _ in range(SIMULATIONS):
            for component in estimate_noise(sampled(rng, design)).components:
                source = component.sources[0]
                covered[source] += component.interval.low - 1e-12 <= truths[source] <= component.interval.high
                estimates[source].append(component.estimate)
        counts = f"{design.cases} × {design.trials} × {design.answers} × {design.gradings}"
        for name, value in truths.items():
            coverage = 100 * covered[name] / SIMULATIONS
            bias = float(np.mean(estimates[name])) - value
            repeats = "unequal, at most" if design.unequal else "equal"
            rows.append([counts, repeats, name, f"{value:.4f}", f"{bias:+.4f}", f"{coverage:.1f}"])
    heads = ["cases × trials × answers × gradings", "repeats", "source", "truth", "bias", "coverage"]
    table(f"{SIMULATIONS} simulations of each design, coverage in per cent", heads, rows)


if __name__ == "__main__":
    main()
