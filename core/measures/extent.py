"""How much stands behind the conditions of a selection, and which cases they share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from core.store.database import Store
from core.store.queries.answers import CaseScore
from core.store.queries.run_cases import Extent, extents
from core.store.selection import Selection, conditions


def read_extents(store: Store, selection: Selection | None = None) -> list[Extent]:
    """Return how much stands behind each condition of a selection, in the order of the conditions."""
    found = conditions(store, selection)
    with store.read() as cursor:
        return extents(cursor, found, selection)


def by_data_set(found: Iterable[Extent]) -> dict[str, list[Extent]]:
    """Return data set → the extents of the conditions that have trials on it."""
    sets: dict[str, list[Extent]] = defaultdict(list)
    for extent in found:
        if extent.cases:
            sets[extent.data_set].append(extent)
    return dict(sets)


def shared_keys(found: Sequence[Extent]) -> frozenset[str]:
    """Return the keys of the cases that all of these conditions were asked."""
    return frozenset.intersection(*(extent.cases for extent in found)) if found else frozenset()


def on_different_cases(found: Iterable[Extent]) -> dict[str, list[Extent]]:
    """Return data set → the conditions on it, of the data sets of which they were not all asked the same cases."""
    return {
        data_set: members
        for data_set, members in by_data_set(found).items()
        if len({extent.cases for extent in members}) > 1
    }


def on_shared_cases(scores: Sequence[CaseScore]) -> list[CaseScore]:
    """Return the scores of the cases that every model has, arm by arm and data set by data set.

    A model without an answer in an arm, or on a data set, takes nothing away from the others there.
    """
    asked: dict[tuple[str, str, str], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for score in scores:
        asked[_arm_on(score)][score.model].add(score.case_key)
    shared = {arm: set.intersection(*by_model.values()) for arm, by_model in asked.items()}
    return [score for score in scores if score.case_key in shared[_arm_on(score)]]


def _arm_on(score: CaseScore) -> tuple[str, str, str]:
    return score.case_key.partition("/")[0], score.format, score.question_type
