"""The reference cast of AutoMedic by rule: doctor, patient and clinical staff. It shows that the program works.

The doctor has the interview and knowledge of the reference doctor, with tags. After three questions to the patient it
asks the staff for each kind of result, then continues the interview, and ends when it is sure or has no questions left.

The patient answers like the reference patient, from demographics and basic facts. It does not rate the doctor.

The staff reports the results that a query names, word for word: results with a finding, a test or most of the content
words of the query. If it has none, the staff reports the sections that the query names (vital signs, examination,
laboratory, imaging, other tests); otherwise it says that the result is not available.
"""

from __future__ import annotations

import functools
import random
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import get_args

from core.agents.base import at_once
from core.agents.reference.doctor import (
    LEAD_INS,
    SURE,
    PatientEvidence,
    ReferenceDoctor,
    differential,
    evidence_of,
    questions_left,
    verdict,
)
from core.agents.reference.patient import NOTHING_KNOWN, ReferencePatient
from core.asking.scene import AgentOutput, Dialogue, Material, PatientKnowledge, Question, Scene
from core.case import Fact, FactSection
from core.frameworks.automedic.roles import NOT_AVAILABLE, Facts, Rating
from core.frameworks.automedic.tags import END, TAG_OF, Addressee, queries_of
from core.text.findings import recogniser
from core.text.negation import is_content, stem_of, words_in
from core.text.sections import sentences
from core.text.vocabulary import below, cues

OPENING = "Hello, what brings you here today?"
NOT_JUDGED = "Not judged: the reference patient plays by rule."
"""Stored in place of the rater's words: no rule is measured to judge empathy."""
BROAD = (
    "What are the vital signs?",
    "What does the physical examination show?",
    "What do the laboratory tests show?",
    "What does the imaging show?",
    "What do other tests show?",
)
"""Questions to the staff, one for each kind of result."""
HISTORY_FIRST = 3
"""Questions to the patient, the opening included, before the first question to the staff."""
_UNAVAILABLE = re.compile(
    r"not (?:\w+ )?(?:available|done|performed|recorded|measured|documented|listed|known|given|provided|tested)|"
    r"unavailable|no (?:\w+ )?(?:result|record|information|data)s?\b|don['’]t have|do not have",
    re.IGNORECASE,
)


class ReferenceTagDoctor:
    """The reference doctor with questions to patient and staff."""

    name = ReferenceDoctor.name

    def ask(self, scene: Scene, demographics: Facts, dialogue: Dialogue) -> AsyncIterator[AgentOutput]:
        return at_once("doctor", "dialogue", self._next_message(scene, demographics, dialogue))

    def answer(
        self, scene: Scene, demographics: Facts, material: Material, question: Question
    ) -> AsyncIterator[AgentOutput]:
        evidence = evidence_of(material.text) if material.text else evidence_in(demographics, material.dialogue)
        return at_once("doctor", "answer", verdict(scene, evidence, question))

    def differential(self, scene: Scene, demographics: Facts, dialogue: Dialogue) -> tuple[tuple[str, float], ...]:
        return differential(evidence_in(demographics, dialogue), scene)

    def _next_message(self, scene: Scene, demographics: Facts, dialogue: Dialogue) -> str:
        queries = [query.text for query in queries_of(dialogue)]
        if not queries:
            return _to("patient", OPENING)
        interview = questions_left(scene, queries)
        broad = [question for question in BROAD if question not in queries]
        if broad and (len(queries) >= HISTORY_FIRST or not interview):
            return _to("staff", broad[0])
        if not interview or (not broad and self.differential(scene, demographics, dialogue)[0][1] >= SURE):
            return END
        return _to("patient", random.Random(f"{scene.seed}:{len(dialogue)}:doctor").choice(LEAD_INS) + interview[0])


def evidence_in(demographics: Facts, dialogue: Dialogue) -> PatientEvidence:
    """Return the evidence in demographics and replies, without sentences that a result is not available."""
    replies = [query.reply for query in queries_of(dialogue) if query.reply is not None]
    informative = [sentence for reply in replies for sentence in sentences(reply) if not _UNAVAILABLE.search(sentence)]
    return evidence_of(" ".join([*(f"{fact.value}." for fact in demographics), *informative]))


def _to(addressee: Addressee, text: str) -> str:
    tag = TAG_OF[addressee]
    return f"<{tag}>{text}</{tag}>"


