"""How far graders of the same free responses agree, by pairs and all together, and contradict themselves.

Percent agreement, Cohen's kappa (Fleiss' for three and more) and Gwet's AC1, on verdicts as right or not right and as
all kinds that count. Intervals resample cases with all their answers, since those to one case hang together. A grader
contradicts itself on the same words in several answers, or on one answer judged again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from core.errors import UsageError
from core.events import COUNTED, Verdict
from core.stats.agreement import Estimate, agreement_by_case, many_judges_by_case
from core.stats.intervals import Interval
from core.stats.ratios import ratio_intervals
from core.store.database import Store
from core.store.queries.grades_by_grader import GraderHeld, VerdictCount, flip_counts, graders_held, verdict_counts
from core.store.selection import Selection

NOT_JUDGED = -1
"""Code of an answer that a grader has not judged, or not with a verdict that counts."""
KINDS_OF_VERDICT = tuple(verdict for verdict in COUNTED if verdict not in ("refused_in_words", "empty"))
"""As graders are compared: who reads a refusal and who reads no diagnosis agree, and people are asked for neither.

A blank answer is given to no grader.
"""
_CODE: dict[Verdict, int] = {verdict: code for code, verdict in enumerate(KINDS_OF_VERDICT)}
_CODE["refused_in_words"] = _CODE["no_diagnosis"]


@dataclass(frozen=True)
class Judged:
    """What ``graders`` say now of the same answers; ``counts`` hold their verdicts in this order."""

    graders: tuple[str, ...]
    counts: Sequence[VerdictCount]

    @cached_property
    def cases(self) -> NDArray[np.int64]:
        """Of each count the number of its case, from 0; answers to one case hang together."""
        numbers: dict[str, int] = {}
        return np.array([numbers.setdefault(one.case_key, len(numbers)) for one in self.counts], dtype=np.int64)

    @cached_property
    def codes(self) -> NDArray[np.int64]:
        """Count × grader: the place of its verdict among the kinds, or ``NOT_JUDGED``."""
        rows = [[_CODE.get(v, NOT_JUDGED) if v else NOT_JUDGED for v in one.verdicts] for one in self.counts]
        return np.array(rows, dtype=np.int64).reshape(len(rows), len(self.graders))

    @cached_property
    def answers(self) -> NDArray[np.int64]:
        """How many answers each count stands for."""
        return np.array([one.n for one in self.counts], dtype=np.int64)

    def of(self, graders: Sequence[str]) -> Judged:
        """Return the same with these graders only, in their order; raise ``UsageError`` for one that judged nothing."""
        places = [self.place(name) for name in graders]
        if tuple(graders) == self.graders:
            return self
        counts = [one._replace(verdicts=tuple(one.verdicts[p] for p in places)) for one in self.counts]
        return Judged(tuple(graders), counts)

    def by_model(self) -> dict[str, Judged]:
        """Return condition → the answers of it: those of several models or data sets are never put together."""
        return {model: self.narrowed(models=[model]) for model in dict.fromkeys(one.model for one in self.counts)}

    def narrowed(
        self,
        case_set: str = "",
        models: Sequence[str] = (),
        formats: Sequence[str] = (),
        question_types: Sequence[str] = (),
    ) -> Judged:
        """Return the answers to a case set by these models in these formats and question types; none named is all."""
        prefix = f"{case_set}/" if case_set else ""
        counts = [
            one
            for one in self.counts
            if one.case_key.startswith(prefix)
            and (not models or one.model in models)
            and (not formats or one.format in formats)
            and (not question_types or one.question_type in question_types)
        ]
        return Judged(self.graders, counts)

    def place(self, name: str) -> int:
        """Return where a grader stands among the others; raise ``UsageError`` for one that judged nothing."""
        if name not in self.graders:
            known = ", ".join(self.graders) or "nobody"
            raise UsageError(f"No grader {name!r} has judged these answers, only {known}: grade them with `regrade`.")
        return self.graders.index(name)


def read_graders(store: Store, selection: Selection | None = None) -> list[GraderHeld]:
    """Return who judged free responses of a selection (all campaigns and releases by default)."""
    with store.read() as cursor:
        return graders_held(cursor, selection)


def read_judged(store: Store, graders: Sequence[str] | None = None, selection: Selection | None = None) -> Judged:
    """Return the newest verdict of each grader (all by default) on every free response of a selection."""
    if graders is None:
        graders = [one.grader for one in read_graders(store, selection)]
    with store.read() as cursor:
        return Judged(tuple(graders), verdict_counts(cursor, graders, selection))


Kinds = Literal["right or not", "all kinds"]
KINDS: tuple[Kinds, ...] = ("right or not", "all kinds")
OF_TWO = {"percent_agreement": "percent agreement", "cohen_kappa": "Cohen's kappa", "gwet_ac": "Gwet's AC1"}
OF_MANY = {"percent_agreement": "percent agreement", "fleiss_kappa": "Fleiss' kappa", "gwet_ac": "Gwet's AC1"}
"""Coefficient, as ``core.stats.agreement`` calls it → its name in words."""
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


def pair_agreements(judged: Judged) -> list[GraderAgreement]:
    """Return the agreement of every two graders that judged an answer both."""
    pairs = [_said(judged, pair) for pair in combinations(range(len(judged.graders)), 2)]
    spoken = [said for said in pairs if said.n]
    alike: dict[bytes, list[_Said]] = {}  # pairs that judged the same cases are resampled together
    for said in spoken:
        alike.setdefault(said.case_set, []).append(said)
    found: dict[tuple[str, ...], list[GraderAgreement]] = {}
    for members in alike.values():
        tables = []
        for said, kind in product(members, KINDS):
            codes, table = said.codes_as(kind), np.zeros((said.n_cases, _SIZE[kind], _SIZE[kind]))
            np.add.at(table, (said.cases, codes[:, 0], codes[:, 1]), said.answers)
            tables.append(table)
        for (said, kind), estimates in zip(product(members, KINDS), agreement_by_case(tables), strict=True):
            found.setdefault(said.graders, []).append(said.result(kind, estimates, OF_TWO))
    return [one for said in spoken for one in found[said.graders]]


def common_agreement(judged: Judged) -> list[GraderAgreement]:
    """Return the agreement of all graders on the answers that all judged; nothing for fewer than three."""
    said = _said(judged, range(len(judged.graders)))
    found = []
    for kind in KINDS if len(judged.graders) > 2 and said.n else ():
        codes = said.codes_as(kind)
        chosen = np.stack([(codes == code).sum(axis=1) for code in range(_SIZE[kind])], axis=1)
        patterns, which = np.unique(chosen, axis=0, return_inverse=True)
        held = np.zeros((said.n_cases, len(patterns)))
        np.add.at(held, (said.cases, which.reshape(-1)), said.answers)
        found.append(said.result(kind, many_judges_by_case(patterns, held), OF_MANY))
    return found


def cross_table(judged: Judged, first: str, second: str) -> Ints:
    """Return first's verdict × second's, in the order of ``KINDS_OF_VERDICT``: on how many answers they said so."""
    codes, answers = judged.codes[:, [judged.place(first), judged.place(second)]], judged.answers
    both = (codes != NOT_JUDGED).all(axis=1)
    table = np.zeros((len(KINDS_OF_VERDICT), len(KINDS_OF_VERDICT)), dtype=np.int64)
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


_RIGHT = _CODE["correct"]
_SIZE: dict[Kinds, int] = {"right or not": 2, "all kinds": len(KINDS_OF_VERDICT)}


def _said(judged: Judged, places: Sequence[int]) -> _Said:
    codes = judged.codes[:, list(places)]
    spoken = codes != NOT_JUDGED
    every, some = spoken.all(axis=1), spoken.any(axis=1)
    held, cases = np.unique(judged.cases[every], return_inverse=True)
    left_out = int(judged.answers[some & ~every].sum())
    graders = tuple(judged.graders[place] for place in places)
    return _Said(graders, cases.reshape(-1), codes[every], judged.answers[every], left_out, held.tobytes())


@dataclass(frozen=True)
class FlipRate:
    """``both`` of ``pairs`` that a grader met more than once were judged right at one time and not at another.

    All are answers of one ``model`` (the condition).

    ``same`` is what was met again: the ``response``, the ``diagnosis`` read out of it, or the ``answer`` itself, under
    the same prompts. The interval resamples right answers with all their pairs.
    """

    grader: str
    model: str
    same: str
    pairs: int
    both: int
    verdicts: int
    interval: Interval

    @property
    def share(self) -> float:
        """The share of pairs that got both verdicts, 0 to 1."""
        return self.both / self.pairs


def flip_rates(store: Store, selection: Selection | None = None) -> list[FlipRate]:
    """Return the flip rates of every grader and model where it met anything again in a selection."""
    with store.read() as cursor:
        counts = flip_counts(cursor, selection)
    if counts.empty:
        return []
    kind, order = ["grader", "model", "same"], counts["right_answer"].unique()
    wide = counts.pivot(index="right_answer", columns=kind, values=["both", "pairs"]).fillna(0).loc[order]
    both, pairs = (wide[name].sort_index(axis=1).to_numpy() for name in ("both", "pairs"))
    intervals = ratio_intervals(both, pairs)
    sums = counts.groupby(kind, sort=True)[["pairs", "both", "verdicts"]].sum().reset_index()
    rows: Iterable[Any] = sums.itertuples()
    return [
        FlipRate(one.grader, one.model, one.same, one.pairs, one.both, one.verdicts, interval)
        for one, interval in zip(rows, intervals, strict=True)
    ]
