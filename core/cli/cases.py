"""``import``: brings in cases from files."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from core.case import Case
from core.cli.import_craftmd import import_craftmd
from core.datasets import imported
from core.datasets.craftmd_csv import Reading, read_craftmd_csv
from core.datasets.jsonl import read_jsonl
from core.datasets.lint import lint
from core.errors import AnamnesisError, UsageError

app = typer.Typer(no_args_is_help=True, help="Bring in cases from files.", rich_markup_mode=None)
app.command("craftmd")(import_craftmd)


@app.callback()
def _group() -> None:
    """Bring in cases from files."""


@app.command("cases")
def import_cases(
    path: Annotated[Path, typer.Argument(help="A CRAFT-MD .csv, or .jsonl in the format of data/cases.")],
    name: Annotated[str | None, typer.Option(help="Name of the data set; the file's name otherwise.")] = None,
    format_: Annotated[str, typer.Option("--format", help="auto, craftmd or jsonl.")] = "auto",
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave out rows that cannot be used.")] = False,
) -> int:
    """Import cases; nothing is imported where a row cannot be used, unless --skip-bad is given."""
    if not path.is_file():
        raise UsageError(f"There is no file {path}.")
    dataset = name or _name_of(path)
    reading = _read(path, format_, dataset)
    _check(reading, path, skip_bad)
    imported.save(dataset, reading.cases)
    _tell(dataset, reading)
    return 0


def _name_of(path: Path) -> str:
    plain = "".join(c if c.isalnum() else "-" for c in path.stem.lower()).strip("-")
    return "craftmd" if path.name == "usmle_and_derm_dataset.csv" else plain[:40] or "cases"


def _read(path: Path, format_: str, dataset: str) -> Reading:
    chosen = {".csv": "craftmd", ".jsonl": "jsonl"}.get(path.suffix.lower(), "") if format_ == "auto" else format_
    if chosen == "craftmd":
        return read_craftmd_csv(path, dataset)
    if chosen == "jsonl":
        return read_jsonl(path, dataset)
    raise UsageError(f"The format of {path.name} is not known: give --format craftmd (CSV) or jsonl.")


def _check(reading: Reading, path: Path, skip_bad: bool) -> None:
    if reading.rejected and not skip_bad:
        line, reason = reading.rejected[0]
        others = len(reading.rejected) - 1
        more = f" ({others} more row{'s' if others > 1 else ''} cannot be used)" if others else ""
        raise AnamnesisError(
            f"{path.name}, line {line}: {reason}{more}. Nothing was imported; correct the file, "
            "or leave such rows out with --skip-bad."
        )
    if not reading.cases:
        raise AnamnesisError(f"{path.name} holds no case.")


def _tell(dataset: str, reading: Reading) -> None:
    print(f"Imported {len(reading.cases)} cases as data set {dataset!r}.")
    for specialty, count in Counter(case.specialty for case in reading.cases).most_common():
        print(f"  {specialty:<30} {count:>5}")
    for line, reason in reading.rejected:
        print(f"Left out line {line}: {reason}.")
    _tell_lint(reading.cases)
    print(f"Run them with: python -m core run --doctor reference/bayes --cases {dataset} --limit 20")


def _tell_lint(cases: list[Case]) -> None:
    found = lint(cases)
    for finding in found[:10]:
        print(f"Note {finding.case_key}: {finding.message}.")
    if len(found) > 10:
        print(f"Note: {len(found) - 10} more remarks; see `python -m core check cases`.")
