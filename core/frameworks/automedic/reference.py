"""The reference cast of AutoMedic by rule: doctor, patient and clinical staff. It says that the machine works.

The doctor has the reference doctor's interview and knowledge, in tags. After two questions to the patient it asks the
staff for each kind of result, then goes on with the interview, and ends when it is sure or has asked everything.

The patient answers as the reference patient does, from demographics and basic facts. Its rating counts what can be
counted in the queries that reached it and says so; it judges no meaning.

The staff reports the results that a query names, word for word, and nothing else: those that hold a finding, a test or
most of the telling words of the query, or a whole section (vital signs, examination, laboratory, imaging, other tests)
where the query names the section and nothing more particular, or the particular only as an example. Else it says that
the result is not available.
"""

from __future__ import annotations

import functools
import random
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import get_args

from core.agents.base import at_once
from core.agents.reference.doctor import (
    LEAD_INS,
    SURE,
    Evidence,
    ReferenceDoctor,
    differential,
    evidence_of,
    questions_left,
    verdict,
)
from core.agents.reference.patient import NOTHING_KNOWN, ReferencePatient
from core.asking.scene import AgentOutput, Dialogue, Material, PatientKnowledge, Question, Scene
from core.case import Fact, Section
from core.frameworks.automedic.roles import NOT_AVAILABLE, Facts, Rating
from core.frameworks.automedic.tags import END, TAG_OF, Addressee, queries_of
from core.text.findings import recogniser
from core.text.negation import is_content, stem_of, words_in
from core.text.patient_terms import is_technical, words
from core.text.sections import sentences
from core.text.vocabulary import below, cues

OPENING = "Hello, what brings you here today?"
BROAD = (
    "What are the vital signs?",
    "What does the physical examination show?",
    "What do the laboratory tests show?",
    "What does the imaging show?",
    "What do other tests show?",
)
"""What the staff is asked for: every kind of result as a whole."""
HISTORY_FIRST = 3
"""Questions to the patient, the opening among them, before the staff is asked."""
_UNAVAILABLE = re.compile(
    r"not (?:\w+ )?(?:available|done|performed|recorded|measured|documented|listed|known|given|provided|tested)|"
    r"unavailable|no (?:\w+ )?(?:result|record|information|data)s?\b|don['’]t have|do not have",
    re.IGNORECASE,
)


class ReferenceTagDoctor:
    """The reference doctor, asking patient and staff."""

    name = ReferenceDoctor.name

    def ask(self, scene: Scene, demographics: Facts, dialogue: Dialogue) -> AsyncIterator[AgentOutput]:
        """Ask the next question with its tag, or end."""
        return at_once("doctor", "dialogue", self._next_message(scene, demographics, dialogue))

    def answer(
        self, scene: Scene, demographics: Facts, material: Material, question: Question
    ) -> AsyncIterator[AgentOutput]:
        """Answer from the evidence in the text, or in demographics and dialogue."""
        known = evidence_of(material.text) if material.text else evidence_in(demographics, material.dialogue)
        return at_once("doctor", "answer", verdict(scene, known, question))

    def differential(self, scene: Scene, demographics: Facts, dialogue: Dialogue) -> tuple[tuple[str, float], ...]:
        """Return the five likeliest diseases after the dialogue."""
        return differential(evidence_in(demographics, dialogue), scene)

    def _next_message(self, scene: Scene, demographics: Facts, dialogue: Dialogue) -> str:
        asked = [query.text for query in queries_of(dialogue)]
        if not asked:
            return _to("patient", OPENING)
        left = questions_left(scene, asked)
        broad = [query for query in BROAD if query not in asked]
        if broad and (len(asked) >= HISTORY_FIRST or not left):
            return _to("staff", broad[0])
        if not left or (not broad and self.differential(scene, demographics, dialogue)[0][1] >= SURE):
            return END
        return _to("patient", random.Random(f"{scene.seed}:{len(dialogue)}:doctor").choice(LEAD_INS) + left[0])


