"""``reproduce``: compares the published tables with the imported release, cell by cell."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import asdict
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.table import Table

from core.measures.reproduce.release import STATUSES, TITLES, PrintedNumber, Reproduction, TableName, count
from core.measures.reproduce.remarks import reproduce as recompute
from core.store.database import Store

_WORDS = {"match": "Match", "misprint": "Misprint", "differs": "Differ", "not_attempted": "Not attempted"}
_SHOWN_CELLS = 20
_SHOWN_EVIDENCE = 4


def reproduce(
    format_: Annotated[Literal["table", "json"], typer.Option("--format", help="How to print it.")] = "table",
) -> int:
    """Recompute the paper's tables from the imported release; fails if a cell differs and is no listed misprint."""
    result = recompute(Store())
    if format_ == "json":
        document = {
            "paper": "Johri et al., Nature Medicine 2025, doi 10.1038/s41591-024-03328-5",
            "succeeded": result.succeeded,
            "summary": result.counts,
            "models": {label: asdict(data) for label, data in result.models.items()},
            "tables": [{"table": table, "title": title, **counts} for table, title, counts in _tables(result)],
            "misprints": [asdict(remark) for remark in result.remarks if remark.kind == "misprint"],
            "remarks": [asdict(remark) for remark in result.remarks if remark.kind != "misprint"],
            "cells": [asdict(cell) for cell in result.cells],
        }
        print(json.dumps(document, indent=1))
    else:
        console = Console(width=None if sys.stdout.isatty() else 160, highlight=False, soft_wrap=True)
        for label, data in result.models.items():
            missing = f"; {len(data.missing):,} missing, first {data.missing[0]}" if data.missing else ""
            console.print(f"{label}: {data.cases:,} cases{missing}")
        table = Table("", "Table", *(_WORDS[status] for status in STATUSES), box=None, pad_edge=False)
        for number, title, counts in _tables(result):
            table.add_row(str(number), title, *(f"{n:,}" if n else "" for n in counts.values()))
        table.add_row("", "All", *(f"{n:,}" for n in result.counts.values()))
        console.print(table)
        for remark in [r for r in result.remarks if r.kind != "note"]:
            console.print(f"\nTable {remark.table}, {remark.kind}: {remark.title}.")
            for sentence in remark.evidence[:_SHOWN_EVIDENCE]:
                console.print(f"  {sentence}")
            if len(remark.evidence) > _SHOWN_EVIDENCE:
                console.print(f"  {len(remark.evidence) - _SHOWN_EVIDENCE} more lines of evidence: --format json")
        console.print("\nNotes:")
        for remark in [r for r in result.remarks if r.kind == "note"]:
            console.print(f"  table {remark.table}: {' '.join(remark.evidence)}")
        differing = [cell for cell in result.cells if cell.status == "differs"]
        if differing:
            console.print(f"\n{len(differing):,} cells differ:")
        for cell in differing[:_SHOWN_CELLS]:
            console.print(f"  {_place_in_table(cell)}: printed {cell.printed}, recomputed {cell.recomputed}")
        if len(differing) > _SHOWN_CELLS:
            console.print(f"  {len(differing) - _SHOWN_CELLS:,} more: --format json")
        reasons = Counter((c.table, c.reason) for c in result.cells if c.status == "not_attempted")
        if reasons:
            console.print("\nNot attempted:")
        for (of_table, reason), cells in reasons.items():
            console.print(f"  {_name(of_table)}, {cells:,} cells: {reason}")
    return 0 if result.succeeded else 1


def _tables(result: Reproduction) -> list[tuple[TableName, str, dict[str, int]]]:
    by_table: dict[TableName, list[PrintedNumber]] = {}
    for cell in result.cells:
        by_table.setdefault(cell.table, []).append(cell)
    return [(n, TITLES[n], {str(k): v for k, v in count(c).items()}) for n, c in by_table.items()]


def _name(table: TableName) -> str:
    return f"table {table}" if isinstance(table, int) else table


def _place_in_table(cell: PrintedNumber) -> str:
    arms = f"{cell.arm_a} against {cell.arm_b}" if cell.arm_a else cell.format
    quantity = cell.figure or cell.quantity
    parts = (cell.model, cell.question_type, arms, cell.specialty, cell.dataset, quantity)
    return f"{_name(cell.table)} " + " ".join(part for part in parts if part)
