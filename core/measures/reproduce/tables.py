"""The recomputed tables: means with intervals, and p-values.

Means over trials, then over cases, ± t(n − 1) · sd / √n; the paper's bootstrap test digit for digit (Johri et al.
2025), and Benjamini–Hochberg over each family: the paper names Holm–Bonferroni, but its tables contain
Benjamini–Hochberg. Exact ties leave a p-value undetermined: rounding errors decide whether a resample that ties counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike

from core.callbacks import ProgressCallback
from core.datasets.published import PART_OF_CASES, AccuracyFigure, PublishedTest, accuracy_figures, published_tests
from core.events import Format, QuestionType
from core.frameworks.base import Arm
from core.measures.reproduce.release import (
    EXPERT_TABLE,
    EXPERTS,
    IMAGE_MODELS,
    PAPER,
    SINGLE_DIAGNOSIS_TABLES,
    UNIDENTIFIED_SUBSET,
    Floats,
    MissingData,
    ModelScores,
    PrintedNumber,
    PrintedQuantity,
    TableGroup,
    lacks_family,
    lacks_models,
)
from core.stats.corrections import adjusted
from core.stats.intervals import t_interval
from core.stats.paper import DIGITS, RESAMPLES, paper_p_values, resamples_of

_NEAR = 1e-9
_BLOCK = 500


class Band(NamedTuple):
    """The p-value if no tie counts, and if every tie counts."""

    low: float
    high: float


def tie_band(first: ArrayLike, second: ArrayLike) -> Band:
    """Return the smallest and the largest p-value that the paper's resamples allow, rounded as printed."""
    differences = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    observed = differences.mean()
    counts = resamples_of(differences.size).counts
    blocks = (counts[start : start + _BLOCK].astype(np.float64) for start in range(0, RESAMPLES, _BLOCK))
    means = np.concatenate([block @ differences for block in blocks]) / differences.size
    excess = np.abs(means - observed) - abs(observed)
    return Band(*(round((int(np.sum(excess > bound)) + 1) / (RESAMPLES + 1), DIGITS) for bound in (_NEAR, -_NEAR)))


_BY_QUESTION_TYPE = frozenset({20, 21, 23})
"""Tables whose multiple choice and free response are adjusted separately."""
_MONITORING_TABLE = 23
_OTHER_VERSION = "mistral_v2_7b"
_FORMAT_TABLES = {"mcq": 2, "frq": 5}


def models_of(test: PublishedTest) -> tuple[str, ...]:
    if test.model:
        return (test.model,)
    return (test.arm_a, test.arm_b) if test.table == EXPERT_TABLE else IMAGE_MODELS


def pair_of(test: PublishedTest, release: Mapping[str, ModelScores]) -> tuple[Floats, Floats]:
    """Return the scores of a test's arms, case by case; raises ``MissingData`` if they are missing."""
    if test.table == EXPERT_TABLE:
        raise MissingData(EXPERTS)
    absent = [model for model in models_of(test) if model not in release]
    if absent or test.model is None:
        raise MissingData(models=absent)
    group = TableGroup(test.specialty, test.dataset, test.table in SINGLE_DIAGNOSIS_TABLES)
    first, second = (release[test.model].of(_arm(test, name), group) for name in (test.arm_a, test.arm_b))
    return first, second


def family_of(test: PublishedTest) -> list[PublishedTest]:
    """Return the tests that are adjusted together with a test, including the test itself.

    All rows of its table; in tables 20, 21 and 23 those of its question type, and in 23 also those of the other version
    of the model. Inferred from the release: the paper does not say.
    """
    family = [t for t in published_tests(PAPER) if t.table == test.table]
    if test.table in _BY_QUESTION_TYPE:
        family = [t for t in family if t.question_type == test.question_type]
    if test.table == _MONITORING_TABLE:
        table = _FORMAT_TABLES[test.question_type or ""]
        family += [t for t in published_tests(PAPER) if t.table == table and t.model == _OTHER_VERSION]
    return family


