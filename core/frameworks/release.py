"""What a framework's authors released, as its folder reads it: cases and results in records that an import stores.

Only the layout of the authors' files is the framework's own business. An import (``core.jobs.release``) asks the
reader for what is there, stores it as runs of the source "release", and knows from then on nothing of the layout.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, NamedTuple

from core.case import Case
from core.datasets.reading import Reading
from core.errors import UsageError
from core.events import EndReason, Format, QuestionType, Verdict

Fault = tuple[Verdict, str]
"""Why there is nothing to grade: the verdict, and the reason in words."""
McqVerdicts = tuple[Verdict, Verdict | None, str | None]
"""Loose verdict, strict verdict (``None`` where the choices are not known), and the choice that strictly was read."""


class BadFileError(Exception):
    """A case file that cannot be used, with the reason in words."""


@dataclass(frozen=True)
class ReleasedModel:
    """What is known of a folder of results: the papers' label, and the settings that it was played under.

    ``own_cases`` says whether its files bring their cases themselves; ``None``: the files have to be looked at.
    """

    label: str
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)
    own_cases: bool | None = None


@dataclass(frozen=True)
class ModelFolder:
    """A folder of results, its files called ``CASE_ID.json``; ``run_id`` is the run it becomes, always the same."""

    path: Path
    run_id: str
    model: ReleasedModel
    case_ids: tuple[str, ...]

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.path.name


@dataclass(frozen=True)
class Layout:
    """What a copy of a release holds of what is read; ``documents`` are files that are kept as they are."""

    release: Release
    root: Path
    models: tuple[ModelFolder, ...]
    documents: tuple[Path, ...] = ()

    def name_of(self, path: Path) -> str:
        """Return where in the release a file lies."""
        return path.relative_to(self.root).as_posix()

    def chosen(self, names: Sequence[str] | None) -> list[ModelFolder]:
        """Return the folders of the models named by label or folder, or all; raise ``UsageError`` for an unknown."""
        known = {name: folder for folder in self.models for name in (folder.name, folder.model.label)}
        for name in names or ():
            if name not in known:
                there = ", ".join(f"{folder.model.label} ({folder.name})" for folder in self.models)
                raise UsageError(f"There is no model {name!r} in it: choose of {there}.")
        return list(dict.fromkeys(known[name] for name in names)) if names else list(self.models)


@dataclass(slots=True)
class ReleasedTrial:
    """One trial as a release holds it.

    ``responses`` and ``faults`` go by the arms of the release. ``mcq`` has the verdicts on the arms with choices,
    ``frq`` (verdict, extracted diagnosis) of the free responses, ``None`` where there is nothing to judge. ``missing``
    says in words that the file has no such trial, ``prompt`` is what the doctor was told.
    """

    number: int
    faults: Sequence[Fault | None]
    prompt: str | None = None
    roles: Sequence[str] = ()
    texts: Sequence[str] = ()
    end_reason: EndReason | None = None
    end_detail: str = ""
    doctor_turns: int | None = None
    summary: str | None = None
    responses: Sequence[str | None] = ()
    mcq: list[McqVerdicts | None] = field(default_factory=list)
    frq: list[tuple[Verdict, str | None] | None] = field(default_factory=list)
    missing: str | None = None


class OwnCase(NamedTuple):
    """The case that a file of results brings itself, and its place among them.

    ``shown`` says whether the doctor was shown a picture, ``faults`` what became of pictures that could not be kept.
    """

    case: Case
    position: int
    shown: bool
    faults: tuple[str, ...]


class Release(ABC):
    """A reader of one layout. It reads what it is pointed at and stores nothing but the pictures of cases."""

    name: ClassVar[str]
    """The framework whose results they are, the data set that its cases become, and the command that imports it."""
    own_cases: ClassVar[str] = ""
    """The data set of the cases that results bring themselves."""
    about: ClassVar[str]
    """Whose release it is, in words."""
    version: ClassVar[int] = 1
    """Goes up when files come to be read differently, so that they are read again."""
    arms: ClassVar[tuple[tuple[Format, QuestionType], ...]]
    trials: ClassVar[int]
    """How many trials a case has."""
    cast: ClassVar[Mapping[str, str]]
    """Who played beside the models: ``patient``, ``grader`` and ``summariser``, by the papers' labels."""

    @abstractmethod
    def wanted(self, member: PurePosixPath) -> bool:
        """Say whether a member of an archive is read, at any depth of folders around the release."""

    @abstractmethod
    def find(self, folder: Path, name: str) -> Layout:
        """Find the release in a folder that the user calls ``name``; raise ``AnamnesisError`` where it is not there."""

    @abstractmethod
    def cases(self, layout: Layout) -> Reading:
        """Read the cases of the data set."""

    @abstractmethod
    def read(self, data: bytes, case_id: str, case: Case | None, model: ReleasedModel) -> list[ReleasedTrial]:
        """Return the trials of a case file; ``case`` is the case they are about, ``None`` where there is none.

        What is missing in a trial is invalid with its reason, never wrong. Raises ``BadFileError`` for what makes the
        file itself unusable: nothing of it is taken then.
        """

    def brings_own_cases(self, files: Iterable[tuple[bytes, str, Case | None]]) -> bool:
        """Say whether files (contents, case id, the data set's case of that id) bring cases of their own."""
        return False

    def own_case(self, data: bytes, case_id: str) -> OwnCase:
        """Return the case that a file brings, its pictures kept; raise ``BadFileError`` where it lacks a part."""
        raise BadFileError("it brings no case of its own")

    def template_of(self, prompt: str) -> str:
        """Return a doctor's prompt with ``{specialty}`` in place of the case's specialty, if it names one."""
        return prompt
