"""How a patient's reply answers the question before it, and whether it tells a fact.

Rules for replies. One that says it does not know answers nothing. A bare yes or no (also "both", "nope", "don't think
so", "none of that") is taken for what the question named, member by member of its list; "my joints are fine" denies the
member that speaks of joints. Thanks, greetings and questions of the patient's own say nothing.

Rules for facts. A fact is told when the reply holds at least ``TOLD`` of its weighted words in clinical or in lay
wording, with the same polarity, or states the findings of data/knowledge that the fact states. Words of the question
count as said where the reply is yes or no; else they only complete a fact of which the reply itself holds something of
its own. Times, ages and weights are compared as values. A fact that denies a whole topic ("no medication") is told by a
denial of that topic; one that calls something normal, by a reply that calls the same normal or unchanged.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Literal

from core.text.claims import Claim, Reading, read
from core.text.matching import FEMALE, MALE, TIME_WEIGHT, Known, Wording, is_steady
from core.text.negation import NO, UNKNOWN, YES
from core.text.quantities import Quantity, any_agrees, said_age
from core.text.sections import sentences
from core.text.topics import topics_asked
from core.text.vocabulary import Words, cues

Polarity = Literal["yes", "no", "unknown"]

_I = re.IGNORECASE
_MISSED = re.compile(r"\b(?:missed|skipped|behind (?:on|with))\b", _I)
_FINE = re.compile(
    r"\b(?:is|are|feels?|looks?|seems?|(?:has|have) (?:been|stayed|remained)) (?:all |just |perfectly |completely )?"
    r"(?:fine|okay|ok|normal|good|clear|unchanged|stable|the same)\b|"
    r"\bha(?:s|ve)(?:n['’]?t| not) (?:really )?changed\b",
    _I,
)
_ITS_SUBJECT = re.compile(r"^\W*(?:(?:no|yes)\W+)?(?:my|his|her|their|the|our)(?: \w+){1,3}$", _I)
_LIKE_THIS = re.compile(
    r"(?<!nothing )(?<!anything )\blike (?:this|that|these|those)\b|\b(?:similar|this (?:kind|type|sort) of)\b", _I
)
_CHAT = re.compile(
    r"^(?:\W*+(?:thank(?:s| you)\b|hello|hi|good (?:morning|afternoon|evening)|okay|ok|alright|i see|sure|please|"
    r"bye|goodbye|"
    r"i understand|that makes sense|i will|i['’]ll|that['’]s (?:all|everything|it)|i appreciate|i hope|nice to meet|"
    r"i['’]m (?:worried|scared|glad)|you['’]re welcome|thank goodness)\b|\W*+\w.*\?\s*$|\W*\?\s*$)",
    _I,
)
_STATEMENTS = re.compile(
    r"\s{0,20};\s*|,?\s{1,20}(?:but|though|however)\s+|,?\s{1,20}(?:and|so)\s+(?=(?:i|he|she|it|my|his|her|we|the|there|am)\b)",
    _I,
)
_OPEN_MEMBER = re.compile(r"^\W*(?:and )?(?:what|which|how|when|where|why|who)\b", _I)
_EARLIER = re.compile(r"\b(?:similar|like this|before|in the past|previous(?:ly)?)\b", _I)
_OTHER = re.compile(r"\bany other (?!symptom|sign|problem|issue|complaint|change|thing|medic|condition|illness)\w+", _I)
_EARLIER_LIST = re.compile(
    r"\b(?:previous|prior|past|earlier) (?:\w+ )?(?:episodes?|attacks?|bouts?)\b|"
    r"\bhave you (?:ever )?(?:had|experienced) [^?]*\bbefore\s*\?",
    _I,
)
_LIST = re.compile(r",\s*(?:and |or )?|\s{1,20}(?:and|or|nor)\s+", _I)
_NOTE = re.compile(r"\[[^\]]*(?:\]|$)")
_ABOUT_AGE = Words(cues("age", of=("question",)))


@dataclass(frozen=True)
class Reply:
    """A message of the patient with the question before it, read.

    ``claims`` holds what the words say and what a yes or no adds of the question; ``own`` the words' alone;
    ``context`` what the question spoke of.
    """

    polarity: Polarity | None
    own: frozenset[Claim]
    claims: frozenset[Claim]
    context: frozenset[str]
    quantities: tuple[Quantity, ...]
    reading: Reading

    @functools.cached_property
    def spoken(self) -> frozenset[str]:
        """All concepts that the reply or its question speaks of."""
        return self.context | {concept for concept, _ in self.claims}


@functools.lru_cache(maxsize=50_000)
def reply_to(question: str, text: str) -> Reply:
    """Read a reply together with its question."""
    reading, asked = read(text), read(question)
    polarity = polarity_of(text)
    claims: set[Claim] = set()
    for statement in statements_of(text):
        if does_not_know(statement) and not re.search(r"\b(?:recall|remember)\b", statement, _I):
            continue
        for piece in _pieces(statement) if _FINE.search(statement) else (statement,):
            fine = bool(_FINE.search(piece))
            claims |= {(concept, denied or fine) for concept, denied in read(piece).claims}
        if of_another(statement):  # "no other wounds like this one" does not deny this one
            claims -= {claim for claim in read(statement).claims if claim[1]}
    own = frozenset(claims)
    added: set[Claim] = set()
    stated = {concept for concept, _ in own}
    if polarity in ("yes", "no"):
        lists_earlier = _EARLIER_LIST.search(question) is not None
        for member in members_of(question):
            concepts = read(member).concepts
            if _OPEN_MEMBER.match(member):
                continue
            if polarity == "no" and (lists_earlier or _EARLIER.search(member) or _OTHER.search(member)):
                concepts = concepts & {"before"}  # "no" to "pain like this before?" does not deny the pain
            if polarity == "yes" or not concepts & {c for c, denied in own if not denied}:
                added |= {(concept, polarity == "no") for concept in concepts - stated}
    elif polarity is None and (refuted := {concept for concept, no in own if no}):
        # the rest of the members of which the reply denies a word ("my joints are fine" → no pain there)
        for concepts in (read(member).concepts for member in members_of(question)):
            if concepts & refuted:
                added |= {(concept, True) for concept in concepts - stated}
    age = said_age(text, _ABOUT_AGE.are_in(question.lower()))
    quantities = (*reading.quantities, age) if age else reading.quantities
    return Reply(polarity, own, own | added, asked.concepts, quantities, reading)


def polarity_of(text: str) -> Polarity | None:
    """Return whether a reply says yes, no, or that it does not know; ``None`` where it just tells."""
    if UNKNOWN.search(text):
        rest = [read(s) for s in statements_of(text) if not UNKNOWN.search(s)]
        if not any(one.concepts or one.quantities for one in rest):  # nothing is told in another sentence
            return "unknown"
    if NO.search(text) or _MISSED.search(text):
        return "no"
    return "yes" if YES.search(text) else None


@functools.lru_cache(maxsize=50_000)
def statements_of(text: str) -> tuple[str, ...]:
    """Return what a message states, one statement each: small talk, questions and not knowing are left out."""
    pieces = [p.strip(" ,") for s in sentences(text) for p in _STATEMENTS.split(s)]
    return tuple(p for p in pieces if p and not _CHAT.match(p))


@functools.lru_cache(maxsize=20_000)
def members_of(question: str) -> tuple[str, ...]:
    """Return the things that a question lists ("fever, joint pain or hair loss" → three)."""
    return tuple(m for m in _LIST.split(question) if m.strip())


def without_notes(question: str) -> str:
    """Return a doctor's message without notes in brackets, which ask the patient nothing."""
    return _NOTE.sub(" ", question) if "[" in question else question


