"""The trials and cases of the conditions of a selection, and the cases that these share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from core.store.database import Store
from core.store.queries.answers import CaseScore
from core.store.queries.run_cases import Extent, extents
from core.store.selection import Selection, conditions


def read_extents(store: Store, selection: Selection | None = None) -> list[Extent]:
    """Return the trials and cases of each condition of a selection, in the order of the conditions."""
    selected = conditions(store, selection)
    with store.read() as cursor:
        return extents(cursor, selected, selection)


def by_data_set(extents_: Iterable[Extent]) -> dict[str, list[Extent]]:
    """Return data set → the extents of the conditions that have trials on it."""
    sets: dict[str, list[Extent]] = defaultdict(list)
    for extent in extents_:
        if extent.cases:
            sets[extent.data_set].append(extent)
    return dict(sets)


def shared_keys(extents_: Sequence[Extent]) -> frozenset[str]:
    """Return the keys of the cases that all these conditions have trials on, with the same content."""
    common = frozenset.intersection(*(extent.cases for extent in extents_)) if extents_ else frozenset()
    return common - changed_keys(extents_)


def changed_keys(extents_: Iterable[Extent]) -> frozenset[str]:
    """Return the keys of cases whose text, choices or answer differ between conditions."""
    contents: dict[str, set[int]] = defaultdict(set)
    for extent in extents_:
        for case_key, content in extent.contents.items():
            contents[case_key].add(content)
    return frozenset(case_key for case_key, of_key in contents.items() if len(of_key) > 1)


def on_different_cases(extents_: Iterable[Extent]) -> dict[str, list[Extent]]:
    """Return data set → its conditions, for the data sets on which the conditions have different or changed cases."""
    return {
        data_set: members
        for data_set, members in by_data_set(extents_).items()
        if len({extent.cases for extent in members}) > 1 or changed_keys(members)
    }


def on_shared_cases(scores: Sequence[CaseScore]) -> list[CaseScore]:
    """Return the scores of the cases that every model has with the same content, arm by arm and data set by data set.

    A model without any answer in an arm, or on a data set, is ignored there.
    """
    keys: dict[tuple[str, str, str], dict[str, set[tuple[str, int]]]] = defaultdict(lambda: defaultdict(set))
    for score in scores:
        keys[_arm_on(score)][score.model].add((score.case_key, score.content))
    shared = {arm: set.intersection(*by_model.values()) for arm, by_model in keys.items()}
    return [score for score in scores if (score.case_key, score.content) in shared[_arm_on(score)]]


def _arm_on(score: CaseScore) -> tuple[str, str, str]:
    return score.case_key.partition("/")[0], score.format, score.question_type
