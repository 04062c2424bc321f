"""Reads rubrics from files: this project's YAML and tables, and the JSON Lines of HealthBench."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from core.datasets.readers.files import DamagedRow, FileRows, Record, records_within
from core.datasets.reading import ImportPreview, PositionUnit, clipped
from core.errors import AnamnesisError, UsageError
from core.judging.form import Form, FormQuestion, reason_of
from core.judging.rubric import (
    FIELDS,
    NO_AXIS,
    cases_of_rubric,
    criterion,
    name_of,
    read_rubric,
    rubric,
    rubric_fields,
    rubric_of,
)

SCOPES = ("case", "specialty")
"""Columns of a table in front of ``FIELDS``. Without case and specialty a criterion is for all cases."""


class ReadRubric(NamedTuple):
    """A rubric from a file, and (position, reason) of the records that could not be read."""

    form: Form
    rejected: tuple[tuple[int, str], ...] = ()
    unit: PositionUnit = "record"
    sheet: str = ""

    def preview(self, file: str, stored: Mapping[str, Form]) -> ImportPreview:
        """Return what an import would store; ``stored`` are the rubrics that exist, by name."""
        name, questions = name_of(self.form), self.form.questions
        specialties = {specialty for question in questions for specialty in question.specialties}
        cases = cases_of_rubric(self.form)
        understood = {
            "Criteria": f"{len(questions):,}",
            "Cases": f"{len(cases):,}" if cases else "all",
            **({"Specialties": f"{len(specialties):,}"} if specialties else {}),
        }
        replaces = stored.get(name, self.form) != self.form
        return ImportPreview(file, name, understood, {"Rejected": self.rejected}, self.unit, self.sheet, replaces)


def import_rubric(path: Path, name: str, *, data_set: str = "") -> ReadRubric:
    """Read a rubric from a file.

    Args:
        path: YAML, or a folder of YAML files; a table with the columns of ``SCOPES`` and ``FIELDS``; or HealthBench.
        name: The name of the rubric.
        data_set: Put before the ids of cases, if these are no case keys: ``data_set/id``.

    Raises ``UsageError`` if the file has no known format or is no valid rubric.
    """
    if path.is_dir():
        return ReadRubric(read_rubric(path, name))
    if path.suffix.lower() in (".yaml", ".yml"):
        return ReadRubric(rubric_of({**rubric_fields(path), "name": name}, path.name))
    rows = FileRows(path)
    if rows.kind == "json":
        listed = records_within(rows.root)
        # an object with the criteria of one case is a record itself
        if listed is None or (isinstance(rows.root, dict) and _criteria_of(rows.root) is not None):
            listed = [rows.root]
        rows = rows.unpacked(listed)
    records = list(rows)
    first = next((record for _, record in records if not isinstance(record, DamagedRow)), None)
    names = _plain_names(first) if isinstance(first, Mapping) else {}
    healthbench = _criteria_of(names) is not None
    if not healthbench and not {"criterion", "points"} <= names.keys():
        found = f" It has {', '.join(map(str, first))}." if isinstance(first, Mapping) else ""
        raise UsageError(
            f"{path.name} is no rubric: give YAML of this project, a table with the columns criterion and points, or "
            f"HealthBench.{found}"
        )
    entries: list[tuple[int, dict[str, Any]]] = []
    rejected: list[tuple[int, str]] = []
    for position, record in records:
        try:
            entries += [(position, entry) for entry in _entries(record, position, healthbench=healthbench)]
        except (KeyError, ValueError, TypeError) as error:
            rejected.append((position, f"the field {error} is missing" if isinstance(error, KeyError) else str(error)))
    sheet = f"sheet {clipped(rows.sheet)}, " if rows.sheet else ""
    if not entries:
        why = f" ({sheet}{rows.unit} {rejected[0][0]}: {rejected[0][1]})" if rejected else ""
        raise AnamnesisError(f"{path.name} has no criterion that can be read{why}.")
    used = {entry.get("id") for _, entry in entries}
    free = (id_ for number in count(1) if (id_ := f"c{number}") not in used)
    criteria: list[FormQuestion] = []
    for position, entry in entries:
        case, specialty = (entry.pop(scope, "") for scope in SCOPES)
        key = case if not data_set or "/" in case else f"{data_set}/{case}"
        try:
            named = entry if "id" in entry else {**entry, "id": next(free)}
            criteria.append(criterion(named, case and key, specialty))
        except UsageError as error:
            raise UsageError(f"{path.name}, {sheet}{rows.unit} {position} is no criterion: {error}.") from error
    try:
        form = rubric(name, sorted(criteria, key=lambda asked: 2 if asked.cases else len(asked.specialties)))
    except (UsageError, ValidationError) as error:
        reason = reason_of(error) if isinstance(error, ValidationError) else str(error)
        raise UsageError(f"{path.name} is not a rubric: {reason}.") from error
    return ReadRubric(form, tuple(rejected), rows.unit, rows.sheet)


def _plain_names(record: Record) -> Record:
    return {name.strip().lower() if isinstance(name, str) else name: value for name, value in record.items()}


def _criteria_of(record: Record) -> Sequence[Mapping[str, Any]] | None:
    """Return HealthBench's list of criteria of a record, or ``None`` if it has none."""
    for name, words in (("rubrics", "criterion"), ("rubric_items", "criterion_text")):
        listed = record.get(name)
        are_objects = isinstance(listed, list) and all(isinstance(item, Mapping) for item in listed)
        if are_objects and (not listed or {words, "points"} <= listed[0].keys()):
            return listed
    return None


def _entries(record: Record | DamagedRow, position: int, *, healthbench: bool) -> Iterator[dict[str, Any]]:
    """Read the criterion of a row, or ``rubrics: [{criterion, points, tags}]`` of HealthBench (Arora et al. 2025).

    There a tag ``axis:NAME`` names the axis. HealthBench Professional calls them ``rubric_items: [{criterion_text,
    points}]``. The tags of a row are joined by ;.
    """
    if isinstance(record, DamagedRow):
        raise ValueError(record.reason)
    if not healthbench:
        record = _plain_names(record)
        fields: dict[str, Any] = {
            name: text for name in (*SCOPES, *FIELDS) if (text := str(record.get(name) or "").strip())
        }
        if "tags" in fields:
            fields["tags"] = [tag.strip() for tag in fields["tags"].split(";") if tag.strip()]
        yield fields
        return
    criteria = _criteria_of(record)
    if not criteria:
        raise ValueError("it has no criterion")
    identity = next((record[key] for key in ("prompt_id", "case_id", "case", "id") if record.get(key)), position)
    for number, item in enumerate(criteria, 1):
        tags = [str(tag) for tag in item.get("tags") or ()]
        axis = next((tag.partition(":")[2] for tag in tags if tag.startswith("axis:")), NO_AXIS)
        yield {
            "case": str(identity),
            "id": f"c{number}",
            "criterion": item["criterion_text"] if "criterion_text" in item else item["criterion"],
            "points": item["points"],
            "axis": axis.replace("_", " "),
            "tags": [tag for tag in tags if not tag.startswith("axis:")],
        }
