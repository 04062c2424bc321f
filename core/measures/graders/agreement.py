"""How far graders of the same free responses agree, by pairs and all together, and contradict themselves.

Percent agreement, Cohen's kappa (Fleiss' for three and more) and Gwet's AC1, on verdicts as right or not right and as
all kinds that count. Intervals resample cases with all their answers, since those to one case hang together. A grader
contradicts itself on the same words in several answers, or on one answer judged again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from core.errors import UsageError
from core.events import COUNTED, Verdict
from core.measures.base import Columns, Row
from core.stats.agreement import Estimate, agreement_by_case, many_judges_by_case
from core.stats.ratios import ratio_intervals
from core.store.database import Store
from core.store.queries.grades_by_grader import StoredGrader, VerdictCount, flip_counts, stored_graders, verdict_counts
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
        counts: dict[str, list[VerdictCount]] = {}
        for count in self.counts:
            counts.setdefault(count.model, []).append(count)
        return {model: Judged(self.graders, members) for model, members in counts.items()}

    def place(self, name: str) -> int:
        """Return where a grader stands among the others; raise ``UsageError`` for one that judged nothing."""
        if name not in self.graders:
            known = ", ".join(self.graders) or "nobody"
            raise UsageError(f"No grader {name!r} has judged these answers, only {known}: grade them with `regrade`.")
        return self.graders.index(name)


def read_graders(store: Store, selection: Selection | None = None) -> list[StoredGrader]:
    """Return who judged free responses of a selection (all campaigns and releases by default)."""
    with store.read() as cursor:
        return stored_graders(cursor, selection)


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


def agreement_rows(judged: Judged) -> list[Row]:
    """Return how far graders agree on the answers of each model: every two that judged an answer both, then all."""
    rows: list[Row] = []
    for model, answers in judged.by_model().items():
        rows += [*_pair_rows(model, answers), *_common_rows(model, answers)]
    return rows


def _pair_rows(model: str, judged: Judged) -> list[Row]:
    pairs = [
        pair for places in combinations(range(len(judged.graders)), 2) if (pair := _common_answers(judged, places)).n
    ]
    on_same_cases: dict[bytes, list[_CommonAnswers]] = {}  # these are resampled together
    for pair in pairs:
        on_same_cases.setdefault(pair.case_set, []).append(pair)
    rows: dict[tuple[str, ...], list[Row]] = {}
    for members in on_same_cases.values():
        tables = []
        for pair, kind in product(members, KINDS):
            codes, table = pair.codes_as(kind), np.zeros((pair.n_cases, _SIZE[kind], _SIZE[kind]))
            np.add.at(table, (pair.cases, codes[:, 0], codes[:, 1]), pair.answers)
            tables.append(table)
        for (pair, kind), estimates in zip(product(members, KINDS), agreement_by_case(tables), strict=True):
            rows.setdefault(pair.graders, []).extend(pair.rows(model, kind, estimates, OF_TWO))
    return [row for pair in pairs for row in rows[pair.graders]]


def _common_rows(model: str, judged: Judged) -> list[Row]:
    """Return the agreement of all graders on the answers that all judged; nothing for fewer than three."""
    common = _common_answers(judged, range(len(judged.graders)))
    rows: list[Row] = []
    for kind in KINDS if len(judged.graders) > 2 and common.n else ():
        codes = common.codes_as(kind)
        chosen = np.stack([(codes == code).sum(axis=1) for code in range(_SIZE[kind])], axis=1)
        patterns, which = np.unique(chosen, axis=0, return_inverse=True)
        weights = np.zeros((common.n_cases, len(patterns)))
        np.add.at(weights, (common.cases, which.reshape(-1)), common.answers)
        rows += common.rows(model, kind, many_judges_by_case(patterns, weights), OF_MANY)
    return rows


def graders_in_words(graders: Iterable[str]) -> str:
    """Return the graders of a row of ``agreement_rows`` as its label names them."""
    return ", ".join(graders)


def cross_table(judged: Judged, first: str, second: str) -> Ints:
    """Return first's verdict × second's, in the order of ``KINDS_OF_VERDICT``: on how many answers they said so."""
    codes, answers = judged.codes[:, [judged.place(first), judged.place(second)]], judged.answers
    both = (codes != NOT_JUDGED).all(axis=1)
    table = np.zeros((len(KINDS_OF_VERDICT), len(KINDS_OF_VERDICT)), dtype=np.int64)
    np.add.at(table, (codes[both, 0], codes[both, 1]), answers[both])
    return table


@dataclass(frozen=True)
class _CommonAnswers:
    """The answers that all of some graders judged: case, verdicts and number of answers of each count.

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

    def rows(
        self, model: str, kinds: Kinds, estimates: Mapping[str, Estimate], names: Mapping[str, str]
    ) -> Iterator[Row]:
        for name, words in names.items():
            value, (low, high) = estimates[name]
            yield Row(
                {"graders": graders_in_words(self.graders), "model": model, "verdicts": kinds, "measure": words},
                value,
                low,
                high,
                self.n,
                more={"n_cases": self.n_cases, "left_out": self.left_out},
                unit="answers",
                columns=Columns("value", n="n_answers"),
            )


_RIGHT = _CODE["correct"]
_SIZE: dict[Kinds, int] = {"right or not": 2, "all kinds": len(KINDS_OF_VERDICT)}


def _common_answers(judged: Judged, places: Sequence[int]) -> _CommonAnswers:
    codes = judged.codes[:, list(places)]
    has_judged = codes != NOT_JUDGED
    every, some = has_judged.all(axis=1), has_judged.any(axis=1)
    numbers, cases = np.unique(judged.cases[every], return_inverse=True)
    left_out = int(judged.answers[some & ~every].sum())
    graders = tuple(judged.graders[place] for place in places)
    return _CommonAnswers(graders, cases.reshape(-1), codes[every], judged.answers[every], left_out, numbers.tobytes())


def flip_rates(store: Store, selection: Selection | None = None) -> list[Row]:
    """Return how often each grader contradicted itself on the answers of each model of a selection.

    A row is the share of pairs, met more than once under the same prompts, that were judged right at one time and not
    at another. ``judged_again`` says what was met again: the same response, the same diagnosis read out of it, or the
    answer itself. The interval resamples right answers with all their pairs.
    """
    with store.read() as cursor:
        counts = flip_counts(cursor, selection)
    if counts.empty:
        return []
    kind, order = ["grader", "model", "same"], counts["right_answer"].unique()
    wide = counts.pivot(index="right_answer", columns=kind, values=["both", "pairs"]).fillna(0).loc[order]
    both, pairs = (wide[name].sort_index(axis=1).to_numpy() for name in ("both", "pairs"))
    intervals = ratio_intervals(both, pairs)
    sums = counts.groupby(kind, sort=True)[["pairs", "both", "verdicts"]].sum().reset_index()
    flips: Iterable[Any] = sums.itertuples()
    return [
        Row(
            {"grader": flip.grader, "model": flip.model, "judged_again": f"the same {flip.same}"},
            flip.both / flip.pairs,
            low,
            high,
            flip.pairs,
            more={"both_ways": flip.both, "verdicts": flip.verdicts},
            unit="pairs",
            columns=Columns("share", n="pairs"),
        )
        for flip, (low, high) in zip(flips, intervals, strict=True)
    ]
