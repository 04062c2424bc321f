"""Rubrics: forms about conversations whose questions are criteria, statements with points, for all or some cases.

A rubric is a YAML file, or a folder of YAML files that belong together. The rubrics of the project are in
``data/rubrics``; those of an extension in its folder ``rubrics``. Rubrics that users import are stored in the
database (``core.store.queries.rubrics``) and take precedence over a file of the same name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from core.errors import UsageError
from core.judging.form import RUBRIC, STATEMENT, Form, FormQuestion, reason_of
from core.paths import RUBRICS, extensions
from core.yaml_text import read_yaml_file

AXES = ("data gathering", "communication", "reasoning", "management", "safety", "professionalism")
"""The axes of this project's rubrics; imported rubrics have the axes of their publication."""
NO_AXIS = "other"
FIELDS = ("id", "criterion", "points", "axis", "priority", "when", "source", "tags")
"""The fields of a criterion in a file."""
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
_ABOUT_OTHERS = re.compile(
    r"(?:the )?(?:patient|parents?|mother|father|caregiver|carer|family|relatives?|nurse|staff)\b(?!['’]s)",
    re.IGNORECASE,
)
"""The beginning of a criterion that is not about the doctor, such as "The patient says when the pain began"."""
_INSTRUCTION = """\
Each question is a statement about the conversation. It is met if it is true of this conversation, and not met if it is
not true of it. A statement may describe something bad: it is met if that happened. Judge only what the messages say,
not what somebody may have meant or would have said later. Equivalent words count.""".replace("\n", " ")


class _File(BaseModel):
    """A rubric as it is written: criteria for ``all`` cases, by specialty, and by case key (``library/cardiology-1``).

    A conversation is judged by all criteria that are for its case. Their ids are unique for every case.
    """

    model_config = ConfigDict(extra="forbid")

    name: str
    title: str = ""
    source: str = ""
    licence: str = ""
    all: list[dict[str, Any]] = Field(default_factory=list)
    specialties: dict[str, list[dict[str, Any]]] = Field(default_factory=dict)
    cases: dict[str, list[dict[str, Any]]] = Field(default_factory=dict)


def rubric_of(fields: Mapping[str, Any], place: str) -> Form:
    """Read a rubric; raises ``UsageError`` that names the place, the field and the reason."""
    try:
        file = _File.model_validate(fields)
        scopes = [("all", "", "", file.all)]
        scopes += [(f"specialties.{name}", "", name, listed) for name, listed in file.specialties.items()]
        scopes += [(f"cases.{name}", name, "", listed) for name, listed in file.cases.items()]
        criteria = [
            criterion(entry, case, specialty, f"{scope}.{number}: ")
            for scope, case, specialty, listed in scopes
            for number, entry in enumerate(listed)
        ]
        return rubric(file.name, criteria, file.title, file.source, file.licence)
    except (UsageError, ValidationError) as error:
        reason = reason_of(error) if isinstance(error, ValidationError) else str(error)
        raise UsageError(f"{place} is not a rubric: {reason}.") from error


def criterion(fields: Mapping[str, Any], case: str = "", specialty: str = "", place: str = "") -> FormQuestion:
    """Return a criterion for all cases, one case or a specialty.

    Raises ``UsageError`` with ``place``, the field and the reason.

    ``fields`` are those of ``FIELDS``. The words of the doctor are evidence; a criterion that begins with somebody else
    is decided by anyone's words.
    """
    given = {name: value for name, value in fields.items() if value not in ("", None)}
    if unknown := [name for name in given if name not in FIELDS]:
        raise UsageError(f"{place}{unknown[0]}: a criterion has no such field")
    if missing := [name for name in FIELDS[:3] if name not in given]:
        raise UsageError(f"{place}{missing[0]}: the criterion has none")
    text = given.pop("criterion")
    try:
        return FormQuestion.model_validate(
            {
                "axis": NO_AXIS,
                **given,
                "title": given["id"],
                "wording": text,
                "options": STATEMENT,
                "yes": ("met",),
                "of_case": bool(case),
                "quotes": "anyone" if _ABOUT_OTHERS.match(str(text)) else None,
                "cases": (case,) if case else (),
                "specialties": (specialty,) if specialty else (),
            }
        )
    except ValidationError as error:
        raise UsageError(place + reason_of(error).replace("wording", "criterion")) from error


