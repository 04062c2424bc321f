"""Rubrics: forms whose questions are criteria, statements about a conversation with points, for all or some cases.

A rubric is a YAML file, or a folder of YAML files that belong together. The rubrics of the project are in
``data/rubrics``; those of an extension in its folder ``rubrics``. Rubrics that users import are stored in the
database (``core.store.queries.rubrics``) and take precedence over a file of the same name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import orjson
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from core.errors import UsageError
from core.judging.form import RUBRIC, STATEMENT, Form, FormQuestion
from core.paths import RUBRICS, extensions
from core.yaml_text import read_yaml_file

Priority = Literal["must", "should", "must not"]
AXES = ("data gathering", "communication", "reasoning", "management", "safety", "professionalism")
"""The axes of this project's rubrics; imported rubrics have the axes of their publication."""
NO_AXIS = "other"
MOST_POINTS = 10_000
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]*")
_ABOUT_OTHERS = re.compile(
    r"(?:the )?(?:patient|parents?|mother|father|caregiver|carer|family|relatives?|nurse|staff)\b(?!['’]s)",
    re.IGNORECASE,
)
"""The beginning of a criterion that is not about the doctor, such as "The patient says when the pain began"."""
_INSTRUCTION = """\
Each question is a statement about the conversation. It is met if it is true of this conversation, and not met if it is
not true of it. A statement may describe something bad: it is met if that happened. Judge only what the messages say,
not what somebody may have meant or would have said later. Equivalent words count.""".replace("\n", " ")


