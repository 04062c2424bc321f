"""A case's facts made ready to be compared with what is said, and whether a question asks for one.

Words of a case's many facts weigh less than words of one fact. A question asks for a fact by its words, by its findings
(data/knowledge), or by its topic. What tells a fact: ``core.measures.ledger.replies``.
"""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from core.case import Case
from core.text.claims import Claim, Reading, read
from core.text.demographics import patient_demographics
from core.text.facts import AtomicFact, facts_of
from core.text.persons import YOUTH
from core.text.quantities import Quantity
from core.text.topics import Topic, is_open, topics_asked
from core.text.vocabulary import below, people, relatives, view

_LABELS = frozenset(
    "allergi medication surgery diseas histori famili ill ill diagnos drink work home known vital sign rate".split()
)
"""Words that name a topic: they count only where a fact has no other."""
TIME_WEIGHT = 0.5
_PERSON = frozenset("i i'm i've me my mine myself am have was do don't were i'd".split())
_ONE_ONLY: frozenset[Topic] = frozenset(
    ("demographics", "medication", "allergies", "family history", "past history", "social history", "exposure", "onset")
)
"""Topics by which alone a question asks for a fact."""
_BLANK = re.compile(
    r"unremarkable|non-?contributory|insignificant|irrelevant|history is negative|"
    r"not significant|\bhealthy\b|^(?:(?:takes?|has|had|currently|"
    r"does not|do "
    r"not|is not|take|taking|any|regular|daily|other|significant|known|drug|serious|chronic|no|of|history|past|her|his|"
    r"the|patient|a|current|on) )*no(?:t|ne)?\b(?: (?:take|taking|any|other|regular|known|significant|drug|"
    r"serious|major|"
    r"chronic|past|previous|prior|history|of|a|current|on|prescription|daily|underlying))*(?: (?:medications?|"
    r"medicines?|"
    r"drugs|allergies|medical|problems?|conditions?|history|illness(?:es)?|surger\w+|family|disease))*\.?$|^none$",
    re.IGNORECASE,
)
_STEADY = re.compile(
    r"\bnormal(?:ly)?\b|\bunchanged\b|(?:\bnot|n['’]t) (?:really )?changed\b|\bregular\b|"
    r"\b(?:is|are|(?:has|have) (?:been|stayed|remained)) (?:all |just |perfectly )?"
    r"(?:fine|ok|okay|good|stable|the same)\b|"
    r"(?:\bno|\bnot|n['’]t) (?:\w+ ){0,3}?changes?\b",
    re.IGNORECASE,
)
MALE = f"{people('male')}|{relatives(of='male')}"
FEMALE = f"{people('female')}|{relatives(of='female')}"
_HABITS = view([name for name in below("social history") if name != "exposure"], "question", "statement", "weak")


@dataclass(frozen=True)
class Wording:
    """One way to say a fact: its claims with their weights, and its quantities."""

    weights: Mapping[Claim, float]
    quantities: tuple[Quantity, ...]

    @functools.cached_property
    def total(self) -> float:
        """Weight of all of it."""
        return sum(self.weights.values()) + TIME_WEIGHT * bool(self.quantities)


@dataclass(frozen=True)
class Known:
    """A fact made ready to be compared."""

    fact: AtomicFact
    wordings: tuple[Wording, ...]
    findings: Mapping[str, bool]
    age: Quantity | None
    sex: str | None
    blank: bool
    steady: bool
    """It says that something is normal or has not changed."""

    @functools.cached_property
    def concepts(self) -> frozenset[str]:
        """The concepts of all wordings."""
        return frozenset(concept for wording in self.wordings for concept, _ in wording.weights)

    @functools.cached_property
    def labels(self) -> frozenset[str]:
        """The concepts of its label, where that is one of its own."""
        return read(self.fact.key).concepts if self.fact.key != self.fact.topic else frozenset()

    @functools.cached_property
    def habits(self) -> frozenset[str]:
        """The habits that it speaks of."""
        return _habits_in(self.fact.text)

    @functools.cached_property
    def quantities(self) -> tuple[Quantity, ...]:
        """The quantities of all wordings."""
        return tuple(q for wording in self.wordings for q in wording.quantities)

    @functools.cached_property
    def is_findings(self) -> bool:
        """Whether a patient can tell it, and it is little more than its findings."""
        short = all(len(wording.weights) <= 3 * len(self.findings) for wording in self.wordings)
        return bool(self.findings) and not self.quantities and self.fact.told and short


@dataclass(frozen=True)
class Pool:
    """A case's facts made ready, and who speaks."""

    known: tuple[Known, ...]
    cared_for: bool
    """A carer or parent speaks: "my son" is the patient."""


