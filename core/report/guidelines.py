"""Reporting guidelines: their items as data, one YAML file for each in data/guidelines or in an extension.

Only item numbers come from a guideline; labels are this project's own words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from core.errors import UsageError
from core.paths import GUIDELINES, extensions
from core.words import fault_of
from core.yaml_text import read_yaml_file


class Item(BaseModel):
    """An item: its number and label, and the facts and fields that answer it.

    ``not_applicable`` is the reason why no study of this program has to answer it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    item: str
    label: str
    parts: tuple[str, ...] = ()
    not_applicable: str = ""


class Guideline(BaseModel):
    """A guideline: section → items, in their order."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    title: str
    about: str
    source: str
    sections: Mapping[str, tuple[Item, ...]]

    @property
    def items(self) -> tuple[Item, ...]:
        return tuple(item for items in self.sections.values() for item in items)


def guidelines() -> dict[str, Path]:
    """Return name → file of the guidelines, the project's first."""
    files: dict[str, Path] = {}
    for folder in (GUIDELINES, *(extension / "guidelines" for extension in extensions())):
        for path in sorted(folder.glob("*.yaml")):
            files.setdefault(path.stem, path)
    return files


def guideline(name: str, known: Iterable[str] = ()) -> Guideline:
    """Read a guideline; ``known`` are the valid names of parts.

    Raises ``UsageError`` if there is no such guideline, or if its file is invalid.
    """
    path = guidelines().get(name)
    if path is None:
        raise UsageError(f"There is no guideline {name!r}: choose among {', '.join(guidelines())}.")
    try:
        read = Guideline.model_validate({"name": name, **read_yaml_file(path)})
    except (TypeError, ValidationError) as error:
        raise UsageError(f"{path} is no guideline: {fault_of(error, 'the file')}.") from error
    parts = set(known)
    for item in read.items:
        if wrong := [part for part in item.parts if parts and part not in parts]:
            raise UsageError(f"{path}, item {item.item}: there is no fact or field {wrong[0]!r}.")
    return read
