"""What a text says, in a form in which facts, questions and replies can be compared.

Words become concepts (``core.text.lexicon``) with whether they are denied
(``core.text.negation``); spans of time, ages, weights and counts become ranges of values; findings of
data/knowledge are recognised with their polarity. All of it is kept by text, for the same texts come again and again.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass

from core.knowledge.base import knowledge
from core.text.lexicon import CLAIMS, GROUPS, KINDS, plain
from core.text.negation import stem_of, tokens_of, words_in
from core.text.quantities import Quantity, quantities_in
from core.text.understanding import understanding
from core.vocabulary import DENIED, DENIES, DENY

Claim = tuple[str, bool]
"""A concept, and whether it is denied."""

_IGNORED = frozenset(
    stem_of(w) for w in (
        f"{DENY} {DENIES} {DENIED} "
        "feel feels felt feeling notice noticed noticing have having present presents patient reports report "
        "year month "
        "week day hour old since about around kind sort type thing things something anything everything nothing like "
        "recent recently current currently past history also other still now ago then than more most well good many "
        "really actually maybe think thought guess know say says said tell told see saw come comes came go goes going "
        "went gone get got make made take takes taken taking took use used using put want need doctor hello hi thank "
        "thanks yes no not never none nor neither without any all both else while whenever time times first last next "
        "few couple several one two three lot mostly mainly usually often sometimes occasionally always ever "
        "every each "
        "experience experienced experiencing complain complains develop developed keep keeps because if even "
        "though long short able look looks looking seem seems trouble problem problems issue issues condition "
        "conditions "
        "symptom symptoms any specific new known certain total associated significant own same way part area "
        "please okay ok fine normal sure mind remember mention mentioned woman man male female boy girl person people "
        "early late half twice once "
        "over up but down out within through past become became becoming slowly similar into away only be "
        "happen happened happens no-one myself where what which who how why notable"
    ).split()
)  # fmt: skip
_ENDS = re.compile(r"(?<=[.!?])\s+|\n+")


@dataclass(frozen=True)
class Reading:
    """What a text says: concepts (with denial), quantities, and findings with polarity."""

    claims: frozenset[Claim]
    quantities: tuple[Quantity, ...]
    text: str

    @functools.cached_property
    def findings(self) -> Mapping[str, bool]:
        """Findings of data/knowledge with their polarity; recognised only where somebody looks."""
        return understanding().recogniser.read(self.text)

    @functools.cached_property
    def concepts(self) -> frozenset[str]:
        """The concepts, denied or not."""
        return frozenset(concept for concept, _ in self.claims)


@functools.lru_cache(maxsize=50_000)
def read(text: str) -> Reading:
    """Read a text."""
    claims: set[Claim] = set()
    bare, quantities = quantities_in(text.lower())
    lowered = plain(bare)
    for sentence in _ENDS.split(lowered):  # not ``sentences``, which looks for capitals
        for token in tokens_of(words_in(sentence)) if sentence.strip() else ():
            for concept in _concepts(token.stem):
                claims.add((concept, token.negated_by is not None and token.negated_by != token.position))
    return Reading(frozenset(claims), quantities, text)


_BY_STEM = {stem_of(w): concept for concept, listed in GROUPS for w in (*listed.split(), concept)}
_KINDS = {stem_of(narrow): wide for narrow, wide in KINDS.items()}


@functools.lru_cache(maxsize=20_000)
def _concepts(stem: str) -> tuple[str, ...]:
    if not stem or stem in _IGNORED or stem.isdigit() or len(stem) < 2:
        return ()
    concept = _BY_STEM.get(stem, stem)
    return (concept, _KINDS[stem]) if stem in _KINDS else (concept,)


@functools.cache
def clinical_concepts() -> frozenset[str]:
    """Return the concepts that claim something of a patient: of findings, of diseases, and the listed ones."""
    words = set(CLAIMS)
    for disease in knowledge().diseases:
        for name in disease.names:
            words.update(w for w in words_in(name) if _ILLNESS.match(w))
    return frozenset(c for w in words for c in _concepts(stem_of(w)))


_ILLNESS = re.compile(r"\w{3,}(?:itis|oma|osis|emia|pathy|uria|penia|plasia)$")
"""Endings by which a word of a disease's name is an illness of its own, and not "heart" or "simple"."""


SUPPORTED = 0.7
"""Share of a fact's concepts that the vignette must hold; endings and small words do not count."""
_FIGURE = re.compile(r"\d+(?:\.\d+)?")


def in_vignette(text: str, vignette: str) -> bool:
    """Say whether a fact's concepts and all its numbers occur in the vignette."""
    concepts, known = read(text).concepts, read(vignette).concepts
    held = len(concepts & known) >= SUPPORTED * len(concepts)
    return held and set(_FIGURE.findall(text)) <= set(_FIGURE.findall(vignette)) and bool(text.strip())
