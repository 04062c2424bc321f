"""Everyday and technical words (data/knowledge/everyday.toml), and which words of a text tell something."""

from __future__ import annotations

import functools
import re
import tomllib

from core import paths
from core.text.rouge import tokens

_WORD = re.compile(r"[a-z]+")
_SHORTEST = 6
"""A word with a technical ending has at least this many letters."""


@functools.cache
def _words(name: str) -> frozenset[str]:
    return frozenset(_read()[name].split())


@functools.cache
def _read() -> dict[str, str]:
    content = tomllib.loads((paths.KNOWLEDGE / "everyday.toml").read_text(encoding="utf-8"))
    return {**content, "same": "\n".join(content["same"])}


@functools.cache
def _stands_for() -> dict[str, str]:
    """Return stem → the stem that stands for it; of two groups that a word is in, the first."""
    meaning: dict[str, str] = {}
    for group in _read()["same"].splitlines():
        first, *others = tokens(group)
        for stem in (first, *others):
            meaning.setdefault(stem, first)
    return meaning


@functools.cache
def _empty_stems() -> frozenset[str]:
    return frozenset(tokens(_read()["empty"])) | _words("empty")


@functools.lru_cache(maxsize=50_000)
def telling(text: str) -> frozenset[str]:
    """Return what a text speaks of: its stems without words that say nothing, one stem for words of one meaning."""
    empty, meaning = _empty_stems(), _stands_for()
    return frozenset(meaning.get(stem, stem) for stem in tokens(text) if stem not in empty)


@functools.lru_cache(maxsize=100_000)
def is_technical(word: str) -> bool:
    """Say whether a lower-case word is one of medicine: listed, or with one of the endings and not listed as known."""
    if word in _words("everyday"):
        return False
    return word in _words("technical") or (len(word) >= _SHORTEST and word.endswith(tuple(_words("endings"))))


def words(text: str) -> list[str]:
    """Return the words of a text, lower case, without numbers."""
    return _WORD.findall(text.lower())
