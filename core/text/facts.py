"""A case as atomic facts: one piece of information each, with a topic, and whether a patient can tell it.

Where a case has a profile, its facts are the profile's. Where it has none, the vignette is cut into single findings by
rule. A sentence is cut at semicolons, at "but" and where a new clause begins; lists become one piece a member; what is
denied as a list is denied piece by piece ("denies fever, chills and weight loss" → "no fever", "no chills", "no weight
loss"). Age and sex, and how long the complaint has lasted, are pieces of their own. Every piece is made of the
vignette's own words (but for the "no" of a denied list). A list made by a model or by hand takes the place of either.

``grouped_facts`` joins them by topic, each under a short phrase. In a joined value only the first denial keeps its
negating word, in the vignette's own wording ("denied fever; chills"), so that no value holds a word that it does not.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field

from core.case import Case, Fact
from core.text.demographics import read_demographics
from core.text.findings import recogniser
from core.text.negation import DENIAL, DENIAL_WORDS, FIRST_DENIAL, INNER_DENIAL, NEGATORS, is_content, stem_of, words_in
from core.text.persons import first_person
from core.text.rouge import words_of
from core.text.sections import sentences
from core.text.topics import SECTIONS, SHOWN, Topic, shown_topic, topic_by_words, topic_of_key
from core.text.vocabulary import DENIES, PERSON, relatives

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


SUPPORTED = 0.7
"""Share of a fact's words that the vignette must hold, whatever their endings; denials and small words do not count."""
_FIGURE = re.compile(r"\d+(?:\.\d+)?")


def in_vignette(text: str, vignette: str) -> bool:
    """Say whether a fact's words and all its numbers are in the vignette."""
    words, known = (
        {stem_of(word) for word in words_in(said.lower()) if is_content(word) and word not in NEGATORS}
        for said in (text, vignette)
    )
    supported = len(words & known) >= SUPPORTED * len(words)
    return supported and set(_FIGURE.findall(text)) <= set(_FIGURE.findall(vignette)) and bool(text.strip())


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


