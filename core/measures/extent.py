"""What a reader must know of how much stands behind figures: unfinished runs, and figures on different cases."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from core.measures.base import Asked
from core.store.database import Store
from core.store.queries.accuracy import CaseScore
from core.store.queries.extent import Extent, extents
from core.store.selection import Selection, conditions

Named = Callable[[str], str]
"""Returns how a condition or a data set is called where the words are read."""


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


def unfinished_words(found: Iterable[Extent], name: Named = str) -> str:
    """Return in a sentence which conditions have not all of their planned trials yet; empty if all are finished."""
    parts = [
        f"{name(extent.model)} {extent.done:,} of {extent.planned:,} planned trials"
        for extent in found
        if extent.done < extent.planned
    ]
    return f"Unfinished: {'; '.join(parts)}." if parts else ""


def different_cases_words(found: Iterable[Extent], name: Named = str, data_set_name: Named = str) -> str:
    """Return in sentences which conditions stand on different cases of one data set, and how many cases they share."""
    sentences = []
    for data_set, members in on_different_cases(found).items():
        counts = ", ".join(f"{name(extent.model)} {_cases(extent)}" for extent in members)
        shared = len(shared_keys(members))
        words = f"{shared:,} case{'s are' if shared != 1 else ' is'} shared by all" if shared else "no case is shared"
        all_ = "" if shared or len(members) < 3 else " by all"
        sentences.append(f"Different cases of {data_set_name(data_set)}: {counts}; {words}{all_}.")
    return " ".join(sentences)


def part_words(found: Iterable[Extent], data_set_name: Named = str) -> str:
    """Return in sentences of which data sets all conditions were asked the same part; empty if it is all of them."""
    return " ".join(
        f"Asked: {_cases(members[0])} cases of {data_set_name(data_set)}."
        for data_set, members in by_data_set(found).items()
        if len({extent.cases for extent in members}) == 1
        and len(members[0].cases) < max(extent.data_set_cases or 0 for extent in members)
    )


def note_extents(asked: Asked, models: Iterable[str] | None = None, *, different: bool = True) -> None:
    """Say next to a metric's rows what is unfinished and what stands on different cases; of these conditions or all.

    ``different`` cases matter only if conditions stand side by side.
    """
    wanted = None if models is None else frozenset(models)
    found = [
        extent for extent in read_extents(asked.store, asked.selection) if wanted is None or extent.model in wanted
    ]
    words = [unfinished_words(found), different_cases_words(found) if different else "", part_words(found)]
    for sentence in filter(None, words):
        asked.note(sentence)


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


def _cases(extent: Extent) -> str:
    of = f" of {extent.data_set_cases:,}" if extent.data_set_cases else ""
    return f"{len(extent.cases):,}{of}"