def does_not_know(statement: str) -> bool:
    """Say whether a statement says that something is not known."""
    return bool(UNKNOWN.search(statement))


@functools.lru_cache(maxsize=50_000)
def of_another(statement: str) -> bool:
    """Say whether a statement speaks of something like what the patient has, and not of that itself."""
    return bool(_LIKE_THIS.search(statement))


def _pieces(statement: str) -> list[str]:
    """Return what "and" joins; a bare subject stays with the verb that follows ("my appetite and weight are fine")."""
    pieces: list[str] = []
    for piece in re.split(r",?\s+(?:and|but)\s+", statement):
        if pieces and _ITS_SUBJECT.match(pieces[-1]):
            piece = f"{pieces.pop()} and {piece}"
        pieces.append(piece)
    return pieces


TOLD = 0.5
"""Share of a fact's weighted words that a reply must hold."""
TOLD_IF_SHOWN = 0.75
"""The same for what only examination and tests show: a patient's symptom is not the sign."""
_STEADY_WORDS = frozenset("chang normal regular unchang".split())
_SELF = re.compile(rf"\bi(?:'|’| a)?m an?\b(?: [\w-]+){{0,3}}? ({MALE}|{FEMALE})\b|^\W*({MALE}|{FEMALE})\W*$", re.I)
_CARED_FOR = re.compile(rf"\b(?:my|our|an?|the) (?:[\w-]+ ){{0,2}}?({MALE}|{FEMALE})\b", re.I)


