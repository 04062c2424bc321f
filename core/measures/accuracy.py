"""Accuracy of an arm: the mean over a case's counted trials, then over cases (Johri et al. 2025, Methods).

Nothing is dropped silently: every row carries its numbers of cases and trials, and what it excluded and why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Literal

import numpy as np

from core.errors import UsageError
from core.events import FORMATS, QUESTION_TYPES, Format, QuestionType
from core.stats.bootstrap import bootstrap_interval, exact_interval, resampled_interval
from core.stats.intervals import Interval, t_interval
from core.store.database import Store
from core.store.queries.accuracy import CaseScore, case_scores
from core.store.selection import McqRule, Selection

Group = Literal["specialty", "dataset"]
IntervalKind = Literal["bootstrap", "exact", "resampled", "normal"]
Invalid = Literal["exclude", "zero"]


@dataclass(frozen=True)
class AccuracyRow:
    """A mean between 0 and 1 with its interval, and what it rests on.

    Mean and bounds are ``None`` where no case counts; the normal theory gives one case no interval.
    ``n_trials`` counted; ``n_excluded`` did not, by verdict in ``excluded_by_reason`` (``ungraded``: no grade yet).
    ``n_cases_excluded`` cases had no counted trial.
    """

    model: str
    format: Format
    question_type: QuestionType
    group: str | None
    mean: float | None
    ci_low: float | None
    ci_high: float | None
    n_cases: int
    n_trials: int
    n_excluded: int
    n_cases_excluded: int = 0
    excluded_by_reason: dict[str, int] = field(default_factory=dict)


def accuracy(
    store: Store,
    by: Group | None = None,
    selection: Selection | None = None,
    *,
    interval: IntervalKind = "bootstrap",
    mcq_rule: McqRule = "mcq_loose",
    invalid: Invalid = "exclude",
) -> list[AccuracyRow]:
    """Return a row for each condition, arm and group, in the order of condition, format, question type and group.

    ``interval``: ``bootstrap`` is exact where it can be and else resampled; ``exact`` refuses to resample;
    ``resampled`` always does; ``normal`` is mean ± t · sd / √n. ``invalid``: a case without a counted trial is left
    out (``exclude``) or scores 0 and stays in n (``zero``, as in the published tables). Levels are 95 %.
    """
    with store.read() as cursor:
        scores = case_scores(cursor, selection, mcq_rule)
    return accuracy_of(scores, by, interval=interval, invalid=invalid)


def accuracy_of(
    scores: Iterable[CaseScore],
    by: Group | None = None,
    *,
    interval: IntervalKind = "bootstrap",
    invalid: Invalid = "exclude",
) -> list[AccuracyRow]:
    """Return the rows of ``accuracy`` from scores that were read already; conditions in the order of the scores."""
    held = list(scores)
    place = {model: n for n, model in enumerate(dict.fromkeys(s.model for s in held))}

    def key(s: CaseScore) -> tuple[int, int, int, str]:
        return place[s.model], FORMATS.index(s.format), QUESTION_TYPES.index(s.question_type), _group(s, by) or ""

    return [
        _row(list(members), by, interval, invalid) for _, members in groupby(sorted(held, key=key), key=key)
    ]  # fmt: skip


def interval_of(values: Sequence[float], kind: IntervalKind) -> Interval:
    """Return the 95 % interval of a mean over cases; raises ``UsageError`` where ``exact`` is not possible."""
    if kind == "normal":
        return t_interval(values)
    if kind == "resampled":
        return resampled_interval(values)
    if kind == "bootstrap":
        return bootstrap_interval(values)
    exact = exact_interval(values)
    if exact is None:
        raise UsageError(
            "The exact bootstrap needs scores that are fractions of a few trials: use --interval bootstrap."
        )
    return exact


def _row(scores: list[CaseScore], by: Group | None, kind: IntervalKind, invalid: Invalid) -> AccuracyRow:
    first = scores[0]
    kept = [s for s in scores if s.counted or invalid == "zero"]
    values = [s.score or 0.0 for s in kept]
    reasons: Counter[str] = Counter()
    for score in scores:
        reasons.update({str(reason): n for reason, n in score.excluded.items()})
    bounds = interval_of(values, kind)
    return AccuracyRow(
        model=first.model,
        format=first.format,
        question_type=first.question_type,
        group=_group(first, by),
        mean=float(np.mean(values)) if values else None,
        ci_low=_number(bounds.low),
        ci_high=_number(bounds.high),
        n_cases=len(kept),
        n_trials=sum(s.counted for s in scores),
        n_excluded=reasons.total(),
        n_cases_excluded=len(scores) - len(kept),
        excluded_by_reason=dict(sorted(reasons.items())),
    )


def _group(score: CaseScore, by: Group | None) -> str | None:
    return None if by is None else (score.specialty if by == "specialty" else score.dataset)


def _number(value: float) -> float | None:
    return None if np.isnan(value) else value