def _arm(test: PublishedTest, name: str) -> Arm:
    """Return the arm of a name in a table: a format, or in table 3 question type and format."""
    if test.question_type:
        return cast(Format, name), cast(QuestionType, test.question_type)
    question_type, _, format_ = name.partition("_")
    return cast(Format, format_), cast(QuestionType, question_type)


QUANTITIES: tuple[PrintedQuantity, ...] = ("mean", "ci_low", "ci_high")
UNIDENTIFIED = frozenset(PART_OF_CASES)
"""(table, question type) of figures on cases that the paper does not name."""


def accuracy_cells(release: Mapping[str, ModelScores]) -> list[PrintedNumber]:
    """Return the cells of all tables of accuracy, in printed order."""
    cells: list[PrintedNumber] = []
    for figure in accuracy_figures(PAPER):
        blank = [_blank(figure, quantity) for quantity in QUANTITIES]
        try:
            values = values_of(figure, release)
            if (figure.table, figure.question_type) in UNIDENTIFIED:
                raise MissingData(UNIDENTIFIED_SUBSET)
        except MissingData as reason:
            cells += [cell.left_out(str(reason)) for cell in blank]
            continue
        for cell, value in zip(blank, values, strict=True):
            misprint = None if cell.quantity == "mean" else interval_misprint(figure)
            if math.isnan(value):
                cells.append(cell.left_out("an interval needs at least two cases"))
            else:
                cells.append(cell.with_value(value, misprint))
    return cells


def interval_misprint(figure: AccuracyFigure) -> str | None:
    """Return a sentence if a printed interval is another table's and does not contain its mean, else ``None``."""
    if figure.ci_low <= figure.mean <= figure.ci_high:
        return None
    twin = next((f for f in accuracy_figures(PAPER) if f.table != figure.table and _same_interval(f, figure)), None)
    if twin is None:
        return None
    return (
        f"the printed interval {figure.ci_low:.3f} to {figure.ci_high:.3f} is that of table {twin.table} and does not "
        f"contain the printed mean {figure.mean:.3f}"
    )


def values_of(figure: AccuracyFigure, release: Mapping[str, ModelScores]) -> tuple[float, float, float]:
    """Return mean and bounds of a figure; raises ``MissingData`` if the release lacks the data."""
    if figure.model not in release:
        raise MissingData(models=[figure.model])
    group = TableGroup(figure.specialty, figure.dataset, figure.table in SINGLE_DIAGNOSIS_TABLES)
    scores = release[figure.model].of((figure.format, figure.question_type), group)
    return (float(scores.mean()), *t_interval(scores))


def _blank(figure: AccuracyFigure, quantity: PrintedQuantity) -> PrintedNumber:
    printed: float = getattr(figure, quantity)
    return PrintedNumber(
        table=figure.table,
        quantity=quantity,
        model=figure.model,
        question_type=figure.question_type,
        format=figure.format,
        specialty=figure.specialty,
        dataset=figure.dataset,
        arm_a=None,
        arm_b=None,
        published=printed,
        printed=f"{printed:.3f}",
    )


def _same_interval(first: AccuracyFigure, second: AccuracyFigure) -> bool:
    names = ("scope", "model", "format", "specialty", "dataset", "ci_low", "ci_high")
    return all(getattr(first, name) == getattr(second, name) for name in names)


COPIED_TABLE, SOURCE_TABLE = 15, 11
TIES_OPEN = frozenset({23})
"""Tables whose order of arithmetic is unknown, so that a p-value with exact ties is undetermined."""


@dataclass(frozen=True)
class Recomputed:
    """The raw p-values, and the reasons why a test has no p-value or one that cannot be compared."""

    p: dict[PublishedTest, float]
    missing: dict[PublishedTest, MissingData]


