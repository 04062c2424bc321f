"""Imports a file of cases as a data set: read, checked, and kept with its record.

The page and the command line share it.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from core import access
from core.callbacks import Progress, Stop
from core.datasets import imported
from core.datasets.archive import GIGABYTE, Limits, is_archive, opened, packed_alone, unpack_alone
from core.datasets.imported import KEPT_REASONS, DatasetInfo
from core.datasets.lint import Finding, lint
from core.datasets.readers import FORMATS, read_cases
from core.datasets.readers.files import MOST_BYTES, is_spreadsheet
from core.datasets.reading import Reading, clipped
from core.errors import AnamnesisError, UsageError

_NAME_LENGTH = 40
_LISTS = frozenset({".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".parquet", ".xlsx"})
"""Endings of files that hold cases."""
_ALONE = frozenset({".gz", ".bz2", ".xz"})
"""Endings of files that are packed alone."""
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
    told: Progress = lambda done, planned: None,
    asked_to_stop: Stop = lambda: False,
) -> Imported:
    """Read a file and keep its cases under ``name`` (the file's own name where none is given), with their pictures.

    An archive stands for the one list in it. ``source`` and ``licence`` take the place of the format's. Raises
    ``UsageError`` for a name, format or columns that cannot be, and ``AnamnesisError`` where the file cannot be read,
    was ``asked_to_stop``, holds no case, or has rows that cannot be used and ``skip_bad`` is not set: then nothing was
    imported, and an earlier data set of this name is as it was.
    """
    access.require("edit")
    dataset = name or name_of(path)
    imported.check_name(dataset)
    with list_in(path) as file:
        reading = read_cases(file, dataset, format, columns, told, asked_to_stop)
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
        if asked_to_stop():
            raise AnamnesisError(f"{path.name} was read and not imported, as you asked.")
        imported.save(dataset, reading.cases, info, reading.pictures)
    return Imported(dataset, reading, findings)


def name_of(path: Path) -> str:
    """Return the name of a data set that a file's name suggests: its format's, where it was published under that."""
    for one in FORMATS.values():
        if path.name in one.files:
            return one.name
    stem = path.name.lower()
    while (ending := PurePosixPath(stem).suffix) in _LISTS | _ALONE | {".zip", ".tar", ".tgz", ".txt"}:
        stem = stem.removesuffix(ending)
    plain = "".join(c if c.isascii() and c.isalnum() else "-" for c in stem).strip("-")
    return plain[:_NAME_LENGTH].strip("-") or "cases"


def _refuse(reading: Reading, path: Path, skip_bad: bool) -> None:
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

    Packed are a file of one's own (``.gz``, ``.bz2``, ``.xz``) and the one list of an archive (``.zip``, ``.tar``,
    ``.tar.gz`` …) with its pictures. Raises ``UsageError`` where an archive holds no list or several,
    ``AnamnesisError`` where it is damaged, too large or not safe to unpack.
    """
    if path.is_file() and (packed := packed_alone(path)) is not None:
        with tempfile.TemporaryDirectory(prefix="anamnesis-") as folder:
            target = Path(folder) / (path.stem if path.suffix.lower() in _ALONE else path.name)
            unpack_alone(path, packed, target, MOST_BYTES)
            yield target
        return
    if not path.is_file() or is_spreadsheet(path) or not is_archive(path):
        yield path
        return
    with opened(path, _wanted, _LIMITS) as folder:
        lists = sorted(found for found in folder.rglob("*") if found.suffix.lower() in _LISTS and found.is_file())
        if not lists:
            raise UsageError(
                f"{path.name} is packed and holds no list of cases (CSV, Excel, JSON, JSON Lines or Parquet): put the "
                "list in it, beside its pictures."
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
