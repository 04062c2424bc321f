"""What an import did, for whoever shows it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from core.store.queries.release import ReleaseFile


@dataclass
class ModelReport:
    """What was found of one model: files taken (some in place of earlier ones) or as they were, and what is excluded.

    ``kept`` counts earlier files that this copy does not have: their trials stay. ``prompts`` maps the hash of a
    doctor's prompt to the new conversations held under it, ``excluded`` why new answers do not count to how many.
    ``remarks`` are sentences about single files that were taken, such as a picture that is broken. ``own_cases``
    counts the cases that the files bring themselves.
    """

    folder: str
    label: str
    taken: int = 0
    replaced: int = 0
    unchanged: int = 0
    kept: int = 0
    trials: int = 0
    prompts: Counter[str] = field(default_factory=Counter)
    excluded: Counter[str] = field(default_factory=Counter)
    remarks: list[str] = field(default_factory=list)
    own_cases: int = 0


@dataclass(frozen=True)
class ImportReport:
    """What an import did.

    ``quarantined``: files of which nothing was taken, with their reason. ``rejected_cases``: (line, reason) of the
    data set's file. ``documents``: the experts' files. ``saved_cases``: the cases are now a data set of their own;
    ``saved_own_cases`` counts those that the files brought themselves and that are now another.
    """

    cases: int
    models: tuple[ModelReport, ...]
    quarantined: tuple[ReleaseFile, ...]
    rejected_cases: tuple[tuple[int, str], ...]
    documents: tuple[str, ...]
    saved_cases: bool
    saved_own_cases: int = 0

    @property
    def changed(self) -> bool:
        """Whether any conversation came in."""
        return any(model.taken for model in self.models)