def evidence_in(demographics: Facts, dialogue: Dialogue) -> Evidence:
    """Return what demographics and replies say; a result that is not available says nothing."""
    replies = [query.reply for query in queries_of(dialogue) if query.reply is not None]
    told = [sentence for reply in replies for sentence in sentences(reply) if not _UNAVAILABLE.search(sentence)]
    return evidence_of(" ".join([*(f"{fact.value}." for fact in demographics), *told]))


def _to(addressee: Addressee, text: str) -> str:
    tag = TAG_OF[addressee]
    return f"<{tag}>{text}</{tag}>"


_FEELING = re.compile(
    r"\bsorry\b|i (?:can )?(?:understand|see|imagine|hear)\b|must (?:be|have been|feel)|worr(?:y|ied|ying)|"
    r"difficult|frighten|scar(?:y|ed)|upsetting|distress|tough|hard (?:for|on) you|that sounds|take your time|"
    r"how (?:do|are) you feel|bother(?:s|ing)? you",
    re.IGNORECASE,
)
_COURTESY = re.compile(
    r"\b(?:please|thank you|thanks|hello|good (?:morning|afternoon|evening)|welcome)\b", re.IGNORECASE
)
_OPEN = re.compile(
    r"\b(?:what brings|tell me|describe|how (?:do|did|are|have|has|would|does)|in your own words|"
    r"what (?:do|did|is|was) (?:you|it|that|the \w+) (?:feel|like|think|worr)|"
    r"what (?:else|happened|worries)|anything else)\b",
    re.IGNORECASE,
)
_NOT_PLAIN = 0.05
"""Share of technical words in the queries above which the doctor is hard to follow."""
_OFTEN_COURTEOUS = 0.25
"""Share of queries with a courtesy from which on the doctor is courteous."""


class ReferenceAutoMedicPatient(ReferencePatient):
    """Answers and rates by rule."""

    def reply(self, held: PatientKnowledge, scene: Scene, dialogue: Dialogue) -> AsyncIterator[AgentOutput]:
        """Answer the last query."""
        if not (held.told or held.vignette):
            return at_once("patient", "dialogue", NOTHING_KNOWN)
        return super().reply(held, scene, dialogue)

    async def rate(
        self, held: PatientKnowledge, scene: Scene, dialogue: Dialogue
    ) -> AsyncIterator[AgentOutput | Rating]:
        """Rate by what the queries hold."""
        counted = count([turn.text for turn in dialogue if turn.role == "doctor"])
        yield Rating(counted.rating, counted.words)


@dataclass(frozen=True)
class Manners:
    """What the rule counts in the queries to the patient."""

    queries: int
    feelings: int
    """Queries that speak of how the patient feels."""
    courtesies: int
    open_questions: int
    repeated: int
    technical: float
    """Share of technical words."""

    @property
    def rating(self) -> int:
        """From 1 to 5, beginning with 2.

        One up each for a query about feelings, courtesy in a quarter of the queries, and an open question; one down
        each for more than one technical word in twenty and for a repeated query.
        """
        up = (self.feelings > 0) + (self.courtesies >= _OFTEN_COURTEOUS * self.queries) + (self.open_questions > 0)
        return max(1, 2 + up - (self.technical > _NOT_PLAIN) - (self.repeated > 0))

    @property
    def words(self) -> str:
        """The figures in a sentence."""
        return (
            f"By rule, of {self.queries} queries: {self.feelings} about feelings, {self.courtesies} courteous, "
            f"{self.open_questions} open, {self.repeated} repeated; {self.technical:.0%} technical words."
        )


def count(queries: list[str]) -> Manners:
    """Count what the rule rates."""
    spoken = [word for query in queries for word in words(query)]
    plain = [" ".join(words(_COURTESY.sub("", query))) for query in queries]
    return Manners(
        queries=len(queries),
        feelings=sum(bool(_FEELING.search(query)) for query in queries),
        courtesies=sum(bool(_COURTESY.search(query)) for query in queries),
        open_questions=sum(bool(_OPEN.search(query)) for query in queries),
        repeated=len(plain) - len(set(plain)),
        technical=sum(map(is_technical, spoken)) / len(spoken) if spoken else 0.0,
    )


MOST_PARTICULAR = 6
"""Results that a query for something particular is answered with at most."""
_LEAST_SHARE = 0.5
"""Of the best match, a result needs this share of the query's telling words."""

