"""Scores of cases, and comparisons of two arms, models or versions on the cases that count on both sides.

A difference is always the second side minus the first. Test and interval: ``core.stats.differences``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from typing import Annotated, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from core.events import FORMATS, QUESTION_TYPES, Format, QuestionType
from core.measures.base import CaseTrials, Comparison, DifferenceTest
from core.measures.comparison import DifferenceInterval, compare_values
from core.stats.differences import PairedCounts
from core.store.database import Store
from core.store.queries.answers import CaseScore, case_scores
from core.store.selection import McqRule, Selection

CaseGroup = Literal["specialty", "dataset"]
Group = Literal["specialty", "dataset", "served"]
"""How scores are split: by a property of cases, or by the name that the provider reported for the doctor's model."""
By = Annotated[Group | None, "Split by specialty, dataset, or served: the model name that the provider reported."]
CaseBy = Annotated[CaseGroup | None, "Split by specialty or dataset."]
Cases = Mapping[str, CaseScore]
"""The scores of one arm of one model, by the key of the case."""
ArmOf = tuple[str, Format, QuestionType]
PairOutcome = Literal["both", "first_only", "second_only", "neither"]
OUTCOMES: tuple[PairOutcome, ...] = ("both", "first_only", "second_only", "neither")
BASELINE: Format = "vignette"
"""The format that all others are compared with; chosen before any result was known."""
Place = tuple[str, str, str, str | None]
"""Model, format, question type and group."""
Against = Literal["vignette", "all", "question", "both"]
"""Which arms of a model are compared: each format with the vignette, every two formats, every two question types of a
format (choices with free response), or every two formats and every two question types."""
Arm = tuple[Format, QuestionType]


class ArmPair(NamedTuple):
    """Two arms of a model, on the cases of a group (``None``: all); they share their format or their question type."""

    model: str
    group: str | None
    first: Arm
    second: Arm
    comparison: Comparison

    @property
    def names(self) -> tuple[str, str]:
        """The parts in which the two arms differ: formats or question types."""
        part = 0 if self.first[1] == self.second[1] else 1
        return self.first[part], self.second[part]


class PairedCase(NamedTuple):
    """A case with its scores (0 to 1) on both sides; ``change`` is 1 (improved), 0 (same) or −1 (regressed)."""

    case_key: str
    dataset: str | None
    specialty: str | None
    first: float
    second: float
    change: int
    outcome: PairOutcome


def group_of_score(score: CaseScore, by: Group | None) -> str | None:
    """Return the group of a score; ``None`` if scores are not split, or the case has no group."""
    return getattr(score, by) if by else None


def read_scores(
    store: Store, selection: Selection | None = None, mcq_rule: McqRule = "usual", *, by_served: bool = False
) -> list[CaseScore]:
    """Return the scores of every case, arm and model of a selection (all campaigns and releases by default)."""
    with store.read() as cursor:
        return case_scores(cursor, selection, mcq_rule, by_served=by_served)


def is_right(score: CaseScore) -> bool:
    """Return whether a case is right in at least half of its counted trials."""
    return score.counted > 0 and 2 * score.correct >= score.counted


def by_arm(scores: Iterable[CaseScore]) -> dict[ArmOf, dict[str, CaseScore]]:
    arms: dict[ArmOf, dict[str, CaseScore]] = {}
    for score in scores:
        arms.setdefault((score.model, score.format, score.question_type), {})[score.case_key] = score
    return arms


def paired_cases(first: Cases, second: Cases) -> list[PairedCase]:
    """Return the cases that count on both sides with the same content, in the order of the first."""
    pairs = []
    for a, b in _of_both(first, second):
        if a.content != b.content:
            continue
        # compared as integers: floating point could make a change of 2/3 against 2/3
        gain = b.correct * a.counted - a.correct * b.counted
        outcome = OUTCOMES[2 * (2 * a.correct < a.counted) + (2 * b.correct < b.counted)]
        means = (a.correct / a.counted, b.correct / b.counted)
        pairs.append(PairedCase(a.case_key, a.dataset, a.specialty, *means, (gain > 0) - (gain < 0), outcome))
    return pairs


def share_cases(first: Cases, second: Cases) -> bool:
    """Return whether a case counts on both sides with the same content."""
    return any(a.content == b.content for a, b in _of_both(first, second))


def _of_both(first: Cases, second: Cases) -> list[tuple[CaseScore, CaseScore]]:
    """Return the cases that count on both sides, also those with other content, in the order of the first."""
    pairs = ((a, second.get(key)) for key, a in first.items() if a.counted)
    return [(a, b) for a, b in pairs if b is not None and b.counted]


