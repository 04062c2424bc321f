"""The nested parts of an AgentClinic record: labels with values, and which kind of finding a label names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from core.case import Section
from core.datasets.readers.format import RowError
from core.datasets.readers.values import plain

_GENERIC = frozenset(("Findings", "Result", "Results", "Symptoms", "Level"))
"""Labels that say nothing beside the one above them."""
_UNKNOWN = re.compile(
    r"n/?a|unknown|none provided|(?:[\w'’]+,? ){0,10}not (?:provided|specified|available|applicable|mentioned)\b.*|"
    r"no (?!significant|notable)(?:[\w'’]+ ){0,6}(?:provided|mentioned|available)",
    re.IGNORECASE,
)
_IMAGING = re.compile(
    r"imaging|x[-_ ]?rays?|radiogra|\bct\b|\bmri\b|ultraso|sonogra|echocardio|mammogra|doppler|barium|\bpet\b|angiogra|"
    r"scan\b|scintigra",
    re.IGNORECASE,
)
_OTHER = re.compile(
    r"electromyo|electrocardio|electroencephalo|\be[ceo]g\b|audio|hearing|spirometr|pulmonary function|biopsy|"
    r"endoscop|scopy\b|polysomno|nerve conduction|special test|vestibular|autonomic|manoeuvre|diary|assessment tool|"
    r"consult|screening tests|skin test|puncture|other tests",
    re.IGNORECASE,
)
_LABORATORY = re.compile(
    r"blood|lab\b|laborator|serum|urin|h(?:a)?ematolog|chemistr|panel|culture|complete|cbc|electrolyte|liver|"
    r"thyroid|coagulation|hormon|iron|antibod|serolog|smear|metabolic|toxicolog|genetic|cytometry|count|stool|wound|"
    r"sputum|titer|immuno|gas|glucose|dehydrogenase|acid|scraping|aspirat|arthrocentesis|elisa|std|sti\b|torch|esr|"
    r"crp|ca-\d|antigen|infectious|differential count|antiglobulin|electrophoresis|marrow|\btests?\b|reactive",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Leaf:
    """A value with the labels that lead to it, outermost first."""

    path: tuple[str, ...]
    value: str


def leaves(value: Any, path: tuple[str, ...]) -> Iterator[Leaf]:
    """Yield the values of a nested part in its order, each entry of a list for itself."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from leaves(inner, (*path, str(name)))
    elif isinstance(value, list):
        for inner in value:
            if isinstance(inner, list | Mapping):
                raise RowError(f"{'.'.join(path)} holds a list of parts instead of words")
            yield from leaves(inner, path)
    else:
        words = ("yes" if value else "no") if isinstance(value, bool) else plain(value, ".".join(path))
        if words:
            yield Leaf(path, words)


def known(value: str) -> bool:
    """Say whether a value tells anything: "not provided" and the like do not."""
    return _UNKNOWN.fullmatch(value.strip().rstrip(".")) is None


def words_of(path: tuple[str, ...]) -> str:
    """Return labels as words, outermost first, without those that say nothing."""
    kept = [name for name in path if name not in _GENERIC] or [path[-1]]
    return ", ".join(name.replace("_", " ") for name in kept)


def section_of_test(leaf: Leaf) -> Section:
    """Return the kind of a test by its labels: what it is of, then how it was made, the innermost label first."""
    names = [name.replace("_", " ") for name in reversed(leaf.path)]
    if any("vital signs" in name.lower() for name in names):
        return "vital_signs"
    if _OTHER.search(names[0]):
        return "other_tests"
    if any(_IMAGING.search(name) for name in names):
        return "imaging"
    for name in names:
        if _OTHER.search(name):
            return "other_tests"
        if _LABORATORY.search(name):
            return "laboratory"
    return "other_tests"
