"""Reads the case file of CRAFT-MD's authors: case_vignette, choice_1…4, answer, category, dataset, case_id."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from core.case import RELEASE_SPECIALTIES, SPECIALTIES, Case, read_demographics, split_question
from core.errors import AnamnesisError

COLUMNS = ("case_vignette", "choice_1", "choice_2", "choice_3", "choice_4", "answer", "category", "dataset", "case_id")
SOURCE = "CRAFT-MD, doi 10.1038/s41591-024-03328-5"


@dataclass
class Reading:
    """Cases that could be read, and (line, reason) of the rows that could not."""

    cases: list[Case] = field(default_factory=list)
    rejected: list[tuple[int, str]] = field(default_factory=list)


def read_craftmd_csv(path: Path, dataset: str = "craftmd") -> Reading:
    """Read the file; a wrong header raises ``AnamnesisError``, a wrong row is rejected by its line."""
    reader = csv.reader(io.StringIO(_text(path)), strict=True)
    try:
        header = next(reader, [])
        missing = [name for name in COLUMNS if name not in header]
        if missing:
            raise AnamnesisError(
                f"{path.name}, line 1: the column{'s' if len(missing) > 1 else ''} {', '.join(missing)} "
                f"{'are' if len(missing) > 1 else 'is'} missing; a CRAFT-MD case file has {', '.join(COLUMNS)}."
            )
        return _read_rows(reader, header, dataset)
    except csv.Error as error:
        raise AnamnesisError(
            f"{path.name}, line {reader.line_num}: this row cannot be read ({error}); nothing was imported."
        ) from error


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise AnamnesisError(
            f"{path.name}, line {line}: the file is not UTF-8 text; save it as UTF-8 first."
        ) from error


def _read_rows(reader: csv._reader, header: list[str], dataset: str) -> Reading:  # type: ignore[name-defined]
    reading = Reading()
    seen: dict[str, int] = {}
    line = reader.line_num + 1
    for values in reader:
        start, line = line, reader.line_num + 1
        if not any(value.strip() for value in values):
            continue
        if len(values) != len(header):
            reading.rejected.append((start, f"{len(values)} fields instead of {len(header)}"))
            continue
        row = dict(zip(header, values, strict=True))
        reason = _fault(row, seen)
        if reason:
            reading.rejected.append((start, reason))
            continue
        seen[row["case_id"].strip()] = start
        try:
            reading.cases.append(_case(row, dataset))
        except ValidationError as error:
            reading.rejected.append((start, error.errors()[0]["msg"]))
    return reading


def _fault(row: dict[str, str], seen: dict[str, int]) -> str | None:
    """Return in words what makes a row unusable, or ``None``."""
    case_id = row["case_id"].strip()
    empty = [name for name in ("case_id", "case_vignette", "answer", "category") if not row[name].strip()]
    if empty:
        return f"{' and '.join(empty)} {'is' if len(empty) == 1 else 'are'} empty"
    if case_id in seen:
        return f"the case id {case_id} stands already in line {seen[case_id]}"
    if specialty_of(row["category"]) is None:
        return f"the category {row['category']!r} is none of the specialties"
    return None


def specialty_of(category: str) -> str | None:
    """Return our name of a specialty of the release, or ``None`` for an unknown one."""
    name = RELEASE_SPECIALTIES.get(category.strip(), category.strip())
    return name if name in SPECIALTIES else None


def _choices(row: dict[str, str]) -> tuple[str, ...]:
    return tuple(row[name].strip() for name in COLUMNS[1:5] if row[name].strip())


def _case(row: dict[str, str], dataset: str) -> Case:
    vignette, question = split_question(row["case_vignette"].strip().strip('"'))
    age, sex = read_demographics(vignette)
    return Case(
        case_key=f"{dataset}/{row['case_id'].strip()}",
        dataset=row["dataset"].strip() or dataset,
        specialty=specialty_of(row["category"]) or "Other",
        vignette=vignette,
        question=question,
        choices=_choices(row),
        answer=row["answer"].strip(),
        age=age,
        sex=sex,
        source=SOURCE,
        licence="see the authors' repository",
    )
