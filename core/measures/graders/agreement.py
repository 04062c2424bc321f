"""How far graders agree on the answers that they judged alike: every two of them, and all together.

Percent agreement, Cohen's kappa (Fleiss' for three and more) and Gwet's AC1, on verdicts as right or not right and as
all kinds that count. Intervals resample cases with all their answers, since those to one case hang together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from core.events import COUNTED
from core.measures.graders.judged import NOT_JUDGED, Judged
from core.stats.agreement_resampled import Estimate, agreement_by_case, many_judges_by_case

Kinds = Literal["right or not", "all kinds"]
KINDS: tuple[Kinds, ...] = ("right or not", "all kinds")
OF_TWO = {"percent_agreement": "percent agreement", "cohen_kappa": "Cohen's kappa", "gwet_ac": "Gwet's AC1"}
OF_MANY = {"percent_agreement": "percent agreement", "fleiss_kappa": "Fleiss' kappa", "gwet_ac": "Gwet's AC1"}
"""Name of a coefficient's function → its name in words."""
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class GraderAgreement:
    """How far ``graders`` agree on ``n`` answers to ``n_cases`` cases; ``measures`` by name in words.

    ``left_out`` answers some of them judged, but not all with a verdict that counts.
    """

    graders: tuple[str, ...]
    kinds: Kinds
    n: int
    n_cases: int
    left_out: int
    measures: Mapping[str, Estimate]


def pair_agreements(judged: Judged, kinds: Sequence[Kinds] = KINDS) -> list[GraderAgreement]:
    """Return the agreement of every two graders that judged an answer both."""
    pairs = [_said(judged, pair) for pair in combinations(range(len(judged.graders)), 2)]
    spoken = [said for said in pairs if said.n]
    alike: dict[bytes, list[_Said]] = {}  # pairs that judged the same cases are resampled together
    for said in spoken:
        alike.setdefault(said.case_set, []).append(said)
    found = {said.graders: one for members in alike.values() for said, one in _pairs(members, kinds)}
    return [one for said in spoken for one in found[said.graders]]


def common_agreement(judged: Judged, kinds: Sequence[Kinds] = KINDS) -> list[GraderAgreement]:
    """Return the agreement of all graders on the answers that all judged; nothing for fewer than three."""
    if len(judged.graders) < 3:
        return []
    said = _said(judged, range(len(judged.graders)))
    return [_common(said, kind) for kind in kinds] if said.n else []


def cross_table(judged: Judged, first: str, second: str) -> Ints:
    """Return first's verdict × second's, both in the order of ``COUNTED``: on how many answers they said so."""
    codes, answers = judged.codes[:, [judged.place(first), judged.place(second)]], judged.answers
    both = (codes != NOT_JUDGED).all(axis=1)
    table = np.zeros((len(COUNTED), len(COUNTED)), dtype=np.int64)
    np.add.at(table, (codes[both, 0], codes[both, 1]), answers[both])
    return table


@dataclass(frozen=True)
class _Said:
    """What all of some graders judged: case, verdicts and number of answers of each count.

    ``case_set`` tells which cases; ``left_out`` is how many answers only some of them judged.
    """

    graders: tuple[str, ...]
    cases: Ints
    codes: Ints
    answers: Ints
    left_out: int
    case_set: bytes

    @property
    def n(self) -> int:
        return int(self.answers.sum())

    @property
    def n_cases(self) -> int:
        return int(self.cases.max()) + 1 if len(self.cases) else 0

    def codes_as(self, kinds: Kinds) -> Ints:
        """Return the verdicts as places among all kinds, or 0 for right and 1 for not."""
        return self.codes if kinds == "all kinds" else (self.codes != _RIGHT).astype(np.int64)

    def result(self, kinds: Kinds, found: Mapping[str, Estimate], names: Mapping[str, str]) -> GraderAgreement:
        measures = {words: found[name] for name, words in names.items()}
        return GraderAgreement(self.graders, kinds, self.n, self.n_cases, self.left_out, measures)


_RIGHT = COUNTED.index("correct")
_SIZE: dict[Kinds, int] = {"right or not": 2, "all kinds": len(COUNTED)}


def _said(judged: Judged, places: Sequence[int]) -> _Said:
    codes = judged.codes[:, list(places)]
    spoken = codes != NOT_JUDGED
    every, some = spoken.all(axis=1), spoken.any(axis=1)
    held, cases = np.unique(judged.cases[every], return_inverse=True)
    left_out = int(judged.answers[some & ~every].sum())
    graders = tuple(judged.graders[place] for place in places)
    return _Said(graders, cases.reshape(-1), codes[every], judged.answers[every], left_out, held.tobytes())


def _pairs(members: Sequence[_Said], kinds: Sequence[Kinds]) -> list[tuple[_Said, list[GraderAgreement]]]:
    tables = [_table(said, kind) for said in members for kind in kinds]
    estimates = iter(agreement_by_case(tables))
    return [(said, [said.result(kind, next(estimates), OF_TWO) for kind in kinds]) for said in members]


def _table(said: _Said, kinds: Kinds) -> NDArray[np.float64]:
    """Return case × first's verdict × second's: how many answers."""
    codes, table = said.codes_as(kinds), np.zeros((said.n_cases, _SIZE[kinds], _SIZE[kinds]))
    np.add.at(table, (said.cases, codes[:, 0], codes[:, 1]), said.answers)
    return table


def _common(said: _Said, kinds: Kinds) -> GraderAgreement:
    codes = said.codes_as(kinds)
    chosen = np.stack([(codes == code).sum(axis=1) for code in range(_SIZE[kinds])], axis=1)
    patterns, which = np.unique(chosen, axis=0, return_inverse=True)
    held = np.zeros((said.n_cases, len(patterns)))
    np.add.at(held, (said.cases, which.reshape(-1)), said.answers)
    return said.result(kinds, many_judges_by_case(patterns, held), OF_MANY)
