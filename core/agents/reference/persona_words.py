"""How personas change the wording of one fact: words, clauses, memory for times and amounts, playing down.

Each function takes a sentence and returns it with less or plainer wording; none adds a medical fact.
"""

from __future__ import annotations

import re

from core.text.negation import denies_something
from core.vocabulary import DAYS, NUMBERS, alternatives

_SUBJECT = r"(?:I|he|she|it|they|we|there|my|his|her|their|the|this|these|an?)\b"
_BOUNDARY = re.compile(
    rf"(?<=[.!?])\s+(?=[A-Z])|;\s+|,? but (?={_SUBJECT})|, (?:and|so) (?={_SUBJECT})|"
    rf" (?:and|so) (?=(?:I|he|she|it|they|we|there)\b)|,? because (?={_SUBJECT})",
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
    return [_as_sentence(piece) for piece in pieces] or [text]


def _as_sentence(piece: str) -> str:
    return piece[:1].upper() + piece[1:] + ("" if piece.endswith((".", "!", "?")) else ".")


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
