"""Judged conversations of conditions, and their means over cases: what figures of rubrics and of urgency share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ScoredConversation(ABC):
    """A stored conversation; ``model`` is its condition."""

    trial_id: str
    model: str
    doctor: str
    case_key: str
    dataset: str
    specialty: str

    @property
    @abstractmethod
    def judged(self) -> bool:
        """Whether a judge was asked about it."""


C = TypeVar("C", bound=ScoredConversation)


def by_condition(conversations: Iterable[C]) -> dict[str, list[C]]:
    """Return condition → its conversations, judged or not, of the conditions with a judged one."""
    groups: dict[str, list[C]] = defaultdict(list)
    for conversation in conversations:
        groups[conversation.model].append(conversation)
    return {model: group for model, group in groups.items() if any(played.judged for played in group)}


def grouped(conversations: Iterable[C], by: Callable[[C], str]) -> Iterator[tuple[str, list[C]]]:
    """Yield the groups by name, in alphabetical order; an empty name is ``unknown``."""
    groups: dict[str, list[C]] = defaultdict(list)
    for conversation in conversations:
        groups[by(conversation) or "unknown"].append(conversation)
    yield from sorted(groups.items())


def case_scores(conversations: Iterable[C], score: Callable[[C], float | None]) -> dict[str, float]:
    """Return case → the mean of the scores of its conversations; cases without a score are left out."""
    by_case: dict[str, list[float]] = defaultdict(list)
    for conversation in conversations:
        if (value := score(conversation)) is not None:
            by_case[conversation.case_key].append(value)
    return {case_key: sum(values) / len(values) for case_key, values in by_case.items()}


def case_sums(items: Iterable[tuple[str, float, float]]) -> tuple[Floats, Floats]:
    """Return for each case the sums of the two numbers of its items."""
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for case_key, first, second in items:
        sums[case_key][0] += first
        sums[case_key][1] += second
    table = np.array(list(sums.values()), dtype=np.float64).reshape(-1, 2)
    return table[:, 0], table[:, 1]
