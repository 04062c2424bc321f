"""Diseases and findings in data/knowledge, and their names.

The figures are rough; they serve a reference baseline and are not for care.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, TypeVar

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from core import paths
from core.errors import AnamnesisError
from core.knowledge.spelling import american
from core.words import fault_of

FindingKind = Literal["symptom", "history", "family", "sign", "lab", "imaging"]
T = TypeVar("T", bound=BaseModel)


class Finding(BaseModel):
    """One observable finding. ``base`` is its probability (0 to 1) in any patient.

    ``phrases`` express it in text; a phrase inside an ``unless`` phrase ("scale" in "coma scale") does not count.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    name: str
    kind: FindingKind
    base: float = Field(gt=0, lt=1)
    phrases: tuple[str, ...] = Field(min_length=1)
    unless: tuple[str, ...] = ()


class Disease(BaseModel):
    """One disease: ``findings`` maps ids to P(finding | disease); other findings have their ``base``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    name: str
    specialty: str
    synonyms: tuple[str, ...] = ()
    supertypes: tuple[str, ...] = ()
    age: tuple[float, float]
    female: float = Field(ge=0, le=1)
    prevalence: int = Field(ge=1, le=5)
    findings: dict[str, float]
    use: Literal["reference baseline only, not for care"]

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *self.synonyms)


class Knowledge:
    """All diseases and findings, with lookup by id or name."""

    def __init__(self, diseases: Iterable[Disease], findings: Iterable[Finding]) -> None:
        self.diseases: tuple[Disease, ...] = tuple(diseases)
        self.findings: tuple[Finding, ...] = tuple(findings)
        self.finding = {f.id: f for f in self.findings}
        self._by_name: dict[str, Disease] = {}
        for disease in self.diseases:
            for name in disease.names:
                self._by_name.setdefault(normalise_name(name), disease)

    @functools.cached_property
    def plain_names(self) -> tuple[tuple[str, str, str], ...]:
        """(Plain words, name as written, disease) of every disease name, the longest first."""
        names = [(" ".join(words_of_name(name)), name, d.name) for d in self.diseases for name in d.names]
        return tuple(sorted((entry for entry in names if entry[0]), key=lambda entry: -len(entry[0])))

    @functools.cached_property
    def by_first_word(self) -> dict[str, list[int]]:
        """First word → positions in ``plain_names`` of the names that begin with it."""
        positions: dict[str, list[int]] = {}
        for position, (name, *_) in enumerate(self.plain_names):
            positions.setdefault(name.partition(" ")[0], []).append(position)
        return positions

    def disease(self, name: str) -> Disease | None:
        return self._by_name.get(normalise_name(name))


_PARENTHESES = re.compile(r"\([^)]*\)")
_NOT_WORD = re.compile(r"[^a-z0-9 ]+")
_FILLER = {"the", "a", "an", "of", "disease", "disorder", "syndrome", "acute", "primary", "likely", "probable"}


def words_of_name(name: str) -> list[str]:
    """Return the words of a disease name: lower case, one spelling, no punctuation, apostrophe-s dropped."""
    plain = name.lower().replace("’", "'").replace("'s", "").replace("'", "")
    return list(map(_american, _NOT_WORD.sub(" ", plain.replace("-", " ")).split()))


_american = functools.lru_cache(maxsize=50_000)(american)


@functools.cache
def normalise_name(name: str) -> str:
    """Return one form for all spellings of a disease name.

    The form lacks filler words ("disease", "acute", "syndrome"…), parentheses, plurals and British spelling. If
    nothing would remain, it keeps all words.
    """
    end = name.rfind(")") + 1  # after it, the search for the end of each opening bracket would be in vain
    words = words_of_name(_PARENTHESES.sub(" ", name[:end]) + name[end:]) or words_of_name(name)
    content = [w for w in words if w not in _FILLER] or words
    plural = (len(w) > 4 and w.endswith("s") and not w.endswith(("ss", "us", "is")) for w in content)
    return " ".join(w[:-1] if is_plural else w for w, is_plural in zip(content, plural, strict=True))


def _read_records(folder: Path, model: type[T]) -> list[T]:
    records: list[T] = []
    for path in sorted(folder.glob("*.jsonl")):
        for number, line in enumerate(path.read_bytes().splitlines(), start=1):
            if not line.strip():
                continue
            try:
                records.append(model.model_validate(orjson.loads(line)))
            except (ValidationError, orjson.JSONDecodeError) as error:
                raise AnamnesisError(f"{path.name}, line {number}: {fault_of(error, 'record')}") from error
    return records


def read_knowledge(folder: Path) -> Knowledge:
    """Read a folder with diseases/ and findings/ (JSONL); an error names the file and line."""
    return Knowledge(_read_records(folder / "diseases", Disease), _read_records(folder / "findings", Finding))


@functools.cache
def knowledge() -> Knowledge:
    return read_knowledge(paths.KNOWLEDGE)
