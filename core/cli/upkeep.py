"""``verify``, ``backup`` and ``restore``: check that nothing is missing, and back the data up."""

from __future__ import annotations

import sys
import time
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from core.store.database import Store
from core.store.upkeep import backup as write_backup
from core.store.upkeep import repair
from core.store.upkeep import restore as put_back
from core.store.upkeep import verify as look

_SHOWN = 20
"""Findings of one kind that are shown; the others are counted."""


def verify(
    mend: Annotated[
        bool,
        typer.Option(
            "--repair",
            help="Read from the journals what the database lacks or has differently, drop torn lines, count again.",
        ),
    ] = False,
) -> int:
    """Compare the database with journals, pictures and data sets: find missing, different, doubled, damaged rows."""
    store = Store()
    with Console(stderr=True).status("Reading the database") as status:
        verified = look(store, lambda name: status.update(f"Reading the journal of {name}"))
        if mended := repair(store, verified) if mend else []:
            verified = look(store)
    for finding in mended:
        print(f"mended: {finding.where} {finding.words}")
    counts = (
        f"{verified.journals:,} journals, {verified.trials:,} trials, {verified.calls:,} calls, "
        f"{verified.written:,} human entries"
    )
    if verified.skipped:
        print(verified.skipped)
    if not verified.findings:
        print(f"Everything is stored exactly once: {counts}.")
        return 0
    shown = Counter[str]()
    for finding in verified.findings:
        shown[finding.kind] += 1
        if shown[finding.kind] <= _SHOWN:
            print(f"{finding.kind}: {finding.where} {finding.words}")
    for kind, count in shown.items():
        if count > _SHOWN:
            print(f"{kind}: {count - _SHOWN:,} more")
    print(f"Checked {counts}.")
    if any(finding.repairable for finding in verified.findings):
        print("To mend it from the journals: python -m core verify --repair", file=sys.stderr)
    return 1


def backup(
    out: Annotated[Path | None, typer.Option(help="The .tar.gz to write; by default next to the database.")] = None,
) -> int:
    """Write database, journals, data sets, pictures and your prompts into a file with checksums, also during runs."""
    store = Store()
    path = out or store.path.with_name(f"backup-{time.strftime('%Y%m%d-%H%M%S')}.tar.gz")
    count = write_backup(store, path)
    print(f"Wrote {count:,} files to {path} ({path.stat().st_size:,} bytes). Downloaded models and keys are not in it.")
    print(f"Restore it with: ANAMNESIS_DB=NEW_FOLDER/anamnesis.duckdb python -m core restore {path}")
    return 0


def restore(packed: Annotated[Path, typer.Argument(help="A file that backup has written.")]) -> int:
    """Restore a backup into the folder of the database, which must be empty; every file is checked."""
    store = Store()
    count = put_back(packed, store)
    print(f"Restored {count:,} files next to {store.path}.")
    return 0
