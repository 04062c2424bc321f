"""Two arms (or models, versions, runs) compared case by case: difference of means, outcomes, which cases changed.

Only cases that count on both sides are compared; how many count on one side alone is said. A difference is always the
second side minus the first. Test and interval: Johri et al. 2025, Methods (paired bootstrap over cases).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from core.events import FORMATS, QUESTION_TYPES, Format, QuestionType
from core.measures.accuracy import Group
from core.stats.corrections import Correction, adjusted
from core.stats.differences import paired_difference
from core.stats.intervals import t_interval
from core.stats.mcnemar import PairedCounts
from core.store.queries.accuracy import CaseScore

Cases = Mapping[str, CaseScore]
"""The scores of one arm of one model, by the key of the case."""
ArmOf = tuple[str, Format, QuestionType]
Outcome = Literal["both", "first_only", "second_only", "neither"]
OUTCOMES: tuple[Outcome, ...] = ("both", "first_only", "second_only", "neither")
DifferenceInterval = Literal["bootstrap", "normal"]
BASELINE: Format = "vignette"
"""What every other format is compared with, declared before looking at any figure."""


@dataclass(frozen=True)
class PairedCase:
    """A case with its scores (0 to 1) on both sides; ``change`` is 1, 0 or −1 as it improved, stayed or regressed."""

    case_key: str
    dataset: str | None
    specialty: str | None
    first: float
    second: float
    change: int
    outcome: Outcome


@dataclass(frozen=True)
class Comparison:
    """What became of the cases that both sides count.

    ``difference`` is second mean − first mean with its 95 % interval; p is two-sided, by the paired bootstrap; NaN
    with fewer than two cases. ``counts`` are cases right on both sides, the first alone, the second alone, neither.
    ``first_alone`` and ``second_alone`` count the cases left out because the other side has no counted trial.
    """

    n: int
    first_mean: float
    second_mean: float
    difference: float
    ci_low: float
    ci_high: float
    p: float
    counts: PairedCounts
    improved: int
    regressed: int
    equal: int
    first_alone: int
    second_alone: int


@dataclass(frozen=True)
class FormatPair:
    """A format against the vignette of the same model, question type and group of cases."""

    model: str
    question_type: QuestionType
    group: str | None
    format: Format
    result: Comparison


def is_right(score: CaseScore) -> bool:
    """Say whether a case counts as right as a whole: in at least half of its counted trials."""
    return score.counted > 0 and 2 * score.correct >= score.counted


def by_arm(scores: Iterable[CaseScore]) -> dict[ArmOf, dict[str, CaseScore]]:
    """Return (model, format, question type) → case key → score."""
    arms: dict[ArmOf, dict[str, CaseScore]] = {}
    for score in scores:
        arms.setdefault((score.model, score.format, score.question_type), {})[score.case_key] = score
    return arms


def paired_cases(first: Cases, second: Cases) -> list[PairedCase]:
    """Return the cases that count on both sides, in the order of the first."""
    return [
        _paired(a, b)
        for a, b in ((a, second.get(key)) for key, a in first.items())
        if b is not None and a.counted and b.counted
    ]


def compare(first: Cases, second: Cases, interval: DifferenceInterval = "bootstrap") -> Comparison:
    """Compare two sides by case; ``interval`` of the difference by the bootstrap or by normal theory (t)."""
    return compare_pairs(paired_cases(first, second), _counted(first), _counted(second), interval)


def compare_pairs(
    pairs: Sequence[PairedCase], n_first: int, n_second: int, interval: DifferenceInterval = "bootstrap"
) -> Comparison:
    """Compare sides that were paired already; ``n_first`` and ``n_second`` are all cases that count on each."""
    a, b = (np.array([getattr(pair, side) for pair in pairs], dtype=np.float64) for side in ("first", "second"))
    found = paired_difference(b, a)
    bounds = found.interval if interval == "bootstrap" else t_interval(b - a)
    outcomes = [pair.outcome for pair in pairs]
    changes = [pair.change for pair in pairs]
    return Comparison(
        n=len(pairs),
        first_mean=float(a.mean()) if pairs else float("nan"),
        second_mean=float(b.mean()) if pairs else float("nan"),
        difference=found.mean,
        ci_low=bounds.low,
        ci_high=bounds.high,
        p=found.p,
        counts=PairedCounts(*(outcomes.count(outcome) for outcome in OUTCOMES)),
        improved=changes.count(1),
        regressed=changes.count(-1),
        equal=changes.count(0),
        first_alone=n_first - len(pairs),
        second_alone=n_second - len(pairs),
    )


def adjusted_p(results: Sequence[Comparison], correction: Correction) -> list[float]:
    """Return the p-values of comparisons shown together, corrected over all of them."""
    return adjusted([result.p for result in results], correction)


def format_pairs(
    scores: Iterable[CaseScore], by: Group | None = None, interval: DifferenceInterval = "bootstrap"
) -> list[FormatPair]:
    """Compare each format with the vignette of the same model, question type and group, paired by case.

    In the order of model, question type, group and format. Nothing where a model has no vignette answers.
    """
    cells: dict[tuple[str, QuestionType, str | None], dict[Format, dict[str, CaseScore]]] = {}
    place: dict[str, int] = {}
    for score in scores:
        place.setdefault(score.model, len(place))
        group = None if by is None else (score.specialty if by == "specialty" else score.dataset)
        formats = cells.setdefault((score.model, score.question_type, group), {})
        formats.setdefault(score.format, {})[score.case_key] = score
    ordered = sorted(cells, key=lambda cell: (place[cell[0]], QUESTION_TYPES.index(cell[1]), cell[2] or ""))
    return [
        FormatPair(*cell, format_, compare(cells[cell][BASELINE], cells[cell][format_], interval))
        for cell in ordered
        if BASELINE in cells[cell]
        for format_ in FORMATS
        if format_ != BASELINE and format_ in cells[cell]
    ]


def _paired(a: CaseScore, b: CaseScore) -> PairedCase:
    # whole numbers, so that two thirds here and two thirds there are never a change
    gain = b.correct * a.counted - a.correct * b.counted
    outcome = OUTCOMES[2 * (not is_right(a)) + (not is_right(b))]
    change = (gain > 0) - (gain < 0)
    first, second = a.correct / a.counted, b.correct / b.counted
    return PairedCase(a.case_key, a.dataset, a.specialty, first, second, change, outcome)


def _counted(cases: Cases) -> int:
    return sum(score.counted > 0 for score in cases.values())
