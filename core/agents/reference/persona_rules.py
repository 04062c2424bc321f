"""How the reference patient speaks with a persona: which part of the plain reply it says, when, and in which words.

Each rule takes away, postpones or rewords; what it adds (a worry, small talk) holds no medical fact. Everything
follows from the seed, the dialogue and the persona.

- terse: the first clause; the rest when the same thing is asked again.
- talkative: small talk, and in half of the replies one complaint more that was not asked for.
- anxious: a worry with every reply.
- distrustful: half of the facts (by seed) are evaded when first asked for and told when asked again or pressed.
- stoic: what is strong is made small, what hurts hurts a bit.
- language A: rarer words replaced, one clause a sentence; B: words replaced; C: as it stands.
- memory vague: half of the facts (by seed) are told with "a while", "some" for times and amounts; poor: all of them,
  and half of the questions for a time or an amount (by seed) get no answer.
- caregiver: the third person, unless the case tells it so already; a patient who speaks for themselves where the case
  has a caregiver says "I" from the age of eight on.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

from core.asking.persona import Persona, caregiver_speaks
from core.asking.scene import Held
from core.case import Sex
from core.text.demographics import read_demographics
from core.text.negation import denies_something
from core.text.persons import first_person, third_person
from core.text.vocabulary import DAYS, NUMBERS, alternatives, relatives

HELD_BACK = 0.5
"""Probability that a distrustful patient evades a fact when first asked for it."""
BLURRED = {"good": 0.0, "vague": 0.5, "poor": 1.0}
"""Probability that a fact's times and amounts are told only roughly, by memory."""
FORGETS = {"good": 0.0, "vague": 0.0, "poor": 0.5}
"""Probability that a question for a time or an amount gets no answer, by memory."""
VOLUNTEERS = 0.5
"""Probability that a talkative patient tells a further complaint."""
SPEAKS_FROM = 8.0
"""Below this age (years) a child is never made to speak for itself."""

SMALL_TALK = (
    "The traffic on the way here was dreadful.",
    "They have painted this room nicely.",
    "What a lovely plant on the windowsill.",
    "The tram was full to the last seat.",
    "One could talk about the weather all morning.",
    "The coffee from the machine downstairs is quite good.",
)
WORRIES = (
    "Is it something dangerous, doctor?",
    "It keeps going round in my head.",
    "Please tell me it is nothing bad.",
    "What is going to happen now?",
)
EVASIONS = ("Why do you need to know that?", "I'd rather keep that to myself.", "What has that got to do with it?")
NO_FUSS = "I wouldn't make a fuss about it."
_RELATIVE = f"(?:{relatives('parents', 'children', 'partners')}|parents|baby|child|little (?:boy|girl))"
_RELATION = re.compile(rf"\bmy {_RELATIVE}\b", re.IGNORECASE)
"""How a caregiver calls the patient."""
_INFORMANT = re.compile(
    rf"(?:[;,]| and)? ?\b(?:I'm|we're) (?:his|her|their) {_RELATIVE}\b|, so I speak for (?:him|her|them)", re.IGNORECASE
)


