"""Topics of clinical history: what a fact is about, and what a doctor's question asks for.

Views of the taxonomy (``core.text.vocabulary``). A fact is on the first topic whose words it contains, in the order
given here; a question may ask for several. The topics follow the parts of a medical history that a doctor is prompted
for (Johri et al. 2025, Methods) and what the clinical staff tell (Oh et al., profile generator: vital signs,
examination, laboratory, imaging).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from typing import Literal, get_args

from core.case import Section
from core.text.negation import is_negated
from core.text.vocabulary import Words, cues, view

Topic = Literal[
    "demographics",
    "chief complaint",
    "onset",
    "character",
    "associated symptoms",
    "negatives",
    "past history",
    "medication",
    "allergies",
    "family history",
    "social history",
    "exposure",
    "vital signs",
    "examination",
    "laboratory",
    "imaging",
    "other",
]
TOPICS: tuple[Topic, ...] = get_args(Topic)
"""In the order in which a history is usually taken; tables and charts keep it."""
SHOWN: frozenset[Topic] = frozenset(("vital signs", "examination", "laboratory", "imaging"))
"""Only examination and tests show these; a patient cannot be expected to tell them."""
SECTIONS: dict[Section, Topic] = {
    "vital_signs": "vital signs",
    "examination": "examination",
    "laboratory": "laboratory",
    "imaging": "imaging",
    "other_tests": "laboratory",
}
"""A profile's sections as topics; tests that are neither blood nor pictures count with the laboratory."""

_PICTURES = ("imaging", "electrocardiogram", "electroencephalogram", "endoscopy")
_SHOWN_RULES: tuple[tuple[Topic, Words], ...] = (
    ("imaging", Words(cues(*_PICTURES, of=("statement", "weak")))),
    ("laboratory", Words(cues("laboratory", "other tests", of=("statement", "weak"), without=_PICTURES))),
    ("vital signs", Words(cues("vital signs", of=("statement", "weak")))),
    ("examination", Words(cues("examination", of=("statement",)))),
)
_HISTORY_RULES: tuple[tuple[Topic, Words], ...] = view(
    ("allergies", "family history", "medication", "social history", "exposure", "past history"), "statement"
)
_FACT_RULES = (*_SHOWN_RULES, *_HISTORY_RULES)
_COURSE_RULES: tuple[tuple[Topic, Words], ...] = view(("onset", "character"), "statement")
_KEYS: tuple[tuple[Topic, Words], ...] = view(
    (
        "chief complaint",
        "demographics",
        "family history",
        "allergies",
        "medication",
        "social history",
        "exposure",
        "past history",
        "onset",
        "character",
    ),
    "key",
)
_OPEN = re.compile(
    r"anything else|tell me (?:more|about)|other symptoms?|what (?:symptoms|brings|brought|seems|is wrong|can i|is the "
    r"(?:matter|problem))|what else|any other (?:changes|issues|problems|concerns|complaints)|what(?:'s| is) (?:going "
    r"on|happening|bothering)|how can i help|main (?:concern|complaint|problem)|additional symptoms|going on\b"
)


def topic_by_words(text: str) -> Topic | None:
    """Return the topic that a fact's own words show, or ``None`` where they could be any symptom."""
    lowered = text.lower()
    found = _first(_FACT_RULES, lowered)
    return found or ("negatives" if is_negated(text) else _first(_COURSE_RULES, lowered))


def _first(rules: Iterable[tuple[Topic, Words]], lowered: str) -> Topic | None:
    return next((topic for topic, words in rules if words.are_in(lowered)), None)


def shown_topic(text: str) -> Topic | None:
    """Return which of vital signs, examination, laboratory, imaging a sentence reports, if any."""
    return _first(_SHOWN_RULES, text.lower())


@functools.lru_cache(maxsize=100_000)
def topic_of_key(key: str, text: str) -> Topic:
    """Return the topic of a profile's fact: by its key, else negated → negatives, else by its words."""
    by_key = _first(_KEYS, key.lower())
    if by_key is not None:
        return by_key
    if is_negated(text):
        return "negatives"
    found = topic_by_words(text)
    return "associated symptoms" if found is None or found in SHOWN else found


def is_open(question: str) -> bool:
    """Say whether a question names nothing in particular ("anything else?")."""
    return bool(_OPEN.search(question.lower()))
