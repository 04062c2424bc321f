"""Where a patient gives the diagnosis away.

Rule. The patient names the right answer, a synonym of it or a broader name (the case's own lists, and those of
data/knowledge), by whole words with a plural, though the vignette does not hold that name and the doctor has not said
it before. Saying that one does not have it is a leak as well: nobody had asked. A sentence that speaks of a relative
is none.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import NamedTuple

from core.case import Case, sentences
from core.knowledge.base import knowledge, words_of_name
from core.vocabulary import relatives

_SHORTEST = 4
"""Letters of a name that is looked for: shorter ones are abbreviations with other meanings."""
_BETWEEN = r"(?:['’]s)?[\W_]+"
_RELATIVE = re.compile(rf"\b(?:family|(?:{relatives()})s?)\b", re.IGNORECASE)


class Name(NamedTuple):
    """A name by which the diagnosis can be given away: how it names it, its longest word, and its pattern."""

    how: str
    clue: str
    pattern: re.Pattern[str]


class Leak(NamedTuple):
    """Where a reply gives the diagnosis away, and how it names it."""

    how: str
    start: int
    end: int


@functools.lru_cache(maxsize=4_096)
def hidden_names(case: Case) -> tuple[Name, ...]:
    """Return the names of a case's diagnosis that its vignette does not hold, the answer's own first."""
    disease = knowledge().disease(case.answer)
    groups = {
        "the answer": (case.answer,),
        "a synonym": (*case.synonyms, *(disease.names if disease else ())),
        "a broader name": (*case.supertypes, *(disease.supertypes if disease else ())),
    }
    found: dict[str, Name] = {}
    for how, names in groups.items():
        for name in names:
            words = words_of_name(name)
            spelt = " ".join(words)
            if sum(map(len, words)) < _SHORTEST or spelt in found:
                continue
            pattern = re.compile(rf"\b{_BETWEEN.join(map(re.escape, words))}(?:e?s)?\b", re.IGNORECASE)
            if not pattern.search(case.vignette):
                found[spelt] = Name(how, max(words, key=len), pattern)
    return tuple(found.values())


def leak_in(text: str, names: Sequence[Name]) -> Leak | None:
    """Return where a reply holds one of these names of the patient's own disease; names count in their order."""
    lower = text.lower()
    for name in names:
        for match in name.pattern.finditer(text) if name.clue in lower else ():
            if not any(match[0] in sentence and _RELATIVE.search(sentence) for sentence in sentences(text)):
                return Leak(name.how, match.start(), match.end())
    return None
