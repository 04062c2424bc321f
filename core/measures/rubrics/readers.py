"""Reads rubrics from files: this project's YAML and tables, and the formats of published rubric benchmarks.

A reader turns a record into the criteria of one case, or of all cases if the record names none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from core.datasets.readers.files import DamagedRow, FileRows, Record, records_within
from core.errors import AnamnesisError, UsageError
from core.measures.rubrics.rubric import (
    NO_AXIS,
    Criterion,
    Rubric,
    file_text,
    read_rubric,
    reason_of,
    rubric_of,
    yaml_fields,
)

Fields = dict[str, Any]


class CaseCriteria(NamedTuple):
    """The criteria of a case by its id (empty: of all cases); ``specialty`` instead if they are for a specialty."""

    case: str
    criteria: Sequence[Fields]
    specialty: str = ""


@dataclass(frozen=True)
class RubricFormat:
    """A format of rubrics. ``fits`` recognises its first record; ``read`` raises ``ValueError`` for a faulty one.

    ``by_case``: each record is a case; its id is its position if it has none.
    """

    name: str
    title: str
    fits: Callable[[Record], bool]
    read: Callable[[Record], CaseCriteria]
    by_case: bool = True


class ReadRubric(NamedTuple):
    """A rubric from a file, its format, and (position, reason) of the records that could not be read."""

    rubric: Rubric
    format: str
    rejected: tuple[tuple[int, str], ...] = ()


def _identity(record: Record) -> str:
    return str(next((record[key] for key in ("prompt_id", "case_id", "case", "id") if record.get(key)), ""))


def _items(record: Record, *names: str) -> Sequence[Mapping[str, Any]]:
    listed = next((record[name] for name in names if isinstance(record.get(name), Sequence)), ())
    return [item for item in listed if isinstance(item, Mapping)] if not isinstance(listed, str) else ()


def _numbered(criteria: Iterable[Fields]) -> list[Fields]:
    """Give criteria without an id one, from their title or their number."""
    numbered, used = [], set[str]()
    for number, fields in enumerate(criteria, 1):
        title = re.sub(r"[^a-z0-9]+", "_", str(fields.pop("title", "")).lower()).strip("_")[:40].strip("_")
        name = title if title and title not in used else f"c{number}"
        used.add(name)
        numbered.append({"id": name, **fields})
    return numbered


def _has(lists: str, keys: str) -> Callable[[Record], bool]:
    """Return whether the first item of one of the lists, by name, has these keys."""
    return lambda record: any(
        set(keys.split()) <= items[0].keys() for name in lists.split() if (items := _items(record, name))
    )


def _healthbench(record: Record) -> CaseCriteria:
    """``rubrics: [{criterion, points, tags}]``; a tag ``axis:NAME`` names the axis (Arora et al. 2025)."""
    criteria = []
    for item in _items(record, "rubrics"):
        tags = [str(tag) for tag in item.get("tags") or ()]
        axis = next((tag.partition(":")[2] for tag in tags if tag.startswith("axis:")), NO_AXIS)
        others = [tag for tag in tags if not tag.startswith("axis:")]
        fields = {"criterion": item["criterion"], "points": item["points"], "axis": axis.replace("_", " ")}
        criteria.append({**fields, "tags": others})
    return CaseCriteria(_identity(record), _numbered(criteria))


def _livemedbench(record: Record) -> CaseCriteria:
    """``rubric_items: [{criterion, points}]`` (Yan et al. 2026)."""
    items = _items(record, "rubric_items", "rubrics")
    criteria = [{"criterion": item["criterion"], "points": item["points"]} for item in items]
    return CaseCriteria(_identity(record), _numbered(criteria))


def _healthbench_professional(record: Record) -> CaseCriteria:
    """``rubric_items: [{criterion_text, points}]``, as in the data set on the Hugging Face hub."""
    criteria = [
        {"criterion": item["criterion_text"], "points": item["points"]} for item in _items(record, "rubric_items")
    ]
    return CaseCriteria(_identity(record), _numbered(criteria))


_IMPORTANCE = re.compile(r"^(?:essential|important|optional|pitfall)\s+criteria\s*:\s*", re.IGNORECASE)


def _rar(record: Record) -> CaseCriteria:
    """``rubric: [{title, description, weight}]`` (Gunjal et al. 2025); essential criteria are musts."""
    criteria = []
    for item in _items(record, "rubric", "rubrics"):
        essential = str(item["description"]).lower().startswith("essential") and float(item["weight"]) > 0
        text = _IMPORTANCE.sub("", str(item["description"]))  # the judge must not see what a criterion is worth
        fields = {"title": item["title"], "criterion": text, "points": item["weight"]}
        criteria.append({**fields, "priority": "must"} if essential else fields)
    return CaseCriteria(_identity(record), _numbered(criteria))


def _competencies(record: Record) -> Mapping[str, Sequence[str]]:
    """Return the lists of sentences of a record, by competency; the lists may be in an object of the record."""
    places = [value for value in record.values() if isinstance(value, Mapping)]
    for place in (*places, record):
        lists = {name: value for name, value in place.items() if isinstance(value, list) and value}
        lists = {name: value for name, value in lists.items() if all(isinstance(text, str) for text in value)}
        if len(lists) >= 2:
            return lists
    return {}


_ACGME = {
    "PC": "patient care",
    "MK": "medical knowledge",
    "SBP": "systems-based practice",
    "ICS": "communication",
    "PBLI": "practice-based learning",
    "PROF": "professionalism",
}
"""The six competencies of the ACGME by their abbreviations in MedSP1000."""


def _medsp1000(record: Record) -> CaseCriteria:
    """Six lists of sentences, one for each competency; each sentence counts one point.

    A case with several scenarios has a rubric for each: its id is ``case_id_scenario``.
    """
    criteria = [
        {"criterion": sentence, "points": 1, "axis": _ACGME.get(name, re.sub(r"[\s_]+", " ", name).lower())}
        for name, sentences in _competencies(record).items()
        for sentence in sentences
    ]
    identity = "_".join(filter(None, [_identity(record), str(record.get("scenario") or "")]))
    return CaseCriteria(identity, _numbered(criteria))


def _autorubric(record: Record) -> CaseCriteria:
    """``criteria: [{name, weight, requirement}]`` of autorubric's YAML; only criteria that are met or not."""
    criteria = []
    for item in _items(record, "criteria", "rubric"):
        if item.get("options") or str(item.get("scale_type", "binary")) != "binary":
            raise ValueError(
                f"the criterion {item.get('name')} has a scale: only criteria that are met or not are read"
            )
        fields = {"criterion": item["requirement"], "points": item.get("weight", 1)}
        criteria.append({"title": item.get("name", ""), **fields})
    return CaseCriteria(_identity(record), _numbered(criteria))


