"""The reference patient: answers from the case's profile in lay words, or from the vignette's sentences.

It says one fact a reply, only what was asked, and says that it does not know where the case is silent.
"""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from core.agents.base import Dialogue, Held, Said, Saying, Scene, token
from core.agents.first_person import first_person
from core.case import Fact, read_demographics, sentences
from core.knowledge.dialogue import Understanding, understanding

_DO_NOT_KNOW = (
    "I'm not sure about that.",
    "I don't know, to be honest.",
    "I couldn't say.",
    "I don't know about that.",
    "I'm really not sure.",
)
_OPENINGS = ("", "", "Hello, doctor. ", "Well, doctor. ", "Thank you for seeing me. ")
_YES = ("Yes, ", "Yes, ", "Yeah, ")
_NO = ("No, ", "No, ", "Not that I know of, ")
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
_MORE = re.compile(r"anything else|tell me more|other symptoms|describe|what else|any other", re.IGNORECASE)
_WORD = re.compile(r"[a-z]{3,}")
_COMMON = frozenset(
    "the and you your have has had are was were any been did does with that this for how what when which who there "
    "noticed feel felt ever recently tell about can could would anyone doctor thank see all right understood take "
    "takes taking taken own medicine medicines medication".split()
)


class ReferencePatient:
    """Answers by rule; differs by seed in its wording."""

    name = "reference/profile"

    def __init__(self, reader: Understanding | None = None) -> None:
        self._reader = reader or understanding()

    async def reply(self, held: Held, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying]:
        """Answer the last message of the dialogue."""
        text = self._reply(held, scene, dialogue)
        yield token("patient", "dialogue", text)
        yield Said(text)

    def _reply(self, held: Held, scene: Scene, dialogue: Dialogue) -> str:
        rng = random.Random(f"{scene.seed}:{len(dialogue)}:patient")
        told, shown = (held.told, held.shown) if held.told else _facts_of_sentences(held.vignette)
        complaints = _complaints(told)
        if sum(turn.role == "patient" for turn in dialogue) == 0:
            return rng.choice(_OPENINGS) + complaints[0].lay
        question = dialogue[-1].text
        if "How old" in question and held.told:
            return " ".join(fact.lay for fact in told if fact.key in ("age", "sex"))
        said = " ".join(turn.text for turn in dialogue if turn.role == "patient")
        if _MORE.search(question):
            fresh = [fact for fact in complaints if fact.lay not in said]
            return fresh[0].lay if fresh else "No, I think that's everything."
        return self._answer(question, [*told, *shown], rng)

    def _answer(self, question: str, facts: Sequence[Fact], rng: random.Random) -> str:
        for finding in self._reader.asked_findings(question):
            about = [(self._says(fact).get(finding), fact) for fact in facts]
            fitting = [(present, fact) for present, fact in about if present is not None]
            if fitting:
                present, fact = min(fitting, key=lambda pair: len(self._says(pair[1])))
                return _with_lead(rng.choice(_YES if present else _NO), fact.lay)
        by_topic = _by_topic(question, facts)
        if by_topic is not None and not self._reader.asked_findings(question):
            return by_topic
        nearest = _nearest(question, facts)
        return nearest.lay if nearest else rng.choice(_DO_NOT_KNOW)

    def _says(self, fact: Fact) -> dict[str, bool]:
        read = self._reader.recogniser.read
        return {**read(fact.value), **read(fact.lay)}


def _complaints(told: Sequence[Fact]) -> list[Fact]:
    """Return what the patient tells unasked, the chief complaint first."""
    start = next((i for i, fact in enumerate(told) if fact.key == "chief complaint"), 0)
    return list(told[start:])


def _with_lead(lead: str, lay: str) -> str:
    if re.match(r"(?:yes|no|not|never)\b", lay, re.IGNORECASE):
        return lay
    keeps = re.match(r"I\b|I'|[A-Z]{2}", lay)
    return lead + (lay if keeps else lay[:1].lower() + lay[1:])


def _by_topic(question: str, facts: Sequence[Fact]) -> str | None:
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


def _nearest(question: str, facts: Sequence[Fact]) -> Fact | None:
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


_SHOWN = re.compile(
    r"examination|\bexams?\b|vital signs|temperature|blood pressure|pulse|laborator|serum|x-ray|radiograph|\bct\b|"
    r"\bmri\b|ultraso|biopsy|culture|auscultation|palpation|mm ?hg|/min|/mm|hemoglobin|leukocyte|\becg\b|"
    r"electrocardio|echocardio|breath sounds|heart sounds|cranial nerve|reflexes|antibod|smear|toxicology|"
    r"within normal limits|serolog|blood count|platelet|mean corpuscular|thromboplastin|prothrombin|urinalysis|"
    r"dipstick|\bscan\b|angiograph|endoscop|colonoscop|puncture|arthrocentesis|translocation|hematocrit|lymphocytes|"
    r"eosinophils|neutrophils|\bimaging\b|crackles|murmur|hepatosplenomegaly|"
    r"\d\s*(?:mg/|g/|meq|u/l|mmol|[μµu]?g/m|ng|pg|fl\b|mm/h|[μµ]m|kg/m|iu/)|"
    r"\bfigure\b|\bimage|\bstudies\b|the following:?$|^diagnosis|is performed|are shown",
    re.IGNORECASE,
)


_CHILD = 8.0
"""Below this age (years) somebody else speaks, and the vignette's third person stays."""


@lru_cache(maxsize=4096)
def _facts_of_sentences(vignette: str) -> tuple[tuple[Fact, ...], tuple[Fact, ...]]:
    """Return (told, shown): the vignette's sentences as facts, where no profile is known."""
    age, sex = read_demographics(vignette)
    own_words = age is None or age >= _CHILD
    facts = [
        Fact(key="sentence", value=text, lay=first_person(text, sex) if own_words else text)
        for text in sentences(vignette)
    ]
    told = tuple(fact for fact in facts if not _SHOWN.search(fact.value)) or tuple(facts)
    return told, tuple(fact for fact in facts if fact not in told)