def compare(
    first: Cases, second: Cases, interval: DifferenceInterval = "smoothed", test: DifferenceTest = "sign_flip"
) -> Comparison:
    """Compare two sides by case.

    ``interval`` is the kind of interval of the difference next to the sign-flip test: smoothed, percentiles of a
    bootstrap, or normal theory (t). A bootstrap ``test`` has its own percentiles. The unpaired bootstrap is computed on
    the same cases as the paired tests, so that means and difference are equal under every test.
    """
    both = _of_both(first, second)
    rows = [(a.correct, a.counted, b.correct, b.counted) for a, b in both if a.content == b.content]
    correct, counted, correct_after, counted_after = np.array(rows, dtype=np.int64).reshape(-1, 4).T
    gains = correct_after * counted - correct * counted_after
    outcomes = 2 * (2 * correct < counted) + (2 * correct_after < counted_after)
    return replace(
        compare_values(correct / counted, correct_after / counted_after, interval, test=test),
        first_alone=sum(score.counted > 0 for score in first.values()) - len(both),
        second_alone=sum(score.counted > 0 for score in second.values()) - len(both),
        changed=len(both) - len(rows),
        counts=PairedCounts(*np.bincount(outcomes, minlength=len(OUTCOMES)).tolist()),
        improved=int((gains > 0).sum()),
        regressed=int((gains < 0).sum()),
        equal=int((gains == 0).sum()),
        rules=tuple(dict.fromkeys(score.rule for side in (first, second) for score in side.values() if score.rule)),
        trials=_trials(np.append(correct, correct_after), np.append(counted, counted_after)) if rows else None,
    )


def _trials(correct: NDArray[np.int64], counted: NDArray[np.int64]) -> CaseTrials:
    flips = ((correct > 0) & (correct < counted))[counted > 1]
    return CaseTrials(float(counted.mean()), float(flips.mean()) if flips.size else float("nan"))


def case_values(scores: Iterable[CaseScore], by: Group | None = None) -> pd.DataFrame:
    """Return scores as ``MetricRequest.case_values``; a figure is an arm, of a group if scores are split."""
    counted = [score for score in scores if score.counted]
    groups = [group_of_score(score, by) or "" for score in counted]
    correct, trials = (np.array([getattr(s, name) for s in counted], dtype=float) for name in ("correct", "counted"))
    flips = np.where(trials > 1, (correct > 0) & (correct < trials), np.nan)
    return pd.DataFrame(
        {
            "model": [score.model for score in counted],
            "figure": [f"{s.format}:{s.question_type} {group}" for s, group in zip(counted, groups, strict=True)],
            "case_key": [score.case_key for score in counted],
            "value": correct / trials,
            "trials": trials,
            "flips": flips,
        }
    )


def pairs_of(arms: Collection[Arm], against: Against) -> Iterator[tuple[Arm, Arm]]:
    """Yield the pairs of a model's arms, in the order of the shared part, the first and the second arm."""
    if against != "question":
        for question_type in QUESTION_TYPES:
            formats = [format_ for format_ in FORMATS if (format_, question_type) in arms]
            for first, second in combinations(formats, 2):
                if against != "vignette" or first == BASELINE:
                    yield (first, question_type), (second, question_type)
    if against in ("question", "both"):
        for format_ in FORMATS:
            question_types = [question_type for question_type in QUESTION_TYPES if (format_, question_type) in arms]
            for first_type, second_type in combinations(question_types, 2):
                yield (format_, first_type), (format_, second_type)


def arm_pairs(
    scores: Iterable[CaseScore],
    against: Against = "vignette",
    by: Group | None = None,
    interval: DifferenceInterval = "smoothed",
    test: DifferenceTest = "sign_flip",
) -> list[ArmPair]:
    """Compare arms of the same model and group, paired by case; pairs without a case that counts in both are left out.

    In the order of model, shared question type or format, group and pair.
    """
    arms: dict[tuple[str, str | None], dict[Arm, dict[str, CaseScore]]] = {}
    place: dict[str, int] = {}
    for score in scores:
        place.setdefault(score.model, len(place))
        cells = arms.setdefault((score.model, group_of_score(score, by)), {})
        cells.setdefault((score.format, score.question_type), {})[score.case_key] = score
    parts = [*QUESTION_TYPES, *FORMATS]

    def order(pair: ArmPair) -> tuple[int, int, str]:
        (shared,) = set(pair.first) & set(pair.second)
        return place[pair.model], parts.index(shared), pair.group or ""

    compared = [
        ArmPair(model, group, first, second, result)
        for (model, group), cells in arms.items()
        for first, second in pairs_of(cells, against)
        if (result := compare(cells[first], cells[second], interval, test)).n
    ]
    return sorted(compared, key=order)


def format_pairs(
    scores: Iterable[CaseScore], by: Group | None = None, interval: DifferenceInterval = "smoothed"
) -> dict[Place, Comparison]:
    """Compare each format with the vignette of the same model, question type and group; see ``arm_pairs``."""
    pairs = arm_pairs(scores, "vignette", by, interval)
    return {(pair.model, *pair.second, pair.group): pair.comparison for pair in pairs}
