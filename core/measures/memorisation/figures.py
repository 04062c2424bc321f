"""What completions say of a model: how many cases are flagged, how similarities lie, accuracy with and without them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from core.events import Format, QuestionType
from core.measures.compare import by_arm
from core.measures.memorisation.halves import FLAG
from core.stats.bootstrap import bootstrap_interval
from core.stats.intervals import Interval
from core.stats.proportions import wilson
from core.store.queries.accuracy import CaseScore
from core.store.queries.cases import StoredCompletion

BINS = 20
"""Bars of the histogram; each is 0.05 wide, and the last one is the flagged cases."""


@dataclass(frozen=True)
class ModelRow:
    """One model's completions under one prompt: ``n`` came, ``failed`` did not, ``flagged`` are likely training data.

    ``counts`` is the histogram of the similarities from 0 to 1.
    """

    model: str
    n: int
    failed: int
    flagged: int
    interval: Interval
    median: float
    counts: tuple[int, ...]
    prompt_hash: str = ""

    @property
    def share(self) -> float:
        """Flagged cases of those that came."""
        return self.flagged / self.n if self.n else float("nan")


@dataclass(frozen=True)
class WithAndWithout:
    """Accuracy of one arm of a condition over all cases completed and answered, and over those that are not flagged."""

    condition: str
    format: Format
    question_type: QuestionType
    accuracy: float
    interval: Interval
    n: int
    without: float
    without_interval: Interval
    n_without: int


def flagged(one: StoredCompletion) -> bool:
    """Say whether a completion flags its case."""
    return one.similarity is not None and one.similarity >= FLAG


def model_rows(completions: Iterable[StoredCompletion]) -> list[ModelRow]:
    """Return one row for each model and prompt, of completions sorted by both."""
    groups = groupby(completions, attrgetter("model", "prompt_hash"))
    return [_row(model, prompt_hash, list(members)) for (model, prompt_hash), members in groups]


def _row(model: str, prompt_hash: str, members: Sequence[StoredCompletion]) -> ModelRow:
    values = sorted(one.similarity for one in members if one.similarity is not None)
    count = sum(map(flagged, members))
    middle = len(values) // 2
    median = (values[middle] + values[~middle]) / 2 if values else float("nan")
    # 0.95 counts as the last bar though 0.95 · 20 may be 18.999…
    counts = [0] * BINS
    for value in values:
        counts[min(int(value * BINS + 1e-9), BINS - 1)] += 1
    interval = wilson(count, len(values))
    return ModelRow(model, len(values), len(members) - len(values), count, interval, median, tuple(counts), prompt_hash)


def with_and_without(completions: Iterable[StoredCompletion], scores: Iterable[CaseScore]) -> list[WithAndWithout]:
    """Return the accuracy of each condition and arm with and without the flagged cases, for one model and prompt."""
    marks = {one.case_key: flagged(one) for one in completions if one.similarity is not None}
    rows: list[WithAndWithout] = []
    for (condition, format_, question_type), of_arm in by_arm(scores).items():
        means = {case: score.score for case, score in of_arm.items() if case in marks}
        everything = [mean for mean in means.values() if mean is not None]
        rest = [mean for case, mean in means.items() if mean is not None and not marks[case]]
        if everything:
            rows.append(
                WithAndWithout(
                    condition, format_, question_type, _mean(everything), bootstrap_interval(everything),
                    len(everything), _mean(rest), bootstrap_interval(rest), len(rest),
                )
            )  # fmt: skip
    return rows


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else float("nan")