@dataclass(frozen=True)
class Manner:
    """A persona at work in one trial: the wording of facts by ``word``, and what is said of them by the others."""

    persona: Persona
    seed: int
    sex: Sex | None
    retold: str = ""
    """``third`` or ``first`` where the case's lay words are to change person, else empty."""

    def word(self, lay: str) -> str:
        """Return a fact as this person would put it, always the same within a trial."""
        text = lay
        if self.retold:
            text = third_person(lay, self.sex) if self.retold == "third" else _own_words(lay, self.sex)
        if self.persona.temperament == "stoic":
            text = played_down(text)
        if self._chance("blur", lay) < BLURRED[self.persona.memory]:
            text = blurred(text)
        if self.persona.language in ("A", "B"):
            text = plain_words(text)
        return " ".join(clauses(text)) if self.persona.language == "A" else text

    def told(self, lay: str, said: str) -> bool:
        """Say whether a fact has been told, at least its first clause."""
        return _bare(clauses(self.word(lay))[0]) in _bare(said)

    def forgets(self, question: str, lay: str) -> bool:
        """Say whether an asked time or amount has slipped this person's mind."""
        changes = blurred(lay) != lay
        return asks_amount(question) and changes and self._chance("forget", lay) < FORGETS[self.persona.memory]

    def evades(self, lay: str) -> bool:
        """Say whether this person evades a fact that is asked for the first time."""
        return self.persona.temperament == "distrustful" and self._chance("evade", lay) < HELD_BACK

    def part(self, lay: str, said: str) -> str:
        """Return the wording of a fact, or of as much of it as this person says now."""
        whole = self.word(lay)
        if self.persona.temperament != "terse":
            return whole
        first, *rest = clauses(whole)
        return " ".join(rest) if rest and _bare(first) in _bare(said) else first

    def evasion(self, turn: int) -> str:
        """Return an evasive reply."""
        return self._rng(turn).choice(EVASIONS)

    def coloured(self, text: str, fresh: Sequence[str], turn: int) -> str:
        """Return a reply with what the temperament adds: a worry, small talk, one of the ``fresh`` complaints."""
        rng = self._rng(turn)
        if self.persona.temperament == "anxious":
            return f"{text} {rng.choice(WORRIES)}"
        if self.persona.temperament == "talkative":
            more = self.word(fresh[0]) if fresh and rng.random() < VOLUNTEERS else ""
            more = re.sub(r"^(?:no|yes), ", "", more, flags=re.IGNORECASE)
            return " ".join(filter(None, [text, more[:1].upper() + more[1:], rng.choice(SMALL_TALK)]))
        return f"{text} {NO_FUSS}" if self.persona.temperament == "stoic" and turn == 1 else text

    def _chance(self, what: str, lay: str) -> float:
        return random.Random(f"{self.seed}:{what}:{lay}").random()

    def _rng(self, turn: int) -> random.Random:
        return random.Random(f"{self.seed}:{turn}:persona")


def manner_of(persona: Persona, held: Held, seed: int) -> Manner:
    """Return how the persona speaks of what is held; only sex and age of the patient are read for it."""
    demographics = " ".join(fact.lay for fact in held.told if fact.key in ("age", "sex"))
    age, sex = read_demographics(held.vignette)
    sex = sex or read_demographics(demographics)[1]
    caregiver = caregiver_speaks(persona, held.caregiver)
    if caregiver and not held.caregiver:
        return Manner(persona, seed, sex, "third")
    old_enough = age is None or age >= SPEAKS_FROM
    return Manner(persona, seed, sex, "first" if held.caregiver and not caregiver and old_enough else "")


def _own_words(lay: str, sex: Sex | None) -> str:
    """Return what a caregiver tells in the patient's own words."""
    pronoun = {"male": "he", "female": "she"}.get(sex or "", "they")
    text = _INFORMANT.sub("", lay)
    text = re.sub(r"\b(is|has|was|does)n't\b", r"\1 not", re.sub(r"\b([Ss]?[Hh]e)'s\b", r"\1 is", text))
    return first_person(_RELATION.sub(pronoun, text), sex)


def is_evasion(text: str) -> bool:
    """Say whether a reply is one of the evasive ones."""
    return text in EVASIONS


def _bare(text: str) -> str:
    return text.strip(" .!?").lower()


_SUBJECT = r"(?:I|he|she|it|they|we|there|my|his|her|their|the|this|these|an?)\b"
_BOUNDARY = re.compile(
    rf"(?<=[.!?])\s+(?=[A-Z])|;\s+|,? but (?={_SUBJECT})|, (?:and|so) (?={_SUBJECT})|"
    rf" (?:and|so) (?=(?:I|he|she|it|they|we|there)\b)|,? because (?={_SUBJECT})"
)
_CONDITION = re.compile(r"^(?:if|when|while|whenever|unless|although|though|as)\b", re.IGNORECASE)


def clauses(text: str) -> list[str]:
    """Split a text into clauses that can stand alone, each a sentence with its full stop."""
    pieces: list[str] = []
    for piece in _BOUNDARY.split(text):
        if pieces and _CONDITION.match(pieces[-1]) and "," not in pieces[-1]:
            pieces[-1] = f"{pieces[-1]} and {piece}"
        elif piece.strip(" ,.;"):
            pieces.append(piece.strip(" ,;"))
    return [(piece[:1].upper() + piece[1:] + ("" if piece.endswith((".", "!", "?")) else ".")) for piece in pieces] or [
        text
    ]