def rubric(name: str, criteria: Iterable[FormQuestion], title: str = "", source: str = "", licence: str = "") -> Form:
    """Return criteria as the form ``rubric:NAME``; raises ``ValidationError`` or ``UsageError`` if they are none."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} is not a name: use lower-case letters, digits, - and _")
    if not (questions := tuple(criteria)):
        raise UsageError("it has no criterion")
    return Form(
        name=f"{RUBRIC}{name}",
        title=title or name,
        about="conversation",
        shows=("dialogue",),
        quotes="doctor",
        source=source,
        licence=licence,
        instruction=_INSTRUCTION,
        questions=questions,
    )


def name_of(form: Form) -> str:
    return form.name.removeprefix(RUBRIC)


def cases_of_rubric(form: Form) -> list[str]:
    """Return the keys of the cases that have criteria of their own."""
    return list(dict.fromkeys(case for question in form.questions for case in question.cases))


def scoped_fields(form: Form) -> dict[str, Any]:
    """Return the criteria as in a file, with all their fields, under ``all``, ``specialties`` and ``cases``."""
    scopes: dict[str, Any] = {"all": [], "specialties": {}, "cases": {}}
    for question in form.questions:
        fields = {name: getattr(question, name) for name in FIELDS if name != "criterion"}
        fields |= {"criterion": question.wording, "tags": list(question.tags)}
        if question.cases or question.specialties:
            scope = scopes["cases" if question.cases else "specialties"]
            scope.setdefault((question.cases or question.specialties)[0], []).append(fields)
        else:
            scopes["all"].append(fields)
    return scopes


def version_of(form: Form) -> str:
    """Return a hash of all criteria with points, axes and priorities, in any order of scopes."""
    return hashlib.sha256(orjson.dumps(scoped_fields(form), option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]


def file_fields(form: Form) -> dict[str, Any]:
    """Return a rubric as the mapping in its file, without what is usual."""

    def plain(fields: dict[str, Any]) -> dict[str, Any]:
        stated = {name: fields[name] for name in FIELDS if fields[name] and (name, fields[name]) != ("axis", NO_AXIS)}
        return {**stated, "points": int(points) if (points := fields["points"]).is_integer() else points}

    title = "" if form.title == name_of(form) else form.title
    scopes = scoped_fields(form)
    fields: dict[str, Any] = {"title": title, "source": form.source, "licence": form.licence}
    fields["all"] = list(map(plain, scopes["all"]))
    for scope in ("specialties", "cases"):
        fields[scope] = {name: list(map(plain, criteria)) for name, criteria in scopes[scope].items()}
    return {name: value for name, value in fields.items() if value}


def to_yaml(form: Form) -> str:
    """Return a rubric as YAML that ``read_rubric`` reads back; the name becomes the file's."""
    return yaml.safe_dump(file_fields(form), sort_keys=False, allow_unicode=True, width=120)


def rubric_fields(path: Path) -> dict[str, Any]:
    """Return the mapping in a YAML file, without empty fields. Raises ``UsageError`` if it is none."""
    fields = read_yaml_file(path)
    if not isinstance(fields, dict):
        raise UsageError(f"{path} is not a rubric: it needs title, and criteria under all, specialties or cases.")
    return {name: value for name, value in fields.items() if value != ""}


def read_rubric(path: Path, name: str = "") -> Form:
    """Read a rubric from a YAML file, or from the YAML files of a folder, which may get another ``name``.

    Raises ``UsageError`` if it is none.
    """
    if not path.is_dir():
        return rubric_of({**rubric_fields(path), "name": path.stem}, str(path))
    merged: dict[str, Any] = {"name": name or path.name, "all": [], "specialties": {}, "cases": {}}
    for file in sorted(path.glob("*.yaml")):
        fields = rubric_fields(file)
        if any(fields.get(scope) for scope in ("all", "specialties", "cases")):
            rubric_of({**fields, "name": "part"}, str(file))  # names the file of a fault
        merged = {**fields, **merged}
        merged["all"] += fields.get("all", ())
        for scope in ("specialties", "cases"):
            of_file = fields.get(scope, {})
            if repeated := merged[scope].keys() & of_file.keys():
                raise UsageError(f"{file} has criteria for {min(repeated)}, and so has another file of the folder.")
            merged[scope] |= of_file
    return rubric_of(merged, str(path))


def rubric_files() -> dict[str, Path]:
    """Return name → file or folder of the rubrics of the project and of extensions, the project's first."""
    files: dict[str, Path] = {}
    for folder in (RUBRICS, *(extension / "rubrics" for extension in extensions())):
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            if path.suffix == ".yaml" or (path.is_dir() and any(path.glob("*.yaml"))):
                files.setdefault(path.stem, path)
    return files
