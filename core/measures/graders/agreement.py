"""Agreement of graders on the same free responses, by pairs and all together, and their contradictions.

Percent agreement, Cohen's kappa (Fleiss' for three or more graders) and Gwet's AC1, on verdicts as right or not right
and as all kinds that count. Intervals resample cases with all their answers, because answers to one case are
correlated. A grader can contradict itself on equal texts of several answers, or on one answer judged again.
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
from core.stats.agreement import Coefficient, agreement_by_case, many_judges_by_case
from core.stats.ratios import ratio_intervals
from core.store.database import Store
from core.store.queries.grades_by_grader import StoredGrader, VerdictCount, flip_counts, stored_graders, verdict_counts
from core.store.selection import Selection

NOT_JUDGED = -1
"""Code of an answer without a verdict of a grader, or with a verdict that does not count."""
KINDS_OF_VERDICT = tuple(verdict for verdict in COUNTED if verdict not in ("refused_in_words", "empty"))
"""Kinds of verdicts in comparisons. A refusal in words counts as no diagnosis, because people do not distinguish them.

Blank answers are not sent to graders.
"""
_CODE: dict[Verdict, int] = {verdict: code for code, verdict in enumerate(KINDS_OF_VERDICT)}
_CODE["refused_in_words"] = _CODE["no_diagnosis"]


@dataclass(frozen=True)
class VerdictTable:
    """The newest verdicts of ``graders`` on the same answers; ``counts`` have the verdicts in the order of graders."""

    graders: tuple[str, ...]
    counts: Sequence[VerdictCount]

    @cached_property
    def cases(self) -> NDArray[np.int64]:
        numbers: dict[str, int] = {}
        return np.array([numbers.setdefault(count.case_key, len(numbers)) for count in self.counts], dtype=np.int64)

    @cached_property
    def codes(self) -> NDArray[np.int64]:
        """Count × grader: the index of the verdict in ``KINDS_OF_VERDICT``, or ``NOT_JUDGED``."""
        rows = [[_CODE.get(v, NOT_JUDGED) if v else NOT_JUDGED for v in count.verdicts] for count in self.counts]
        return np.array(rows, dtype=np.int64).reshape(len(rows), len(self.graders))

    @cached_property
    def answers(self) -> NDArray[np.int64]:
        return np.array([count.n for count in self.counts], dtype=np.int64)

    def of(self, graders: Sequence[str]) -> VerdictTable:
        """Return the verdicts of these graders only, in this order; raise ``UsageError`` if a grader is unknown."""
        places = [self.place(name) for name in graders]
        if tuple(graders) == self.graders:
            return self
        counts = [count._replace(verdicts=tuple(count.verdicts[p] for p in places)) for count in self.counts]
        return VerdictTable(tuple(graders), counts)

    def by_model(self) -> dict[str, VerdictTable]:
        """Return condition → its answers; answers of several models or data sets are never pooled."""
        counts: dict[str, list[VerdictCount]] = {}
        for count in self.counts:
            counts.setdefault(count.model, []).append(count)
        return {model: VerdictTable(self.graders, members) for model, members in counts.items()}

    def place(self, name: str) -> int:
        """Return the index of a grader; raise ``UsageError`` if it has judged nothing."""
        if name not in self.graders:
            graders = ", ".join(self.graders) or "none"
            raise UsageError(
                f"No grader {name!r} has judged these answers, only {graders}: grade them with `job regrade`."
            )
        return self.graders.index(name)


def read_graders(store: Store, selection: Selection | None = None) -> list[StoredGrader]:
    """Return the graders of free responses of a selection (all campaigns and releases by default)."""
    with store.read() as cursor:
        return stored_graders(cursor, selection)


def read_judged(store: Store, graders: Sequence[str] | None = None, selection: Selection | None = None) -> VerdictTable:
    """Return the newest verdict of each grader (all by default) on every free response of a selection."""
    if graders is None:
        graders = [stored.grader for stored in read_graders(store, selection)]
    with store.read() as cursor:
        return VerdictTable(tuple(graders), verdict_counts(cursor, graders, selection))


Kinds = Literal["right or not", "all kinds"]
KINDS: tuple[Kinds, ...] = ("right or not", "all kinds")
OF_TWO = {"percent_agreement": "percent agreement", "cohen_kappa": "Cohen's kappa", "gwet_ac": "Gwet's AC1"}
OF_MANY = {"percent_agreement": "percent agreement", "fleiss_kappa": "Fleiss' kappa", "gwet_ac": "Gwet's AC1"}
"""Coefficient of ``core.stats.agreement`` → its name in words."""
Ints = NDArray[np.int64]


def agreement_rows(judged: VerdictTable) -> list[Row]:
    """Return the agreement of graders on the answers of each model: of every pair with common answers, then of all."""
    rows: list[Row] = []
    for model, answers in judged.by_model().items():
        rows += [*_pair_rows(model, answers), *_common_rows(model, answers)]
    return rows


def _pair_rows(model: str, judged: VerdictTable) -> list[Row]:
    pairs = [
        pair for places in combinations(range(len(judged.graders)), 2) if (pair := _common_answers(judged, places)).n
    ]
    on_same_cases: dict[bytes, list[_CommonAnswers]] = {}  # pairs with equal cases share their resamples
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


def _common_rows(model: str, judged: VerdictTable) -> list[Row]:
    """Return the agreement of all graders on the answers that all have judged; empty for fewer than three graders."""
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
    return ", ".join(graders)


def cross_table(judged: VerdictTable, first: str, second: str) -> Ints:
    """Return numbers of answers by the first grader's verdict × the second's, in the order of ``KINDS_OF_VERDICT``."""
    codes, answers = judged.codes[:, [judged.place(first), judged.place(second)]], judged.answers
    by_both = (codes != NOT_JUDGED).all(axis=1)
    table = np.zeros((len(KINDS_OF_VERDICT), len(KINDS_OF_VERDICT)), dtype=np.int64)
    np.add.at(table, (codes[by_both, 0], codes[by_both, 1]), answers[by_both])
    return table


@dataclass(frozen=True)
class _CommonAnswers:
    """The answers that all of these graders judged: case, verdicts and number of answers of each count.

    ``case_set`` identifies the cases; ``left_out`` is the number of answers that only some of the graders judged.
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
        """Return the verdicts as indices of all kinds, or as 0 for right and 1 for not right."""
        return self.codes if kinds == "all kinds" else (self.codes != _RIGHT).astype(np.int64)

    def rows(
        self, model: str, kinds: Kinds, estimates: Mapping[str, Coefficient], names: Mapping[str, str]
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


def _common_answers(judged: VerdictTable, places: Sequence[int]) -> _CommonAnswers:
    codes = judged.codes[:, list(places)]
    has_judged = codes != NOT_JUDGED
    every, some = has_judged.all(axis=1), has_judged.any(axis=1)
    numbers, cases = np.unique(judged.cases[every], return_inverse=True)
    left_out = int(judged.answers[some & ~every].sum())
    graders = tuple(judged.graders[place] for place in places)
    return _CommonAnswers(graders, cases.reshape(-1), codes[every], judged.answers[every], left_out, numbers.tobytes())


def flip_rates(store: Store, selection: Selection | None = None) -> list[Row]:
    """Return how often each grader contradicted itself on the answers of each model of a selection.

    A row is the share of pairs, judged more than once under the same prompts, that were right in one judgement and not
    right in another. ``judged_again`` is what was judged again: the same response, the same diagnosis extracted from
    it, or the same answer. The interval resamples right answers with all their pairs.
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
