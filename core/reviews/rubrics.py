"""Rubrics by name: those that users saved, then those in files of the project and of extensions."""

from __future__ import annotations

from typing import NamedTuple

import duckdb
import orjson

from core.errors import AnamnesisError, UsageError
from core.judging.form import RUBRIC, Form, form_named
from core.judging.rubric import file_fields, name_of, read_rubric, rubric_files, rubric_of, version_of
from core.store.database import Store
from core.store.queries.rubrics import add_rubric, saved_rubrics
from core.store.tables import RubricRow

LIBRARY = "library"
"""The rubric of the cases that come with the program; the default."""


class RubricEntry(NamedTuple):
    """A rubric in the version that counts; ``saved``: not from a file of the program."""

    form: Form
    saved: bool


def rubric_named(store: Store, name: str) -> Form:
    """Return the version of a rubric that counts; raises ``UsageError`` if there is none of this name."""
    with store.read() as cursor:
        if saved := saved_rubrics(cursor, name):
            return _read(saved[0])
        names = [version.name for version in saved_rubrics(cursor)]
    files = rubric_files()
    if name not in files:
        listed = ", ".join(dict.fromkeys([*files, *names])) or "none"
        raise UsageError(f"There is no rubric {name!r}: choose one of {listed}, or import one.")
    return read_rubric(files[name])


def rubric_entries(store: Store) -> dict[str, RubricEntry]:
    """Return name → rubric, those of files first; a saved rubric replaces a file of its name."""
    with store.read() as cursor:
        saved = {version.name: version for version in saved_rubrics(cursor)}
    files = rubric_files()
    return {
        name: RubricEntry(_read(saved[name]) if name in saved else read_rubric(files[name]), name in saved)
        for name in dict.fromkeys([*files, *saved])
    }


def save_rubric(connection: duckdb.DuckDBPyConnection, rubric: Form) -> RubricRow:
    """Journal and save a version. Needs a write lease. Raises ``UsageError`` if it equals the newest version."""
    name = name_of(rubric)
    if (newest := saved_rubrics(connection, name)) and _read(newest[0]) == rubric:
        raise UsageError(f"The rubric {name} is saved like this already.")
    return add_rubric(connection, name, version_of(rubric), orjson.dumps(file_fields(rubric)).decode())


def _read(version: RubricRow) -> Form:
    try:
        return rubric_of({**orjson.loads(version.rubric), "name": version.name}, f"The saved rubric {version.name}")
    except UsageError as error:
        raise AnamnesisError(f"{error} Import it again.") from error


def any_form(store: Store, name: str) -> Form:
    """Return a form, or a rubric as a form (``rubric:NAME``); raises ``UsageError`` if there is none of this name."""
    return rubric_named(store, name.removeprefix(RUBRIC)) if name.startswith(RUBRIC) else form_named(name)