@functools.lru_cache(maxsize=4_096)
def pool_of(case: Case, override: tuple[AtomicFact, ...] | None = None) -> Pool:
    """Return a case's facts made ready; ``override``, where there is one, in place of its own."""
    facts = facts_of(case, override)
    counts = Counter(c for fact in facts for c in {c for t in _texts(fact) for c in read(t).concepts})
    known = tuple(_known(fact, counts) for fact in facts)
    age = patient_demographics(case)[0]
    return Pool(known, case.speaker == "caregiver" or (age is not None and age < YOUTH))


def _texts(fact: AtomicFact) -> tuple[str, ...]:
    """Return the wordings that differ by more than the person who speaks."""
    more = set(fact.lay.lower().split()) - set(fact.text.lower().split())
    return (fact.text,) if more <= _PERSON else (fact.text, fact.lay)


def _known(fact: AtomicFact, counts: Mapping[str, int]) -> Known:
    # a word of denial needs its object: "complete" alone says little, so short facts are read with their label
    text = f"{fact.key}: {fact.text}" if len(fact.text.split()) <= 2 and fact.key != fact.topic else fact.text
    texts = (text, *_texts(fact)[1:])
    wordings = [Wording(_weighted(read(t).claims, counts), read(t).quantities) for t in texts]
    wordings = [w for w in wordings if w.weights or w.quantities]
    findings = {k: v for t in reversed(_texts(fact)) for k, v in read(t).findings.items()}
    ages = [q for q in read(fact.text).quantities if q.kind == "age"] if fact.topic == "demographics" else []
    word = re.search(rf"\b(?:({MALE})|({FEMALE}))\b", fact.text, re.I) if fact.topic == "demographics" else None
    sex = None if word is None else "male" if word[1] else "female"
    blank = bool(_BLANK.search(fact.text)) and fact.topic in _ONE_ONLY | {"negatives"}
    return Known(fact, tuple(wordings), findings, ages[0] if ages else None, sex, blank, is_steady(fact.text))


def _weighted(claims: Iterable[Claim], counts: Mapping[str, int]) -> dict[Claim, float]:
    telling = [claim for claim in claims if claim[0] not in _LABELS] or list(claims)
    return {claim: 1 / math.sqrt(max(1, counts[claim[0]])) for claim in telling}


@dataclass(frozen=True)
class _Asked:
    """What a question asks for: its topics, which of them it asks for ``alone``, concepts but for labels, habits."""

    topics: frozenset[Topic]
    alone: frozenset[Topic]
    concepts: frozenset[str]
    habits: frozenset[str]
    reading: Reading


@functools.lru_cache(maxsize=20_000)
def _asked_in(question: str) -> _Asked:
    reading, topics = read(question), topics_asked(question)
    alone = frozenset() if is_open(question) else topics & _ONE_ONLY
    return _Asked(topics, alone, reading.concepts - _LABELS, _habits_in(question), reading)


def _habits_in(text: str) -> frozenset[str]:
    """Return the habits that a text speaks of: a question about work does not ask for smoking."""
    lowered = text.lower()
    return frozenset(name for name, words in _HABITS if words.are_in(lowered))


def _about(asked: _Asked, topics: frozenset[Topic], known: Known) -> bool:
    """Say whether one of these topics is a fact's, and question and fact can speak of the same habit."""
    same = not known.habits or not asked.habits or not known.habits.isdisjoint(asked.habits)
    return known.fact.topic in topics and same


def asks_for(question: str, known: Known) -> bool:
    """Say whether a question asks for a fact: by its topic, an open question by any symptom, or by its words."""
    asked = _asked_in(question)
    return asks_by_name(question, known) or _about(asked, asked.topics, known)


def asks_by_name(question: str, known: Known) -> bool:
    """Say whether a question names a fact or asks for its topic alone: it asks for just this, and not for anything."""
    asked = _asked_in(question)
    if asked.alone and _about(asked, asked.alone, known):
        return True
    if known.findings and not known.findings.keys().isdisjoint(asked.reading.findings):
        return True
    if known.fact.topic == "demographics":
        return False
    if not asked.concepts.isdisjoint(known.labels):
        return True
    common = asked.concepts & known.concepts
    return bool(common) and any(
        sum(weight for (concept, _), weight in w.weights.items() if concept in common) >= 0.3 * w.total
        for w in known.wordings
        if w.weights
    )


@functools.lru_cache(maxsize=50_000)
def is_steady(text: str) -> bool:
    """Say whether a text says that something is normal or has not changed."""
    return bool(_STEADY.search(text))
