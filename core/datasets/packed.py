"""Lends the list of cases behind a path: the file itself, or the one in a zip, with its pictures unpacked beside it."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from core.datasets.archive import GIGABYTE, Limits, opened
from core.datasets.reading import clipped
from core.errors import UsageError

LISTS = frozenset({".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".parquet"})
"""Endings of files that hold cases."""
_PICTURES = frozenset({".png", ".jpg", ".jpeg", ".webp", ".gif"})
_LIMITS = Limits(total_bytes=GIGABYTE, members=20_000, way_out="Unpack it yourself and import the list in it.")


@contextmanager
def list_in(path: Path) -> Iterator[Path]:
    """Lend the list of cases that ``path`` is or packs; what is unpacked goes when it is given back.

    Raises ``UsageError`` where a zip holds no list or several, ``AnamnesisError`` where it is damaged, too large or not
    safe to unpack.
    """
    if not path.is_file() or not zipfile.is_zipfile(path):
        yield path
        return
    with opened(path, _wanted, _LIMITS) as folder:
        lists = sorted(found for found in folder.rglob("*") if found.suffix.lower() in LISTS and found.is_file())
        if len(lists) != 1:
            raise UsageError(_not_one(path, [str(found.relative_to(folder)) for found in lists]))
        yield lists[0]


def _wanted(member: PurePosixPath) -> bool:
    """Say whether a member is a list or a picture, and none of what a Mac adds."""
    hidden = any(part.startswith(".") or part == "__MACOSX" for part in member.parts)
    return not hidden and member.suffix.lower() in LISTS | _PICTURES


def _not_one(path: Path, lists: list[str]) -> str:
    if not lists:
        return (
            f"{path.name} is packed and holds no list of cases (CSV, JSON, JSON Lines or Parquet): put the list in it, "
            "beside its pictures; of a spreadsheet, save a sheet as CSV."
        )
    named = ", ".join(clipped(name) for name in lists[:5]) + (", …" if len(lists) > 5 else "")
    return f"{path.name} holds {len(lists)} lists of cases ({named}): pack one with its pictures."
