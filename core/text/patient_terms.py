"""The stated lexicon of medical terms (data/knowledge/medical_terms.toml), and where a text holds one.

Rule. A term is found by whole words, in lower case, British spelling like American (ae and oe are read as e), with a
plural in -s or -es; a form that ends in ``*`` is a stem and stands for every word that begins so. All forms of an entry
are one term. What is no term, because patients do say it, stands at the head of the file.
"""

from __future__ import annotations

import functools
import hashlib
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from core import paths
from core.errors import AnamnesisError

FILE = paths.KNOWLEDGE / "medical_terms.toml"
_WORD = re.compile(r"[a-z]+")


@dataclass(frozen=True)
class Term:
    """One entry: its forms as they stand in the file (the first names it), and what a patient would say instead."""

    forms: tuple[str, ...]
    plain: str

    @property
    def name(self) -> str:
        """The first form, a stem without its star."""
        return self.forms[0].rstrip("*")


class Found(NamedTuple):
    """A term in a text, and where its words lie."""

    term: Term
    start: int
    end: int


class Lexicon:
    """All terms, looked up by the words of a text."""

    def __init__(self, terms: tuple[Term, ...]) -> None:
        self.terms = terms
        self._words: dict[str, list[tuple[tuple[str, ...], Term]]] = {}
        self._stems: dict[str, Term] = {}
        for term in terms:
            for form in term.forms:
                if form.endswith("*"):
                    self._stems[_folded(form[:-1])] = term
                else:
                    first, *rest = _WORD.findall(_folded(form))
                    self._words.setdefault(first, []).append((tuple(rest), term))
        self._shortest = min((len(stem) for stem in self._stems), default=0)
        self._known = functools.lru_cache(maxsize=50_000)(self._look_up)

    def named_in(self, text: str) -> frozenset[str]:
        """Return the names of the terms that a text holds."""
        words = _WORD.findall(text.lower())
        if not any(self._known(word) for word in dict.fromkeys(words)):
            return frozenset()
        return frozenset(found.term.name for found in self.find(text))

    def find(self, text: str) -> Iterator[Found]:
        """Yield the terms of a text in their order; of several that begin with one word the longest."""
        words = [(match[0], match.start(), match.end()) for match in _WORD.finditer(text.lower())]
        for place, (word, start, end) in enumerate(words):
            fits = [
                Found(term, start, words[place + len(rest)][2] if rest else end)
                for rest, term in self._known(word)
                if _follow(rest, [w for w, _, _ in words[place + 1 : place + 1 + len(rest)]])
            ]
            if fits:
                yield max(fits, key=lambda found: found.end)

    def _look_up(self, word: str) -> tuple[tuple[tuple[str, ...], Term], ...]:
        """Return what may follow a word, and the term that it then is."""
        plain = _folded(word)
        found = [
            entry for form in dict.fromkeys(_singulars(plain)) for entry in self._words.get(form, ())
            if form == plain or not entry[0]  # the first word of a phrase has no plural
        ]  # fmt: skip
        stems = (plain[:size] for size in range(self._shortest, len(plain) + 1))
        return (*found, *(((), self._stems[stem]) for stem in stems if stem in self._stems))


def _follow(rest: tuple[str, ...], words: list[str]) -> bool:
    return not rest or (
        len(words) == len(rest)
        and all(_folded(word) == form for word, form in zip(words[:-1], rest[:-1], strict=True))
        and rest[-1] in _singulars(_folded(words[-1]))
    )


def _singulars(word: str) -> tuple[str, ...]:
    """Return a word and what it may be the plural of."""
    return (word, *((word[:-1],) if word.endswith("s") else ()), *((word[:-2],) if word.endswith("es") else ()))


@functools.lru_cache(maxsize=50_000)
def _folded(word: str) -> str:
    return word.replace("ae", "e").replace("oe", "e")


def read_lexicon(path: Path = FILE) -> Lexicon:
    """Read a lexicon; raises ``AnamnesisError`` naming the entry that cannot be used."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise AnamnesisError(f"The lexicon of medical terms {path} cannot be read ({error}): mend it.") from error
    return Lexicon(tuple(_term(path, forms, plain) for area in content.values() for forms, plain in area.items()))


def _term(path: Path, forms: str, plain: object) -> Term:
    listed = tuple(form.strip() for form in forms.split("|"))
    if not isinstance(plain, str) or not plain or not all(re.fullmatch(r"[a-z]+(?: [a-z]+)*\*?", f) for f in listed):
        raise AnamnesisError(
            f'{path.name}: the entry "{forms}" must be small letters and blanks, forms separated by |, and stand for '
            "plain words."
        )
    return Term(listed, plain)


@functools.cache
def lexicon() -> Lexicon:
    """Return the project's own lexicon, read once."""
    return read_lexicon()


@functools.cache
def lexicon_hash() -> str:
    """Return a short hash of the lexicon's terms, so that another lexicon marks anew."""
    text = "\n".join(f"{'|'.join(term.forms)}={term.plain}" for term in lexicon().terms)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def plain_words() -> Mapping[str, str]:
    """Return the name of each term → the plain words for it."""
    return {term.name: term.plain for term in lexicon().terms}