def recompute(
    release: Mapping[str, ModelScores],
    progress: ProgressCallback = lambda done, planned: None,
    of_experts: Mapping[PublishedTest, float] | None = None,
) -> Recomputed:
    """Compute the p-values of all tests; ``progress`` counts tests.

    ``of_experts`` are the p-values of McNemar's test on the experts' judgements, if these are imported.
    """
    pairs, missing = {}, {}
    for test in published_tests(PAPER):
        if test in (of_experts or {}):
            continue
        try:
            pair = pair_of(test, release)
            if (test.table, test.question_type) in UNIDENTIFIED:
                raise MissingData(UNIDENTIFIED_SUBSET)
            pairs[test] = pair
        except MissingData as reason:
            missing[test] = reason
    p_values = dict(zip(pairs, paper_p_values(list(pairs.values()), progress), strict=True))
    for test in [t for t in p_values if t.table in TIES_OPEN and p_values[t] != t.p_value]:
        band = tie_band(*pairs[test])
        if test.p_value is not None and band.low <= test.p_value <= band.high:
            missing[test] = MissingData(
                f"exact ties between resamples leave {band.low:.4f} to {band.high:.4f} open ({p_values[test]:.4f} in "
                f"the order of arithmetic of the other tables), and the order used for table {test.table} is not known"
            )
    return Recomputed({**p_values, **(of_experts or {})}, missing)


def adjusted_p(recomputed: Recomputed) -> dict[PublishedTest, float | MissingData]:
    """Return the adjusted p-value of every test that has one, or the reason why its family is incomplete."""
    result: dict[PublishedTest, float | MissingData] = {}
    for test in published_tests(PAPER):
        if test.p_adjusted is None or test in result:
            continue
        family = family_of(test)
        absent = [t for t in family if t not in recomputed.p]
        if absent:
            models = tuple(dict.fromkeys(model for t in absent for model in recomputed.missing[t].models))
            why = lacks_models(models) if models else str(recomputed.missing[absent[0]])
            values: list[float | MissingData] = [MissingData(lacks_family(len(family), why), models)] * len(family)
        else:
            values = [*adjusted([recomputed.p[t] for t in family], "bh")]
        result |= {t: p for t, p in zip(family, values, strict=True) if t.table == test.table}
    return result


def p_cells(recomputed: Recomputed) -> list[PrintedNumber]:
    """Return the cells of all tables of tests, in printed order: p-value, then adjusted p-value if there is one."""
    adjusted, copied = adjusted_p(recomputed), copied_table(recomputed)
    cells = []
    for test in published_tests(PAPER):
        values: dict[PrintedQuantity, float | MissingData] = {
            "p_value": recomputed.missing.get(test) or recomputed.p[test]
        }
        if test.p_adjusted is not None:
            values["p_adjusted"] = recomputed.missing.get(test) or adjusted[test]
        for quantity, p in values.items():
            raw = quantity == "p_value"
            published = test.p_value if raw else test.p_adjusted
            blank = PrintedNumber(
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
            if isinstance(p, MissingData):
                cells.append(blank.left_out(str(p)))
            else:
                cells.append(blank.with_value(p, copied if test.table == COPIED_TABLE else None))
    return cells


def copied_table(recomputed: Recomputed) -> str | None:
    """Return a sentence saying that table 15 repeats table 11; ``None`` unless all rows do and the data differ."""
    differing = [t for t, p in recomputed.p.items() if t.table == COPIED_TABLE and p != t.p_value]
    if not differing or any(twin_of(t) is None for t in published_tests(PAPER) if t.table == COPIED_TABLE):
        return None
    return f"table {COPIED_TABLE} repeats table {SOURCE_TABLE} row by row; its cases give other p-values"


@lru_cache
def _printed(table: int) -> dict[tuple[object, ...], PublishedTest]:
    return {_test_key(t): t for t in published_tests(PAPER) if t.table == table}


def twin_of(test: PublishedTest) -> PublishedTest | None:
    """Return the row of table 11 that a row of table 15 repeats: same labels, same numbers."""
    twin = _printed(SOURCE_TABLE).get(_test_key(test))
    same = twin is not None and (twin.p_value, twin.p_adjusted) == (test.p_value, test.p_adjusted)
    return twin if same else None


def _test_key(test: PublishedTest) -> tuple[object, ...]:
    return test.model, test.question_type, test.specialty, test.dataset, test.arm_a, test.arm_b