_I = re.IGNORECASE
_WHO = re.compile(
    rf"^(?:(?P<before>[^.;]{{3,80}}?),\s+)?(?:an?|the|this) (?P<who>(?:\w[\w-]* ){{0,4}}?(?:\d+|one|two|three|"
    rf"four|five|six)[- ](?:year|month|week|day|hour)s?"
    rf"[- ]old(?:,? [\w-]+){{0,4}}?(?: {PERSON})?)\b(?=,? (?:who|with|presents?|comes?|is|was|has|had|arrives?|"
    rf"visits?|"
    rf"presented|came|goes|develops|at|in|and|whose|reports|complains|seeks|complaining)|[,.])",
    _I,
)
_ARRIVAL = re.compile(
    r"^,?\s*(?P<before>[^.;]{0,80}?)\b(?:(?:is|was) (?:brought|referred|admitted|seen|evaluated|being evaluated|"
    r"taken|sent|rushed)|"
    r"presents?|presented|comes?|came|arrives?|visits?|goes|seeks|has come)\b.*?\b(?:because of|because|due to|"
    r"with(?! h(?:is|er)"
    r"\b)|complaining of|for(?: the)?(?: evaluation| further evaluation| management| a check-?up)?(?: of)?|"
    r"after|(?:with )?(?:a )?(?:chief )?complaints? of)\s+(?:(?:she|he) )?",
    _I,
)
_LASTING = re.compile(
    r"[, ]*\b((?:that |which )?(?:(?:has|have) (?:lasted|been present|bothered (?:her|him|them)) )?(?:for|over|"
    r"during|since) "
    r"(?:the |about |approximately |almost |nearly |past |last |previous |more than |at least )*(?:an? "
    r")?(?:[\w-]+ ){0,2}?"
    r"(?:hour|day|week|month|year|decade)s?)\b|^(?:an? )?((?:about |approximately )?[\w-]+[- ](?:hour|day|week|"
    r"month|year)s?) "
    r"(?:long )?history of\s+",
    _I,
)
_CLAUSES = re.compile(
    r"\s*;\s*|\s*:\s+(?=[a-z])|,?\s+(?:but|however|although|though|whereas|while)\s+(?=\w)|"
    r",?\s+and\s+(?=(?:she|he|they|it|his|her|the|there)\s+\w+)|,\s+(?=(?:she|he|they|it|which|who|there)\s+\w+)|"
    rf",?\s+and\s+(?=(?:{DENIES}|takes|reports|has|had|is|was|does|drinks|smokes|works|lives|feels|uses|complains|vomited|"
    rf"noticed|lost|gained)\b)|,\s+(?=(?:{DENIES}|takes|except|without|with no)\b)",
    _I,
)
_LIST = re.compile(r",?\s+(?:and|or|nor)\s+|,\s+", _I)
_VERBED = re.compile(
    r"\b(?:is|was|are|were|has|had|have|shows?|reveals?|eats?|drinks?|takes?|wakes?|feels?|began|started|when|that|who|"
    r"which|because|after|before|if|to|does|did)\b",
    _I,
)
_LEAD = re.compile(
    rf"^(?:his|her|the) (?:{relatives('parents', 'partners', 'children')})s? (?:also )?(?:reports?|states?|says|"
    r"notes?|adds) "
    r"(?:that )?|^(?:and|or|then|also|she|he|they|the patient|patient|it|there)\s+(?=\w)|^(?:(?:she|he|they|the "
    r"patient|patient)\s+)?"
    r"(?:also )?(?:reports?|states?|says|notes?|complains? of|endorses|admits(?: to)?|describes|mentions|adds|"
    r"has had|has|had)"
    r"\s+(?:that (?:she|he|it|they) )?(?:also )?(?!been\b|not\b|never\b|no\b)",
    _I,
)
_VITAL = re.compile(
    r",?\s+(?:and\s+)?(?=(?:(?:a |an |the |her |his )?(?:heart|pulse|blood pressure|respir|oxygen|temperature|bmi)))",
    _I,
)
_HEADING = re.compile(
    r"^(?:(?:on |the |her |his )?(?:physical |abdominal |skin |neurologic(?:al)? |cardiac )?exam(?:ination)?(?: "
    r"\w+){0,4}? "
    r"(?:shows?|reveals?|demonstrates?|is notable for|is significant for|showed|revealed)|(?:laboratory "
    r"(?:studies|tests|"
    r"results|findings)|blood tests|(?:an? )?[\w -]{0,20}(?:x-?ray|scan|radiograph\w*|mri|ct|ultraso\w+)) "
    r"(?:shows?|reveals?|"
    r"demonstrates?|showed|revealed))\s+",
    _I,
)
_REPORTED = re.compile(
    rf"\b(?:reports?|{DENIES}|states?|says|complains|history|takes|{relatives('parents')}|family|smokes|drinks|works|"
    r"lives|notes|noticed|travel\w*|allerg\w*|ago|medications?)\b",
    _I,
)
_EMPTY = re.compile(
    r"^(?:currently|today|now|(?:up)?on (?:further|careful|more|closer) \w+|on (?:the )?(?:physical "
    r")?exam(?:ination)?|however|"
    r"otherwise|initially|in addition|additionally|recently|at (?:this|that|the) time|by herself|she|he|her|his|"
    r"the|it)$",
    _I,
)
_TOO_LONG = 6
"""A member of a list has at most this many words; a longer one is a clause and stays whole."""


@dataclass(frozen=True)
class Piece:
    """One finding in the vignette's words, with its topic where that is known from where it stands."""

    text: str
    topic: Topic


