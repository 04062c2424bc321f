"""Topics of a clinical history: the topic of a fact.

The topics are views of the taxonomy (``core.text.vocabulary``). A fact belongs to the first topic whose words it
contains, in the order below. The topics follow the parts of a medical history in the doctor's prompt (Johri et al.
2025, Methods) and the results of the clinical staff (Oh et al., profile generator: vital signs, examination,
laboratory, imaging).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from typing import Literal, get_args

from core.case import FactSection
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
"""In the usual order of a history, which tables and charts keep."""
SHOWN: frozenset[Topic] = frozenset(("vital signs", "examination", "laboratory", "imaging"))
"""Topics of examination and tests, which a patient is not expected to tell."""
SECTIONS: dict[FactSection, Topic] = {
    "vital_signs": "vital signs",
    "examination": "examination",
    "laboratory": "laboratory",
    "imaging": "imaging",
    "other_tests": "laboratory",
}
"""Section of a profile → topic; other tests count as laboratory."""

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
    """Return the topic that a fact's words show, or ``None`` if it could be any symptom."""
    lowered = text.lower()
    topic = _first(_FACT_RULES, lowered)
    return topic or ("negatives" if is_negated(text) else _first(_COURSE_RULES, lowered))


def _first(rules: Iterable[tuple[Topic, Words]], lowered: str) -> Topic | None:
    return next((topic for topic, words in rules if words.are_in(lowered)), None)


def shown_topic(text: str) -> Topic | None:
    """Return the topic of results (vital signs, examination, laboratory, imaging) in a sentence, if any."""
    return _first(_SHOWN_RULES, text.lower())


@functools.lru_cache(maxsize=100_000)
def topic_of_key(key: str, text: str) -> Topic:
    """Return the topic of a profile's fact by its key; then ``negatives`` for a denial; then by its words."""
    by_key = _first(_KEYS, key.lower())
    if by_key is not None:
        return by_key
    if is_negated(text):
        return "negatives"
    topic = topic_by_words(text)
    return "associated symptoms" if topic is None or topic in SHOWN else topic


def is_open(question: str) -> bool:
    return bool(_OPEN.search(question.lower()))
