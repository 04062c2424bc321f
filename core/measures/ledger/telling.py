"""Whether a reply tells a fact.

Rules. A fact is told when the reply holds at least ``TOLD`` of its weighted words in clinical or in lay wording, with
the same polarity, or states the findings of data/knowledge that the fact states. Words of the question count as said
where the reply is yes or no; else they only complete a fact of which the reply itself holds something of its own.
Times, ages and weights are compared as values. A fact that denies a whole topic ("no medication") is told by a denial
of that topic; one that calls something normal, by a reply that calls the same normal or unchanged.
"""

from __future__ import annotations

import re

from core.measures.ledger.replies import Reply
from core.text.matching import FEMALE, MALE, TIME_WEIGHT, Known, Wording, is_steady, says_little_else
from core.text.reading import any_agrees
from core.text.topics import topics_asked

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
    return _has_findings(reply, question, known) or any(_holds(reply, w, known) for w in known.wordings)


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


def _has_findings(reply: Reply, question: str, known: Known) -> bool:
    """Say whether the reply states all findings of a fact that says little beside them."""
    if not known.findings or known.quantities or not known.fact.told:
        return False
    said = dict(reply.reading.findings)
    if not says_little_else(known):
        return False
    return all(said.get(finding) is present for finding, present in known.findings.items())


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
