"""Words of clinical prose that more than one rule looks for, read from data/knowledge/vocabulary.toml.

Every function returns alternatives of a regular expression ("mother|father"), without brackets around them, so that a
rule can put them into its own; longer words stand before shorter ones that they begin with.
"""

from __future__ import annotations

import re
import tomllib
from typing import Literal

from core import paths

PersonKind = Literal["female", "male", "young", "any"]
RelativeKind = Literal["parents", "siblings", "grandparents", "wider", "children", "partners", "companions"]
Form = Literal["base", "s", "past"]
"""Of a verb: "report", "reports", "reported"."""
Subject = Literal[
    "smoking", "alcohol", "drugs", "sex", "work", "home", "diet", "travel", "animals", "vaccination", "surgery",
    "pregnancy", "allergy", "imaging", "tracing",
]  # fmt: skip

_CONTENT = tomllib.loads((paths.KNOWLEDGE / "vocabulary.toml").read_text(encoding="utf-8"))
NUMBERS: dict[str, float] = {word: float(value) for word, value in _CONTENT["numbers"].items()}
VAGUE: dict[str, tuple[float, float]] = {word: (low, high) for word, (low, high) in _CONTENT["vague"].items()}
"""Word → the least and the most that it can mean."""
DAYS: dict[str, float] = {unit: float(value) for unit, value in _CONTENT["days"].items()}
"""Unit of time → days."""
DENYING, ABSENT, BESIDE = (tuple(_CONTENT["denial"][name].split()) for name in ("forward", "absence", "beside"))
"""Words that deny what follows, words for an absence, and words that say after a thing that it is not there."""
_VERBS: dict[str, list[list[str]]] = {
    kind: [line.split() for line in lines.strip().splitlines()] for kind, lines in _CONTENT["verbs"].items()
}

DENY, DENIES, DENIED = next(forms for forms in _VERBS["reporting"] if forms[0] == "deny")


def alternatives(words: list[str] | tuple[str, ...]) -> str:
    """Return words as alternatives, the longer first."""
    return "|".join(sorted(map(re.escape, dict.fromkeys(words)), key=len, reverse=True))


def people(*kinds: PersonKind) -> str:
    """Return what a person is called: "woman|lady|girl"."""
    return alternatives([word for kind in kinds for word in _CONTENT["people"][kind].split()])


def relatives(*kinds: RelativeKind, of: Literal["female", "male", ""] = "") -> str:
    """Return what relatives are called, of all kinds where none is named; ``of`` one sex alone."""
    tables = [_CONTENT["relatives"][sex] for sex in ((of,) if of else ("female", "male", "either"))]
    chosen = (words for table in tables for kind, words in table.items() if not kinds or kind in kinds)
    return alternatives(" ".join(chosen).split())


def verbs(kind: Literal["reporting", "habits"], *forms: Form, without: str = "") -> str:
    """Return verbs in these forms; those whose base form is in ``without`` are left out."""
    places = [("base", "s", "past").index(form) for form in forms]
    return alternatives([verb[at] for verb in _VERBS[kind] if verb[0] not in without.split() for at in places])


def subject(*names: Subject) -> str:
    """Return what tells that a text, in lower case, is about one of these subjects."""
    return "|".join(_CONTENT["subjects"][name] for name in names)
