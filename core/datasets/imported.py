"""Cases that the user has imported: one JSONL file a data set, beside the database and never in the repository."""

from __future__ import annotations

import os
import re
from pathlib import Path

import orjson
from pydantic import ValidationError

from core import paths
from core.case import Case
from core.errors import AnamnesisError, UsageError

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,40}")


def folder() -> Path:
    """Return where imported case files lie."""
    return paths.local_folder() / "cases"


def save(name: str, cases: list[Case]) -> Path:
    """Write a data set in one go: either the whole of it is there afterwards or what was there before."""
    if not _NAME.fullmatch(name) or name == "library":
        raise UsageError(f"A data set cannot be called {name!r}: use lower-case letters, digits, - and _.")
    folder().mkdir(parents=True, exist_ok=True)
    path = folder() / f"{name}.jsonl"
    half = path.with_suffix(f".{os.getpid()}.half")
    half.write_bytes(b"".join(orjson.dumps(c.model_dump(mode="json")) + b"\n" for c in cases))
    os.replace(half, path)
    return path


def names() -> list[str]:
    """Return the names of the imported data sets."""
    return sorted(path.stem for path in folder().glob("*.jsonl")) if folder().is_dir() else []


def load(name: str) -> list[Case]:
    """Read an imported data set; a damaged line is named."""
    path = folder() / f"{name}.jsonl"
    cases = []
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        try:
            cases.append(Case.model_validate(orjson.loads(line)))
        except (orjson.JSONDecodeError, ValidationError) as error:
            raise AnamnesisError(f"{path}, line {number} is damaged: import the data set {name} again.") from error
    return cases
