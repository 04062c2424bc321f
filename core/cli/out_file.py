"""Where a command writes what it exports: under a name that is free, and only whole."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from core.errors import AnamnesisError, UsageError

Out = Annotated[Path, typer.Option("--out", help="The file to write; it must not exist yet.")]


def half(out: Path) -> Path:
    """Return where to write until the file is whole; raise where ``out`` exists or its folder does not."""
    if out.exists():
        raise AnamnesisError(f"{out} exists already: choose another name.")
    if not out.parent.is_dir():
        raise UsageError(f"There is no folder {out.parent}.")
    return out.with_name(f".{out.name}.{os.getpid()}.half")
