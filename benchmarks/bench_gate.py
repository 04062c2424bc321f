"""Whether the gate's error rates and power are what it states, on simulated pairs of runs.

Each case has a true state, right or wrong, in the reference; a share ``changed`` of the cases has the other state in
the new run, so that the true difference in accuracy is 0 or exactly the margin below it. An answer differs from the
state of its case with probability ``noise``, so that trials of a case flip. A pass at the margin is a wrong pass (at
most the level), a fail at the margin a false alarm (at most the level), and a pass without a difference is the power.
Next to them: the mean of the powers that the gate states, and wrong passes by Student's interval.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import numpy as np
import scipy  # type: ignore[import-untyped]
from common import SMOKE, sized, table
from numpy.typing import NDArray

from core.stats.intervals import Interval
from core.stats.margin_power import chance_to_pass, observed_law
from core.stats.margins import decide, margin_interval

Floats = NDArray[np.float64]
LEVEL = 0.05


class Setting(NamedTuple):
    """Cases and trials, accuracy of the reference, share of changed cases, noise of an answer, and the margin."""

    cases: int
    trials: int
    accuracy: float
    changed: float
    noise: float
    margin: float

    @property
    def flip_rate(self) -> float:
        """The share of cases whose trials disagree in one run; 0 with one trial."""
        return 1 - self.noise**self.trials - (1 - self.noise) ** self.trials if self.trials > 1 else 0.0


SETTINGS = (
    Setting(20, 1, 0.7, 0.2, 0.03, 0.15),
    Setting(20, 5, 0.6, 0.2, 0.15, 0.15),
    Setting(30, 1, 0.9, 0.1, 0.01, 0.1),
    Setting(40, 3, 0.7, 0.15, 0.08, 0.1),
    Setting(60, 5, 0.6, 0.15, 0.1, 0.05),
    Setting(60, 5, 0.6, 0.1, 0.3, 0.08),
    Setting(100, 1, 0.7, 0.06, 0.02, 0.05),
    Setting(100, 1, 0.95, 0.06, 0.01, 0.05),
    Setting(150, 5, 0.6, 0.1, 0.2, 0.05),
    Setting(200, 1, 0.6, 0.15, 0.05, 0.05),
    Setting(300, 3, 0.6, 0.15, 0.1, 0.05),
    Setting(500, 1, 0.8, 0.06, 0.02, 0.03),
)


class Rates(NamedTuple):
    """Shares of simulated pairs, from 0 to 1.

    ``stated`` is the mean of the powers that the pairs state, ``student`` the share of wrong passes by Student's
    interval.
    """

    wrong_pass: float
    false_alarm: float
    power: float
    stated: float
    student: float


def differences(setting: Setting, true: float, pairs: int, rng: np.random.Generator) -> Floats:
    """Return pairs × cases: the difference in accuracy of each case, new minus reference."""
    agreement = 1 - 2 * setting.noise
    net = true / agreement
    gained, lost = max(0.0, (setting.changed + net) / 2), max(-net, (setting.changed - net) / 2)
    place = rng.random((pairs, setting.cases))
    before = place < setting.accuracy
    after = (before & (place >= lost)) | (place >= 1 - gained)
    first, second = (
        rng.binomial(setting.trials, np.where(state, 1 - setting.noise, setting.noise)) / setting.trials
        for state in (before, after)
    )
    return np.asarray(second - first)


def intervals(setting: Setting, samples: Floats) -> list[Interval]:
    """Return the gate's interval of each pair; pairs with the same differences are computed once."""
    steps = np.sort(np.rint(samples * setting.trials).astype(np.int64), axis=1)
    distinct, inverse = np.unique(steps, axis=0, return_inverse=True)
    bounds = [margin_interval(row / setting.trials, LEVEL) for row in distinct]
    return [bounds[place] for place in inverse.ravel()]


def rates(setting: Setting, pairs: int, seed: int = 20) -> Rates:
    """Simulate pairs of runs at the margin and without a difference."""
    rng = np.random.default_rng(seed)
    worse = differences(setting, -setting.margin, pairs, rng)
    equal = differences(setting, 0.0, pairs, rng)
    at_margin = [decide(bounds, setting.margin) for bounds in intervals(setting, worse)]
    without = [decide(bounds, setting.margin) for bounds in intervals(setting, equal)]
    n = setting.cases
    stated = [chance_to_pass(observed_law(sample), setting.margin, n, LEVEL) for sample in equal[: sized(1_000, 50)]]
    error = worse.std(axis=1, ddof=1) / n**0.5
    student = worse.mean(axis=1) - scipy.special.stdtrit(n - 1, 1 - LEVEL) * error > -setting.margin
    return Rates(
        at_margin.count("pass") / pairs,
        at_margin.count("fail") / pairs,
        without.count("pass") / pairs,
        float(np.mean(stated)),
        float(student.mean()),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=sized(4_000, 100), help="Simulated pairs of runs in each setting.")
    pairs = parser.parse_args().pairs
    rows = []
    for setting in SETTINGS[:2] if SMOKE else SETTINGS:
        percent = [f"{100 * share:.1f}" for share in rates(setting, pairs)]
        name = f"{setting.cases} × {setting.trials}, changed {setting.changed:g}, flips {setting.flip_rate:.2f}"
        rows.append((name, f"{setting.margin:g}", *percent))
    heads = ("cases × trials", "margin", "wrong pass", "false alarm", "power", "stated", "Student: wrong pass")
    table(f"Non-inferiority, one-sided level {LEVEL:g}: per cent of {pairs:,} pairs", heads, rows)


if __name__ == "__main__":
    main()
