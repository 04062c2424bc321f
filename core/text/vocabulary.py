"""Words of clinical prose: what more than one rule looks for, and the taxonomy of what a text is about.

The former stand in data/knowledge/vocabulary.toml. The functions return alternatives of a regular expression
("mother|father"), without brackets around them, so that a rule can put them into its own; longer words stand before
shorter ones that they begin with.

The taxonomy (data/knowledge/topics.toml) is a tree of what is told, asked and shown of a patient, from the section to
the single habit or test, each with its cues: how it is headed, asked for, named in a profile, told. The sections of a
vignette, the topics of a history, what the reference players look for are views of it (``view``). All of its cues are
searched for in lower-case text.
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
Form = Literal["base", "s", "past"]
"""Of a verb: "report", "reports", "reported"."""
Cue = Literal["heading", "words", "key", "question", "order", "statement", "sentence", "weak", "result", "touched"]
"""How a topic shows: what each means stands at the head of data/knowledge/topics.toml."""
Named = TypeVar("Named", bound=str)

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


NUMBER = rf"(?:\d+(?:\.\d+)?|{alternatives(list(NUMBERS))})"
"""A number in figures or in words."""
AGED = rf"({NUMBER})[\s\-‐‑–]*(year|yr|month|week|day|hour)s?[\s\-‐‑–]*(?:old|of age)\b"
"""An age before a person, or after "at": its number and its unit, in this order, are groups."""
PERSON = rf"(?:{people('female', 'male', 'young', 'any')}|(?:primi|multi|nulli)gravid\w*(?: woman)?)"
"""What the patient of a vignette is called."""
UNITS = r"mg/d|g/d|g/l|meq|mmol|u/l|iu/|[μµu]g/|ng/|pg/|fl\b|mm/h|/hpf|/mm|cells/"
"""What stands behind a value of the laboratory or of a device, in lower case."""
_ALWAYS: frozenset[Cue] = frozenset(("key", "question", "statement", "result"))
"""Cues that the plain words of a topic belong to."""
_FILLED = {
    "kin": relatives("parents", "siblings", "grandparents", "wider"), "children": relatives("children"),
    "siblings partners": relatives("siblings", "partners"), "people": people("female", "male"), "deny": DENIES,
    "units": UNITS,
}  # fmt: skip
_CUES: dict[str, dict[Cue, str]] = {}
_BELOW: dict[str, tuple[str, ...]] = {}


def _read(name: str, table: dict[str, Any]) -> None:
    """Enter a topic and those below it; a cue that there is not is an error."""
    _BELOW[name] = tuple(key for key, value in table.items() if isinstance(value, dict))
    if unknown := table.keys() - set(get_args(Cue)) - set(_BELOW[name]):
        raise ValueError(f"topics.toml: {name} has no such cue as {', '.join(sorted(unknown))}.")
    _CUES[name] = {}
    for cue in get_args(Cue):
        if cue in table:
            lines = "|".join(table[cue].strip().splitlines())
            _CUES[name][cue] = re.sub(r"<([a-z ]+)>", lambda found: _FILLED[found[1]], lines)
    for below in _BELOW[name]:
        _read(below, table[below])


_read("", tomllib.loads((paths.KNOWLEDGE / "topics.toml").read_text(encoding="utf-8")))


def _from(name: str, without: Collection[str]) -> Iterator[str]:
    """Yield a topic and those below it, but for ``without`` and what is below these."""
    yield name
    for below in _BELOW[name]:
        if below not in without:
            yield from _from(below, without)


def cues(*names: str, of: Sequence[Cue], without: Collection[str] = ()) -> str:
    """Return what tells these topics and those below them, as alternatives; ``KeyError`` for a topic unknown."""
    kinds = (*of, "words") if _ALWAYS.intersection(of) else of
    topics = [topic for name in names for topic in _from(name, without)]
    return "|".join(_CUES[topic][kind] for topic in topics for kind in kinds if kind in _CUES[topic])


def below(name: str) -> tuple[str, ...]:
    """Return the topics right below a topic, in the order of the file."""
    return _BELOW[name]


def alternatives_of(pattern: str) -> list[str]:
    """Return the alternatives of a regular expression whose brackets are all groups."""
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
"""A part of a regular expression outside of groups: something else than a letter, or a letter that may be optional."""


def clue_of(alternative: str) -> str:
    """Return letters that must stand in whatever an alternative of a regular expression matches, as many as are sure.

    To look for them first is many times as fast as to search for all alternatives.
    """
    flat, depth = "", 0
    for letter in alternative:
        depth -= letter == ")"
        flat += letter if not depth else ""
        depth += letter == "("
    runs = "".join("|" if other or optional else letter for other, letter, optional in _PART.findall(flat))
    return max(runs.split("|"), key=len)


class Words:
    """Alternatives that are looked for in lower-case text: plain ones as they stand, the others by a clue first."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern

    @cached_property
    def _alternatives(self) -> tuple[tuple[str, ...], dict[str, re.Pattern[str]]]:
        """The plain ones, and the others by clue. There are hundreds of these objects; most programs ask few."""
        parts = alternatives_of(self.pattern) if self.pattern else []  # without words, nothing is found
        plain = tuple(one for one in parts if re.fullmatch(r"[a-z -]+", one))
        clues: dict[str, list[str]] = {}
        for one in parts:
            if one not in plain:
                clues.setdefault(clue_of(one), []).append(one)
        return plain, {clue: re.compile("|".join(these)) for clue, these in clues.items()}

    def are_in(self, lowered: str) -> bool:
        """Say whether one of them is in the text."""
        plain, others = self._alternatives
        if any(map(lowered.__contains__, plain)):
            return True
        return any(others[clue].search(lowered) for clue in filter(lowered.__contains__, others))


def view(names: Sequence[Named], *of: Cue) -> tuple[tuple[Named, Words], ...]:
    """Return (name, words) of these topics; what is below one of them and itself among them counts for itself alone."""
    return tuple((name, Words(cues(name, of=of, without=names))) for name in names)
