"""Causes of wrong answers over many cases: shares by model, and accuracy without what the patient spoiled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from core.events import FORMATS, QUESTION_TYPES, Format, QuestionType
from core.measures.attribution import CAUSES, Attribution, Cause
from core.stats.bootstrap import bootstrap_interval
from core.stats.differences import paired_difference
from core.stats.intervals import NOTHING, Interval
from core.stats.ratios import ratio, ratio_intervals
from core.store.queries.accuracy import CaseScore

Arm = tuple[Format, QuestionType]


@dataclass(frozen=True)
class CauseShare:
    """How many wrong answers of a model are put down to a cause.

    ``n`` answers of ``n_wrong`` counted ones, ``share`` (0 to 1, NaN without wrong answers) with its 95 % interval,
    cases resampled. ``n_excluded`` more have this cause and do not count as wrong. ``n_provisional`` of ``n`` may still
    turn out the patient's, whom nobody has judged. ``arm`` is ``None`` over all arms.
    """

    model: str
    arm: Arm | None
    cause: Cause
    n: int
    n_wrong: int
    n_excluded: int
    share: float
    interval: Interval
    n_provisional: int = 0


@dataclass(frozen=True)
class PatientEffect:
    """Accuracy of an arm with all counted answers, and without the wrong ones that are put down to the patient.

    Both are means over trials, then cases, with 95 % intervals; ``same_cases`` is the second minus the first on the
    ``n_cases`` cases that keep an answer. ``n_left_out`` answers were left out, and with them ``n_cases_left_out``
    whole cases. ``n_not_judged`` wrong answers stay in although nobody has judged what the patient withheld or
    invented: were they judged, more might be left out. Answers that were right in spite of the patient stay in as well.
    """

    model: str
    arm: Arm
    accuracy: float
    interval: Interval
    without: float
    without_interval: Interval
    same_cases: float
    same_cases_interval: Interval
    n_cases: int
    n_left_out: int
    n_cases_left_out: int
    n_not_judged: int


def cause_shares(found: Iterable[Attribution], by_arm: bool = False) -> list[CauseShare]:
    """Return a row for each model (and arm) and cause, in the order of models, arms and ``CAUSES``."""
    listed = sorted(found, key=lambda a: _place(a, by_arm))
    rows: list[CauseShare] = []
    for _, group in groupby(listed, key=lambda a: _place(a, by_arm)):
        rows += _rows(list(group), by_arm)
    return rows


def patient_effects(found: Iterable[Attribution], scores: Sequence[CaseScore]) -> list[PatientEffect]:
    """Return the effect of the patient in each arm that has a wrong answer; ``scores`` are those of the same answers.

    They are read with the same selection and multiple-choice rule (``core.store.queries.accuracy.case_scores``).
    """
    spoiled: dict[tuple[str, Arm], dict[str, int]] = {}
    open_: Counter[tuple[str, Arm]] = Counter()
    for one in found:
        if one.counted:
            place = (one.answer.model, _arm(one))
            by_case, key = spoiled.setdefault(place, {}), one.answer.case[0]
            by_case[key] = by_case.get(key, 0) + (one.cause == "patient")
            open_[place] += one.provisional or one.cause == "not_judged"
    held: dict[tuple[str, Arm], list[CaseScore]] = {}
    for score in scores:
        held.setdefault((score.model, (score.format, score.question_type)), []).append(score)
    return [_effect(*key, held[key], spoiled[key], open_[key]) for key in sorted(spoiled, key=_order) if key in held]


def _rows(group: Sequence[Attribution], by_arm: bool) -> list[CauseShare]:
    cases = {key: row for row, key in enumerate(sorted({a.answer.case[0] for a in group}))}
    counts = np.zeros((len(cases), len(CAUSES)))
    for one in group:
        if one.counted:
            counts[cases[one.answer.case[0]], CAUSES.index(one.cause)] += 1
    wrong = counts.sum(axis=1)
    intervals = ratio_intervals(counts, np.repeat(wrong[:, None], len(CAUSES), axis=1))
    first = group[0]
    return [
        CauseShare(
            first.answer.model, _arm(first) if by_arm else None, cause, int(counts[:, column].sum()),
            int(wrong.sum()), sum(a.cause == cause and not a.counted for a in group),
            ratio(counts[:, column], wrong), intervals[column], sum(a.cause == cause and a.provisional for a in group),
        )
        for column, cause in enumerate(CAUSES)
    ]  # fmt: skip


def _effect(
    model: str, arm: Arm, scores: Sequence[CaseScore], spoiled: dict[str, int], not_judged: int
) -> PatientEffect:  # fmt: skip
    counted = [score for score in scores if score.counted]
    every = np.array([score.correct / score.counted for score in counted])
    left = np.array([score.counted - spoiled.get(score.case_key, 0) for score in counted])
    kept = left > 0
    correct = np.array([score.correct for score in counted], dtype=float)
    without = correct[kept] / left[kept]
    gain = paired_difference(without, every[kept]) if kept.any() else None
    return PatientEffect(
        model=model, arm=arm, accuracy=_mean(every), interval=bootstrap_interval(every), without=_mean(without),
        without_interval=bootstrap_interval(without), same_cases=gain.mean if gain else float("nan"),
        same_cases_interval=gain.interval if gain else NOTHING, n_cases=int(kept.sum()),
        n_left_out=sum(spoiled.values()), n_cases_left_out=int((~kept).sum()), n_not_judged=not_judged,
    )  # fmt: skip


def _mean(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
    return float(values.mean()) if values.size else float("nan")


def _arm(one: Attribution) -> Arm:
    return one.answer.format, one.answer.question_type


def _place(one: Attribution, by_arm: bool) -> tuple[str, int, int]:
    return _order((one.answer.model, _arm(one))) if by_arm else (one.answer.model, 0, 0)


def _order(key: tuple[str, Arm]) -> tuple[str, int, int]:
    model, (format_, question_type) = key
    return model, FORMATS.index(format_), QUESTION_TYPES.index(question_type)
