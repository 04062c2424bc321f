"""Versions of one model in order: what each step changed, arm by arm, and which cases rose and fell.

Each step compares a version with the one before it, paired by case (Johri et al. 2025, monitoring of model versions).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from core.datasets.published import AccuracyFigure, accuracy_figures
from core.events import FORMATS, QUESTION_TYPES, Format, QuestionType
from core.measures.accuracy import Group
from core.measures.compare import Comparison, adjusted_p, by_arm, compare
from core.stats.corrections import Correction
from core.store.queries.accuracy import CaseScore

Verdict = Literal["rose", "fell", "unclear"]
LEVEL = 0.05
"""A step counts as risen or fallen where its adjusted p-value is at most this."""


@dataclass(frozen=True)
class Step:
    """From one version to the next in one arm (and group): accuracy before and after, difference, adjusted p."""

    before: str
    after: str
    format: Format
    question_type: QuestionType
    group: str | None
    result: Comparison
    adjusted_p: float
    invalid_before: int
    invalid_after: int

    @property
    def verdict(self) -> Verdict:
        """Whether accuracy rose or fell beyond chance."""
        if not self.adjusted_p <= LEVEL:
            return "unclear"
        return "rose" if self.result.difference > 0 else "fell"


def steps(
    scores: Iterable[CaseScore], versions: Sequence[str], by: Group | None = None, correction: Correction = "holm"
) -> list[Step]:
    """Return every step between neighbouring versions, corrected over all that are returned.

    In the order of group, format, question type and step; an arm that either version lacks is left out.
    """
    found: list[tuple[str, str, Format, QuestionType, str | None, Comparison, int, int]] = []
    for group, members in _groups(scores, by):
        arms = by_arm(members)
        for format_ in FORMATS:
            for question_type in QUESTION_TYPES:
                for before, after in pairwise(versions):
                    first = arms.get((before, format_, question_type))
                    second = arms.get((after, format_, question_type))
                    if first and second:
                        invalid = (_invalid(first.values()), _invalid(second.values()))
                        result = compare(first, second)
                        found.append((before, after, format_, question_type, group, result, *invalid))
    p_values = adjusted_p([row[5] for row in found], correction)
    return [Step(*row[:6], p, row[6], row[7]) for row, p in zip(found, p_values, strict=True)]


def recorrected(found: Sequence[Step], correction: Correction) -> list[Step]:
    """Return the same steps with their p-values corrected another way: the comparisons are not done again."""
    p_values = adjusted_p([step.result for step in found], correction)
    return [replace(step, adjusted_p=p) for step, p in zip(found, p_values, strict=True)]


def published_versions(versions: Sequence[str], label_of: Callable[[str], str]) -> list[AccuracyFigure]:
    """Return the published overall figures of versions, for those of which the database holds nothing."""
    labels = {label_of(version) for version in versions}
    scopes = ("monitoring", "overall")
    found: dict[tuple[str, str, str], AccuracyFigure] = {}
    for figure in sorted((f for f in accuracy_figures() if f.scope in scopes), key=lambda f: scopes.index(f.scope)):
        if figure.model in labels:
            found.setdefault((figure.model, figure.format, figure.question_type), figure)
    return list(found.values())


def _groups(scores: Iterable[CaseScore], by: Group | None) -> list[tuple[str | None, list[CaseScore]]]:
    if by is None:
        return [(None, list(scores))]
    groups: dict[str, list[CaseScore]] = {}
    for score in scores:
        groups.setdefault((score.specialty if by == "specialty" else score.dataset) or "unknown", []).append(score)
    return [(name, groups[name]) for name in sorted(groups)]


def _invalid(scores: Iterable[CaseScore]) -> int:
    return sum(sum(score.excluded.values()) for score in scores)
