"""Reads rubrics from files: this project's YAML and tables, and the JSON Lines of HealthBench."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from core.datasets.readers.files import DamagedRow, FileRows, Record, records_within
from core.datasets.reading import ImportPreview, PositionUnit, clipped
from core.errors import AnamnesisError, UsageError
from core.judging.rubric import NO_AXIS, Criterion, Rubric, read_rubric, reason_of, rubric_fields, rubric_of

Fields = dict[str, Any]
TABLE = ("case", "specialty", "id", "criterion", "points", "axis", "priority", "when", "source", "tags")
"""The columns of a rubric as a table. Without case and specialty a criterion is for all cases."""


class ReadRubric(NamedTuple):
    """A rubric from a file, and (position, reason) of the records that could not be read."""

    rubric: Rubric
    rejected: tuple[tuple[int, str], ...] = ()
    unit: PositionUnit = "record"
    sheet: str = ""

    def preview(self, file: str, stored: Iterable[Rubric]) -> ImportPreview:
        """Return what an import would store; ``stored`` are the rubrics that exist."""
        same_name = [rubric for rubric in stored if rubric.name == self.rubric.name]
        replaces = any(rubric.model_dump() != self.rubric.model_dump() for rubric in same_name)
        understood = {
            "Criteria": f"{sum(1 for _ in self.rubric.scoped()):,}",
            "Cases": f"{len(self.rubric.cases):,}" if self.rubric.cases else "all",
            **({"Specialties": f"{len(self.rubric.specialties):,}"} if self.rubric.specialties else {}),
        }
        rows = {"Rejected": self.rejected}
        return ImportPreview(file, self.rubric.name, understood, rows, self.unit, self.sheet, replaces)


def import_rubric(path: Path, name: str, *, data_set: str = "") -> ReadRubric:
    """Read a rubric from a file.

    Args:
        path: YAML, or a folder of YAML files; a table with the columns of ``TABLE``; or HealthBench.
        name: The name of the rubric.
        data_set: Put before the ids of cases, if these are no case keys: ``data_set/id``.

    Raises ``UsageError`` if the file has no known format or is no valid rubric.
    """
    if path.is_dir():
        return ReadRubric(read_rubric(path).model_copy(update={"name": name}))
    if path.suffix.lower() in (".yaml", ".yml"):
        return ReadRubric(rubric_of({**rubric_fields(path), "name": name}, path.name))
    return _from_records(path, name, data_set)


def _from_records(path: Path, name: str, data_set: str) -> ReadRubric:
    rows = _rows(path)
    records = list(rows)
    sheet = f"sheet {clipped(rows.sheet)}, " if rows.sheet else ""
    first = next((record for _, record in records if not isinstance(record, DamagedRow)), None)
    names = _plain_names(first) if isinstance(first, Mapping) else {}
    healthbench = _criteria_of(names) is not None
    if not healthbench and not {"criterion", "points"} <= names.keys():
        found = f" It has {', '.join(map(str, first))}." if isinstance(first, Mapping) else ""
        raise UsageError(
            f"{path.name} is no rubric: give YAML of this project, a table with the columns criterion and points, or "
            f"HealthBench.{found}"
        )
    scopes: dict[str, dict[str, list[Fields]]] = {"cases": {}, "specialties": {}}
    shared: list[Fields] = []
    rejected: list[tuple[int, str]] = []
    for position, record in records:
        if isinstance(record, DamagedRow):
            rejected.append((position, record.reason))
            continue
        try:
            case, specialty, criteria = _healthbench(record, position) if healthbench else _row(record)
        except (KeyError, ValueError, TypeError) as error:
            rejected.append((position, f"the field {error} is missing" if isinstance(error, KeyError) else str(error)))
            continue
        for fields in criteria:
            try:
                Criterion.model_validate({"id": "unnamed", **fields})
            except ValidationError as error:
                raise UsageError(
                    f"{path.name}, {sheet}{rows.unit} {position} is no criterion: {reason_of(error)}."
                ) from error
        if case:
            key = case if not data_set or "/" in case else f"{data_set}/{case}"
            scopes["cases"].setdefault(key, []).extend(criteria)
        elif specialty:
            scopes["specialties"].setdefault(specialty, []).extend(criteria)
        else:
            shared.extend(criteria)
    if not (shared or scopes["cases"] or scopes["specialties"]):
        why = f" ({sheet}{rows.unit} {rejected[0][0]}: {rejected[0][1]})" if rejected else ""
        raise AnamnesisError(f"{path.name} has no criterion that can be read{why}.")
    _name_criteria(scopes, shared)
    fields = {"name": name, "all": shared, **scopes}
    return ReadRubric(rubric_of(fields, path.name), tuple(rejected), rows.unit, rows.sheet)


def _rows(path: Path) -> FileRows:
    rows = FileRows(path)
    if rows.kind == "json":
        listed = records_within(rows.root)
        # an object with the criteria of one case is a record itself
        if listed is None or (isinstance(rows.root, dict) and _criteria_of(rows.root) is not None):
            listed = [rows.root]
        rows = rows.unpacked(listed)
    return rows


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


def _healthbench(record: Record, position: int) -> tuple[str, str, list[Fields]]:
    """Read ``rubrics: [{criterion, points, tags}]``; a tag ``axis:NAME`` names the axis (Arora et al. 2025).

    HealthBench Professional calls them ``rubric_items: [{criterion_text, points}]``.
    """
    criteria: list[Fields] = []
    for number, item in enumerate(_criteria_of(record) or (), 1):
        tags = [str(tag) for tag in item.get("tags") or ()]
        axis = next((tag.partition(":")[2] for tag in tags if tag.startswith("axis:")), NO_AXIS)
        text = item["criterion_text"] if "criterion_text" in item else item["criterion"]
        fields = {"id": f"c{number}", "criterion": text, "points": item["points"], "axis": axis.replace("_", " ")}
        criteria.append({**fields, "tags": [tag for tag in tags if not tag.startswith("axis:")]})
    if not criteria:
        raise ValueError("it has no criterion")
    identity = next((record[key] for key in ("prompt_id", "case_id", "case", "id") if record.get(key)), position)
    return str(identity), "", criteria


def _row(record: Record) -> tuple[str, str, list[Fields]]:
    """Read one criterion from the columns of ``TABLE``; its tags are joined by ;."""
    record = _plain_names(record)
    values = {name: text for name in TABLE if (text := str(record.get(name) or "").strip())}
    case, specialty = values.pop("case", ""), values.pop("specialty", "")
    fields: Fields = dict(values)
    if "tags" in fields:
        fields["tags"] = [tag.strip() for tag in fields["tags"].split(";") if tag.strip()]
    return case, specialty, [fields]


def _name_criteria(scopes: Mapping[str, Mapping[str, list[Fields]]], shared: list[Fields]) -> None:
    """Give criteria without an id a number that no other criterion has."""
    listed = [fields for scope in scopes.values() for criteria in scope.values() for fields in criteria] + shared
    used = {fields.get("id") for fields in listed}
    free = (name for number in count(1) if (name := f"c{number}") not in used)
    for fields in listed:
        if "id" not in fields:
            fields["id"] = next(free)
