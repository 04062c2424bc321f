"""``report history``: how well histories were taken, by doctor. What is not measured yet is measured first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any, Literal

import pandas as pd
import typer

from core.cli.comparisons import Models, Printed, Rule
from core.cli.folded import folded_store
from core.cli.report_failures import Row, counting, print_rows, selection_of
from core.errors import AnamnesisError
from core.measures.accuracy import Group
from core.measures.history.figures import (
    MEASURES,
    Figure,
    MeasureRow,
    accuracy_counted,
    curve_points,
    group_rows,
    measure_rows,
    order_rows,
    read_doctors,
)
from core.measures.history.measures import HISTORY
from core.measures.missing import measure_missing

Part = Literal["measures", "curves", "order", "groups"]


def report_history(
    run: Annotated[list[str] | None, typer.Option(help="Only this run (again for more).")] = None,
    models: Models = None,
    by: Annotated[Group | None, typer.Option(help="Split by specialty or dataset.")] = None,
    part: Annotated[
        Part, typer.Option(help="Measures, their curves over the dialogue, order of inquiry, groups by items.")
    ] = "measures",
    mcq_rule: Rule = "mcq_loose", format_: Printed = "table",
) -> int:  # fmt: skip
    """Report ROUGE-1 against the items of cases, turns, lengths, repetition, the patient's virtues, and accuracy."""
    store = folded_store()
    wanted = replace(selection_of(store, run, models), mcq_rule=mcq_rule)
    with counting("conversations") as show:
        measure_missing(store, HISTORY, wanted, progress=show)
    table = read_doctors(store, wanted)
    rows = [
        {"cases": case_set, **({by: group} if by else {}), **row}
        for case_set, group, members in _parts(table, by)
        for row in _rows(members, part)
    ]
    if not rows:
        raise AnamnesisError(
            "There is no conversation to report: run a campaign, such as `python -m core run --protocol consultation "
            "--doctor reference/bayes`, or import the authors' release."
        )
    print_rows(rows, format_)
    return 0


def _parts(table: pd.DataFrame, by: Group | None) -> Iterator[tuple[str, str, pd.DataFrame]]:
    for case_set, members in table.groupby("case_set", sort=True):
        if by is None:
            yield str(case_set), "", members
        else:
            yield from ((str(case_set), str(group), found) for group, found in members.groupby(by, sort=True))


def _rows(table: pd.DataFrame, part: Part) -> list[Row]:
    if part == "measures":
        return [_measure_row(accuracy_counted(row, table)) for row in measure_rows(table, MEASURES)]
    if part == "curves":
        points = curve_points(table)
        return [{"model": p.model, "measure": p.measure, "per_cent": p.share, **_figure(p.figure)} for p in points]
    if part == "order":
        return [
            {"model": r.model, "topic": r.topic, **_figure(r.position), **_figure(r.told, "told_")}
            for r in order_rows(table)
        ]  # fmt: skip
    return [
        {"model": r.model, "group": r.group.number + 1, "least_items": r.group.least, "most_items": r.group.most,
         "measure": r.measure, **_figure(r.figure)}
        for r in group_rows(table, MEASURES)
    ]  # fmt: skip


def _measure_row(row: MeasureRow) -> Row:
    counts = {"n_conversations": row.n_conversations, "n_without": row.n_without, "n_excluded": row.n_excluded}
    return {"model": row.model, "measure": row.measure, **_figure(row.figure), **counts}


def _figure(figure: Figure, head: str = "") -> dict[str, Any]:
    return {f"{head}{name}": value for name, value in vars(figure).items()}
