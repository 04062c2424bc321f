"""Options that several commands share, how rows are printed (as a table, CSV or JSON), and what a job will take."""

from __future__ import annotations

import csv
import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from core.jobs.estimate import Estimate
from core.models.prices import LOCAL
from core.models.registry import load_registry
from core.stats.corrections import format_p, stars
from core.words import money

Runs = Annotated[list[str] | None, typer.Option(help="Only this run (again for more); live ones too.")]
Models = Annotated[str | None, typer.Option(help="Only these models, with commas.")]
Format = Literal["table", "csv", "json"]
Printed = Annotated[Format, typer.Option("--format", help="How to print it.")]
Row = dict[str, Any]


def model_names(models: str | None) -> list[str] | None:
    """Return the names under which models may be stored: as given, and what an alias stands for."""
    if models is None:
        return None
    aliases = {alias.lower(): name for alias, name in load_registry().aliases.items()}
    given = [name.strip() for name in models.split(",")]
    return [*given, *(aliases[name.lower()] for name in given if name.lower() in aliases)]


@contextmanager
def counting(what: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a function that shows a bar on stderr, and nothing where that is no terminal."""
    if not sys.stderr.isatty():
        yield lambda done, planned: None
        return
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, planned: bar.update(task, total=planned, completed=done)


def print_estimate(size: Estimate, *, dry_run: bool) -> None:
    """Print what a job will take: on stderr, or on stdout where nothing else was asked for."""
    lines = [f"{', '.join(f'{number:,} {what}' for what, number in size.counts.items())}.", size.in_words]
    for role in size.roles:
        price = "price unknown" if role.cost_usd is None else LOCAL if role.source == LOCAL else money(role.cost_usd)
        lines.append(
            f"  {role.role:<11} {role.model:<40} {role.calls:>8,} calls "
            f"{role.prompt_tokens:>12,} + {role.completion_tokens:,} tokens  {price}"
        )
    print("\n".join(filter(None, [*lines, size.prices])), file=sys.stdout if dry_run else sys.stderr, flush=True)


def print_rows(rows: Sequence[Row], format_: Format, decimals: str = ".6g") -> None:
    """Print rows; what is not a number is a dash in a table, empty in CSV and null in JSON."""
    nothing = "–" if format_ == "table" else None
    shown = [{k: nothing if _missing(v) else v for k, v in row.items()} for row in rows]
    if format_ == "json":
        print(json.dumps(shown, indent=1))
    elif format_ == "csv":
        writer = csv.DictWriter(sys.stdout, list(shown[0]), lineterminator="\n")
        writer.writeheader()
        for row in shown:
            writer.writerow({k: format(v, decimals) if isinstance(v, float) else v for k, v in row.items()})
    else:
        table = Table(*[name.replace("_", " ") for name in shown[0]], box=None, pad_edge=False)
        for row in shown:
            table.add_row(*[_cell(name, value) for name, value in row.items()])
        # a pipe gets every column whole; only a terminal is fitted
        Console(width=None if sys.stdout.isatty() else 240).print(table)


def _missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _cell(name: str, value: Any) -> str:
    if name in ("p", "p_adjusted") and isinstance(value, float):
        return f"{format_p(value)} {stars(value)}" if name == "p_adjusted" else format_p(value)
    return f"{value:.3f}" if isinstance(value, float) else str(value)
