"""The reference patient: answers from the case's profile in lay words, or from the vignette's sentences.

It says one fact a reply, only what was asked, and says that it does not know where the case is silent.
"""

from __future__ import annotations

import random
import re
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from core.agents.asked_facts import by_topic, nearest_fact
from core.agents.base import Dialogue, Held, Said, Saying, Scene, token
from core.agents.first_person import first_person
from core.agents.persona_rules import Manner, is_evasion, manner_of
from core.agents.persona_words import FORGOTTEN
from core.case import Fact, read_demographics, sentences
from core.knowledge.dialogue import Understanding, understanding
from core.persona import PLAIN

_DO_NOT_KNOW = (
    "I'm not sure about that.",
    "I don't know, to be honest.",
    "I couldn't say.",
    "I don't know about that.",
    "I'm really not sure.",
)
_ALL_TOLD = "No, I think that's everything."
_OPENINGS = ("", "", "Hello, doctor. ", "Well, doctor. ", "Thank you for seeing me. ")
_YES = ("Yes, ", "Yes, ", "Yeah, ")
_NO = ("No, ", "No, ", "Not that I know of, ")
_ANSWERS = re.compile(r"(?:yes|no|not|never)\b", re.IGNORECASE)
_MORE = re.compile(r"anything else|tell me more|other symptoms|describe|what else|any other", re.IGNORECASE)


@dataclass(frozen=True)
class _Chosen:
    """What a question calls for: a fact's lay words with a lead before them, or ``otherwise`` where none fits."""

    lay: str = ""
    lead: str = ""
    otherwise: str = ""
    led: bool = False
    """The lead is a yes or no that a fact with one of its own does not need."""
    personal: bool = False
    """Age and sex were asked for."""
    asked_for: bool = True
    """It may be withheld: not the complaint that the patient came with, nor age and sex."""

    @property
    def plain(self) -> str:
        """The reply without a persona."""
        return self.otherwise or (_with_lead(self.lead, self.lay) if self.led else self.lead + self.lay)

    def said_as(self, wording: str) -> str:
        """Return the reply with the fact in other words, which the lead, a sentence of its own, cannot negate."""
        if not self.led:
            return self.lead + wording
        return wording if _ANSWERS.match(wording) else f"{self.lead.rstrip(', ')}. {wording}"


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
        if scene.persona == PLAIN:
            return self._choose(held, scene.seed, dialogue, _literally_told).plain
        return self._in_manner(manner_of(scene.persona, held, scene.seed), held, scene, dialogue)

    def _in_manner(self, manner: Manner, held: Held, scene: Scene, dialogue: Dialogue) -> str:
        """Say what the plain patient would, as the persona has it (``core.agents.persona_rules``)."""
        chosen = self._choose(held, scene.seed, dialogue, manner.told)
        held_back = self._held_back(manner, held, scene, dialogue)
        if not chosen.lay and held_back and is_evasion(dialogue[-2].text):
            chosen = held_back[-1]
        first_time = all(chosen.lay != earlier.lay for earlier in held_back)
        if chosen.asked_for and first_time and manner.evades(chosen.lay):
            return manner.evasion(len(dialogue))
        text = _worded(chosen, manner, dialogue)
        told = f"{_said(dialogue)} {text}"
        fresh = [fact.lay for fact in _complaints(_facts(held)[0]) if not manner.told(fact.lay, told)]
        return manner.coloured(text, [] if chosen.personal else fresh, len(dialogue))

    def _held_back(self, manner: Manner, held: Held, scene: Scene, dialogue: Dialogue) -> list[_Chosen]:
        """Return what was evaded so far, the last one last."""
        asked = [dialogue[:i] for i, turn in enumerate(dialogue) if turn.role == "patient" and is_evasion(turn.text)]
        return [self._choose(held, scene.seed, before, manner.told) for before in asked]

    def _choose(self, held: Held, seed: int, dialogue: Dialogue, told_already: Callable[[str, str], bool]) -> _Chosen:
        """Return what the last message calls for; ``told_already`` says of a fact whether it was said before."""
        rng = random.Random(f"{seed}:{len(dialogue)}:patient")
        told, shown = _facts(held)
        complaints, question, said = _complaints(told), dialogue[-1].text, _said(dialogue)
        if all(turn.role == "doctor" for turn in dialogue):
            return _Chosen(complaints[0].lay, rng.choice(_OPENINGS), asked_for=False)
        if "How old" in question and held.told:
            lay = " ".join(fact.lay for fact in told if fact.key in ("age", "sex"))
            return _Chosen(lay, personal=True, asked_for=False)
        if _MORE.search(question):
            fresh = [fact for fact in complaints if not told_already(fact.lay, said)]
            return _Chosen(fresh[0].lay) if fresh else _Chosen(otherwise=_ALL_TOLD)
        return self._answer(question, [*told, *shown], rng)

    def _answer(self, question: str, facts: Sequence[Fact], rng: random.Random) -> _Chosen:
        for finding in self._reader.asked_findings(question):
            about = [(self._says(fact).get(finding), fact) for fact in facts]
            fitting = [(present, fact) for present, fact in about if present is not None]
            if fitting:
                present, fact = min(fitting, key=lambda pair: len(self._says(pair[1])))
                return _Chosen(fact.lay, rng.choice(_YES if present else _NO), led=True)
        on_topic = by_topic(question, facts)
        if on_topic is not None and not self._reader.asked_findings(question):
            return _Chosen(on_topic)
        nearest = nearest_fact(question, facts)
        return _Chosen(nearest.lay) if nearest else _Chosen(otherwise=rng.choice(_DO_NOT_KNOW))

    def _says(self, fact: Fact) -> dict[str, bool]:
        read = self._reader.recogniser.read
        return {**read(fact.value), **read(fact.lay)}


def _facts(held: Held) -> tuple[tuple[Fact, ...], tuple[Fact, ...]]:
    """Return (told, shown), from the vignette's sentences where no profile is known."""
    return (held.told, held.shown) if held.told else _facts_of_sentences(held.vignette)


def _said(dialogue: Dialogue) -> str:
    return " ".join(turn.text for turn in dialogue if turn.role == "patient")


def _worded(chosen: _Chosen, manner: Manner, dialogue: Dialogue) -> str:
    """Return what was chosen in the words of a persona."""
    if not chosen.lay:
        return chosen.otherwise
    if chosen.personal:
        return manner.word(chosen.lay)
    if chosen.asked_for and manner.forgets(dialogue[-1].text, chosen.lay):
        return FORGOTTEN
    return chosen.said_as(manner.part(chosen.lay, _said(dialogue)))


def _literally_told(lay: str, said: str) -> bool:
    return lay in said


def _complaints(told: Sequence[Fact]) -> list[Fact]:
    """Return what the patient tells unasked, the chief complaint first."""
    start = next((i for i, fact in enumerate(told) if fact.key == "chief complaint"), 0)
    return list(told[start:])


def _with_lead(lead: str, lay: str) -> str:
    if _ANSWERS.match(lay):
        return lay
    keeps = re.match(r"I\b|I'|[A-Z]{2}", lay)
    return lead + (lay if keeps else lay[:1].lower() + lay[1:])


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
