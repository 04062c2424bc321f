"""How far a grader of free responses can be trusted: against experts, answer by answer and count by count.

And what its measured error means for an accuracy: the estimator of Rogan and Gladen (American Journal of Epidemiology
1978, 107:71).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.stats.intervals import NOTHING, Interval
from core.stats.proportions import wilson

RESAMPLES = 4_000
SEED = 20


@dataclass(frozen=True)
class JudgedAnswer:
    """One free response that experts and a grader judged: whether it is right by either."""

    item: str
    model: str
    case: str
    grader: str
    expert_says: bool
    grader_says: bool


@dataclass(frozen=True)
class Confusion:
    """How many answers both call right, the grader alone, the experts alone, neither."""

    both: int
    grader_only: int
    expert_only: int
    neither: int

    @property
    def n(self) -> int:
        """All answers."""
        return self.both + self.grader_only + self.expert_only + self.neither

    @property
    def agreement(self) -> Share:
        """How often the two say the same."""
        return Share(self.both + self.neither, self.n)

    @property
    def sensitivity(self) -> Share:
        """How many of the answers that experts call right the grader calls right."""
        return Share(self.both, self.both + self.expert_only)

    @property
    def specificity(self) -> Share:
        """How many of the answers that experts call wrong the grader calls wrong."""
        return Share(self.neither, self.neither + self.grader_only)


@dataclass(frozen=True)
class Share:
    """``count`` of ``n`` with Wilson's interval; the value is NaN of none."""

    count: int
    n: int

    @property
    def value(self) -> float:
        """The share, 0 to 1."""
        return self.count / self.n if self.n else math.nan

    @property
    def interval(self) -> Interval:
        """Wilson's 95 % interval."""
        return wilson(self.count, self.n)


@dataclass(frozen=True)
class CaseCount:
    """How many of a case's ``trials`` the experts and the grader call right."""

    case: str
    expert: int
    grader: int
    trials: int


@dataclass(frozen=True)
class CountAgreement:
    """Counts of right trials compared over cases.

    ``agreement`` is 1 − mean |difference| / trials (Johri et al. 2025, Results), ``whole`` the share of cases with the
    same count, ``spearman`` the rank correlation of the counts; NaN where they are undefined.
    """

    n_cases: int
    agreement: float
    whole: float
    spearman: float


@dataclass(frozen=True)
class Corrected:
    """An accuracy as the grader has it, and corrected for the grader's error; ``None`` where it cannot be.

    ``clipped``: the estimate, or a bound of its 95 % interval, lay outside 0 to 1 and was set to the nearer of them.
    """

    model: str
    apparent: float
    value: float | None
    interval: Interval
    clipped: bool
    n_cases: int
    n_items: int


def confusion(judged: Iterable[JudgedAnswer]) -> Confusion:
    """Count answers by what experts and grader say."""
    pairs = [(one.expert_says, one.grader_says) for one in judged]
    return Confusion(*(pairs.count(kind) for kind in ((True, True), (False, True), (True, False), (False, False))))


def case_counts(judged: Iterable[JudgedAnswer]) -> list[CaseCount]:
    """Return the counts of each model's answers on each case."""
    groups: dict[tuple[str, str], list[JudgedAnswer]] = {}
    for one in judged:
        groups.setdefault((one.model, one.case), []).append(one)
    return [
        CaseCount(case, sum(o.expert_says for o in held), sum(o.grader_says for o in held), len(held))
        for (_, case), held in groups.items()
    ]  # fmt: skip


def count_agreement(counts: Sequence[CaseCount]) -> CountAgreement:
    """Compare the counts of experts and grader over cases."""
    if not counts:
        return CountAgreement(0, math.nan, math.nan, math.nan)
    apart = [abs(one.expert - one.grader) / one.trials for one in counts]
    same = sum(one.expert == one.grader for one in counts)
    return CountAgreement(len(counts), 1 - sum(apart) / len(counts), same / len(counts), _spearman(counts))


def _spearman(counts: Sequence[CaseCount]) -> float:
    expert, grader = [one.expert for one in counts], [one.grader for one in counts]
    if len(set(expert)) < 2 or len(set(grader)) < 2:
        return math.nan
    from scipy import stats  # type: ignore[import-untyped]  # slow to load

    return float(stats.spearmanr(expert, grader).statistic)


def rogan_gladen(apparent: float, sensitivity: float, specificity: float) -> float:
    """Return (apparent + specificity − 1) / (sensitivity + specificity − 1), unclipped.

    NaN where the grader is no better than chance (sensitivity + specificity ≤ 1) or either is unknown.
    """
    informed = sensitivity + specificity - 1
    return (apparent + specificity - 1) / informed if informed > 0 else math.nan


def corrected(model: str, scores: Sequence[float], judged: Sequence[JudgedAnswer]) -> Corrected:
    """Correct the mean of a model's case scores by the grader's error, as the judged items show it.

    The interval resamples items and cases, each with replacement; resamples in which the correction is undefined are
    left out.
    """
    table = confusion(judged)
    apparent = float(np.mean(scores)) if len(scores) else math.nan
    estimate = rogan_gladen(apparent, table.sensitivity.value, table.specificity.value)
    if math.isnan(estimate):
        return Corrected(model, apparent, None, NOTHING, False, len(scores), table.n)
    drawn = _resampled(np.asarray(scores, dtype=np.float64), table)
    low, high = np.quantile(drawn, [0.025, 0.975])
    kept = [min(1.0, max(0.0, float(one))) for one in (estimate, low, high)]
    clipped = kept != [estimate, float(low), float(high)]
    return Corrected(model, apparent, kept[0], Interval(kept[1], kept[2]), clipped, len(scores), table.n)


def _resampled(scores: NDArray[np.float64], table: Confusion) -> NDArray[np.float64]:
    rng = np.random.default_rng(SEED)
    cells = np.array([table.both, table.grader_only, table.expert_only, table.neither], dtype=np.float64)
    both, grader_only, expert_only, neither = rng.multinomial(table.n, cells / table.n, RESAMPLES).T
    means = np.array([scores[rng.integers(0, len(scores), len(scores))].mean() for _ in range(RESAMPLES)])
    with np.errstate(divide="ignore", invalid="ignore"):
        sensitivity, specificity = both / (both + expert_only), neither / (neither + grader_only)
        informed = sensitivity + specificity - 1
        values = np.where(informed > 0, (means + specificity - 1) / informed, np.nan)
    return values[np.isfinite(values)]
