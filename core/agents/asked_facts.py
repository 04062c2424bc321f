"""Finds the fact that a question is after, by topic or by its rarest words, for the reference patient."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from core.case import Fact, sentences

_LEAST_OVERLAP = 0.34
"""Share of a question's telling words that a fact must hold to be taken for the answer."""


@dataclass(frozen=True)
class _Topic:
    """What a question is about, by its words, by the key of a fact, and by the words of a fact without a key."""

    asked: str
    key: str
    told: str


_TOPICS = (
    _Topic(r"\bhow old\b|\bage\b", r"\bage\b", r"\d+[- ](?:year|month|week|day)s?[- ]old|\baged\b|\byears old"),
    _Topic(
        r"\bman or a woman\b|\bgender\b|\bsex\b(?!ual)", r"\bsex\b|gender", r"\b(?:man|woman|boy|girl|male|female)\b"
    ),
    _Topic(
        r"how long|when did|since when|start|begin|duration|onset",
        r"onset|duration|course|timing|start",
        r"\b(?:for|past|last|since|over)\b[^.]{0,25}\b(?:hour|day|week|month|year)s?\b|"
        r"\b(?:hour|day|week|month|year)s? (?:ago|history|prior)",
    ),
    _Topic(
        r"medicine|medication|drug|tablets|pills|taking any",
        r"medic(?:at|in)|drug|tablet",
        r"\bmedicat|\b(?:takes?|taking)\b(?! (?:over|place|part|care))|\bprescribed\b|\binhaler\b",
    ),
    _Topic(r"allerg", r"allerg", r"allerg"),
    _Topic(
        r"run in (?:the|your) family|family|relative|mother|father|parents",
        r"family",
        r"\b(?:family history|(?:mother|father|brother|sister|parents?|aunt|uncle)\b.{0,20}\b(?:has|had|have|died))",
    ),
    _Topic(r"surger|operation|operated", r"surg|operat", r"surger|operation|operated|\w+ectomy\b"),
    _Topic(
        r"past (?:illness|medical)|medical (?:history|condition|problem)|other illness|been ill before|diagnosed with",
        r"past|medical history|previous",
        r"medical history|history of|diagnosed with|medical (?:problem|condition)",
    ),
    _Topic(r"smoke|cigarette|tobacco", r"smok|tobacco|social", r"smok|cigarette|tobacco"),
    _Topic(r"alcohol|drink\b", r"alcohol|social", r"alcohol|\bbeers?\b|\bwine\b|\bvodka\b"),
    _Topic(
        r"\bwork\b|\bjob\b|occupation|for a living",
        r"occupation|job|work|social",
        r"\b(?:works?|working) (?:as|at|in)\b|\bjob\b|occupation|employed|retired|\bstudent\b",
    ),
    _Topic(r"travel|abroad|trip", r"travel|exposure", r"travel|\btrip\b|abroad|returned from|immigrat"),
)
_WORD = re.compile(r"[a-z]{3,}")
_COMMON = frozenset(
    "the and you your have has had are was were any been did does with that this for how what when which who there "
    "noticed feel felt ever recently tell about can could would anyone doctor thank see all right understood take "
    "takes taking taken own medicine medicines medication".split()
)


def by_topic(question: str, facts: Sequence[Fact]) -> str | None:
    """Return the lay words of the fact on the question's topic; of age and sex the first sentence."""
    for topic in _TOPICS:
        if re.search(topic.asked, question, re.IGNORECASE):
            about = [fact for fact in facts if re.search(topic.key, fact.key, re.IGNORECASE)]
            if not about:
                about = [fact for fact in facts if re.search(topic.told, f"{fact.value} {fact.lay}", re.IGNORECASE)]
            if about:
                personal = topic in _TOPICS[:2]
                return sentences(about[0].lay)[0] if personal else about[0].lay
    return None


def _telling(text: str) -> set[str]:
    return {word.rstrip("s") for word in _WORD.findall(text.lower()) if word not in _COMMON}


def nearest_fact(question: str, facts: Sequence[Fact]) -> Fact | None:
    """Return the fact that shares most of the question's telling words, weighted by how rare they are."""
    words = _telling(question)
    texts = [_telling(f"{fact.key} {fact.value} {fact.lay}") for fact in facts]
    counts = Counter(word for text in texts for word in text)
    weight = {word: math.log(1 + len(facts) / (1 + counts[word])) for word in words}
    total = sum(weight.values())
    scored = [(sum(weight[w] for w in words & text), -i) for i, text in enumerate(texts)]
    if not scored or not total:
        return None
    best, index = max(scored)
    return facts[-index] if best / total >= _LEAST_OVERLAP else None
