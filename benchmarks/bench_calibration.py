"""Judges with known error rates: coverage and width of the 95 % intervals of judge and people together.

Also the agreement of two judges from a list of judgements, in seconds by its length: graders' verdicts on all answers
of a study are counted in the database instead.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from common import sized, table

from core.judging.agreement import between
from core.judging.calibration import rogan_gladen_mean
from core.judging.judgement import Judge, Judgement
from core.stats.calibrated import JudgedItem, calibrated_mean
from core.stats.intervals import Interval

CASES, LABELS = 300, 60
SIMULATIONS = sized(500, 5)


class Setting(NamedTuple):
    """The true share of yes, and the judge's shares of equal answers among the yes and among the no."""

    share: float
    sensitivity: float
    specificity: float


SETTINGS = (Setting(0.7, 0.9, 0.8), Setting(0.5, 0.95, 0.95), Setting(0.9, 0.9, 0.6), Setting(0.1, 0.8, 0.95))


def simulated(setting: Setting, rng: np.random.Generator) -> list[JudgedItem]:
    """Return 300 cases with one yes-or-no item each, judged by the judge; people judge 60 of them, drawn at random."""
    truth = rng.random(CASES) < setting.share
    judge = np.where(truth, rng.random(CASES) < setting.sensitivity, rng.random(CASES) >= setting.specificity)
    labelled = np.isin(np.arange(CASES), rng.choice(CASES, LABELS, replace=False))
    return [JudgedItem(f"case {n}", float(judge[n]), float(truth[n]) if labelled[n] else None) for n in range(CASES)]


def row(setting: Setting) -> list[str]:
    rng = np.random.default_rng(7)
    intervals: dict[str, list[Interval]] = {"together": [], "corrected": [], "people": [], "judge": []}
    for _ in range(SIMULATIONS):
        items = simulated(setting, rng)
        mean = calibrated_mean(items)
        intervals["together"].append(mean.interval)
        intervals["corrected"].append(rogan_gladen_mean(items)[1])
        intervals["people"].append(mean.experts_interval)
        intervals["judge"].append(mean.judge_interval)
    cells = []
    for found in intervals.values():
        covered = np.mean([interval.low <= setting.share <= interval.high for interval in found])
        cells += [f"{covered:.1%}", f"{np.nanmean([interval.high - interval.low for interval in found]):.3f}"]
    return [f"{setting.share:.0%} yes, sensitivity {setting.sensitivity}, specificity {setting.specificity}", *cells]


def seconds(n: int) -> list[str]:
    """Return the seconds that two judges' answers to ``n`` items of 400 cases take, made and compared."""
    judges: Sequence[Judge] = (Judge("a", "model"), Judge("b", "model"))
    started = time.perf_counter()
    sides = [
        [
            Judgement(
                subject=f"answer:{number}",
                form="answers",
                question="equivalent",
                judge=judge,
                value="yes" if (number * 7 + place) % 10 else "no",
                at=0.0,
            )
            for number in range(n)
        ]
        for place, judge in enumerate(judges)
    ]
    made = time.perf_counter()
    between(sides[0], sides[1], ("yes", "no"), lambda subject: str(int(subject[7:]) % 400))
    return [f"{n:,}", f"{made - started:.2f}", f"{time.perf_counter() - made:.2f}"]


if __name__ == "__main__":
    heads = ["coverage", "width"]
    table(
        f"{CASES} cases, {LABELS} judged by people, {SIMULATIONS} simulations: judge and people (PPI++), corrected "
        "(Rogan and Gladen), people alone, judge alone",
        ["judge", *heads * 4],
        [row(setting) for setting in SETTINGS],
    )
    table(
        "Agreement of two judges from judgements, seconds",
        ["answers", "made", "compared"],
        [seconds(n) for n in (sized(20_000, 100), sized(400_000, 200))],
    )
