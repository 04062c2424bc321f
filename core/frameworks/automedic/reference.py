"""The reference cast of AutoMedic by rule: doctor, patient and clinical staff. Made as a baseline, not for care.

The doctor has the reference doctor's knowledge, in tags, with examination and tests beside. After the patient's
complaint it asks the staff for each kind of result in turn, then whoever is expected to tell most: the patient
(symptoms, history, family) or the staff (one sign, laboratory value or image). It ends when it is sure and never sees
the case or its answer.

The patient answers as the reference patient does (``core.agents.reference.patient``), from demographics and basic
facts. Its rating counts what can be counted in the queries that reached it and says so; it judges no meaning.

The staff reports the results that a query names, word for word, and nothing else. Which it names, in this order: all
vital signs where these are named; the results that hold a finding or a test of the query, or most of its telling words;
a whole section (examination, laboratory, imaging, other tests) where the query names the section and nothing more
particular, or the particular only as an example. Else the staff says that it is not available. It knows no reference
ranges and explains nothing.
"""

from __future__ import annotations

import functools
import random
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import get_args

from core.agents.base import at_once
from core.agents.reference.doctor import ReferenceDoctor
from core.agents.reference.patient import ReferencePatient
from core.asking.scene import Dialogue, Held, Material, Question, Saying, Scene, Turn
from core.case import Fact, Section
from core.frameworks.automedic.roles import NOT_AVAILABLE, Facts, Rating
from core.frameworks.automedic.tags import END, TAG_OF, Addressee, Query, queries_of
from core.knowledge.base import ASKABLE, Finding, Kind
from core.knowledge.bayes import Array, Evidence, disease_model
from core.text.asked_facts import by_topic
from core.text.demographics import read_demographics
from core.text.findings import understanding
from core.text.negation import is_content, stem_of, words_in
from core.text.patient_terms import is_technical, words
from core.text.sections import sentences
from core.text.topics import topics_asked
from core.text.vocabulary import below, cues

SURE = 0.95
"""Posterior of the leading disease at which the doctor stops asking, once it has asked for every kind of result."""
OPENING = "Hello, what brings you here today?"
BROAD = (
    "What are the vital signs?",
    "What does the physical examination show?",
    "What do the laboratory tests show?",
    "What does the imaging show?",
    "What do other tests show?",
)
"""What is asked of the staff first: every kind of result as a whole."""
_WORDED: dict[Kind, str] = {
    "sign": "Is there any finding of {name} on examination?",
    "lab": "What do the laboratory tests show on {name}?",
    "imaging": "Does the imaging or a tracing show {name}?",
}
"""How the staff is asked for one finding, by its kind."""
_SHOWN: tuple[Kind, ...] = tuple(_WORDED)
_HISTORY_FIRST = 3
"""Questions to the patient, the opening among them, before the staff is asked."""
_LEAST_GAIN = 0.004
_NEAR_BEST = 0.88
"""Questions within this share of the best expected gain are as good; the trial's seed picks one."""
_IN_VAIN = 2
"""Results not available, one after the other, after which the staff is asked for no single finding any more."""
_LEAD_INS = ("", "", "", "Thank you. ", "I see. ", "All right. ", "Understood. ")
_UNAVAILABLE = re.compile(
    r"not (?:\w+ )?(?:available|done|performed|recorded|measured|documented|listed|known|given|provided|tested)|"
    r"unavailable|no (?:\w+ )?(?:result|record|information|data)s?\b|don['’]t have|do not have",
    re.IGNORECASE,
)
_YES_OR_NO = re.compile(r"\W*(yes|no)\b", re.IGNORECASE)


