"""Extracts: tables computed from many conversations in a separate process, and stored next to the database.

A computation that takes minutes and much memory over a large study is divided into parts. Each part is a Parquet file;
when all parts exist they are merged into one file, of which a figure reads only the columns and rows that it shows. The
key of an extract is the content of the database, the visitor and the choices: a write that adds nothing to the content,
such as scores of a measure, leaves it valid.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from abc import ABC, abstractmethod
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd

from core import __version__, access
from core.callbacks import ProgressCallback, StopCallback
from core.processes import read_by
from core.store.database import Store
from core.store.fold import content_state
from core.store.selection import Selection

PART = 1_000
"""Conversations per part; a stop loses at most one part."""
_KEPT = 12
"""Extracts next to a database; the oldest are deleted first."""
_NARROWED = {
    "conditions": "model",
    "question_types": "question_type",
    "datasets": "dataset",
    "specialties": "specialty",
}
"""Field of a selection → the column of an extract that it filters."""


class ExtractRows(ABC):
    """The source of the parts, read once for all of them."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def table(self, chosen: slice) -> pd.DataFrame: ...

    def in_parts(self, tell: ProgressCallback) -> pd.DataFrame:
        parts = []
        for start in range(0, max(1, len(self)), PART):
            parts.append(self.table(slice(start, start + PART)))
            tell(min(start + PART, len(self)), len(self))
        return pd.concat(parts, ignore_index=True)


@dataclass(frozen=True)
class Extract(ABC):
    """One table of the database ``path``; subclasses add ``name``, their choices as fields, and ``rows``."""

    path: Path
    state: str = field(init=False)
    seen_by: access.Visitor = field(init=False, repr=False, compare=False)
    whole: Path = field(init=False, repr=False, compare=False)
    """The merged file, which exists when the extract is complete."""
    name: ClassVar[str]

    def __post_init__(self) -> None:
        """Set state, visitor and path; the path is in a temporary folder if the usual one is read-only."""
        object.__setattr__(self, "state", f"{content_state(Store(self.path))} {access.visible_owner()}")
        object.__setattr__(self, "seen_by", access.visitor())
        digest = hashlib.sha256(f"{__version__} {self}".encode()).hexdigest()[:16]
        next_to_database = self.path.with_suffix(".extracts")
        folder = next_to_database if os.access(self.path.parent, os.W_OK) else Path(_of_this_process().name)
        object.__setattr__(self, "whole", folder / f"{self.name}-{digest}.parquet")

    @abstractmethod
    def rows(self, store: Store) -> ExtractRows: ...

    def make(self, tell: ProgressCallback, stop: StopCallback, *, few: bool) -> bool:
        """Compute the missing parts, in this process if trials are ``few``; return whether the extract is complete.

        After a stop or a kill, the next call continues. Raises ``AnamnesisError`` if the process ends early.
        """
        done, planned = 0, 0 if self.whole.exists() else 1
        with closing(read_by(0 if few else 1, (_ExtractPart(self, number) for number in count()))) as parts:
            while done < planned and not stop():
                done, planned = next(parts)
                tell(done, planned)
        _rows.cache_clear()
        return done == planned

    def read(self, columns: list[str] | None = None, *, within: Selection | None = None, **equal: Any) -> pd.DataFrame:
        """Return these columns of the stored rows whose other columns have the values of ``equal``.

        ``within`` filters by the conditions, question types, sources and specialties of a selection.
        """
        chosen = {column: getattr(within, name) for name, column in _NARROWED.items()} if within else {}
        filters = [
            *((column, "in", list(values)) for column, values in chosen.items() if values),
            *((column, "==", value) for column, value in equal.items()),
        ]
        return pd.read_parquet(self.whole, columns=columns, filters=filters or None)


@dataclass(frozen=True)
class _ExtractPart:
    extract: Extract
    number: int

    def read(self) -> tuple[int, int]:
        """Compute the part if it is missing; return (conversations done, conversations in all)."""
        whole = self.extract.whole
        if whole.exists():
            return 0, 0
        with access.acting(self.extract.seen_by):
            rows, last = _rows(self.extract), (self.number + 1) * PART
            parts = [whole.with_suffix("") / str(start) for start in range(0, max(1, len(rows)), PART)]
            if self.number < len(parts) and not parts[self.number].exists():
                _write(rows.table(slice(last - PART, last)), parts[self.number])
        if last >= len(rows):
            _write(pd.concat(map(pd.read_parquet, parts), ignore_index=True), whole)
            oldest_first = sorted(whole.parent.iterdir(), key=lambda path: path.stat().st_mtime)
            for path in (whole.with_suffix(""), *oldest_first[:-_KEPT]):
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        return min(last, len(rows)), len(rows)


@lru_cache(maxsize=1)
def _rows(extract: Extract) -> ExtractRows:
    return extract.rows(Store(extract.path))


@cache
def _of_this_process() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="anamnesis-")


def _write(table: pd.DataFrame, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    table.to_parquet(draft, row_group_size=10_000)  # small row groups, so that a filter by model skips the others
    draft.replace(path)
