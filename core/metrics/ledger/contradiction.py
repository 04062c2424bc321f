"""Whether a reply says the opposite of a fact.

Rules. By polarity: the reply denies most of what the fact affirms, or affirms what it denies, and nothing else in the
case says so too. By value: it speaks of the fact with another time or age than any the case holds. By an opposite
word: "in the morning" where the fact says evening. "No headaches like this before" denies the "before", not the
headache: where most of what is denied is not of the fact, the fact is not denied. That something is normal or has not
changed never contradicts a fact that says so in other words, nor does "I can't" one that speaks of trouble.
"""

from __future__ import annotations

import functools
import re

from core.metrics.ledger.matching import Known, Pool, Wording, is_steady
from core.metrics.ledger.reading import OPPOSITE, any_agrees
from core.metrics.ledger.replies import Reply, of_another

_EXCEPT = re.compile(r"\b(?:except|aside from|apart from|other than)\b|\bno (?:other|new)\b", re.IGNORECASE)
"""What holds an exception both denies and affirms."""
_UNABLE = re.compile(
    r"\b(?:unable|inability|not able|can(?:no|['’])t|couldn['’]t|trouble|difficult\w*|hard to)\b", re.I
)
"""Ways to say that something does not go well, with and without a word of denial."""
CONTRADICTED = 0.6
"""Share of a fact's weighted words that a reply must deny (or affirm, where the fact denies) to contradict it."""


def contradicts(reply: Reply, known: Known, pool: Pool) -> bool:
    """Say whether a reply says the opposite of a fact: by polarity, by a value, or by an opposite word."""
    if reply.polarity == "unknown" or (known.steady and is_steady(reply.reading.text)):
        return False
    if (known.blank and reply.polarity == "no") or of_another(reply.reading.text):
        return False
    fact = known.fact.text
    if known.age is None and (_has_exception(fact) or (_says_unable(fact) and _says_unable(reply.reading.text))):
        return False
    return (
        _opposite_findings(reply, known, pool)
        or any(_opposite_words(reply, w, pool) for w in known.wordings)
        or _other_value(reply, known, pool)
        or _opposite_word(reply, known, pool)
    )


@functools.lru_cache(maxsize=50_000)
def _has_exception(fact: str) -> bool:
    return bool(_EXCEPT.search(fact))


@functools.lru_cache(maxsize=50_000)
def _says_unable(text: str) -> bool:
    return bool(_UNABLE.search(text))


def _denies_other(reply: Reply, concepts: frozenset[str]) -> bool:
    """Say whether most of what the reply's own words deny is not of the fact."""
    denied = {concept for concept, no in reply.own if no}
    return bool(denied) and 2 * len(denied & concepts) <= len(denied)


def _opposite_findings(reply: Reply, known: Known, pool: Pool) -> bool:
    if _denies_other(reply, known.concepts):
        return False
    return bool(known.findings) and any(
        reply.reading.findings.get(finding) is (not present) and pool.findings.get(finding) == frozenset((present,))
        for finding, present in known.findings.items()
    )


def _opposite_words(reply: Reply, wording: Wording, pool: Pool) -> bool:
    against = {
        claim: weight
        for claim, weight in wording.weights.items()
        if (claim[0], not claim[1]) in reply.claims and (claim[0], not claim[1]) not in pool.claims
    }
    in_context = sum(
        weight for (c, _), weight in wording.weights.items() if c in reply.context and (c, _) not in against
    )
    whole = sum(wording.weights.values())
    if any(not no for _, no in against) and _denies_other(reply, frozenset(c for c, _ in wording.weights)):
        return False
    return bool(against) and sum(against.values()) + in_context >= CONTRADICTED * whole


def _other_value(reply: Reply, known: Known, pool: Pool) -> bool:
    if known.age is not None:
        ages = [q for q in reply.quantities if q.kind == "age"]
        return bool(ages) and not any(any_agrees(age, pool.quantities) for age in ages)
    for wording in known.wordings:
        held = sum(weight for claim, weight in wording.weights.items() if claim in reply.own)
        if not wording.quantities or (wording.weights and held < 0.5 * sum(wording.weights.values())):
            continue
        if not wording.weights:
            continue
        others = [q for q in reply.quantities if any(q.kind == mine.kind for mine in wording.quantities)]
        if others and not any(any_agrees(q, pool.quantities) for q in others):
            return True
    return False


def _opposite_word(reply: Reply, known: Known, pool: Pool) -> bool:
    said = {concept for concept, denied in reply.own if not denied}
    about = bool(known.concepts & (reply.context | said))
    return about and any(
        word in known.concepts and other in said and other not in pool.concepts and word not in said
        for other in said
        for word in OPPOSITE.get(other, ())
    )
