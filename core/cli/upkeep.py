"""``verify``, ``backup`` and ``restore``: whether all is there, and keeping it elsewhere."""

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
from core.store.upkeep import fold_anew, repair
from core.store.upkeep import restore as put_back
from core.store.upkeep import verify as look

_SHOWN = 20
"""Findings of one kind that are shown; the others are counted."""


def verify(
    mend: Annotated[
        bool,
        typer.Option("--repair", help="Take what the database lacks from the journals, drop torn lines, count anew."),
    ] = False,
    let_journal_win: Annotated[
        bool, typer.Option("--fold", help="Where database and journal hold something differently, take the journal's.")
    ] = False,
) -> int:
    """Compare the database with journals, pictures and data sets: what is missing, different, doubled or damaged."""
    store = Store()
    with Console(stderr=True).status("Reading the database") as status:
        verified = look(store, lambda name: status.update(f"Reading the journal of {name}"))
        mended = repair(store, verified) if mend else []
        replaced = fold_anew(store, verified) if let_journal_win else 0
        verified = look(store) if mended or replaced else verified
    if replaced:
        print(f"{replaced:,} trials, or things that people wrote, were replaced by what the journals hold.")
    for one in mended:
        print(f"mended: {one.where} {one.words}")
    counts = (
        f"{verified.journals:,} journals, {verified.trials:,} trials, {verified.calls:,} calls, "
        f"{verified.written:,} things that people wrote"
    )
    if not verified.findings:
        print(f"All is there, and once: {counts}.")
        return 0
    shown = Counter[str]()
    for one in verified.findings:
        shown[one.kind] += 1
        if shown[one.kind] <= _SHOWN:
            print(f"{one.kind}: {one.where} {one.words}")
    for kind, count in shown.items():
        if count > _SHOWN:
            print(f"{kind}: {count - _SHOWN:,} more")
    print(f"Looked at {counts}.")
    if any(one.repairable for one in verified.findings):
        print("What the journals hold is mended by: python -m core verify --repair", file=sys.stderr)
    if shown["different"]:
        print("To let the journals win: python -m core verify --fold", file=sys.stderr)
    return 1


def backup(
    out: Annotated[Path | None, typer.Option(help="The .tar.gz to write; else beside the database.")] = None,
) -> int:
    """Write database, journals, data sets, pictures and own prompts into one file with checksums, also during runs."""
    store = Store()
    path = out or store.path.with_name(f"backup-{time.strftime('%Y%m%d-%H%M%S')}.tar.gz")
    count = write_backup(store, path)
    print(f"Wrote {count:,} files to {path} ({path.stat().st_size:,} bytes). Fetched models and keys are not in it.")
    print(f"It comes back by: ANAMNESIS_DB=NEW_FOLDER/anamnesis.duckdb python -m core restore {path}")
    return 0


def restore(packed: Annotated[Path, typer.Argument(help="A file that backup has written.")]) -> int:
    """Bring a backup back, every file checked, to where the database is to be; nothing may be there yet."""
    store = Store()
    count = put_back(packed, store)
    print(f"Restored {count:,} files beside {store.path}.")
    return 0
