"""Words of clinical prose: vocabulary that several rules share, and the taxonomy of topics.

The vocabulary is data/knowledge/vocabulary.toml. The functions return alternatives of a regular expression
("mother|father") without brackets, for use in a rule's own pattern; a longer word comes before its prefixes.

The taxonomy (data/knowledge/topics.toml) is a tree of topics about a patient, from the section to a single habit or
test, each with its cues: its headings, questions, profile keys and statements. The sections of a vignette, the topics
of a history and the topics of the reference players are views of it (``view``). All cues search lower-case text.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from typing import Any, Literal, TypeVar, get_args

from core import paths

PersonKind = Literal["female", "male", "young", "any"]
RelativeKind = Literal["parents", "siblings", "grandparents", "wider", "children", "partners", "companions"]
VerbForm = Literal["base", "s", "past"]
"""Form of a verb: "report", "reports", "reported"."""
Cue = Literal["heading", "words", "key", "question", "order", "statement", "sentence", "weak", "result", "touched"]
"""Kind of a topic's cue; the head of data/knowledge/topics.toml explains each."""
Name = TypeVar("Name", bound=str)

_CONTENT = tomllib.loads((paths.KNOWLEDGE / "vocabulary.toml").read_text(encoding="utf-8"))
NUMBERS: dict[str, float] = {word: float(value) for word, value in _CONTENT["numbers"].items()}
VAGUE: dict[str, tuple[float, float]] = {word: (low, high) for word, (low, high) in _CONTENT["vague"].items()}
"""Word → its lowest and highest meaning."""
DAYS: dict[str, float] = {unit: float(value) for unit, value in _CONTENT["days"].items()}
"""Unit of time → days."""
DENYING, ABSENT, BESIDE = (tuple(_CONTENT["denial"][name].split()) for name in ("forward", "absence", "beside"))
"""Words that deny what follows, words for an absence, and words that deny what precedes."""
_VERBS: dict[str, list[list[str]]] = {
    kind: [line.split() for line in lines.strip().splitlines()] for kind, lines in _CONTENT["verbs"].items()
}

DENY, DENIES, DENIED = next(forms for forms in _VERBS["reporting"] if forms[0] == "deny")


def alternatives(words: list[str] | tuple[str, ...]) -> str:
    return "|".join(sorted(map(re.escape, dict.fromkeys(words)), key=len, reverse=True))


def people(*kinds: PersonKind) -> str:
    return alternatives([word for kind in kinds for word in _CONTENT["people"][kind].split()])


def relatives(*kinds: RelativeKind, of: Literal["female", "male", ""] = "") -> str:
    """Return nouns for relatives of these kinds (without any: of all kinds); ``of`` limits them to one sex."""
    tables = [_CONTENT["relatives"][sex] for sex in ((of,) if of else ("female", "male", "either"))]
    chosen = (words for table in tables for kind, words in table.items() if not kinds or kind in kinds)
    return alternatives(" ".join(chosen).split())


def verbs(kind: Literal["reporting", "habits"], *forms: VerbForm, without: str = "") -> str:
    """Return verbs in these forms, except those with a base form in ``without``."""
    places = [("base", "s", "past").index(form) for form in forms]
    return alternatives([verb[at] for verb in _VERBS[kind] if verb[0] not in without.split() for at in places])


NUMBER = rf"(?:\d+(?:\.\d+)?|{alternatives(list(NUMBERS))})"
"""A number in figures or in words."""
AGED = rf"({NUMBER})[\s\-‐‑–]*(year|yr|month|week|day|hour)s?[\s\-‐‑–]*(?:old|of age)\b"
"""An age before a person, or after "at"; the groups are number and unit."""
PERSON = rf"(?:{people('female', 'male', 'young', 'any')}|(?:primi|multi|nulli)gravid\w*(?: woman)?)"
"""A noun for the patient of a vignette."""
UNITS = r"mg/d|g/d|g/l|meq|mmol|u/l|iu/|[μµu]g/|ng/|pg/|fl\b|mm/h|/hpf|/mm|cells/"
"""Units of values of the laboratory or of a device, in lower case."""
_ALWAYS: frozenset[Cue] = frozenset(("key", "question", "statement", "result"))
"""Cues that include the plain words of a topic."""
_FILLED = {
    "kin": relatives("parents", "siblings", "grandparents", "wider"), "children": relatives("children"),
    "siblings partners": relatives("siblings", "partners"), "people": people("female", "male"), "deny": DENIES,
    "units": UNITS,
}  # fmt: skip
_CUES: dict[str, dict[Cue, str]] = {}
_BELOW: dict[str, tuple[str, ...]] = {}