TABLE = ("case", "specialty", "id", "criterion", "points", "axis", "priority", "when", "source", "tags")
"""The columns of a rubric as a table. Without case and specialty a criterion is for all cases."""


def _plain_names(record: Record) -> Record:
    return {name.strip().lower() if isinstance(name, str) else name: value for name, value in record.items()}


def _row(record: Record) -> CaseCriteria:
    """One criterion a row: criterion, points, and any of the other columns of ``TABLE``; tags are joined by ;."""
    record = _plain_names(record)
    names = ("id", "criterion", "points", "axis", "priority", "when", "source", "tags")
    fields: Fields = {name: str(record[name]).strip() for name in names if str(record.get(name) or "").strip()}
    if "tags" in fields:
        fields["tags"] = [tag.strip() for tag in fields["tags"].split(";") if tag.strip()]
    specialty = str(record.get("specialty") or "").strip()
    return CaseCriteria(str(record.get("case") or "").strip(), [fields], specialty)


RUBRIC_FORMATS: dict[str, RubricFormat] = {
    rubric_format.name: rubric_format
    for rubric_format in (
        RubricFormat(
            "table",
            "table with the columns criterion and points",
            lambda record: {"criterion", "points"} <= _plain_names(record).keys(),
            _row,
            False,
        ),
        RubricFormat("healthbench", "HealthBench", _has("rubrics", "criterion points tags"), _healthbench),
        RubricFormat(
            "healthbench_professional",
            "HealthBench Professional",
            _has("rubric_items", "criterion_text points"),
            _healthbench_professional,
        ),
        RubricFormat("livemedbench", "LiveMedBench", _has("rubric_items rubrics", "criterion points"), _livemedbench),
        RubricFormat("rar", "Rubrics as Rewards", _has("rubric rubrics", "description weight"), _rar),
        RubricFormat("autorubric", "autorubric", _has("criteria rubric", "requirement"), _autorubric),
        RubricFormat("medsp1000", "MedSP1000", lambda record: bool(_competencies(record)), _medsp1000),
    )
}
"""Name → format, in the order in which they are tried."""


def import_rubric(path: Path, name: str, *, format_: str | None = None, data_set: str = "") -> ReadRubric:
    """Read a rubric from a file.

    Args:
        path: YAML, CSV, Excel, JSON, JSON Lines or Parquet; or a folder of YAML files.
        name: The name of the rubric.
        format_: A name of ``RUBRIC_FORMATS``; by default the first that fits.
        data_set: Put before the ids of cases, if these are no case keys: ``data_set/id``.

    Raises ``UsageError`` if the file has no known format or is no valid rubric.
    """
    if path.is_dir():
        return ReadRubric(read_rubric(path).model_copy(update={"name": name}), "yaml")
    if path.suffix.lower() in (".yaml", ".yml"):
        fields = yaml_fields(file_text(path), str(path))
        if not _has("criteria rubric", "requirement")(fields):
            return ReadRubric(rubric_of({**fields, "name": name}, str(path)), "yaml")
        records: Iterable[tuple[int, Any]] = [(1, fields)]
    else:
        records = _records(path)
    return _from_records(path, list(records), name, format_, data_set)


