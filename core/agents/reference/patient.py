"""The reference patient: answers from the case's profile in lay words, or from one made of its vignette by rule.

It affirms and denies only what was asked: a yes or a no stands before a fact that says so of that very thing
(``core.text.asked_facts``). Of several things in one question it affirms what holds, denies what is denied, and says
nothing of the rest; where the case is silent it does not know, and never takes that for a no. It says one fact a reply,
two where one thing holds and another does not. A fact that only an examiner could put into words
(``core.text.patient_terms``) is answered with a bare yes or no.
"""

from __future__ import annotations

import random
import re
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from core.agents.base import at_once
from core.agents.reference.persona_rules import FORGOTTEN, Manner, is_evasion, manner_of
from core.asking.persona import PLAIN
from core.asking.scene import Dialogue, Held, Saying, Scene
from core.case import Case, Fact
from core.text.asked_facts import (
    Asked,
    about_family,
    asked_things,
    by_topic,
    holds,
    is_open,
    nearest_fact,
    plain_question,
)
from core.text.findings import understanding
from core.text.patient_terms import is_sayable
from core.text.persons import lowered, speaking_of
from core.text.profile_rules import vignette_profile
from core.text.vocabulary import Words, cues

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
_HOW_OLD = re.compile(r"\bhow old\b|\b(?:your|the) age\b|\bage and sex\b", re.IGNORECASE)
_UNWELL = "I have come because I don't feel well."
"""A complaint that only a clinician could put into words."""
_FORMER = re.compile(r"\b(?:gave up|quit|used to|stopped|I smoked|(?:he|she) smoked)\b", re.IGNORECASE)
"""What was so and is no longer: told, but neither affirmed nor denied."""
_NEAR = 0.34
"""Share of the telling words of an open question that a fact must hold to be taken for the answer."""
_SURE = 0.6
"""Share of the telling words of a question that wants a yes or a no which a fact must hold to be told in reply."""
_MORE = re.compile(
    r"(?:any|some)thing else|tell me more|\bother (?:\w+ )?(?:symptoms|complaints|problems you|concerns)|"
    r"^(?:can|could) you (?:please )?describe (?:your|the|what)|what else|"
    r"what (?:seems to be|is) (?:the|your) (?:problem|matter|trouble)|"
    r"main complaint|what about (?:other information|the main complaint)|(?:additional|accompanying|associated) "
    r"symptoms",
    re.IGNORECASE,
)
_LIKE = re.compile(r"\b(?:like|such as|including|for example)\b|[:,]", re.IGNORECASE)
_SYMPTOM = re.compile(r"symptoms", re.IGNORECASE)
_NO_SYMPTOM = Words(
    "duration|background|" + cues("past history", "medication", "family history", "social history", of=("key",))
)


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
        if self.led and not self.otherwise:
            return self.lay if _ANSWERS.match(self.lay) else self.lead + lowered(self.lay)
        return self.otherwise or self.lead + self.lay

    def said_as(self, wording: str) -> str:
        """Return the reply with the fact in other words, which the lead, a sentence of its own, cannot negate."""
        if not self.led:
            return self.lead + wording
        return wording if _ANSWERS.match(wording) else f"{self.lead.rstrip(', ')}. {wording}"


