"""The tables of p-values: the paper's bootstrap test digit for digit, and Benjamini–Hochberg over each family.

The paper names Holm–Bonferroni; its tables hold Benjamini–Hochberg.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from core.datasets.published import PublishedTest, published_tests
from core.measures.reproduce.accuracy_tables import UNIDENTIFIED
from core.measures.reproduce.cells import Cell, Quantity
from core.measures.reproduce.printed_tests import family_of, pair_of
from core.measures.reproduce.release import Lacking, ModelScores
from core.measures.reproduce.ties import Band, tie_band
from core.measures.reproduce.words import UNIDENTIFIED_SUBSET, lacks_family, lacks_models
from core.stats.corrections import benjamini_hochberg
from core.stats.paper import paper_p_values

COPIED_TABLE, SOURCE_TABLE = 15, 11
TIES_OPEN = frozenset({23})
"""Tables whose order of arithmetic is not identified, so that a p-value with exact ties is not determined."""


@dataclass(frozen=True)
class Recomputed:
    """The raw p-values that could be computed, and why tests have none or one that cannot be compared."""

    p: dict[PublishedTest, float]
    lacking: dict[PublishedTest, Lacking]


def recompute(release: Mapping[str, ModelScores]) -> Recomputed:
    """Compute every test that the release has the data for."""
    pairs, lacking = {}, {}
    for test in published_tests():
        try:
            pair = pair_of(test, release)
            if (test.table, test.question_type) in UNIDENTIFIED:
                raise Lacking(UNIDENTIFIED_SUBSET)
            pairs[test] = pair
        except Lacking as reason:
            lacking[test] = reason
    found = dict(zip(pairs, paper_p_values(list(pairs.values())), strict=True))
    for test in [t for t in found if t.table in TIES_OPEN and found[t] != t.p_value]:
        band = tie_band(*pairs[test])
        if test.p_value is not None and band.low <= test.p_value <= band.high:
            lacking[test] = Lacking(_undecided(test, found[test], band))
    return Recomputed(found, lacking)


def _undecided(test: PublishedTest, p: float, band: Band) -> str:
    return (
        f"exact ties between resamples leave {band.low:.4f} to {band.high:.4f} open ({p:.4f} in the order of "
        f"arithmetic of the other tables), and the order used for table {test.table} is not known"
    )


def p_cells(recomputed: Recomputed) -> list[Cell]:
    """Return the cells of all tables of tests, in printed order: p-value, then adjusted p-value where there is one."""
    adjusted = _Adjusted(recomputed)
    copied = copied_table(recomputed)
    cells = []
    for test in published_tests():
        wrong = copied if test.table == COPIED_TABLE else None
        cells.append(_raw_cell(test, recomputed, wrong))
        if test.p_adjusted is not None:
            cells.append(_adjusted_cell(test, recomputed, adjusted, wrong))
    return cells


def copied_table(recomputed: Recomputed) -> str | None:
    """Say that table 15 is table 11 once more; ``None`` unless every row is, and the data give something else."""
    differing = [t for t, p in recomputed.p.items() if t.table == COPIED_TABLE and p != t.p_value]
    if not differing or any(twin_of(t) is None for t in published_tests() if t.table == COPIED_TABLE):
        return None
    return f"table {COPIED_TABLE} repeats table {SOURCE_TABLE} row by row; its own cases give other p-values"


@lru_cache
def _printed(table: int) -> dict[tuple[object, ...], PublishedTest]:
    return {_row(t): t for t in published_tests() if t.table == table}


def twin_of(test: PublishedTest) -> PublishedTest | None:
    """Return the row of table 11 that a row of table 15 repeats: same place, same numbers."""
    twin = _printed(SOURCE_TABLE).get(_row(test))
    same = twin is not None and (twin.p_value, twin.p_adjusted) == (test.p_value, test.p_adjusted)
    return twin if same else None


def _row(test: PublishedTest) -> tuple[object, ...]:
    return test.model, test.question_type, test.specialty, test.dataset, test.arm_a, test.arm_b


def _raw_cell(test: PublishedTest, recomputed: Recomputed, wrong: str | None) -> Cell:
    blank = _blank(test, "p_value")
    if test in recomputed.lacking:
        return blank.left_out(str(recomputed.lacking[test]))
    return blank.with_value(recomputed.p[test], wrong)


def _adjusted_cell(test: PublishedTest, recomputed: Recomputed, adjusted: _Adjusted, wrong: str | None) -> Cell:
    blank = _blank(test, "p_adjusted")
    if test in recomputed.lacking:
        return blank.left_out(str(recomputed.lacking[test]))
    try:
        return blank.with_value(adjusted.of(test), wrong)
    except Lacking as lacking:
        return blank.left_out(str(lacking))


class _Adjusted:
    """Adjusted p-values, each family computed once."""

    def __init__(self, recomputed: Recomputed) -> None:
        self._p, self._reasons = recomputed.p, recomputed.lacking
        self._known: dict[PublishedTest, float] = {}
        self._lacking: dict[PublishedTest, Lacking] = {}

    def of(self, test: PublishedTest) -> float:
        """Return a test's adjusted p-value; raises ``Lacking`` where its family is not complete."""
        if test not in self._known and test not in self._lacking:
            self._adjust(test)
        if test in self._lacking:
            raise self._lacking[test]
        return self._known[test]

    def _adjust(self, test: PublishedTest) -> None:
        family = family_of(test)
        absent = [t for t in family if t not in self._p]
        members = [t for t in family if t.table == test.table]
        if absent:
            models = tuple(dict.fromkeys(model for t in absent for model in self._reasons[t].models))
            why = lacks_models(models) if models else str(self._reasons[absent[0]])
            self._lacking.update(dict.fromkeys(members, Lacking(lacks_family(len(family), why), models)))
            return
        values = benjamini_hochberg([self._p[t] for t in family])
        self._known.update({t: p for t, p in zip(family, values, strict=True) if t.table == test.table})


def _blank(test: PublishedTest, quantity: Quantity) -> Cell:
    raw = quantity == "p_value"
    published = test.p_value if raw else test.p_adjusted
    return Cell(
        table=test.table,
        quantity=quantity,
        model=test.model,
        question_type=test.question_type,
        format=None,
        specialty=test.specialty,
        dataset=test.dataset,
        arm_a=test.arm_a,
        arm_b=test.arm_b,
        published=published,
        printed=test.p_text if raw else f"{published:.4f}",
    )