_PLAIN_WORDS = {
    "approximately": "about", "immediately": "at once", "frequently": "often", "occasionally": "sometimes",
    "physician": "doctor", "abdomen": "belly", "abdominal": "belly", "urinate": "pee", "urinating": "peeing",
    "medication": "medicine", "medications": "medicines", "previously": "before", "gradually": "slowly",
    "experienced": "had", "suffered from": "had", "commenced": "began", "difficulty": "trouble",
    "additional": "more", "numerous": "many", "entire": "whole", "physically": "in body", "discontinued": "stopped",
}  # fmt: skip
"""Rarer words that basic (A) and independent (B) speakers replace."""
_PLAIN_WORD = re.compile(rf"\b(?:{'|'.join(_PLAIN_WORDS)})\b", re.IGNORECASE)


def plain_words(text: str) -> str:
    """Return the text with rarer words replaced by common ones that mean the same."""
    return _PLAIN_WORD.sub(lambda m: _like(m[0], _PLAIN_WORDS[m[0].lower()]), text)


def _like(original: str, word: str) -> str:
    return word[:1].upper() + word[1:] if original[:1].isupper() else word


_NUMBER = rf"(?:\d+(?:[.,]\d+)?|half an?|(?:{alternatives(list(NUMBERS))})(?:-\w+)?|several|a few|a couple of|some)"
_UNIT = f"(?:second|{alternatives(list(DAYS))})s?"
_ROUGHLY = r"(?:(?:about|around|almost|nearly|at least|more than|less than|only|just|over) )*"
_LONG = r"(?: (?:and a half|(?:or|to) \w+))?"
_SPAN = rf"{_ROUGHLY}{_NUMBER}{_LONG} {_UNIT}(?: and a half)?(?! (?:old|of age|pregnant|of pregnancy)|['’-])"
_THINGS = r"(?:kilos|kilograms|pounds|times|cups|glasses|beers|cigarettes|packs|tablets|pills|meters|litres)"
_BLURS = (
    (rf"\bevery {_NUMBER} {_UNIT}\b", "every so often"),
    (
        rf"\b(?:for|over|during|within|in the|these) (?:the )?(?:(?:past|last) )?(?:{_SPAN}|an? {_UNIT})\b",
        "for a while",
    ),
    (rf"\b(?<!half )an? {_UNIT} (?=(?:ago|before|earlier|later)\b)", "a while "),
    (rf"\b(?<!at )(?<!the )(?<!first )(?<!last )(?<!past ){_SPAN}\b", "a while"),
    (rf"\b{_NUMBER} (?={_THINGS}\b)", "some "),
    (r"\b\d+(?:\.\d+)? ?°[CF]\b", "some number"),
)
"""What is told roughly, first match first: durations, counted things, temperatures."""
_BLUR_PATTERNS = tuple((re.compile(pattern, re.IGNORECASE), rough) for pattern, rough in _BLURS)
_ASKS_AMOUNT = re.compile(r"how long|since when|when did|how often|how many|how much|what date|duration", re.IGNORECASE)
FORGOTTEN = "I'm not sure any more, I don't remember."


def blurred(text: str) -> str:
    """Return the text with durations and amounts only roughly told; ages stay."""
    for pattern, rough in _BLUR_PATTERNS:
        text = pattern.sub(lambda found, rough=rough: _like(found[0], rough), text)  # type: ignore[misc]
    return text


def asks_amount(question: str) -> bool:
    """Say whether a question is after a time or an amount."""
    return bool(_ASKS_AMOUNT.search(question))


_STRONG = r"(?:severe|terrible|awful|dreadful|horrible|excruciating|unbearable|intense|violent|massive)"


def played_down(text: str) -> str:
    """Return the text with what is strong made small; whether a complaint is there stays."""
    text = re.sub(rf"\ban? {_STRONG} ", "a bit of ", text, flags=re.IGNORECASE)
    text = re.sub(rf"\b(?<!no )(?<!not ){_STRONG} (?=\w)", "some ", text, flags=re.IGNORECASE)
    degree = r"(?:very|extremely|terribly|awfully|really|completely|so)"
    state = r"(?:tired|weak|sick|ill|sore|stiff|dizzy|itchy|swollen|painful|exhausted|thirsty|hot|cold|short of breath)"
    text = re.sub(rf"\b(?<!not )(?<!the ){degree} (?={state}\b)", "a bit ", text, flags=re.IGNORECASE)
    return text if denies_something(text) else re.sub(r"\b(hurts?|aches?|itches|burns?)\b(?! a)", r"\1 a bit", text)
