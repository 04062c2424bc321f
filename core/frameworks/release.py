"""Readers of the cases and results that a framework's authors released; an import stores the records.

Only the reader in the framework's folder knows the layout of the authors' files. An import (``core.jobs.release``)
stores the records of the reader as runs of the source "release".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, NamedTuple

from core.case import Case
from core.datasets.reading import ReadCases
from core.errors import UsageError
from core.events import EndReason, Format, QuestionType, Verdict

ReleaseFault = tuple[Verdict, str]
"""Verdict and reason of an answer that cannot be graded."""
McqVerdicts = tuple[Verdict, Verdict | None, str | None]
"""Loose verdict, strict verdict (``None`` if the choices are unknown), and the choice by the strict rule."""


class BadFileError(Exception):
    """A case file that cannot be used; the message is the reason."""


@dataclass(frozen=True)
class ReleasedModel:
    """The model of a folder of results: the papers' label, and the settings of its run.

    ``own_cases``: whether its files contain their cases; ``None`` if the files must be read to find out.
    """

    label: str
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)
    own_cases: bool | None = None


@dataclass(frozen=True)
class ModelFolder:
    """A folder of results with files ``CASE_ID.json``; every import stores it as the run ``run_id``."""

    path: Path
    run_id: str
    model: ReleasedModel
    case_ids: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.path.name


@dataclass(frozen=True)
class Layout:
    """The files of a copy of a release; ``documents`` are files that are stored unchanged."""

    release: Release
    root: Path
    models: tuple[ModelFolder, ...]
    documents: tuple[Path, ...] = ()

    def name_of(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()

    def chosen(self, names: Sequence[str] | None) -> list[ModelFolder]:
        """Return the folders of models by label or folder name, or all; raise ``UsageError`` for an unknown name."""
        by_name = {name: folder for folder in self.models for name in (folder.name, folder.model.label)}
        for name in names or ():
            if name not in by_name:
                listed = ", ".join(f"{folder.model.label} ({folder.name})" for folder in self.models)
                raise UsageError(f"There is no model {name!r} in it: choose from {listed}.")
        return list(dict.fromkeys(by_name[name] for name in names)) if names else list(self.models)


@dataclass(slots=True)
class ReleasedTrial:
    """One trial of a release.

    ``responses`` and ``faults`` are in the order of the release's arms. ``mcq`` has the verdicts of the arms with
    choices, ``frq`` (verdict, extracted diagnosis) of the free responses; ``None`` if there is nothing to judge.
    ``missing`` is a sentence if the file lacks the trial; ``prompt`` is the doctor's prompt.
    """

    number: int
    faults: Sequence[ReleaseFault | None]
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
    """The case in a file of results, and its position among them.

    ``with_picture``: whether the doctor saw a picture; ``faults``: sentences on pictures that could not be stored.
    """

    case: Case
    position: int
    with_picture: bool
    faults: tuple[str, ...]


class Release(ABC):
    """A reader of one layout. It stores nothing but the pictures of cases."""

    name: ClassVar[str]
    """Name of the framework, of the data set of the cases, and of the command that imports the release."""
    own_cases: ClassVar[str] = ""
    """The data set of cases that are contained in files of results."""
    about: ClassVar[str]
    """The authors of the release, in words."""
    version: ClassVar[int] = 1
    """Increases when files are read differently, so that they are read again."""
    arms: ClassVar[tuple[tuple[Format, QuestionType], ...]]
    trials: ClassVar[int]
    """Number of trials of a case."""
    cast: ClassVar[Mapping[str, str]]
    """Players of the other seats: ``patient``, ``grader`` and ``summariser``, by the papers' labels."""

    @abstractmethod
    def wanted(self, member: PurePosixPath) -> bool:
        """Return whether a member of an archive is read, at any depth of folders around the release."""

    @abstractmethod
    def find(self, folder: Path, name: str) -> Layout:
        """Find the release in a folder; ``name`` is for the ``AnamnesisError`` if it is not there."""

    @abstractmethod
    def cases(self, layout: Layout) -> ReadCases: ...

    @abstractmethod
    def read(self, data: bytes, case_id: str, case: Case | None, model: ReleasedModel) -> list[ReleasedTrial]:
        """Return the trials of a case file; ``case`` is their case, ``None`` if it is not in the data set.

        Missing parts of a trial are invalid with a reason, never wrong. Raises ``BadFileError`` if the whole file is
        unusable.
        """

    def brings_own_cases(self, files: Iterable[tuple[bytes, str, Case | None]]) -> bool:
        """Return whether files (contents, case id, the data set's case of this id) contain their cases."""
        return False

    def own_case(self, data: bytes, case_id: str) -> OwnCase:
        """Return the case in a file, and store its pictures; raise ``BadFileError`` if a part is missing."""
        raise BadFileError("it contains no case")

    def template_of(self, prompt: str) -> str:
        """Return a doctor's prompt with ``{specialty}`` in place of the case's specialty, if it names one."""
        return prompt
