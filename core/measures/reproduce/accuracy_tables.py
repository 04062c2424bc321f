"""The tables of means and intervals: mean over trials, then over cases, ± t(n − 1) · sd / √n (Johri et al. 2025)."""

from __future__ import annotations

import math
from collections.abc import Mapping

from core.datasets.published import AccuracyFigure, accuracy_figures
from core.measures.reproduce.cells import Cell, Quantity
from core.measures.reproduce.release import SINGLE_DIAGNOSIS_TABLES, Group, Lacking, ModelScores
from core.measures.reproduce.words import UNIDENTIFIED_SUBSET
from core.stats.intervals import t_interval

QUANTITIES: tuple[Quantity, ...] = ("mean", "ci_low", "ci_high")
UNIDENTIFIED = frozenset({(22, "frq"), (23, "frq")})
"""(table, question type) computed on cases that the paper does not name."""


def accuracy_cells(release: Mapping[str, ModelScores]) -> list[Cell]:
    """Return the cells of all tables of accuracy, in printed order."""
    return [cell for figure in accuracy_figures() for cell in _cells(figure, release)]


def interval_misprint(figure: AccuracyFigure) -> str | None:
    """Say what is wrong with a printed interval: another table's, and without its own mean; ``None`` if nothing is."""
    if figure.ci_low <= figure.mean <= figure.ci_high:
        return None
    twin = next((f for f in accuracy_figures() if f.table != figure.table and _same_interval(f, figure)), None)
    if twin is None:
        return None
    return (
        f"the printed interval {figure.ci_low:.3f} to {figure.ci_high:.3f} is that of table {twin.table} and does not "
        f"contain the printed mean {figure.mean:.3f}"
    )


def values_of(figure: AccuracyFigure, release: Mapping[str, ModelScores]) -> tuple[float, float, float]:
    """Return mean and bounds of a figure; raises ``Lacking`` where the release does not have what it needs."""
    if figure.model not in release:
        raise Lacking(models=[figure.model])
    group = Group(figure.specialty, figure.dataset, figure.table in SINGLE_DIAGNOSIS_TABLES)
    scores = release[figure.model].of((figure.format, figure.question_type), group)
    return (float(scores.mean()), *t_interval(scores))


def _cells(figure: AccuracyFigure, release: Mapping[str, ModelScores]) -> list[Cell]:
    blank = [_blank(figure, quantity) for quantity in QUANTITIES]
    try:
        values = values_of(figure, release)
    except Lacking as lacking:
        return [cell.left_out(str(lacking)) for cell in blank]
    if (figure.table, figure.question_type) in UNIDENTIFIED:
        return [cell.left_out(UNIDENTIFIED_SUBSET) for cell in blank]
    return [_filled(cell, value, figure) for cell, value in zip(blank, values, strict=True)]


def _filled(cell: Cell, value: float, figure: AccuracyFigure) -> Cell:
    if math.isnan(value):
        return cell.left_out("an interval needs at least two cases")
    return cell.with_value(value, None if cell.quantity == "mean" else interval_misprint(figure))


def _blank(figure: AccuracyFigure, quantity: Quantity) -> Cell:
    printed: float = getattr(figure, quantity)
    return Cell(
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


def _same_interval(one: AccuracyFigure, other: AccuracyFigure) -> bool:
    return (one.scope, one.model, one.format, one.specialty, one.dataset, one.ci_low, one.ci_high) == (
        other.scope, other.model, other.format, other.specialty, other.dataset, other.ci_low, other.ci_high
    )  # fmt: skip