_TOPICS: dict[Section, str] = {section: section.replace("_", " ") for section in get_args(Section)}
_SECTION_NAMES = {
    section: re.compile(cues(topic, of=("order",), without=below(topic)), re.I) for section, topic in _TOPICS.items()
}
_EXAMPLES = re.compile(r"\b(?:including|includes?|such as|for example|e\.g\.|especially|particularly|like)\b", re.I)
_BY_HAND: frozenset[Section] = frozenset(("vital_signs", "examination"))


@dataclass(frozen=True)
class _Order:
    """A test or examination that can be ordered by name ("EKG"), and the words of its result."""

    names: re.Pattern[str]
    result: re.Pattern[str]
    by_hand: bool

    def is_met_by(self, fact: Fact) -> bool:
        """Say whether a fact is its result."""
        return (_section(fact) in _BY_HAND) == self.by_hand and bool(self.result.search(f"{fact.key} {fact.value}"))


_ORDERED = tuple(
    _Order(re.compile(asked, re.I), re.compile(cues(name, of=("result",)), re.I), section in _BY_HAND)
    for section, topic in _TOPICS.items()
    for name in below(topic)
    if (asked := cues(name, of=("order",)))
)
_EMPTY = frozenset(
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
"""Stems that name nothing particular."""


class ReferenceStaff:
    """Answers by rule from the optional facts."""

    name = "reference/staff"

    def reply(self, results: Facts, scene: Scene, dialogue: Dialogue) -> AsyncIterator[AgentOutput]:
        """Answer the last message of the staff's own view."""
        found = self.named(dialogue[-1].text, results)
        return at_once("staff", "dialogue", " ".join(reported(fact) for fact in found) or NOT_AVAILABLE)

    def named(self, query: str, results: Facts) -> list[Fact]:
        """Return the results that a query names, in the order of the case."""
        sections = {section for section, names in _SECTION_NAMES.items() if names.search(query)}
        ordered = [order for order in _ORDERED if order.names.search(query)]
        bare = query
        for names in (*_SECTION_NAMES.values(), *(order.names for order in _ORDERED)):
            bare = names.sub(" ", bare)
        telling = _telling(bare)
        particular = self._particular(query, telling, ordered, results)
        if "vital_signs" not in sections and (telling or ordered) and not _EXAMPLES.search(query):
            return particular
        if not sections and not particular and _ASKS_FOR_ALL.search(query):
            return list(results)
        return [fact for fact in results if _section(fact) in sections or fact in particular]

    def _particular(
        self, query: str, telling: frozenset[str], ordered: Sequence[_Order], results: Sequence[Fact]
    ) -> list[Fact]:
        """Return the results of the findings, tests and words that a query names, the closest ones only."""
        findings = set(recogniser().read(query))
        shared = [len(telling & _telling(_text(fact))) for fact in results]
        # of several words one in common is not enough: "joint fluid" does not ask for the fluid of the belly
        least = max(1.0, _LEAST_SHARE * max(len(telling), *shared, 0))
        return [
            fact
            for fact, words_shared in zip(results, shared, strict=True)
            if words_shared >= least
            or findings & set(recogniser().read(_text(fact)))
            or any(order.is_met_by(fact) for order in ordered)
        ][:MOST_PARTICULAR]


_ASKS_FOR_ALL = re.compile(r"\b(?:results|findings|tests|values|data|report|studies)\b", re.IGNORECASE)


def reported(fact: Fact) -> str:
    """Return a result as the staff says it: its name and its value as they stand."""
    return f"{fact.key[:1].upper()}{fact.key[1:]}: {fact.value.rstrip('.')}."


def _section(fact: Fact) -> Section:
    return fact.section or "other_tests"


def _text(fact: Fact) -> str:
    return f"{fact.key}: {fact.value}"


@functools.lru_cache(maxsize=20_000)
def _telling(text: str) -> frozenset[str]:
    """Return the stems of a text that name something."""
    stems = {stem_of(word) for word in words_in(text) if is_content(word) and not word[0].isdigit()}
    return frozenset(stems - _EMPTY)