def _register_topic(name: str, table: dict[str, Any]) -> None:
    """Register a topic and its subtopics; raise ``ValueError`` for an unknown cue."""
    _BELOW[name] = tuple(key for key, value in table.items() if isinstance(value, dict))
    if unknown := table.keys() - set(get_args(Cue)) - set(_BELOW[name]):
        raise ValueError(f"topics.toml: {name} has no such cue as {', '.join(sorted(unknown))}.")
    _CUES[name] = {}
    for cue in get_args(Cue):
        if cue in table:
            lines = "|".join(table[cue].strip().splitlines())
            _CUES[name][cue] = re.sub(r"<([a-z ]+)>", lambda placeholder: _FILLED[placeholder[1]], lines)
    for below in _BELOW[name]:
        _register_topic(below, table[below])


_register_topic("", tomllib.loads((paths.KNOWLEDGE / "topics.toml").read_text(encoding="utf-8")))


def _from(name: str, without: Collection[str]) -> Iterator[str]:
    """Yield a topic and its subtopics, except ``without`` and their subtopics."""
    yield name
    for below in _BELOW[name]:
        if below not in without:
            yield from _from(below, without)


def cues(*names: str, of: Sequence[Cue], without: Collection[str] = ()) -> str:
    """Return the cues of these topics and their subtopics as alternatives; ``KeyError`` for an unknown topic."""
    kinds = (*of, "words") if _ALWAYS.intersection(of) else of
    topics = [topic for name in names for topic in _from(name, without)]
    return "|".join(_CUES[topic][kind] for topic in topics for kind in kinds if kind in _CUES[topic])


def below(name: str) -> tuple[str, ...]:
    """Return the direct subtopics of a topic, in the order of the file."""
    return _BELOW[name]


def alternatives_of(pattern: str) -> list[str]:
    """Return the top-level alternatives of a regular expression; every bracket must be a group."""
    parts = [""]
    depth = 0
    for letter in pattern:
        depth += (letter == "(") - (letter == ")")
        if letter == "|" and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


_PART = re.compile(r"(\\.|\[[^]]*\]|[^a-z ' -])|([a-z ' -])([?*{]?)")
"""A part of a regular expression outside of groups: no letter, or a letter that may be optional."""


def clue_of(alternative: str) -> str:
    """Return the longest run of letters that every match of an alternative contains.

    A first search for these letters is many times as fast as a search for all alternatives.
    """
    flat, depth = "", 0
    for letter in alternative:
        depth -= letter == ")"
        flat += letter if not depth else ""
        depth += letter == "("
    runs = "".join("|" if other or optional else letter for other, letter, optional in _PART.findall(flat))
    return max(runs.split("|"), key=len)


class Words:
    """Alternatives to search for in lower-case text: plain ones directly, others after their clue."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern

    @cached_property
    def _alternatives(self) -> tuple[tuple[str, ...], dict[str, re.Pattern[str]]]:
        # lazy: of hundreds of these objects, most commands use few
        parts = alternatives_of(self.pattern) if self.pattern else []  # an empty pattern matches nothing
        plain = tuple(part for part in parts if re.fullmatch(r"[a-z -]+", part))
        clues: dict[str, list[str]] = {}
        for part in parts:
            if part not in plain:
                clues.setdefault(clue_of(part), []).append(part)
        return plain, {clue: re.compile("|".join(patterns)) for clue, patterns in clues.items()}

    def are_in(self, lowered: str) -> bool:
        plain, others = self._alternatives
        if any(map(lowered.__contains__, plain)):
            return True
        return any(others[clue].search(lowered) for clue in filter(lowered.__contains__, others))


def view(names: Sequence[Name], *of: Cue) -> tuple[tuple[Name, Words], ...]:
    """Return (name, words) of these topics; a subtopic that is also in ``names`` belongs only to itself."""
    return tuple((name, Words(cues(name, of=of, without=names))) for name in names)