class Criterion(BaseModel):
    """One statement about a conversation that is true (met) or false (not met) of it.

    Attributes:
        points: Points if met. Negative for something harmful, which is met if the doctor does it.
        priority: ``must not`` if and only if the points are negative.
        when: The condition under which the criterion applies; empty: always.
        source: The guideline, publication or person behind the criterion.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    criterion: str = Field(min_length=1)
    points: float = Field(allow_inf_nan=False, ge=-MOST_POINTS, le=MOST_POINTS)
    axis: str = NO_AXIS
    priority: Priority
    when: str = ""
    source: str = ""
    tags: tuple[str, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _usual_priority(cls, fields: Any) -> Any:
        if not isinstance(fields, dict):
            return fields
        if priority := fields.get("priority"):
            return {**fields, "priority": priority.strip().lower() if isinstance(priority, str) else priority}
        try:
            harmful = float(fields.get("points") or 0) < 0
        except (TypeError, ValueError):
            harmful = False  # the field itself is refused with its reason
        return {**fields, "priority": "must not" if harmful else "should"}

    @model_validator(mode="after")
    def _possible(self) -> Criterion:
        if not _ID.fullmatch(self.id):
            raise ValueError(f"{self.id!r} is not an id: use letters, digits and - _ . :")
        if self.points == 0:
            raise ValueError(f"{self.id} has no points: give it some, or remove it")
        if (self.points < 0) != (self.priority == "must not"):
            raise ValueError(
                f"{self.id} has {self.points:g} points and priority {self.priority!r}: only must not is < 0"
            )
        return self

    @property
    def hash(self) -> str:
        """Hash of what a judge sees: a verdict stays valid if points, axis or priority change."""
        return hashlib.sha256(orjson.dumps([self.criterion, self.when])).hexdigest()[:16]


class Scoped(NamedTuple):
    """A criterion with the cases it is for: ``kind`` and the name of the case or specialty (empty for all)."""

    kind: Literal["all", "specialty", "case"]
    name: str
    criterion: Criterion


class Rubric(BaseModel):
    """Criteria for ``all`` cases, by specialty, and by case key (``library/cardiology-1``).

    A conversation is judged by all criteria that are for its case. Their ids are unique for every case.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    title: str = ""
    source: str = ""
    licence: str = ""
    all: tuple[Criterion, ...] = ()
    specialties: dict[str, tuple[Criterion, ...]] = Field(default_factory=dict)
    cases: dict[str, tuple[Criterion, ...]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _possible(self) -> Rubric:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"{self.name!r} is not a name: use lower-case letters, digits, - and _")
        if not any(True for _ in self.scoped()):
            raise ValueError("it has no criterion")
        shared = [c.id for c in (*self.all, *(c for criteria in self.specialties.values() for c in criteria))]
        for place, ids in [
            ("all cases and specialties", shared),
            *((k, [c.id for c in v]) for k, v in self.cases.items()),
        ]:
            repeated = next((id_ for id_ in ids if ids.count(id_) > 1), None)
            if repeated is None and ids is not shared:
                repeated = next((id_ for id_ in ids if id_ in shared), None)
            if repeated is not None:
                raise ValueError(f"two criteria for {place} have the id {repeated!r}")
        return self

    def scoped(self) -> Iterator[Scoped]:
        yield from (Scoped("all", "", criterion) for criterion in self.all)
        for name, criteria in self.specialties.items():
            yield from (Scoped("specialty", name, criterion) for criterion in criteria)
        for name, criteria in self.cases.items():
            yield from (Scoped("case", name, criterion) for criterion in criteria)

    def criteria_for(self, case_key: str, specialty: str) -> tuple[Criterion, ...]:
        """Return the criteria for a case: those for all cases, for its specialty, and its own."""
        return (*self.all, *self.specialties.get(specialty, ()), *self.cases.get(case_key, ()))

    @cached_property
    def form(self) -> Form:
        """The rubric as a form of the name ``rubric:NAME``; the words of the doctor are evidence.

        A criterion that begins with somebody else is decided by anyone's words.
        """
        questions = tuple(
            FormQuestion(
                id=criterion.id,
                title=criterion.id,
                wording=criterion.criterion,
                options=STATEMENT,
                yes=("met",),
                when=criterion.when,
                points=criterion.points,
                axis=criterion.axis,
                priority=criterion.priority,
                of_case=kind == "case",
                quotes="anyone" if _ABOUT_OTHERS.match(criterion.criterion) else None,
                cases=(name,) if kind == "case" else (),
                specialties=(name,) if kind == "specialty" else (),
            )
            for kind, name, criterion in self.scoped()
        )
        return Form(
            name=f"{RUBRIC}{self.name}",
            title=self.title or self.name,
            about="conversation",
            shows=("dialogue",),
            quotes="doctor",
            source=self.source,
            instruction=_INSTRUCTION,
            questions=questions,
        )

    @cached_property
    def hash(self) -> str:
        """The version: a hash of all criteria with points, axes and priorities, in any order of scopes."""
        contents = self.model_dump(mode="json", include={"all", "specialties", "cases"})
        return hashlib.sha256(orjson.dumps(contents, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]


def rubric_of(fields: dict[str, Any], place: str) -> Rubric:
    """Validate a rubric; raises ``UsageError`` that names the place, the field and the reason."""
    try:
        return Rubric.model_validate(fields)
    except ValidationError as error:
        raise UsageError(f"{place} is not a rubric: {reason_of(error)}.") from error


def reason_of(error: ValidationError) -> str:
    """Return the first field that is wrong, with the reason."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    reason = first["msg"].removeprefix("Value error, ")
    return f"{where}: {reason}" if where else reason


def rubric_fields(path: Path) -> dict[str, Any]:
    """Return the mapping in a YAML file, without empty fields. Raises ``UsageError`` if it is none."""
    fields = read_yaml_file(path)
    if not isinstance(fields, dict):
        raise UsageError(f"{path} is not a rubric: it needs title, and criteria under all, specialties or cases.")
    return {name: value for name, value in fields.items() if value != ""}


def read_rubric(path: Path) -> Rubric:
    """Read a rubric from a YAML file, or from the YAML files of a folder. Raises ``UsageError`` if it is not one."""
    if not path.is_dir():
        return rubric_of({**rubric_fields(path), "name": path.stem}, str(path))
    merged: dict[str, Any] = {"name": path.name, "all": [], "specialties": {}, "cases": {}}
    for file in sorted(path.glob("*.yaml")):
        fields = rubric_fields(file)
        if any(fields.get(scope) for scope in ("all", "specialties", "cases")):
            rubric_of({**fields, "name": "part"}, str(file))  # names the file of a fault
        for key, value in fields.items():
            if key == "all":
                merged["all"] += value
            elif key in ("specialties", "cases"):
                if repeated := merged[key].keys() & value.keys():
                    raise UsageError(f"{file} has criteria for {min(repeated)}, and so has another file of the folder.")
                merged[key] |= value
            else:
                merged.setdefault(key, value)
    return rubric_of(merged, str(path))


def rubric_files() -> dict[str, Path]:
    """Return name → file or folder of the rubrics of the project and of extensions, the project's first."""
    files: dict[str, Path] = {}
    for folder in (RUBRICS, *(extension / "rubrics" for extension in extensions())):
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            if path.suffix == ".yaml" or (path.is_dir() and any(path.glob("*.yaml"))):
                files.setdefault(path.stem, path)
    return files


def to_yaml(rubric: Rubric) -> str:
    """Return a rubric as YAML that ``read_rubric`` reads back; the name becomes the file's."""

    def plain(criterion: Criterion) -> dict[str, Any]:
        fields = criterion.model_dump(mode="json", exclude_defaults=True)
        points = fields["points"]
        return {**fields, "points": int(points) if float(points).is_integer() else points}

    fields: dict[str, Any] = {k: v for k in ("title", "source", "licence") if (v := getattr(rubric, k))}
    if rubric.all:
        fields["all"] = [plain(criterion) for criterion in rubric.all]
    for scope in ("specialties", "cases"):
        if scopes := getattr(rubric, scope):
            fields[scope] = {name: [plain(criterion) for criterion in criteria] for name, criteria in scopes.items()}
    return yaml.safe_dump(fields, sort_keys=False, allow_unicode=True, width=120)