class ReferenceTagDoctor:
    """Naive Bayes over findings, asking patient and staff."""

    name = ReferenceDoctor.name

    def __init__(self, *, asks_staff: bool = True) -> None:
        self._asks_staff = asks_staff
        self._finding_of = {worded(f): f.id for f in disease_model().findings if f.kind in _SHOWN}

    def ask(self, scene: Scene, demographics: Facts, dialogue: Dialogue) -> AsyncIterator[Saying]:
        """Ask the next question with its tag, or end."""
        return at_once("doctor", "dialogue", self._next_message(scene, demographics, dialogue))

    def answer(
        self, scene: Scene, demographics: Facts, material: Material, question: Question
    ) -> AsyncIterator[Saying]:
        """Answer from the evidence in the text, or in demographics and dialogue."""
        if material.text is not None:
            return ReferenceDoctor().answer(scene, material, question)
        return self._informed(demographics, material.dialogue).answer(scene, material, question)

    def differential(self, scene: Scene, demographics: Facts, dialogue: Dialogue) -> tuple[tuple[str, float], ...]:
        """Return the five likeliest diseases after the dialogue."""
        return self._informed(demographics, dialogue).differential(scene, dialogue)

    def _informed(self, demographics: Facts, dialogue: Dialogue) -> ReferenceDoctor:
        return _Informed(self._evidence(demographics, queries_of(dialogue)))

    def _next_message(self, scene: Scene, demographics: Facts, dialogue: Dialogue) -> str:
        rng = random.Random(f"{scene.seed}:{len(dialogue)}:doctor")
        asked = queries_of(dialogue)
        if not asked:
            return _to("patient", OPENING)
        posterior = disease_model().posterior(self._evidence(demographics, asked), scene.specialty or None)
        broad = [text for text in BROAD if self._asks_staff and all(text != q.text for q in asked)]
        heard = sum(q.to == "patient" for q in asked)
        if broad and heard >= _HISTORY_FIRST:
            return _to("staff", broad[0])
        if not broad and float(posterior.max()) >= SURE and heard >= _HISTORY_FIRST:
            return END
        finding = self._most_telling(posterior, demographics, asked, rng)
        if finding is None:
            return _to("staff", broad[0]) if broad else END
        if finding.ask is None:
            return _to("staff", worded(finding))
        return _to("patient", rng.choice(_LEAD_INS) + finding.ask)

    def _most_telling(
        self, posterior: Array, demographics: Facts, asked: Sequence[Query], rng: random.Random
    ) -> Finding | None:
        """Return the finding that is expected to tell most of those not known or asked for; ``None`` if none does."""
        of_patient = {f for q in asked if q.to == "patient" for f in understanding().asked_findings(q.text)[:1]}
        known = set(self._evidence(demographics, asked).findings) | (
            of_patient | {self._finding_of[q.text] for q in asked if q.text in self._finding_of}
        )
        singly = self._asks_staff and all(any(q.text == text for q in asked) for text in BROAD)
        kinds = (*ASKABLE, *_SHOWN) if singly and not self._in_vain(asked) else ASKABLE
        gains = disease_model().information_gain(posterior, known, kinds)
        if not gains or gains[0][0] < _LEAST_GAIN:
            return None
        return rng.choice([finding for gain, finding in gains if gain >= _NEAR_BEST * gains[0][0]])

    def _in_vain(self, asked: Sequence[Query]) -> bool:
        """Say whether the staff had nothing on the last findings that were asked for singly."""
        last = [q for q in asked if q.text in self._finding_of][-_IN_VAIN:]
        return len(last) == _IN_VAIN and all(_UNAVAILABLE.search(q.reply or "") for q in last)

    def _evidence(self, demographics: Facts, asked: Sequence[Query]) -> Evidence:
        """Return what demographics and replies say; of contradicting words the later ones count."""
        known = " ".join(fact.value for fact in demographics)
        findings = dict(understanding().recogniser.read(known))
        pairs = tuple((q.text, q.reply) for q in asked if q.to == "patient" and q.reply is not None)
        told = understanding().evidence_of_dialogue(pairs)
        findings.update(told.findings)
        for q in asked:
            if q.to == "staff" and q.reply is not None:
                findings.update(self._shown(q.text, q.reply))
        age, sex = read_demographics(known)
        return Evidence(findings, age if age is not None else told.age, sex or told.sex)

    def _shown(self, query: str, reply: str) -> dict[str, bool]:
        """Return what a reply of the staff shows; what is not available says nothing."""
        available = " ".join(s for s in sentences(reply) if not _UNAVAILABLE.search(s))
        if not available:
            return {}
        read = dict(understanding().recogniser.read(available))
        answered, finding = _YES_OR_NO.match(available), self._finding_of.get(query)
        if answered and finding and finding not in read:
            read[finding] = answered[1].lower() == "yes"
        return read


