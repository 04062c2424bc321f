"""A case as atomic facts: one piece of information each, with a topic, and whether a patient can tell it.

Where a case has a profile, its facts are the profile's. Where it has none, the vignette is cut by rule
(``core.text.split``). A list made by a model or by hand takes the place of either.

``grouped_facts`` joins them by topic, each under a short phrase. In a joined value only the first denial keeps its
negating word, in the vignette's own wording ("denied fever; chills"), so that no value holds a word that it does not.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Sequence

from pydantic import BaseModel, ConfigDict, Field

from core.case import Case, Fact, read_demographics
from core.text.negation import DENIAL_WORDS, FIRST_DENIAL
from core.text.persons import first_person
from core.text.rouge import words_of
from core.text.split import pieces_of
from core.text.topics import SECTIONS, SHOWN, Topic, topic_of_key

_ID_LENGTH = 40


class AtomicFact(BaseModel):
    """One piece of information about a patient.

    ``id`` is unique within its case and made of its words, so that it stays the same while they do; ``key`` is the
    label under which it is shown; ``text`` says it in clinical words, ``lay`` as a patient would; ``told`` is false
    where only examination or tests show it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(min_length=1)
    key: str
    text: str = Field(min_length=1)
    lay: str
    told: bool
    topic: Topic


def facts_of(case: Case, override: Sequence[AtomicFact] | None = None) -> tuple[AtomicFact, ...]:
    """Return the facts of a case in its order; ``override``, where there is one, is taken as it is."""
    return _facts_of(case) if override is None else tuple(override)


@functools.lru_cache(maxsize=8_192)
def _facts_of(case: Case) -> tuple[AtomicFact, ...]:
    if case.profile is not None:
        made = [_of_profile(fact, told=True) for fact in (*case.profile.demographics, *case.profile.basic)]
        return with_ids(made + [_of_profile(fact, told=False) for fact in case.profile.optional])
    sex = read_demographics(case.vignette)[1]
    return with_ids(
        AtomicFact(
            id=piece.text,
            key=piece.topic,
            text=piece.text,
            lay=first_person(piece.text, sex),
            topic=piece.topic,
            told=piece.topic not in SHOWN,
        )
        for piece in pieces_of(case.vignette)
    )


def _of_profile(fact: Fact, *, told: bool) -> AtomicFact:
    topic = SECTIONS[fact.section] if fact.section else topic_of_key(fact.key, fact.value)
    if not told and topic not in SHOWN:
        topic = "examination"
    return AtomicFact(id=fact.key, key=fact.key, text=fact.value, lay=fact.lay, told=told, topic=topic)


def with_ids(facts: Iterable[AtomicFact]) -> tuple[AtomicFact, ...]:
    """Return the facts with short ids made of the words that ``id`` holds; what occurs twice is numbered."""
    used: dict[str, int] = {}
    named: list[AtomicFact] = []
    for fact in facts:
        slug = re.sub(r"[^a-z0-9]+", "-", fact.id.lower()).strip("-")[:_ID_LENGTH].strip("-") or "fact"
        used[slug] = used.get(slug, 0) + 1
        named.append(fact.model_copy(update={"id": slug if used[slug] == 1 else f"{slug}-{used[slug]}"}))
    return tuple(named)


GROUPING_RULES = "3"
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
        match = FIRST_DENIAL.match(text)
        if match and match.end() < len(text):
            rest = text[match.end() :]
            said = match[0].strip()
            if held is not None and not held.issuperset(words_of(said)):
                said = next((word for word in DENIAL_WORDS if word in held), "")
            parts.append(rest if denied else f"{said} {rest}".strip())
            denied = True
        else:
            parts.append(text)
    literal = (
        part if held is None else " ".join(word for word in part.split() if held.issuperset(words_of(word)))
        for part in parts
    )
    return "; ".join(part for part in literal if part)


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
