"""Error rates and power of a whole study, first look and extension, on simulated scores of cases.

Each case has a difficulty; the true chance of a right answer of each doctor is a probit of difficulty and of the
doctor's own luck with the case, so that the doctors' chances on a case correlate, and trials of a case agree more than
trials of different cases. Both looks and the number of further cases are those of ``core.study.decision``. A study that
cannot tell after its first look is extended to the number of cases that it states, or ends there if it states none.

False: *better* at a true difference of 0 or below; *not worse* at −margin or below; *worse* at −margin or above.
That *not worse* needs a present doctor above the margin, and verdicts, only takes decisions away, and is not simulated:
at these accuracies it concerns fewer than one study in a thousand.
Decided: studies that decide in either look. Extended: of those that are extended, how many decide then.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from typing import NamedTuple

import numpy as np
import scipy  # type: ignore[import-untyped]
from common import SMOKE, sized, table
from numpy.typing import NDArray

from core.stats.smoothed import _score_below_zero, pseudo_shape, tail_share
from core.study.decision import FEWEST_CASES, SPENT, Verdict, cases_for

Floats = NDArray[np.float64]
SPREAD = 2.0
"""Standard deviation of the probit of a doctor's chance between cases: flips are as rare as for vignettes."""
CORRELATION = 0.6
"""Of the doctors' probits on a case: the correlation of their chances is then 0.5."""


class Setting(NamedTuple):
    """``factor`` times ``margin`` is the true difference; ``extend``: to more ``cases`` or to three ``trials``."""

    margin: float
    cases: int
    trials: int
    accuracy: float
    factor: int
    extend: str = "cases"

    @property
    def name(self) -> str:
        return f"{self.cases} × {self.trials}, margin {self.margin:g}, present {self.accuracy:g}, {self.extend}"


def chances(setting: Setting, cases: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return the true chances of a right answer of the present and of the new doctor on each case."""
    shared = rng.standard_normal(cases)
    wanted = np.clip([setting.accuracy, setting.accuracy + setting.factor * setting.margin], 0.001, 0.999)
    centres = scipy.special.ndtri(wanted) * np.sqrt(1 + SPREAD**2)
    own = rng.standard_normal((2, cases))
    probits = centres[:, None] + SPREAD * (np.sqrt(CORRELATION) * shared + np.sqrt(1 - CORRELATION) * own)
    present, new = scipy.special.ndtr(probits)
    return present, new


def verdict_at(steps: NDArray[np.int64], trials: int, level: float, margin: float) -> Verdict:
    """Return the verdict of a look at differences in steps of 1 / ``trials``.

    That of ``core.study.decision.verdict_of`` for the interval of ``margin_interval``, by its two tail probabilities at
    the bounds that decide, in a tenth of the time.
    """
    counts = np.bincount(steps + trials, minlength=2 * trials + 1)
    values = np.append(np.arange(-trials, trials + 1) / trials, [-1.0, 1.0])
    shapes = np.append(counts.astype(np.float64), np.full(2, pseudo_shape(steps.size)))
    used = shapes > 0
    coefficients = values[used][None, :] - np.array([[-margin], [0.0]])
    at_margin, at_zero = _score_below_zero(coefficients, shapes[used])
    threshold = float(scipy.special.ndtri(tail_share(steps.size, 1 - 2 * level)))
    if at_margin < threshold:
        return "better" if at_zero < threshold else "not worse"
    return "worse" if at_margin > -threshold else "cannot tell"


def one_study(setting: Setting, rng: np.random.Generator) -> tuple[Verdict, Verdict | None, int | None]:
    """Return the verdict of the first look, that after the extension (or ``None``), and the cases that it stated.

    If the first look cannot tell, the bounds that both looks have in common decide as those of the second alone.
    """
    margin, n, trials = setting.margin, setting.cases, setting.trials
    present, new = chances(setting, n, rng)
    steps = rng.binomial(trials, new) - rng.binomial(trials, present)
    verdict = verdict_at(steps, trials, SPENT[0], margin)
    if verdict != "cannot tell":
        return verdict, None, None
    if setting.extend == "trials":
        steps = steps + rng.binomial(2, new) - rng.binomial(2, present)
        return verdict, verdict_at(steps, 3, SPENT[1], margin), None
    stated = cases_for(steps / trials, margin)
    if stated is None:
        return verdict, None, None
    more = chances(setting, max(0, stated - n), rng)
    steps = np.concatenate([steps, rng.binomial(trials, more[1]) - rng.binomial(trials, more[0])])
    return verdict, verdict_at(steps, trials, SPENT[1], margin), stated


def row_of(setting: Setting, studies: int) -> tuple[str, ...]:
    rng = np.random.default_rng(20 + setting.factor)
    outcomes = [one_study(setting, rng) for _ in range(studies)]
    final = Counter(second or first for first, second, _ in outcomes)
    extended = [second for _, second, _ in outcomes if second is not None]
    stated = [number for *_, number in outcomes if number is not None]
    better, not_worse, worse = final["better"], final["better"] + final["not worse"], final["worse"]
    at_first = sum(first != "cannot tell" for first, *_ in outcomes)
    unrealistic = studies - at_first - len(extended)
    factor = setting.factor

    def share(count: int, of: int = studies) -> str:
        return f"{100 * count / of:.1f}" if of else "–"

    return (
        setting.name,
        f"{factor:+d}m" if factor else "0",
        share(better) if factor <= 0 else "",
        share(not_worse) if factor <= -1 else "",
        share(worse) if factor >= -1 else "",
        share(at_first),
        share(studies - final["cannot tell"]),
        share(sum(verdict != "cannot tell" for verdict in extended), len(extended)),
        share(unrealistic),
        f"{np.median(stated):.0f}" if stated else "–",
    )


def settings() -> list[Setting]:
    factors = (-2, -1, 0, 1, 2)
    named = [
        Setting(margin, cases, trials, 0.6, factor)
        for margin in (0.05, 0.15)
        for cases in (20, 60)
        for trials in (1, 3)
        for factor in factors
    ]
    # rare differences, fewer cases, and an extension by trials: where the errors of small samples are largest
    hard = [Setting(0.05, 60, 1, 0.9, factor) for factor in (-2, -1, 0)]
    hard += [Setting(0.15, FEWEST_CASES, 1, 0.8, factor) for factor in (-2, -1, 0)]
    hard += [Setting(0.15, cases, 1, 0.6, factor, "trials") for cases in (20, 60) for factor in factors]
    return named + hard


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=sized(2_000, 20), help="Simulated studies in each setting.")
    parser.add_argument("--only", default="", help="Only settings whose name contains this.")
    given = parser.parse_args()
    chosen = [setting for setting in settings() if given.only in setting.name]
    heads = (
        "cases × trials", "truth", "false better", "false not worse", "false worse", "first look", "decided",
        "extended", "no realistic n", "median n",
    )  # fmt: skip
    rows = []
    for setting in chosen[:2] if SMOKE else chosen:
        rows.append(row_of(setting, given.studies))
        print(*rows[-1], sep="  ", file=sys.stderr, flush=True)  # the whole table takes minutes
    table(f"Studies of two looks, {SPENT[0]:g} + {SPENT[1]:g}: per cent of {given.studies:,} studies", heads, rows)


if __name__ == "__main__":
    main()
