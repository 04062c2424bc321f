"""Divides cases into train and test so that no case of one side is nearly a case of the other.

Near-duplicates are joined into clusters (connected components), and a cluster lands on one side as a whole.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from rapidfuzz import fuzz, process
from scipy.sparse import coo_array  # type: ignore[import-untyped]
from scipy.sparse.csgraph import connected_components  # type: ignore[import-untyped]

from core.case import Case
from core.errors import UsageError

SIMILAR = 75.0
"""Similarity in per cent from which two vignettes count as one; see ``near_duplicates``.

On 2,004 published cases pairs above it are retold cases; from about 70 on stock phrases alone are enough, and join
dozens of unrelated cases.
"""
TEST_SHARE = 0.4
"""Of the library's 60 cases 24 are kept for test."""
LEAST_TEST = 24
"""Fewer test cases leave a comparison before and after training too unsure to mean much: their number is told."""
_BLOCK = 512
_WORD = re.compile(r"[a-z0-9]+")


@dataclass(frozen=True)
class Split:
    """The two sides, each in the order of the cases, and the clusters of two cases or more (by case key)."""

    train: tuple[Case, ...]
    test: tuple[Case, ...]
    clusters: tuple[tuple[str, ...], ...]


def split_cases(
    cases: Sequence[Case], test_share: float = TEST_SHARE, seed: int = 0, similar: float = SIMILAR
) -> Split:
    """Split cases, each specialty in about the same proportion; the same seed gives the same split.

    Raises ``UsageError`` where a share lies outside 0–1, a case stands there twice, or a side would be empty.
    """
    if not 0 < test_share < 1:
        raise UsageError(f"The share of cases for test must lie between 0 and 1, not {test_share:g}.")
    if not 0 < similar <= 100:
        raise UsageError(f"The similarity of near-duplicates is a percentage above 0 and up to 100, not {similar:g}.")
    seen: set[str] = set()
    for case in cases:
        if case.case_key in seen:
            raise UsageError(f"The case {case.case_key} was chosen twice: name each case once.")
        seen.add(case.case_key)
    groups = clusters_of(cases, similar)
    # the clusters by the specialty of their first case
    strata: dict[str, list[list[int]]] = {}
    for group in groups:
        strata.setdefault(cases[group[0]].specialty, []).append(group)
    chosen = _drawn(dict(sorted(strata.items())), test_share, random.Random(seed))
    test = tuple(case for index, case in enumerate(cases) if index in chosen)
    train = tuple(case for index, case in enumerate(cases) if index not in chosen)
    if not train or not test:
        raise UsageError(
            f"{len(cases)} cases ({len(groups)} without near-duplicates) cannot be split into train and test with a "
            f"share of {test_share:g} for test: take more cases or another share."
        )
    return Split(train, test, tuple(tuple(cases[i].case_key for i in g) for g in groups if len(g) > 1))


def clusters_of(cases: Sequence[Case], similar: float = SIMILAR) -> list[list[int]]:
    """Return the indices of cases in clusters of near-duplicates; a case without one is a cluster of its own."""
    pairs = np.array(list(near_duplicates([case.vignette for case in cases], similar)), dtype=int).reshape(-1, 2)
    graph = coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(len(cases), len(cases)))
    _, labels = connected_components(graph, directed=False)
    groups: dict[int, list[int]] = {}
    for index, label in enumerate(labels.tolist()):
        groups.setdefault(label, []).append(index)
    return list(groups.values())


def near_duplicates(texts: Sequence[str], similar: float = SIMILAR) -> Iterator[tuple[int, int]]:
    """Yield the pairs i < j of texts that are at least ``similar`` per cent alike.

    Compared are the different words of a text in alphabetical order, by rapidfuzz's ``ratio`` (normalised Indel
    similarity): sentences in another order make no difference. In blocks, so that memory stays small.
    """
    plain = [" ".join(sorted(set(_WORD.findall(text.lower())))) for text in texts]
    for start in range(0, len(plain), _BLOCK):
        rows = plain[start : start + _BLOCK]
        alike = process.cdist(rows, plain[start:], scorer=fuzz.ratio, score_cutoff=similar, workers=-1)
        for row, column in np.argwhere(alike >= similar).tolist():
            if row < column:
                yield start + row, start + column


def _drawn(strata: Mapping[str, list[list[int]]], share: float, rng: random.Random) -> frozenset[int]:
    """Return the indices that go to test: of each stratum whole clusters in random order, while there is room.

    What a stratum had to leave over for its share's fraction goes to the next, so that the whole comes out right.
    """
    chosen: set[int] = set()
    passed = 0
    for groups in strata.values():
        passed += sum(map(len, groups))
        room = round(share * passed) - len(chosen)
        for group in rng.sample(groups, len(groups)):
            if len(group) <= room:
                chosen.update(group)
                room -= len(group)
    return frozenset(chosen)