class ReferenceAutoMedicPatient(ReferencePatient):
    """Answers by rule."""

    def reply(self, knowledge: PatientKnowledge, scene: Scene, dialogue: Dialogue) -> AsyncIterator[AgentOutput]:
        if not (knowledge.history or knowledge.vignette):
            return at_once("patient", "dialogue", NOTHING_KNOWN)
        return super().reply(knowledge, scene, dialogue)

    async def rate(
        self, knowledge: PatientKnowledge, scene: Scene, dialogue: Dialogue
    ) -> AsyncIterator[AgentOutput | Rating]:
        yield Rating(None, NOT_JUDGED)


_MIN_SHARE = 0.5
"""A result needs at least this share of the content words that the best match shares with the query."""

_TOPICS: dict[FactSection, str] = {section: section.replace("_", " ") for section in get_args(FactSection)}
_SECTION_NAMES = {
    section: re.compile(cues(topic, of=("order",), without=below(topic)), re.I) for section, topic in _TOPICS.items()
}
_BY_HAND: frozenset[FactSection] = frozenset(("vital_signs", "examination"))


@dataclass(frozen=True)
class _Order:
    """A test or examination with its names in an order ("EKG") and the words of its result."""

    names: re.Pattern[str]
    result: re.Pattern[str]
    by_hand: bool

    def is_answered_by(self, fact: Fact) -> bool:
        return (_section(fact) in _BY_HAND) == self.by_hand and bool(self.result.search(f"{fact.key} {fact.value}"))


_ORDERED = tuple(
    _Order(re.compile(names, re.I), re.compile(cues(name, of=("result",)), re.I), section in _BY_HAND)
    for section, topic in _TOPICS.items()
    for name in below(topic)
    if (names := cues(name, of=("order",)))
)
_UNSPECIFIC = frozenset(
    stem_of(word)
    for word in (
        "what which how show shows showed reveal reveals find finding findings result results test tests testing value "
        "values report reports reported examination exam physical vital signs sign laboratory labs lab imaging scan "
        "scans study studies other further additional available please perform order obtain check measure give tell "
        "provide know see look there patient patient's today now current currently initial admission arrival recent "
        "full complete detailed basic routine standard general relevant overall done been taken recorded evidence "
        "all every each whole indicate level levels normal abnormal abnormalities anything work panel me us need would "
        "like let run"
    ).split()
)
"""Stems that do not make a query more specific."""


class ReferenceStaff:
    """Reports results from the optional facts by rule."""

    name = "reference/staff"

    def reply(self, results: Facts, scene: Scene, dialogue: Dialogue) -> AsyncIterator[AgentOutput]:
        """Answer the last message of the dialogue, which is the staff's view of it."""
        facts = self.named(dialogue[-1].text, results)
        return at_once("staff", "dialogue", " ".join(reported(fact) for fact in facts) or NOT_AVAILABLE)

    def named(self, query: str, results: Facts) -> list[Fact]:
        """Return the results that a query names, otherwise those of the sections that it names."""
        sections = {section for section, names in _SECTION_NAMES.items() if names.search(query)}
        ordered = [order for order in _ORDERED if order.names.search(query)]
        remainder = query
        for names in (*_SECTION_NAMES.values(), *(order.names for order in _ORDERED)):
            remainder = names.sub(" ", remainder)
        content, findings = _content_stems(remainder), set(recogniser().read(query))
        shared = [len(content & _content_stems(_fact_in_words(fact))) for fact in results]
        # one shared word of several is not enough: "joint fluid" is no request for the fluid of the belly
        least = max(1.0, _MIN_SHARE * max(len(content), *shared, 0))
        specific = [
            fact
            for fact, words_shared in zip(results, shared, strict=True)
            if words_shared >= least
            or findings & set(recogniser().read(_fact_in_words(fact)))
            or any(order.is_answered_by(fact) for order in ordered)
        ]
        return specific or [fact for fact in results if _section(fact) in sections]


def reported(fact: Fact) -> str:
    """Return the staff's sentence for a result: its name and value, unchanged."""
    return f"{fact.key[:1].upper()}{fact.key[1:]}: {fact.value.rstrip('.')}."


def _section(fact: Fact) -> FactSection:
    return fact.section or "other_tests"


def _fact_in_words(fact: Fact) -> str:
    return f"{fact.key}: {fact.value}"


@functools.lru_cache(maxsize=20_000)
def _content_stems(text: str) -> frozenset[str]:
    stems = {stem_of(word) for word in words_in(text) if is_content(word) and not word[0].isdigit()}
    return frozenset(stems - _UNSPECIFIC)
