"""Imports a file of cases as a data set: reads it, checks the cases, and saves them with a record.

The page and the command line share it.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from core import access
from core.callbacks import ProgressCallback, StopCallback
from core.case import Case
from core.datasets import imported
from core.datasets.archive import GIGABYTE, ArchiveLimits, is_archive, opened, packed_alone, unpack_alone
from core.datasets.imported import MAX_STORED_REASONS, DatasetInfo
from core.datasets.lint import LintFinding, lint
from core.datasets.readers import FORMATS, read_cases
from core.datasets.readers.files import MAX_BYTES, is_spreadsheet
from core.datasets.reading import ImportPreview, ReadCases, clipped
from core.errors import AnamnesisError, UsageError
from core.images import local_images

_NAME_LENGTH = 40
_LISTS = frozenset({".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".parquet", ".xlsx"})
"""Suffixes of lists of cases."""
_ALONE = frozenset({".gz", ".bz2", ".xz"})
"""Suffixes of single compressed files."""
_PICTURES = frozenset({".png", ".jpg", ".jpeg", ".webp", ".gif"})
_LIMITS = ArchiveLimits(total_bytes=GIGABYTE, members=20_000, way_out="Unpack it yourself and import the list in it.")


@dataclass(frozen=True)
class ImportedDataset:
    """The result of an import: the name of the data set, what was read, and the linter's findings.

    ``replaced`` says in one sentence how the cases differ from those that the data set had before; empty if they do
    not, or if the name is new.
    """

    dataset: str
    reading: ReadCases
    findings: list[LintFinding]
    replaced: str = ""


def import_file(
    path: Path,
    name: str | None = None,
    format: str = "auto",
    columns: Mapping[str, str] | None = None,
    skip_bad: bool = False,
    source: str | None = None,
    licence: str | None = None,
    published: bool = False,
    replace: bool = False,
    on_progress: ProgressCallback = lambda done, planned: None,
    should_stop: StopCallback = lambda: False,
) -> ImportedDataset:
    """Read a file and save its cases and pictures under ``name`` (default: from the name of the file).

    An archive may be given instead of the list in it. ``published`` says that the file is the published set of its
    format, and gives the cases that set's source and licence; ``source`` and ``licence`` replace them. A data set
    of this name with other cases is only replaced with ``replace``. Raises
    ``UsageError`` for an invalid name, format or columns, and ``AnamnesisError`` if the file cannot be read, has no
    case, or has unusable rows without ``skip_bad``, or if ``should_stop`` returns true. After an error nothing is
    imported, and an earlier data set of this name does not change.
    """
    access.require("run")
    dataset = name or name_of(path)
    imported.check_name(dataset)
    with list_in(path) as file:
        reading = read_cases(file, dataset, format, columns, on_progress, should_stop)
        _refuse(reading, path.name, skip_bad)
        form = FORMATS[reading.format]
        reading.cases = credited(reading, source, licence, published)
        if not replace and would_replace(dataset, reading.cases):
            raise UsageError(
                f"There is a data set {dataset} with other cases: import {path.name} under another --name, or replace "
                "it with --replace. Nothing was imported."
            )
        findings = lint(reading.cases)
        info = DatasetInfo(
            name=dataset,
            format=reading.format,
            title=form.title,
            source=reading.cases[0].source,
            licence=reading.cases[0].licence,
            file_name=path.name,
            imported_at=time.time(),
            cases=len(reading.cases),
            unit=reading.unit,
            rejected=tuple(reading.rejected[:MAX_STORED_REASONS]),
            rejected_count=len(reading.rejected),
            left_out=dict(Counter(reason for _, reason in reading.left_out).most_common(MAX_STORED_REASONS)),
            remarks=tuple(reading.remarks[:MAX_STORED_REASONS]),
            remarks_count=len(reading.remarks),
            findings=len(findings),
            severe_findings=sum(finding.severe for finding in findings),
        )
        if should_stop():
            raise AnamnesisError(f"{path.name} was read and not imported, as you asked.")
        replaced = _replaced(dataset, reading.cases)
        imported.save(dataset, reading.cases, info, reading.pictures)
    return ImportedDataset(dataset, reading, findings, replaced)


def _replaced(dataset: str, cases: Sequence[Case]) -> str:
    if dataset not in imported.names():
        return ""
    try:
        earlier = {case.case_key: (case.text_hash, case.choices) for case in imported.load(dataset)}
    except AnamnesisError:
        return f"The data set {dataset} was damaged and is replaced."
    now = {case.case_key: (case.text_hash, case.choices) for case in cases}
    changed = sum(earlier[key] != now[key] for key in earlier.keys() & now.keys())
    counts = {"changed": changed, "new": len(now.keys() - earlier.keys()), "removed": len(earlier.keys() - now.keys())}
    if not any(counts.values()):
        return ""
    words = ", ".join(f"{count:,} {what}" for what, count in counts.items())
    return (
        f"The data set {dataset} replaces one of {len(earlier):,} cases: {words}. Stored runs keep their cases, and "
        "comparisons leave out changed cases."
    )


def preview_of(reading: ReadCases, file: str, dataset: str) -> ImportPreview:
    """Return what an import would store; ``file`` is the name of the file as the user gave it.

    The cases of ``reading`` have the source and licence with which they would be stored (``credited``).
    """
    pictured = sum(bool(local_images(case.images)) for case in reading.cases)
    understood = {
        "Format": FORMATS[reading.format].title if reading.format in FORMATS else reading.format,
        "Cases": f"{len(reading.cases):,}",
        **({"With picture": f"{pictured:,}"} if pictured else {}),
    }
    rows = {"Rejected": reading.rejected, "Left out": reading.left_out, "Remarks": reading.remarks}
    replaces = would_replace(dataset, reading.cases)
    return ImportPreview(file, dataset, understood, rows, reading.unit, reading.sheet, replaces)


def credited(reading: ReadCases, source: str | None, licence: str | None, published: bool = False) -> list[Case]:
    """Return the cases with the source and licence that were given; see ``import_file``.

    Raises ``UsageError`` if the format is not that of a ``published`` set.
    """
    form = FORMATS[reading.format]
    if published and not form.source:
        raise UsageError(f"The format {form.title} is not that of a published set: say its source and licence.")
    stated = {"source": form.source, "licence": form.licence} if published else {}
    credit = stated | {
        field: words for field, value in (("source", source), ("licence", licence)) if (words := (value or "").strip())
    }
    return [case.model_copy(update=credit) if credit else case for case in reading.cases]


def would_replace(dataset: str, cases: Sequence[Case]) -> bool:
    """Return whether other cases are stored under this name; source and licence are part of a case."""
    if dataset not in imported.names():
        return False
    with suppress(AnamnesisError):  # a damaged data set cannot be compared
        return imported.load(dataset) != cases
    return True


def name_of(path: Path) -> str:
    """Return the default name of a data set: that of the format with this published file, else from the file name."""
    for format_ in FORMATS.values():
        if path.name in format_.files:
            return format_.name
    stem = path.name.lower()
    while (suffix := PurePosixPath(stem).suffix) in _LISTS | _ALONE | {".zip", ".tar", ".tgz", ".txt"}:
        stem = stem.removesuffix(suffix)
    plain = "".join(c if c.isascii() and c.isalnum() else "-" for c in stem).strip("-")
    return plain[:_NAME_LENGTH].strip("-") or "cases"


def _refuse(reading: ReadCases, file: str, skip_bad: bool) -> None:
    if reading.rejected and not skip_bad:
        position, reason = reading.rejected[0]
        others = len(reading.rejected) - 1
        more = f" ({others:,} more row{'s' if others > 1 else ''} cannot be used)" if others else ""
        raise AnamnesisError(
            f"{file}, {reading.at(position)}: {reason}{more}. Nothing was imported; correct the file, "
            "or leave such rows out with --skip-bad."
        )
    if not reading.cases:
        counts = [(len(reading.rejected), "cannot be used"), (len(reading.left_out), "are left out by the format")]
        reasons = " and ".join(f"{n:,} rows {outcome}" for n, outcome in counts if n)
        first = next(iter([*reading.rejected, *reading.left_out]), None)
        raise AnamnesisError(
            f"{file} holds no case{f': {reasons} ({reading.at(first[0])}: {first[1]})' if first else ''}."
        )


@contextmanager
def list_in(path: Path) -> Iterator[Path]:
    """Yield the list of cases in ``path``, if necessary from a temporary folder.

    ``path`` is the list, a compressed list (``.gz``, ``.bz2``, ``.xz``), or an archive with one list and its pictures
    (``.zip``, ``.tar``, ``.tar.gz`` …). Raises ``UsageError`` if an archive has no list or several, ``AnamnesisError``
    if it is damaged, too large or not safe to unpack.
    """
    if path.is_file() and (packed := packed_alone(path)) is not None:
        with tempfile.TemporaryDirectory(prefix="anamnesis-") as folder:
            target = Path(folder) / (path.stem if path.suffix.lower() in _ALONE else path.name)
            unpack_alone(path, packed, target, MAX_BYTES)
            yield target
        return
    if not path.is_file() or is_spreadsheet(path) or not is_archive(path):
        yield path
        return
    with opened(path, _is_list_or_picture, _LIMITS) as folder:
        lists = sorted(file for file in folder.rglob("*") if file.suffix.lower() in _LISTS and file.is_file())
        if not lists:
            raise UsageError(
                f"{path.name} is packed and holds no list of cases (CSV, Excel, JSON, JSON Lines or Parquet): put the "
                "list in it, next to its pictures."
            )
        if len(lists) > 1:
            names = ", ".join(clipped(str(file.relative_to(folder))) for file in lists[:5])
            more = ", …" if len(lists) > 5 else ""
            raise UsageError(
                f"{path.name} holds {len(lists)} lists of cases ({names}{more}): pack one with its pictures."
            )
        yield lists[0]


def _is_list_or_picture(member: PurePosixPath) -> bool:
    """Return whether a member is a list or a picture; hidden files and those that macOS adds are not."""
    hidden = any(part.startswith(".") or part == "__MACOSX" for part in member.parts)
    return not hidden and member.suffix.lower() in _LISTS | _PICTURES