class _Informed(ReferenceDoctor):
    """The reference doctor with its evidence already read."""

    def __init__(self, evidence: Evidence) -> None:
        self._given = evidence

    def _heard(self, dialogue: Dialogue) -> Evidence:
        return self._given

    def _evidence(self, material: Material) -> Evidence:
        return self._given


def worded(finding: Finding) -> str:
    """Return the query to the staff for one finding."""
    return _WORDED[finding.kind].format(name=finding.name)


def _to(addressee: Addressee, text: str) -> str:
    tag = TAG_OF[addressee]
    return f"<{tag}>{text}</{tag}>"


_NOTHING_KNOWN = "I don't know."
_WELCOME = (Turn("doctor", "Hello."), Turn("patient", "Hello."))
"""Stands before a first query that asks for something in particular, which is then answered as any other."""

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

    def reply(self, held: Held, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying]:
        """Answer the last query."""
        if not held.told:
            return at_once("patient", "dialogue", _NOTHING_KNOWN)
        query = dialogue[-1].text
        asked = understanding().asked_findings(query) or by_topic(query, held.told)
        particular = bool(asked) or "demographics" in topics_asked(query)  # and not the complaint
        first = all(turn.role == "doctor" for turn in dialogue)
        return super().reply(held, scene, (*_WELCOME, *dialogue) if first and particular else dialogue)

    async def rate(self, held: Held, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying | Rating]:
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
_ORDERED = tuple(
    (re.compile(asked, re.I), re.compile(cues(name, of=("result",)), re.I), section in _BY_HAND)
    for section, topic in _TOPICS.items()
    for name in below(topic)
    if (asked := cues(name, of=("order",)))
)
"""What is ordered, what a result of it looks like, and whether it is found at the bedside: names that share no word."""
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

    def reply(self, results: Facts, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying]:
        """Answer the last message of the staff's own view."""
        found = self.named(dialogue[-1].text, results)
        return at_once("staff", "dialogue", " ".join(reported(fact) for fact in found) or NOT_AVAILABLE)

    def named(self, query: str, results: Facts) -> list[Fact]:
        """Return the results that a query names, in the order of the case."""
        sections = {section for section, names in _SECTION_NAMES.items() if names.search(query)}
        whole = {"vital_signs"} & sections
        bare = query
        for names in (*_SECTION_NAMES.values(), *(asked for asked, _, _ in _ORDERED)):
            bare = names.sub(" ", bare)
        telling, ordered = _telling(bare), any(names.search(query) for names, _, _ in _ORDERED)
        if not (telling or ordered) or _EXAMPLES.search(query):
            whole = whole | sections
        particular = self._particular(query, telling, [f for f in results if _section(f) not in whole])
        if not sections and not particular and not telling and _ASKS_FOR_ALL.search(query):
            return list(results)
        return [f for f in results if _section(f) in whole or f in particular]

    def _particular(self, query: str, telling: frozenset[str], results: Sequence[Fact]) -> list[Fact]:
        """Return the results of the findings, tests and words that a query names, the closest ones only."""
        asked = set(understanding().recogniser.read(query))
        ordered = [(told, by_hand) for names, told, by_hand in _ORDERED if names.search(query)]
        by_name = [
            fact
            for fact in results
            if any(
                (_section(fact) in _BY_HAND) == by_hand and told.search(f"{fact.key} {fact.value}")
                for told, by_hand in ordered
            )
        ]
        by_finding = [f for f in results if asked & set(understanding().recogniser.read(_text(f)))]
        shared = {id(f): len(telling & _telling(_text(f))) for f in results}
        best = max(shared.values(), default=0)
        # of several words one in common is not enough: "joint fluid" does not ask for the fluid of the belly
        close = [f for f in results if best and shared[id(f)] >= max(1, _LEAST_SHARE * best)]
        by_words = close if telling and best >= _LEAST_SHARE * len(telling) else []
        return [f for f in results if f in by_name or f in by_finding or f in by_words][:MOST_PARTICULAR]


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