def rubric_table(rubric: Rubric) -> list[Fields]:
    """Return a rubric as rows with the columns of ``TABLE``."""
    rows = []
    for kind, name, criterion in rubric.scoped():
        fields = criterion.model_dump()
        scope = {"case": name if kind == "case" else "", "specialty": name if kind == "specialty" else ""}
        rows.append({column: {**fields, **scope}[column] for column in TABLE} | {"tags": "; ".join(criterion.tags)})
    return rows


def rubric_from_table(rows: Iterable[Record], about: Rubric) -> Rubric:
    """Return a rubric with the criteria of a table, and name, title, source and licence of another rubric.

    Empty rows are left out; a criterion without an id gets one. Raises ``UsageError`` for a faulty criterion.
    """
    scopes: dict[str, dict[str, list[Fields]]] = {"cases": {}, "specialties": {}}
    shared: list[Fields] = []
    for record in rows:
        part = _row(record)
        if not part.criteria[0].get("criterion"):
            continue
        kind, name = ("cases", part.case) if part.case else ("specialties", part.specialty)
        criteria = scopes[kind].setdefault(name, []) if name else shared
        criteria.extend(part.criteria)
    _name_criteria(scopes, shared)
    about_fields = about.model_dump(include={"name", "title", "source", "licence"})
    return rubric_of({**about_fields, "all": shared, **scopes}, "The table")


def _name_criteria(scopes: Mapping[str, Mapping[str, list[Fields]]], shared: list[Fields]) -> None:
    """Give criteria without an id a number that no other criterion has."""
    listed = [fields for scope in scopes.values() for criteria in scope.values() for fields in criteria] + shared
    used = {fields.get("id") for fields in listed}
    free = (name for number in count(1) if (name := f"c{number}") not in used)
    for fields in listed:
        if "id" not in fields:
            fields["id"] = next(free)


def _records(path: Path) -> Iterator[tuple[int, Any]]:
    rows = FileRows(path)
    if rows.kind == "json":
        listed = records_within(rows.root)
        # an object with the criteria of one case is a record itself
        if listed is None or (isinstance(rows.root, dict) and _format_of(rows.root)):
            listed = [rows.root]
        rows = rows.unpacked(listed)
    return iter(rows)


def _format_of(record: Any) -> RubricFormat | None:
    if not isinstance(record, Mapping):
        return None
    return next((candidate for candidate in RUBRIC_FORMATS.values() if candidate.fits(record)), None)


def _check_criteria(criteria: Iterable[Fields], place: str) -> None:
    """Raise ``UsageError`` with the place and the reason for a criterion that is not possible."""
    for fields in criteria:
        try:
            Criterion.model_validate({"id": "unnamed", **fields})
        except ValidationError as error:
            raise UsageError(f"{place} is no criterion: {reason_of(error)}.") from error


def _from_records(
    path: Path, records: Sequence[tuple[int, Any]], name: str, format_: str | None, data_set: str
) -> ReadRubric:
    first = next((record for _, record in records if not isinstance(record, DamagedRow)), None)
    if format_ is not None and format_ not in RUBRIC_FORMATS:
        raise UsageError(f"There is no format {format_!r} of rubrics: choose one of {', '.join(RUBRIC_FORMATS)}.")
    rubric_format = RUBRIC_FORMATS[format_] if format_ else _format_of(first)
    if rubric_format is None:
        titles = ", ".join(f"{f.name} ({f.title})" for f in RUBRIC_FORMATS.values())
        names = f" It has {', '.join(map(str, first))}." if isinstance(first, Mapping) else ""
        raise UsageError(f"{path.name} is no rubric of a known format: {titles}, or YAML of this project.{names}")
    scopes: dict[str, dict[str, list[Fields]]] = {"cases": {}, "specialties": {}}
    shared: list[Fields] = []
    rejected: list[tuple[int, str]] = []
    for position, record in records:
        try:
            if isinstance(record, DamagedRow):
                raise ValueError(record.reason)
            part = rubric_format.read(record)
            if not part.criteria:
                raise ValueError("it has no criterion")
        except (KeyError, ValueError, TypeError) as error:
            reason = f"the field {error} is missing" if isinstance(error, KeyError) else str(error)
            rejected.append((position, reason))
            continue
        _check_criteria(part.criteria, f"{path.name}, record {position}")
        if not part.case and rubric_format.by_case and len(records) > 1:
            part = part._replace(case=str(position))
        if part.case:
            key = part.case if not data_set or "/" in part.case else f"{data_set}/{part.case}"
            scopes["cases"].setdefault(key, []).extend(part.criteria)
        elif part.specialty:
            scopes["specialties"].setdefault(part.specialty, []).extend(part.criteria)
        else:
            shared.extend(part.criteria)
    if not (shared or scopes["cases"] or scopes["specialties"]):
        why = f" ({rejected[0][1]})" if rejected else ""
        raise AnamnesisError(f"{path.name} has no criterion that can be read{why}.")
    _name_criteria(scopes, shared)
    fields = {"name": name, "source": rubric_format.title, "all": shared, **scopes}
    return ReadRubric(rubric_of(fields, path.name), rubric_format.name, tuple(rejected))
