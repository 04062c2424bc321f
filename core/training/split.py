"""Splits cases into train and test so that no case has a near-duplicate on the other side.

Near-duplicates form clusters (connected components), and a cluster is never split.
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
"""Minimum similarity in per cent of near-duplicates; see ``near_duplicates``.

Of 2,004 published cases, pairs above it are retold cases; at about 70, stock phrases alone suffice and join dozens of
unrelated cases.
"""
TEST_SHARE = 0.4
"""24 of the library's 60 cases."""
LEAST_TEST = 24
"""With fewer test cases a comparison before and after training is too uncertain, which causes a warning."""
_BLOCK = 512
_WORD = re.compile(r"[a-z0-9]+")


@dataclass(frozen=True)
class Split:
    """Both sides in the order of the cases, and the clusters of two or more cases as case keys."""

    train: tuple[Case, ...]
    test: tuple[Case, ...]
    clusters: tuple[tuple[str, ...], ...]


def split_cases(
    cases: Sequence[Case], test_share: float = TEST_SHARE, seed: int = 0, similar: float = SIMILAR
) -> Split:
    """Split cases with about the same share of each specialty; the same seed gives the same split.

    Raises ``UsageError`` if a share is outside 0–1, a case occurs twice, or a side would be empty.
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
    # a cluster belongs to the specialty of its first case
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
    """Return clusters of near-duplicates as indices of cases; a case without a duplicate is a cluster by itself."""
    pairs = np.array(list(near_duplicates([case.vignette for case in cases], similar)), dtype=int).reshape(-1, 2)
    graph = coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(len(cases), len(cases)))
    _, labels = connected_components(graph, directed=False)
    groups: dict[int, list[int]] = {}
    for index, label in enumerate(labels.tolist()):
        groups.setdefault(label, []).append(index)
    return list(groups.values())


def near_duplicates(texts: Sequence[str], similar: float = SIMILAR) -> Iterator[tuple[int, int]]:
    """Yield the pairs i < j of texts with a similarity of at least ``similar`` per cent.

    The similarity is rapidfuzz's ``ratio`` (normalised Indel similarity) of the distinct words in alphabetical order,
    so the order of sentences does not matter. Texts are compared in blocks to save memory.
    """
    plain = [" ".join(sorted(set(_WORD.findall(text.lower())))) for text in texts]
    for start in range(0, len(plain), _BLOCK):
        rows = plain[start : start + _BLOCK]
        similarity = process.cdist(rows, plain[start:], scorer=fuzz.ratio, score_cutoff=similar, workers=-1)
        for row, column in np.argwhere(similarity >= similar).tolist():
            if row < column:
                yield start + row, start + column


def _drawn(strata: Mapping[str, list[list[int]]], share: float, rng: random.Random) -> frozenset[int]:
    """Return the indices for test: of each stratum complete clusters in random order, up to its share.

    The rounding remainder of a stratum goes to the next one, so that the total share is right.
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