def pieces_of(vignette: str) -> Iterator[Piece]:
    """Yield the findings of a vignette in its order."""
    shown: Topic | None = None
    for number, sentence in enumerate(sentences(vignette)):
        kind = shown_topic(sentence)
        if kind is None and shown is not None and not _REPORTED.search(sentence):
            kind = "examination" if shown == "vital signs" else shown  # what follows an examination goes on with it
        shown = kind
        if kind is not None:
            yield from _shown(sentence.rstrip(" .?!"), kind)
        else:
            yield from told_pieces(sentence, first=number == 0)


def _shown(body: str, kind: Topic) -> Iterator[Piece]:
    body = _HEADING.sub("", body)
    for clause in _CLAUSES.split(body):
        for member in _VITAL.split(clause) if kind == "vital signs" else _members(clause):
            if text := _tidy(member):
                found = topic_by_words(text)
                yield Piece(text, found if found in SHOWN and found is not None else kind)


def told_pieces(sentence: str, *, first: bool) -> Iterator[Piece]:
    """Yield the findings of one sentence that tells a history; the first of a vignette says who comes and why."""
    body = sentence.rstrip(" .?!")
    who = _WHO.match(body) if first else None
    if who:
        yield Piece(who["who"], "demographics")
        body = body[who.end() :]
        arrival = _ARRIVAL.search(body)
        body = f"{arrival['before']}; {body[arrival.end() :]}" if arrival else body
        if who["before"]:
            yield from _clause(who["before"], first=False)
    for clause in _CLAUSES.split(body):
        yield from _clause(clause, first=first)


def _clause(clause: str, *, first: bool) -> Iterator[Piece]:
    inner = INNER_DENIAL.search(clause)
    if inner and inner.start() > 0:
        yield from _clause(clause[: inner.start()], first=first)
        yield from _clause("no " + clause[inner.end() :], first=False)
    elif denial := DENIAL.match(clause.strip()):
        by = denial[1].lower()
        word = "never" if "never" in by else "no"
        if re.match(r"(?:does|did|do|is|are|was|were)\b", by) and "not" in by:
            word = by
        for member in _LIST.split(clause.strip()[denial.end() :]):
            if text := _tidy(re.sub(r"^(?:any|no|had|has)\s+", "", member.strip(), flags=_I)):
                piece = f"{word} {text}"
                yield Piece(piece, topic_by_words(piece) or "negatives")
    elif first:
        lasting = _LASTING.search(clause)
        if lasting:
            clause = f"{clause[: lasting.start()]} {clause[lasting.end() :]}"
        yield from _positive(clause, "chief complaint")
        if lasting:
            yield Piece(_tidy(lasting[1] or lasting[2]), "onset")
    else:
        yield from _positive(clause, "associated symptoms")


def _positive(clause: str, otherwise: Topic) -> Iterator[Piece]:
    plain = _LEAD.sub("", _LEAD.sub("", clause.strip()))  # "he" and "has had" are two
    for member in _members(plain):
        if text := _tidy(member):
            found = topic_by_words(text)
            is_symptom = found is None or (otherwise == "chief complaint" and found in ("character", "onset"))
            yield Piece(text, otherwise if is_symptom else found or otherwise)


def _members(clause: str) -> list[str]:
    """Return the members of a list, or the clause itself where it is none."""
    members = [m for m in _LIST.split(clause) if m and m.strip()]
    short = all(len(m.split()) <= _TOO_LONG for m in members)
    plain = not any(_VERBED.search(m) for m in members[1:])
    read = recogniser().read
    listed = all(len(m.split()) >= 2 or read(m) for m in members) and len(members) >= 2
    return members if listed and short and plain else [clause]


def _tidy(text: str) -> str:
    text = re.sub(r"\s+", " ", text).strip(" ,.;:")
    text = re.sub(r"^(?:and|or|an?|the|some|with|of|also|who|which|that)\s+(?=\w)", "", text, flags=_I)
    return "" if len(text) < 3 or _EMPTY.match(text) else text