class ReferencePatient:
    """Answers by rule; differs by seed in its wording."""

    name = "reference/profile"

    def reply(self, held: Held, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying]:
        """Answer the last message of the dialogue."""
        return at_once("patient", "dialogue", self._reply(held, scene, dialogue))

    def _reply(self, held: Held, scene: Scene, dialogue: Dialogue) -> str:
        if scene.persona == PLAIN:
            return self._choose(held, scene.seed, dialogue, lambda lay, said: lay in said).plain
        # what the plain patient would, as the persona has it (``core.agents.reference.persona_rules``)
        manner = manner_of(scene.persona, held, scene.seed)
        chosen = self._choose(held, scene.seed, dialogue, manner.told)
        # what was evaded so far, the last one last
        asked = [dialogue[:i] for i, turn in enumerate(dialogue) if turn.role == "patient" and is_evasion(turn.text)]
        held_back = [self._choose(held, scene.seed, before, manner.told) for before in asked]
        if not chosen.lay and held_back and is_evasion(dialogue[-2].text):
            chosen = held_back[-1]
        first_time = all(chosen.lay != earlier.lay for earlier in held_back)
        if chosen.asked_for and first_time and manner.evades(chosen.lay):
            return manner.evasion(len(dialogue))
        text = _worded(chosen, manner, dialogue)
        told = f"{_said(dialogue)} {text}"
        fresh = [fact.lay for fact in _complaints(_facts(held)[0]) if not manner.told(fact.lay, told)]
        return manner.coloured(text, [] if chosen.personal else fresh, len(dialogue))

    def _choose(self, held: Held, seed: int, dialogue: Dialogue, told_already: Callable[[str, str], bool]) -> _Chosen:
        """Return what the last message calls for; ``told_already`` says of a fact whether it was said before."""
        rng = random.Random(f"{seed}:{len(dialogue)}:patient")
        told, shown, as_written = _facts(held)
        complaints, question, said = _complaints(told), dialogue[-1].text, _said(dialogue)
        if all(turn.role == "doctor" for turn in dialogue):
            return _Chosen(complaints[0].lay, rng.choice(_OPENINGS), asked_for=False)
        if _HOW_OLD.search(question):
            lay = " ".join(fact.lay for fact in told if fact.key in ("age", "sex"))
            return _Chosen(lay, personal=True, asked_for=False)
        if not _MORE.search(question):
            facts = about_family(question, [*told, *shown])
            things = asked_things(question, understanding())
            stated = understanding().stated_question(question) is not None
            chosen = self._yes_or_no([thing for thing in things if thing.findings], facts, rng)
            if chosen is None and len(things) == 1 and things[0].findings:
                # a bare word answers one thing only: of several, nobody knew which of them it meant
                chosen = self._bare_answer(things[0], about_family(question, as_written))
            if chosen is None and things:
                # of a pain that is there, whether it is worse on breathing is not known, but that it is there
                wider = understanding().asked_findings(question)[1:] if stated else sorted(things[0].findings)
                fact = self._about([Asked(frozenset({finding})) for finding in wider], facts, holding=True)
                chosen = _Chosen(fact.lay) if fact else None
            if chosen is None and not stated:
                plain = plain_question(question)
                words = by_topic(plain, facts)
                if words is None and (near := nearest_fact(plain, facts, _NEAR if is_open(plain) else _SURE)):
                    words = near.lay
                chosen = _Chosen(words) if words else None
            return chosen or _Chosen(otherwise=rng.choice(_DO_NOT_KNOW))
        if _LIKE.search(question) and (known := self._yes_or_no(asked_things(question, understanding()), told, rng)):
            return known
        fresh = [fact for fact in complaints if not told_already(fact.lay, said)]
        symptoms = [fact for fact in fresh if _SYMPTOM.search(question) and not _NO_SYMPTOM.are_in(fact.key.lower())]
        return _Chosen((symptoms or fresh)[0].lay) if fresh else _Chosen(otherwise=_ALL_TOLD)

    def _yes_or_no(self, things: Sequence[Asked], facts: Sequence[Fact], rng: random.Random) -> _Chosen | None:
        """Affirm what holds of the things asked, and deny what is denied; ``None`` where no fact speaks of any."""
        affirmed, denied = (self._about(things, facts, holding) for holding in (True, False))
        if affirmed and _FORMER.search(affirmed.lay):
            return _Chosen(affirmed.lay)
        if affirmed:
            also = denied is not None and denied != affirmed and not _ANSWERS.match(denied.lay)
            but = f" But {lowered(denied.lay)}" if denied and also else ""
            return _Chosen(f"{affirmed.lay}{but}", rng.choice(_YES), led=True)
        return _Chosen(denied.lay, rng.choice(_NO), led=True) if denied else None

    def _bare_answer(self, thing: Asked, facts: Sequence[Fact]) -> _Chosen | None:
        """Answer yes or no by facts in a clinician's words; ``None`` where none speaks of the thing."""
        for holding, word in ((True, "Yes."), (False, "No.")):
            if self._about([thing], facts, holding):
                return _Chosen(otherwise=word)
        return None

    def _about(self, things: Sequence[Asked], facts: Sequence[Fact], holding: bool) -> Fact | None:
        """Return the fact with the fewest words that affirms, or denies, the first thing that any fact does so of."""
        for thing in things:
            about = [(fact, holds(fact, thing, understanding())) for fact in facts]
            if holding or not any(held for _, held in about):
                found = [fact for fact, held in about if held is holding]
                if found:
                    return min(found, key=lambda fact: (fact.section is not None, len(fact.lay.split())))
        return None


_Known = tuple[tuple[Fact, ...], tuple[Fact, ...], tuple[Fact, ...]]
"""Facts that the patient tells, results that it has been told of, and facts in words that are not its own."""


def _facts(held: Held) -> _Known:
    if not held.told:
        return _facts_of_vignette(held.vignette, held.caregiver)
    return held.told, tuple(fact for fact in held.shown if is_sayable(fact.lay)), ()


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


def _complaints(told: Sequence[Fact]) -> list[Fact]:
    """Return what the patient tells unasked, the chief complaint first."""
    start = next((i for i, fact in enumerate(told) if fact.key == "chief complaint"), 0)
    return list(told[start:])


@lru_cache(maxsize=4096)
def _facts_of_vignette(vignette: str, caregiver: bool) -> _Known:
    """Return the facts of a vignette whose profile is unknown; what examination and tests show stays unsaid."""
    case = Case(
        case_key="",
        dataset="",
        specialty="Other",
        vignette=vignette,
        answer="unknown",
        speaker="caregiver" if caregiver else "patient",
    )
    made = vignette_profile(case, speaking_of(case))
    complaint, *others = made.basic or (Fact(key="chief complaint", value=vignette, lay=_UNWELL),)
    if not is_sayable(complaint.lay):
        complaint = Fact(key="chief complaint", value=_UNWELL, lay=_UNWELL)
    people = (fact for fact in made.demographics if is_sayable(fact.lay))
    as_written = tuple(fact.model_copy(update={"lay": fact.value}) for fact in made.basic)
    return (*people, complaint, *(fact for fact in others if is_sayable(fact.lay))), (), as_written
