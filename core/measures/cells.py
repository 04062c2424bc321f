"""The cells of the accuracy page: what this database holds, and what is published where it holds nothing.

A published cell is marked by its table and never mixed into a computed one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass
from typing import Literal

from core.datasets.published import RELEASE_DATASETS, AccuracyFigure, accuracy_figures
from core.events import Format, QuestionType
from core.measures.accuracy import AccuracyRow, Group, IntervalKind, accuracy_of
from core.store.queries.accuracy import CaseScore

Split = Literal["all", "specialty", "dataset", "dermatology", "single"]
PUBLISHED_CASES = "craftmd"
"""The case set that the published figures are about."""
_SCOPES: dict[Split, tuple[str, ...]] = {
    "all": ("overall", "monitoring", "multimodal"),
    "specialty": ("specialty",),
    "dataset": (),
    "dermatology": ("dataset",),
    "single": ("dataset_single_dx",),
}
"""What is published for each way of splitting the cases; by data set, only for dermatology."""


@dataclass(frozen=True)
class Cell:
    """Accuracy (0 to 1) of an arm of a model in a group of cases, with its 95 % interval where there is one.

    ``own`` is what it was computed from; ``table`` the supplementary table of the paper it was copied from. Exactly
    one of them is set. Of a published cell ``model`` is the papers' label.
    """

    model: str
    format: Format
    question_type: QuestionType
    group: str | None
    mean: float
    ci_low: float | None
    ci_high: float | None
    own: AccuracyRow | None = None
    table: int | None = None


def case_set_of(score: CaseScore) -> str:
    """Return the name of the data set that a case's key begins with."""
    return score.case_key.partition("/")[0]


def case_sets(scores: Iterable[CaseScore]) -> dict[str, int]:
    """Return case set → how many of its cases have a score, the largest first."""
    keys: dict[str, set[str]] = {}
    for score in scores:
        keys.setdefault(case_set_of(score), set()).add(score.case_key)
    return {name: len(found) for name, found in sorted(keys.items(), key=lambda item: -len(item[1]))}


def group_of(split: Split) -> Group | None:
    """Return by what a split groups the scores it leaves."""
    return None if split == "all" else ("specialty" if split == "specialty" else "dataset")


def scores_of(
    scores: Iterable[CaseScore], case_set: str, split: Split, single_diagnosis: Set[str] = frozenset()
) -> list[CaseScore]:
    """Return the scores of a case set that a split is about.

    ``dermatology``: its cases only. ``single``: those of them with one single most likely diagnosis, by key.
    """
    prefix = f"{case_set}/"
    found = [score for score in scores if score.case_key.startswith(prefix)]
    if split in ("dermatology", "single"):
        found = [score for score in found if score.specialty == "Dermatology"]
    return [s for s in found if s.case_key in single_diagnosis] if split == "single" else found


def own_cells(scores: Iterable[CaseScore], split: Split, interval: IntervalKind) -> list[Cell]:
    """Return the computed cells; an arm of which nothing counts has none."""
    rows = accuracy_of(scores, group_of(split), interval=interval)
    return [
        Cell(r.model, r.format, r.question_type, r.group, r.mean, r.ci_low, r.ci_high, own=r)
        for r in rows
        if r.mean is not None
    ]


def published_cells(split: Split) -> list[Cell]:
    """Return the published cells of a split, the first table that has one where several do."""
    found: dict[tuple[str, str, str, str | None], Cell] = {}
    for figure in accuracy_figures():
        if figure.scope in _SCOPES[split]:
            cell = _published(figure)
            found.setdefault((cell.model, cell.format, cell.question_type, cell.group), cell)
    return list(found.values())


def with_published(own: Sequence[Cell], published: Sequence[Cell], label_of: Callable[[str], str]) -> list[Cell]:
    """Return the computed cells, then the published ones of arms that no model of that label covers."""
    covered = {(label_of(c.model), c.format, c.question_type, c.group) for c in own}
    return [*own, *(c for c in published if (c.model, c.format, c.question_type, c.group) not in covered)]


def _published(figure: AccuracyFigure) -> Cell:
    # the intervals of table 4 are those of table 1 by mistake: an interval without its own mean is not shown
    sound = figure.ci_low <= figure.mean <= figure.ci_high
    low, high = (figure.ci_low, figure.ci_high) if sound else (None, None)
    group = figure.specialty_name or (RELEASE_DATASETS[figure.dataset] if figure.dataset else None)
    return Cell(figure.model, figure.format, figure.question_type, group, figure.mean, low, high, table=figure.table)
