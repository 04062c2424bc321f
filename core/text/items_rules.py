"""Items by rule: the facts of a case joined by topic, each under a short topic phrase.

The facts are those of the ledger (``core.text.facts``): the profile's, or a vignette cut by rule. In a value
only the first denial keeps its negating word, in M's own wording ("denied fever; chills"), so that no value holds a
word that M does not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from core.case import Case
from core.text.facts import AtomicFact, facts_of
from core.text.topics import Topic

RULES = "1"
"""Version of these rules; stored with the items they make."""

PHRASES: dict[Topic, str] = {
    "demographics": "age and sex",
    "chief complaint": "main complaint",
    "onset": "onset and duration of the {complaint}",
    "character": "character and course of the {complaint}",
    "associated symptoms": "other symptoms",
    "negatives": "symptoms that are absent",
    "past history": "past medical history",
    "medication": "current medication",
    "allergies": "allergies",
    "family history": "family history",
    "social history": "occupation, smoking and alcohol",
    "exposure": "travel and exposures",
    "vital signs": "vital signs",
    "examination": "physical examination",
    "laboratory": "laboratory tests",
    "imaging": "imaging and other tests",
    "other": "other information",
}
"""The key of an item that joins facts of one topic."""

_MOST_KEYS = 4
"""A profile's own keys are joined up to this many; beyond, the topic's phrase is shorter."""
_WORD = re.compile(r"[a-z0-9]+")
_SPLIT_WORD = re.compile(r"\S+")
_NEGATORS = r"no|not|never|without|denies|denied|neither"
_NEGATED = re.compile(
    rf"^(?:(?:has|have|had|is|was|are|were|does|did|do) )?(?:{_NEGATORS})\b(?: (?:have|had|having|any|an?)\b)* ?", re.I
)
_DENIALS = ("no", "denies", "denied", "denying", "not", "without", "never", "negative", "neither", "absent")
_COMPLAINT = re.compile(
    r"\b((?:(?:abdominal|back|breast|chest|ear|eye|epigastric|facial|flank|hip|joint|knee|leg|neck|pelvic|shoulder|"
    r"testicular|throat) )?(?:ache|bleeding|bruising|burning|confusion|constipation|cough|cramps|diarrhea|discharge|"
    r"discomfort|dizziness|dyspnea|fatigue|fever|headaches?|hearing loss|itching|jaundice|lesions?|lump|mass|nausea|"
    r"numbness|pain|palpitations|rash|seizures?|shortness of breath|sores?|swelling|syncope|tremor|ulcers?|vision loss|"
    r"vomiting|weakness|weight gain|weight loss|wheezing))\b",
    re.IGNORECASE,
)


NO_NOUN = "complaint"
"""What a complaint without a usual name is called."""


def grouped_facts(case: Case) -> Iterator[tuple[str, str, Topic]]:
    """Yield (key, value, topic), one for each topic, in the order in which the topics first occur."""
    groups: dict[Topic, list[AtomicFact]] = {}
    for fact in facts_of(case):
        groups.setdefault(fact.topic, []).append(fact)
    complaint = complaint_noun(" ".join(f.text for f in groups.get("chief complaint", ())))
    held = None if case.profile is not None else frozenset(words_of(case.vignette))
    for topic, facts in groups.items():
        texts = [_with_key(f) for f in facts] if held is None else [f.text for f in facts]
        value = join_values(texts, held)
        if value:
            yield _key(topic, facts, complaint, own=held is None), value, topic


def complaint_noun(text: str) -> str:
    """Return what a complaint is called ("chest pain"), or ``NO_NOUN`` where no usual name of one is found."""
    found = _COMPLAINT.search(text)
    return found[1].lower() if found else NO_NOUN


def join_values(texts: Sequence[str], held: frozenset[str] | None) -> str:
    """Join what is said on one topic; of several denials one keeps its negating word, as M has it.

    ``held`` are the words of M: whatever word is not among them is left out; ``None`` leaves the texts as they are.
    """
    parts: list[str] = []
    denied = False
    for text in texts:
        match = _NEGATED.match(text)
        if match and match.end() < len(text):
            rest = text[match.end() :]
            parts.append(rest if denied else f"{_denial(match[0].strip(), held)} {rest}".strip())
            denied = True
        else:
            parts.append(text)
    literal = (part if held is None else _literal(part, held) for part in parts)
    return "; ".join(part for part in literal if part)


def words_of(text: str) -> list[str]:
    """Return the words as ROUGE counts them, unstemmed."""
    return _WORD.findall(text.lower())


def _denial(said: str, held: frozenset[str] | None) -> str:
    if held is None or held.issuperset(words_of(said)):
        return said
    return next((word for word in _DENIALS if word in held), "")


def _literal(text: str, held: frozenset[str]) -> str:
    return " ".join(word for word in _SPLIT_WORD.findall(text) if held.issuperset(words_of(word)))


def _key(topic: Topic, facts: Sequence[AtomicFact], complaint: str, *, own: bool) -> str:
    if own and topic not in ("demographics", "chief complaint"):
        keys = list(dict.fromkeys(f.key for f in facts))
        if len(keys) <= _MOST_KEYS:
            return keys[0] if len(keys) == 1 else f"{', '.join(keys[:-1])} and {keys[-1]}"
    return PHRASES[topic].format(complaint=complaint)


def _with_key(fact: AtomicFact) -> str:
    """Return a profile's value, after its key where it says nothing by itself ("96/min", "negative")."""
    plain = fact.told or set(words_of(fact.key)) & set(words_of(fact.text))
    return fact.text if plain else f"{fact.key} {fact.text}"