def tells(reply: Reply, question: str, known: Known, text: str, cared_for: bool) -> bool:
    """Say whether a reply tells a fact."""
    if known.age is not None:
        return any(q.kind == "age" and q.agrees(known.age) for q in reply.quantities)
    if known.fact.topic == "demographics" and known.sex is not None:
        return said_sex(text, cared_for) == known.sex
    if reply.polarity == "unknown":
        return False
    if known.blank and known.fact.topic in topics_asked(question) and _denies_topic(reply, known):
        return True
    if known.steady and is_steady(text) and _speaks_of(reply, known):
        return True
    if known.is_findings and all(reply.reading.findings.get(name) is there for name, there in known.findings.items()):
        return True
    if reply.spoken.isdisjoint(known.concepts) and not (reply.quantities and known.quantities):
        return False
    return any(_holds(reply, w, known) for w in known.wordings)


def said_sex(text: str, cared_for: bool) -> str | None:
    """Return the patient's sex where a reply says it; relatives count only where they are who is cared for."""
    found = _SELF.search(text) or (_CARED_FOR.search(text) if cared_for else None)
    if found is None:
        return None
    word = next(group for group in found.groups() if group)
    return "male" if re.fullmatch(MALE, word, re.I) else "female"


def _speaks_of(reply: Reply, known: Known) -> bool:
    """Say whether a reply names what a fact calls normal."""
    named = {concept for concept, _ in reply.claims}
    subjects = [{concept for concept, _ in w.weights} - _STEADY_WORDS for w in known.wordings]
    return known.fact.told and any(subject and subject <= named for subject in subjects)


def _denies_topic(reply: Reply, known: Known) -> bool:
    healthy = ("healthi", False) in reply.own
    return healthy or (reply.polarity == "no" and not any(not denied for c, denied in reply.own if c in known.concepts))


def _holds(reply: Reply, wording: Wording, known: Known) -> bool:
    own = sum(weight for claim, weight in wording.weights.items() if claim in reply.own)
    said = sum(weight for claim, weight in wording.weights.items() if claim in reply.claims)
    timed = any(any_agrees(q, reply.quantities) for q in wording.quantities)
    if timed and not wording.weights:
        return True
    least = TOLD if known.fact.told else TOLD_IF_SHOWN
    rest = {c: w for c, w in wording.weights.items() if c not in reply.claims and c[0] in reply.context}
    if own or (timed and rest):
        denied = {concept for concept, no in reply.own if no}
        said += sum(weight for (concept, no), weight in rest.items() if concept not in denied or no)
    return said + TIME_WEIGHT * timed >= least * wording.total - 1e-9 and bool(said)
