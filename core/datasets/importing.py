"""Imports a file of cases as a data set: read, checked, and kept with its record.

The page and the command line share it.
"""

from __future__ import annotations

import time
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from core.datasets import imported
from core.datasets.archive import GIGABYTE, Limits, opened
from core.datasets.imported import KEPT_REASONS, DatasetInfo
from core.datasets.lint import Finding, lint
from core.datasets.readers import FORMATS, read_cases
from core.datasets.reading import Reading, clipped
from core.errors import AnamnesisError, UsageError

_NAME_LENGTH = 40
_LISTS = frozenset({".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".parquet"})
"""Endings of files that hold cases."""
_PICTURES = frozenset({".png", ".jpg", ".jpeg", ".webp", ".gif"})
_LIMITS = Limits(total_bytes=GIGABYTE, members=20_000, way_out="Unpack it yourself and import the list in it.")


@dataclass(frozen=True)
class Imported:
    """What an import brought: the data set's name, what was read of the file, and what the linter says of the cases."""

    dataset: str
    reading: Reading
    findings: list[Finding]


def import_file(
    path: Path,
    name: str | None = None,
    format: str = "auto",
    columns: Mapping[str, str] | None = None,
    skip_bad: bool = False,
    source: str | None = None,
    licence: str | None = None,
) -> Imported:
    """Read a file and keep its cases under ``name`` (the file's own name where none is given), with their pictures.

    A zip stands for the one list in it. ``source`` and ``licence`` take the place of the format's. Raises
    ``UsageError`` for a name, format or columns that cannot be, and ``AnamnesisError`` where the file cannot be read,
    holds no case, or has rows that cannot be used and ``skip_bad`` is not set: then nothing was imported, and an
    earlier data set of this name is as it was.
    """
    dataset = name or name_of(path)
    imported.check_name(dataset)
    with list_in(path) as file:
        reading = read_cases(file, dataset, format, columns)
        _refuse(reading, file, skip_bad)
        given = {"source": (source or "").strip(), "licence": (licence or "").strip()}
        credit = {field: value for field, value in given.items() if value}
        reading.cases = [case.model_copy(update=credit) if credit else case for case in reading.cases]
        findings = lint(reading.cases)
        info = DatasetInfo(
            name=dataset,
            format=reading.format,
            title=FORMATS[reading.format].title,
            source=reading.cases[0].source,
            licence=reading.cases[0].licence,
            file_name=path.name,
            imported_at=time.time(),
            cases=len(reading.cases),
            unit=reading.unit,
            rejected=tuple(reading.rejected[:KEPT_REASONS]),
            rejected_count=len(reading.rejected),
            left_out=dict(Counter(reason for _, reason in reading.left_out).most_common(KEPT_REASONS)),
            remarks=tuple(reading.remarks[:KEPT_REASONS]),
            remarks_count=len(reading.remarks),
            findings=len(findings),
            severe_findings=sum(finding.severe for finding in findings),
        )
        imported.save(dataset, reading.cases, info, reading.pictures)
    return Imported(dataset, reading, findings)


def name_of(path: Path) -> str:
    """Return the name of a data set that a file's name suggests: its format's, where it was published under that."""
    for one in FORMATS.values():
        if path.name in one.files:
            return one.name
    plain = "".join(c if c.isascii() and c.isalnum() else "-" for c in path.stem.lower()).strip("-")
    return plain[:_NAME_LENGTH].strip("-") or "cases"


def _refuse(reading: Reading, path: Path, skip_bad: bool) -> None:
    """Raise where nothing may be imported."""
    if reading.rejected and not skip_bad:
        position, reason = reading.rejected[0]
        others = len(reading.rejected) - 1
        more = f" ({others:,} more row{'s' if others > 1 else ''} cannot be used)" if others else ""
        raise AnamnesisError(
            f"{path.name}, {reading.unit} {position}: {reason}{more}. Nothing was imported; correct the file, "
            "or leave such rows out with --skip-bad."
        )
    if not reading.cases:
        counts = [(len(reading.rejected), "cannot be used"), (len(reading.left_out), "are left out by the format")]
        why = " and ".join(f"{n:,} rows {what}" for n, what in counts if n)
        first = next(iter([*reading.rejected, *reading.left_out]), None)
        raise AnamnesisError(
            f"{path.name} holds no case{f': {why} ({reading.unit} {first[0]}: {first[1]})' if first else ''}."
        )


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
        lists = sorted(found for found in folder.rglob("*") if found.suffix.lower() in _LISTS and found.is_file())
        if not lists:
            raise UsageError(
                f"{path.name} is packed and holds no list of cases (CSV, JSON, JSON Lines or Parquet): put the list in "
                "it, beside its pictures; of a spreadsheet, save a sheet as CSV."
            )
        if len(lists) > 1:
            named = ", ".join(clipped(str(found.relative_to(folder))) for found in lists[:5])
            more = ", …" if len(lists) > 5 else ""
            raise UsageError(
                f"{path.name} holds {len(lists)} lists of cases ({named}{more}): pack one with its pictures."
            )
        yield lists[0]


def _wanted(member: PurePosixPath) -> bool:
    """Say whether a member is a list or a picture, and none of what a Mac adds."""
    hidden = any(part.startswith(".") or part == "__MACOSX" for part in member.parts)
    return not hidden and member.suffix.lower() in _LISTS | _PICTURES
