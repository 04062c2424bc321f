"""How far a data set can be played as consultations: which cases pass the filter, and what their profiles hold.

Source: Oh, Park, Kim, arXiv 2512.10195, suitability of data sets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from core.case import Case
from core.text.profiles import CaseId, Coverage, Generated, coverage, own_profile


@dataclass(frozen=True)
class DatasetSuitability:
    """``coverage`` is over the cases that somebody has judged, ``made_by`` who judged how many; ``unjudged`` are left.

    A profile that came with its case is a judgement too: the case is suitable.
    """

    dataset: str
    cases: int
    unjudged: int
    coverage: Coverage
    made_by: dict[str, int]


def dataset_suitability(
    dataset: str,
    cases: Sequence[Case],
    stored: Mapping[CaseId, Generated],
    by_rule: Callable[[Case], Generated] | None = None,
) -> DatasetSuitability:
    """Return the suitability of a data set: by a stored profile, else the case's own, else ``by_rule`` where given."""
    words = [stored.get((case.case_key, case.content_hash)) or own_profile(case) for case in cases]
    if by_rule is not None:
        words = [word or by_rule(case) for word, case in zip(words, cases, strict=True)]
    judged = [word for word in words if word is not None]
    made_by = dict(Counter(word.made_by for word in judged).most_common())
    return DatasetSuitability(dataset, len(words), len(words) - len(judged), coverage(judged), made_by)
