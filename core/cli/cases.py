"""``import``: brings in cases from files."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from core.cli.data import SHOWN, tell_pictures, tell_rows, tell_specialties
from core.cli.import_release import command_of
from core.cli.options import counting
from core.datasets.importing import import_file
from core.datasets.readers import FORMATS
from core.datasets.select import select
from core.errors import UsageError
from core.frameworks.base import frameworks
from core.measures.history.measures import save_items_of_facts
from core.store.database import Store

app = typer.Typer(no_args_is_help=True, help="Bring in cases from files.", rich_markup_mode=None)
for _release in (one.release for one in frameworks().values() if one.release):
    app.command(_release.name)(command_of(_release))


@app.callback()
def _group() -> None:
    """Bring in cases from files."""


@app.command("cases")
def import_cases(
    path: Annotated[Path, typer.Argument(help="A CSV, JSON, JSON Lines or Parquet file, or a zip of one.")],
    name: Annotated[str | None, typer.Option(help="Name of the data set; the file's name otherwise.")] = None,
    format_: Annotated[
        str, typer.Option("--format", help=f"auto, or one of {', '.join(FORMATS)} (`data formats` tells more).")
    ] = "auto",
    columns: Annotated[
        str | None, typer.Option(help="Which column holds what: vignette=text,options=a+b+c+d,answer=label.")
    ] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave out rows that cannot be used.")] = False,
    source: Annotated[str | None, typer.Option(help="Where the cases are from, instead of the format's.")] = None,
    licence: Annotated[str | None, typer.Option(help="Their licence, instead of the format's.")] = None,
) -> int:
    """Import cases; nothing is imported where a row cannot be used, unless --skip-bad is given."""
    with counting("Reading the file") as show:
        done = import_file(path, name, format_, columns_of(columns), skip_bad, source, licence, show)
    reading = done.reading
    print(f"Imported {len(reading.cases)} cases as data set {done.dataset!r}.")
    print(f"Format: {FORMATS[reading.format].title}; licence: {reading.cases[0].licence or 'not known'}.")
    tell_pictures(reading.cases)
    tell_specialties(reading.cases)
    for reason, count in Counter(reason for _, reason in reading.left_out).most_common(SHOWN):
        print(f"Left out by the format: {count:,} × {reason}.")
    tell_rows(reading.rejected, reading.unit, "Left out")
    tell_rows(reading.remarks, reading.unit, "Remark")
    # print what the linter found; what it found of every case is said once
    together = Counter(finding.message for finding in done.findings)
    often = [message for message, count in together.items() if count > SHOWN]
    for message in often:
        print(f"Note {together[message]:,} cases: {message}.")
    single = [finding for finding in done.findings if finding.message not in often]
    for finding in single[:SHOWN]:
        print(f"Note {finding.case_key}: {finding.message}.")
    if len(single) > SHOWN:
        print(f"Note: {len(single) - SHOWN} more remarks; see `python -m core check cases {done.dataset}`.")
    print(f"Run them with: python -m core run --doctor reference/bayes --cases {done.dataset} --limit 20")
    return 0


@app.command("items")
def import_items(
    path: Annotated[Path, typer.Argument(help="A JSON or JSON Lines file of MediQ, with context and facts.")],
    cases: Annotated[str, typer.Option(help="DATASET, DATASET:SPECIALTY, or DATASET:id,id,…")],
) -> int:
    """Take MediQ's atomic facts for the items that history taking of cases is measured against."""
    stored, unmatched, rejected = save_items_of_facts(Store(), path, select(cases))
    print(f"Items of {stored:,} cases. Their conversations are measured anew: python -m core report history")
    if unmatched or rejected:
        print(f"{unmatched:,} records fit none of these cases; {rejected:,} cannot be read.", file=sys.stderr)
    return 0


def columns_of(text: str | None) -> dict[str, str] | None:
    """Read ``vignette=text,answer=label``; raises ``UsageError`` where it is worded otherwise."""
    if text is None:
        return None
    found: dict[str, str] = {}
    for part in text.split(","):
        ours, equals, theirs = part.partition("=")
        if not equals or not ours.strip() or not theirs.strip() or ours.strip() in found:
            raise UsageError(f"--columns {text!r} is not understood: write vignette=THEIRS,answer=THEIRS, each once.")
        found[ours.strip()] = theirs.strip()
    return found
