"""What a text says, in a form in which facts, questions and replies can be compared.

Words become concepts (``core.text.lexicon``) with whether they are denied
(``core.text.negation``); spans of time, ages, weights and counts become ranges of values; findings of
data/knowledge are recognised with their polarity. All of it is kept by text, for the same texts come again and again.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from core.knowledge.base import knowledge
from core.text.lexicon import CLAIMS, GROUPS, KINDS, plain
from core.text.negation import stem_of, tokens_of, words_in
from core.text.understanding import understanding
from core.vocabulary import DAYS, DENIED, DENIES, DENY, NUMBERS, VAGUE, alternatives

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
_NUMBERS = {"an": 1.0, "a": 1.0, **NUMBERS}
_TENS = alternatives([word for word, value in NUMBERS.items() if value >= 20])
_ONES = alternatives([word for word, value in NUMBERS.items() if value < 10])
_NUMBER = rf"(?:\d+(?:\.\d+)?|(?:{_TENS})[- ](?:{_ONES})|{alternatives([*_NUMBERS, *VAGUE])})"
_SPAN = re.compile(
    rf"\b({_NUMBER})(?: (?:of|or so|more|whole))?[- ](minute|hour|day|night|week|month|year)s?\b"
    r"(?![- ](?:old|of age))(?: ago| back| earlier)?", re.I)  # fmt: skip
_AGE = re.compile(rf"\b({_NUMBER})[- ](day|week|month|year)s?[- ](?:old|of age)", re.I)
_SINCE = (
    (re.compile(r"\b(?:last|yesterday|previous|the other) (?:night|evening)\b|\bovernight\b", re.I), (0.2, 1.3)),
    (re.compile(r"\byesterday\b", re.I), (0.5, 2.0)),
    (re.compile(r"\b(?:this morning|today|tonight|this evening)\b", re.I), (0.0, 1.0)),
    (re.compile(r"\blast week\b", re.I), (3.0, 14.0)),
    (re.compile(r"\blast month\b", re.I), (14.0, 62.0)),
    (re.compile(r"\blast year\b", re.I), (180.0, 730.0)),
    (re.compile(r"\b(?:for|past|last) (?:the )?year\b", re.I), (330.0, 400.0)),
)
_SAID_AGE = re.compile(
    rf"\b(?:i'm|i am|he's|she's|he is|she is|turned)\s+(?:just |only |almost )?({_NUMBER})\b"
    r"(?! \w*(?:hour|day|week|month|pound|kilo|kg|percent|minute))",
    re.IGNORECASE,
)
_EARLIER_LIFE = re.compile(r"\b(?:since|when|until)\b[^.;!?]{0,40}$", re.IGNORECASE)
_ENDS = re.compile(r"(?<=[.!?])\s+|\n+")
_MEASURED = re.compile(
    "minute|hour|day|night|week|month|year|evening|morning|kg|kilo|pound|lb"
)  # most texts hold none of these, and need no closer look
_WEIGHT = re.compile(rf"\b({_NUMBER})(?: of)?[- ]?(kg|kilos?|kilograms?|pounds?|lbs?)\b", re.I)
_TOLERANCE = 1.25
"""Two values within this factor are the same: people round."""


@dataclass(frozen=True)
class Quantity:
    """A range of values of one kind: ``time`` and ``age`` in days, ``weight`` in kg."""

    kind: str
    low: float
    high: float

    def agrees(self, other: Quantity) -> bool:
        """Say whether both can be the same value, as people round."""
        near = self.low <= other.high * _TOLERANCE and other.low <= self.high * _TOLERANCE
        return self.kind == other.kind and near


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
    bare, quantities = _without_quantities(text.lower())
    lowered = plain(bare)
    for sentence in _ENDS.split(lowered):  # not ``sentences``, which looks for capitals
        for token in tokens_of(words_in(sentence)) if sentence.strip() else ():
            for concept in _concepts(token.stem):
                claims.add((concept, token.negated_by is not None and token.negated_by != token.position))
    return Reading(frozenset(claims), quantities, text)


def said_age(reply: str, asked: bool) -> Quantity | None:
    """Return the age that a reply gives of the patient, or ``None``; a bare number counts where age was asked for."""
    found = _AGE.search(reply)
    if found and not _EARLIER_LIFE.search(reply[: found.start()]):
        return _quantity("age", found[1], DAYS[found[2].lower()])
    bare = _SAID_AGE.search(reply.replace("’", "'"))
    if bare is None and asked:
        bare = re.search(rf"(?<!feel )(?<!feel like )\b({_NUMBER})\b(?! (?:minute|hour|day|week|month)s?)", reply, re.I)
    if bare is None or bare[1].lower() in ("a", "an", *VAGUE) or (bare[1].lower() == "one" and not asked):
        return None
    return _quantity("age", bare[1], 365.25)


def _without_quantities(text: str) -> tuple[str, tuple[Quantity, ...]]:
    if not _MEASURED.search(text):
        return text, ()
    found: list[Quantity] = []
    for match in _AGE.finditer(text):
        if not _EARLIER_LIFE.search(text[: match.start()]):
            found.append(_quantity("age", match[1], DAYS[match[2].lower()]))
    text = _AGE.sub(" ", text)
    for match in _SPAN.finditer(text):
        found.append(_quantity("time", match[1], DAYS[match[2].lower()]))
    text = _SPAN.sub(" ", text)
    for match in _WEIGHT.finditer(text):
        found.append(_quantity("weight", match[1], 1.0 if match[2].lower().startswith("k") else 0.4536))
    text = _WEIGHT.sub("weight", text)  # "lost 6 kg" is to be read as "lost weight"
    for pattern, (low, high) in _SINCE:
        if pattern.search(text):
            found.append(Quantity("time", low, high))
            text = pattern.sub(" ", text)
    return text, tuple(found)


def _quantity(kind: str, number: str, unit: float) -> Quantity:
    word = number.lower()
    if word in VAGUE:
        low, high = VAGUE[word]
        return Quantity(kind, low * unit, high * unit)
    parts = re.split(r"[- ]", word)
    value = sum(_NUMBERS.get(p) or float(p) for p in parts)
    return Quantity(kind, value * unit, value * unit)


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


def any_agrees(quantity: Quantity, others: Iterable[Quantity]) -> bool:
    """Say whether any of the others can be the same value."""
    return any(quantity.agrees(other) for other in others)


SUPPORTED = 0.7
"""Share of a fact's concepts that the vignette must hold; endings and small words do not count."""
_FIGURE = re.compile(r"\d+(?:\.\d+)?")


def in_vignette(text: str, vignette: str) -> bool:
    """Say whether a fact's concepts and all its numbers occur in the vignette."""
    concepts, known = read(text).concepts, read(vignette).concepts
    held = len(concepts & known) >= SUPPORTED * len(concepts)
    return held and set(_FIGURE.findall(text)) <= set(_FIGURE.findall(vignette)) and bool(text.strip())
