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
from core.store.upkeep import repair, replace_differing
from core.store.upkeep import restore as put_back
from core.store.upkeep import verify as look

_SHOWN = 20
"""Findings of one kind that are shown; the others are counted."""


def verify(
    mend: Annotated[
        bool,
        typer.Option("--repair", help="Add what the database lacks from the journals, drop torn lines, count again."),
    ] = False,
    let_journal_win: Annotated[
        bool, typer.Option("--fold", help="Where database and journal differ, use the journal.")
    ] = False,
) -> int:
    """Compare the database with journals, pictures and data sets: find missing, different, doubled, damaged rows."""
    store = Store()
    with Console(stderr=True).status("Reading the database") as status:
        verified = look(store, lambda name: status.update(f"Reading the journal of {name}"))
        mended = repair(store, verified) if mend else []
        replaced = replace_differing(store, verified) if let_journal_win else 0
        verified = look(store) if mended or replaced else verified
    if replaced:
        print(f"{replaced:,} trials or human entries were replaced by those of the journals.")
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
    counts_by_kind = Counter[str]()
    for finding in verified.findings:
        counts_by_kind[finding.kind] += 1
        if counts_by_kind[finding.kind] <= _SHOWN:
            print(f"{finding.kind}: {finding.where} {finding.words}")
    for kind, count in counts_by_kind.items():
        if count > _SHOWN:
            print(f"{kind}: {count - _SHOWN:,} more")
    print(f"Checked {counts}.")
    if any(finding.repairable for finding in verified.findings):
        print("To repair what the journals contain: python -m core verify --repair", file=sys.stderr)
    if counts_by_kind["different"]:
        print("To use the journals' version: python -m core verify --fold", file=sys.stderr)
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
