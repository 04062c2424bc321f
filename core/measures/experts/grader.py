"""How far a grader of free responses can be trusted: against experts, answer by answer and count by count.

And what its measured error means for an accuracy: the estimator of Rogan and Gladen (American Journal of Epidemiology
1978, 107:71). Answers to one case hang together: intervals resample cases with all their answers (95 %).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.stats.intervals import NOTHING, Interval
from core.stats.proportions import wilson_if_alike
from core.stats.ratios import percentiles, resampled_sums, share_interval

Floats = NDArray[np.float64]


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
class Share:
    """``count`` of ``n`` with its interval; the value is NaN of none."""

    count: int
    n: int
    interval: Interval

    @property
    def value(self) -> float:
        """The share, 0 to 1."""
        return self.count / self.n if self.n else math.nan


@dataclass(frozen=True)
class Confusion:
    """How many answers both call right, the grader alone, the experts alone, neither.

    ``agreement``: how often the two say the same; ``sensitivity``: how many of the answers that experts call right the
    grader calls right; ``specificity``: how many of those that experts call wrong it calls wrong.
    """

    both: int
    grader_only: int
    expert_only: int
    neither: int
    agreement: Share
    sensitivity: Share
    specificity: Share

    @property
    def n(self) -> int:
        """All answers."""
        return self.both + self.grader_only + self.expert_only + self.neither


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
    table = np.array(list(_by_case(judged).values())).reshape(-1, 4)
    both, grader_only, expert_only, neither = table.T

    def share(hits: Floats, missed: Floats) -> Share:
        return Share(int(hits.sum()), int((hits + missed).sum()), share_interval(hits, hits + missed))

    agreement = share(both + neither, grader_only + expert_only)
    return Confusion(
        int(both.sum()), int(grader_only.sum()), int(expert_only.sum()), int(neither.sum()),
        agreement=agreement, sensitivity=share(both, expert_only), specificity=share(neither, grader_only),
    )  # fmt: skip


def _by_case(judged: Iterable[JudgedAnswer]) -> dict[str, Floats]:
    """Return case → how many of its answers both call right, the grader alone, the experts alone, neither."""
    found: dict[str, Floats] = {}
    for one in judged:
        found.setdefault(one.case, np.zeros(4))[2 * (not one.grader_says) + (not one.expert_says)] += 1
    return found


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


def rogan_gladen(apparent: ArrayLike, sensitivity: ArrayLike, specificity: ArrayLike) -> Floats:
    """Return (apparent + specificity − 1) / (sensitivity + specificity − 1), unclipped, of numbers or of arrays.

    NaN where the grader is no better than chance (sensitivity + specificity ≤ 1) or either is unknown.
    """
    missed = 1 - np.asarray(specificity, dtype=np.float64)
    informed = np.asarray(sensitivity, dtype=np.float64) - missed
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(informed > 0, (np.asarray(apparent, dtype=np.float64) - missed) / informed, np.nan)


def corrected(model: str, scores: Mapping[str, float], judged: Sequence[JudgedAnswer]) -> Corrected:
    """Correct the mean of a model's ``scores``, by case, by the grader's error, as the judged items show it.

    The interval resamples cases with their score and with all of their judged items; resamples in which the correction
    is undefined are left out.
    """
    cells = _by_case(judged)
    cases = list(dict.fromkeys([*scores, *cells]))
    none = np.zeros(4)
    table = np.array([[scores.get(case, 0.0), case in scores, *cells.get(case, none)] for case in cases]).reshape(-1, 6)
    apparent, estimate = (float(found[0]) for found in _estimates(table.sum(axis=0)[None]))
    n_items = int(table[:, 2:].sum())
    if math.isnan(estimate):
        return Corrected(model, apparent, None, NOTHING, False, len(scores), n_items)
    _, drawn = _estimates(resampled_sums(table))
    fewer = min(len(scores), len(cells))
    low, high = wilson_if_alike(percentiles(drawn, fewer), min(1.0, max(0.0, estimate)), fewer)
    kept = [min(1.0, max(0.0, one)) for one in (estimate, low, high)]
    return Corrected(
        model, apparent, kept[0], Interval(kept[1], kept[2]), kept != [estimate, low, high], len(scores), n_items
    )  # fmt: skip


def _estimates(sums: Floats) -> tuple[Floats, Floats]:
    """Return the accuracy as graded and corrected, of sums of scores, scored cases and the four kinds of item."""
    score, scored, both, grader_only, expert_only, neither = sums.T
    with np.errstate(divide="ignore", invalid="ignore"):
        apparent = score / scored
        return apparent, rogan_gladen(apparent, both / (both + expert_only), neither / (neither + grader_only))
