"""A case as atomic facts: one piece of information each, with a topic, and whether a patient can tell it.

If a case has a profile, its facts are the profile's. Otherwise rules split the vignette into single findings. They
split a sentence at semicolons, at "but" and at the start of a clause; a list becomes one piece per member; a denied
list becomes one denial per member ("denies fever, chills and weight loss" → "no fever", "no chills", "no weight loss").
Age and sex, and the duration of the complaint, are separate pieces. Every piece consists of words of the vignette
(except for the "no" of a denied list). A list by a model or by hand takes precedence over both.

``grouped_facts`` joins facts by topic, each under a short phrase. In a joined value only the first denial keeps its
negating word, as the vignette writes it ("denied fever; chills"), so that a value has only words of the vignette.
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

    ``id`` is unique within the case and derived from the words, so equal words give the same id; ``key`` is the label;
    ``text`` is in clinical words, ``lay`` in a patient's; ``told`` is false if only examination or tests show the fact.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(min_length=1)
    key: str
    text: str = Field(min_length=1)
    lay: str
    told: bool
    topic: Topic


@functools.lru_cache(maxsize=8_192)
def facts_of(case: Case) -> tuple[AtomicFact, ...]:
    """Return the facts of a case in order, by its profile or by rules; a saved list takes precedence over them."""
    if case.profile is not None:
        history = [_of_profile(fact, can_tell=True) for fact in (*case.profile.demographics, *case.profile.basic)]
        return with_ids(history + [_of_profile(fact, can_tell=False) for fact in case.profile.optional])
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
"""Share of a fact's word stems that the vignette must contain; denials and function words do not count."""
_FIGURE = re.compile(r"\d+(?:\.\d+)?")


def in_vignette(text: str, vignette: str) -> bool:
    """Say whether the vignette contains enough of a fact's words (``SUPPORTED``) and all its numbers."""
    words, vignette_words = (
        {stem_of(word) for word in words_in(prose.lower()) if is_content(word) and word not in NEGATORS}
        for prose in (text, vignette)
    )
    supported = len(words & vignette_words) >= SUPPORTED * len(words)
    return supported and set(_FIGURE.findall(text)) <= set(_FIGURE.findall(vignette)) and bool(text.strip())


def _of_profile(fact: Fact, *, can_tell: bool) -> AtomicFact:
    topic = SECTIONS[fact.section] if fact.section else topic_of_key(fact.key, fact.value)
    if not can_tell and topic not in SHOWN:
        topic = "examination"
    return AtomicFact(id=fact.key, key=fact.key, text=fact.value, lay=fact.lay, told=can_tell, topic=topic)


def with_ids(facts: Iterable[AtomicFact]) -> tuple[AtomicFact, ...]:
    """Return the facts with short ids derived from the words in ``id``; a repeated id gets a number."""
    used: dict[str, int] = {}
    with_id: list[AtomicFact] = []
    for fact in facts:
        slug = re.sub(r"[^a-z0-9]+", "-", fact.id.lower()).strip("-")[:_ID_LENGTH].strip("-") or "fact"
        used[slug] = used.get(slug, 0) + 1
        with_id.append(fact.model_copy(update={"id": slug if used[slug] == 1 else f"{slug}-{used[slug]}"}))
    return tuple(with_id)


GROUPING_RULES = "3"
"""Version of these rules; stored with the items."""

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
"""Topic → key of the item that joins its facts."""

_MAX_KEYS = 4
"""Up to this many keys of a profile are joined; beyond, the topic's phrase is used."""
_COMPLAINT = re.compile(
    r"\b((?:(?:abdominal|back|breast|chest|ear|eye|epigastric|facial|flank|hip|joint|knee|leg|neck|pelvic|shoulder|"
    r"testicular|throat) )?(?:ache|bleeding|bruising|burning|confusion|constipation|cough|cramps|diarrhea|discharge|"
    r"discomfort|dizziness|dyspnea|fatigue|fever|headaches?|hearing loss|itching|jaundice|lesions?|lump|mass|nausea|"
    r"numbness|pain|palpitations|rash|seizures?|shortness of breath|sores?|swelling|syncope|tremor|ulcers?|vision loss|"
    r"vomiting|weakness|weight gain|weight loss|wheezing))\b",
    re.IGNORECASE,
)


NO_NOUN = "complaint"
"""The name of a complaint without a usual name."""


def grouped_facts(case: Case) -> Iterator[tuple[str, str, Topic]]:
    """Yield (key, value, topic) for each topic, in order of first occurrence."""
    groups: dict[Topic, list[AtomicFact]] = {}
    for fact in facts_of(case):
        groups.setdefault(fact.topic, []).append(fact)
    complaint = complaint_noun(" ".join(f.text for f in groups.get("chief complaint", ())))
    vocabulary = None if case.profile is not None else frozenset(words_of(case.vignette))
    for topic, facts in groups.items():
        texts = [_with_key(f) for f in facts] if vocabulary is None else [f.text for f in facts]
        value = join_values(texts, vocabulary)
        if value:
            yield _key(topic, facts, complaint, own=vocabulary is None), value, topic


def complaint_noun(text: str) -> str:
    """Return the name of a complaint ("chest pain"), or ``NO_NOUN`` if the text has no usual name."""
    noun = _COMPLAINT.search(text)
    return noun[1].lower() if noun else NO_NOUN


def join_values(texts: Sequence[str], vocabulary: frozenset[str] | None) -> str:
    """Join the texts on one topic; of several denials, the first keeps its negating word.

    ``vocabulary`` are the words of the vignette; other words are left out. ``None`` keeps all words.
    """
    parts: list[str] = []
    denied = False
    for text in texts:
        match = FIRST_DENIAL.match(text)
        if match and match.end() < len(text):
            remainder = text[match.end() :]
            negator = match[0].strip()
            if vocabulary is not None and not vocabulary.issuperset(words_of(negator)):
                negator = next((word for word in DENIAL_WORDS if word in vocabulary), "")
            parts.append(remainder if denied else f"{negator} {remainder}".strip())
            denied = True
        else:
            parts.append(text)
    literal = (
        part if vocabulary is None else " ".join(word for word in part.split() if vocabulary.issuperset(words_of(word)))
        for part in parts
    )
    return "; ".join(part for part in literal if part)


def _key(topic: Topic, facts: Sequence[AtomicFact], complaint: str, *, own: bool) -> str:
    if own and topic not in ("demographics", "chief complaint"):
        keys = list(dict.fromkeys(f.key for f in facts))
        if len(keys) <= _MAX_KEYS:
            return keys[0] if len(keys) == 1 else f"{', '.join(keys[:-1])} and {keys[-1]}"
    return PHRASES[topic].format(complaint=complaint)


def _with_key(fact: AtomicFact) -> str:
    """Return a profile's value, with its key before it if the value alone is unclear ("96/min", "negative")."""
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
_MAX_MEMBER = 6
"""Maximum number of words of a list member; a list with a longer one is a clause and is not split."""


@dataclass(frozen=True)
class VignettePiece:
    """One finding in the vignette's words, with its topic."""

    text: str
    topic: Topic


def pieces_of(vignette: str) -> Iterator[VignettePiece]:
    previous: Topic | None = None
    for number, sentence in enumerate(sentences(vignette)):
        kind = shown_topic(sentence)
        if kind is None and previous is not None and not _REPORTED.search(sentence):
            kind = (
                "examination" if previous == "vital signs" else previous
            )  # sentences after an examination continue it
        previous = kind
        if kind is not None:
            yield from _result_pieces(sentence.rstrip(" .?!"), kind)
        else:
            yield from history_pieces(sentence, first=number == 0)


def _result_pieces(body: str, kind: Topic) -> Iterator[VignettePiece]:
    body = _HEADING.sub("", body)
    for clause in _CLAUSES.split(body):
        for member in _VITAL.split(clause) if kind == "vital signs" else _members(clause):
            if text := _tidy(member):
                topic = topic_by_words(text)
                yield VignettePiece(text, topic if topic in SHOWN and topic is not None else kind)


def history_pieces(sentence: str, *, first: bool) -> Iterator[VignettePiece]:
    """Yield the findings of a sentence of the history; the ``first`` one of a vignette introduces the patient."""
    body = sentence.rstrip(" .?!")
    who = _WHO.match(body) if first else None
    if who:
        yield VignettePiece(who["who"], "demographics")
        body = body[who.end() :]
        arrival = _ARRIVAL.search(body)
        body = f"{arrival['before']}; {body[arrival.end() :]}" if arrival else body
        if who["before"]:
            yield from _clause(who["before"], first=False)
    for clause in _CLAUSES.split(body):
        yield from _clause(clause, first=first)


def _clause(clause: str, *, first: bool) -> Iterator[VignettePiece]:
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
                yield VignettePiece(piece, topic_by_words(piece) or "negatives")
    elif first:
        lasting = _LASTING.search(clause)
        if lasting:
            clause = f"{clause[: lasting.start()]} {clause[lasting.end() :]}"
        yield from _positive(clause, "chief complaint")
        if lasting:
            yield VignettePiece(_tidy(lasting[1] or lasting[2]), "onset")
    else:
        yield from _positive(clause, "associated symptoms")


def _positive(clause: str, otherwise: Topic) -> Iterator[VignettePiece]:
    plain = _LEAD.sub("", _LEAD.sub("", clause.strip()))  # "he" and "has had" are two
    for member in _members(plain):
        if text := _tidy(member):
            topic = topic_by_words(text)
            is_symptom = topic is None or (otherwise == "chief complaint" and topic in ("character", "onset"))
            yield VignettePiece(text, otherwise if is_symptom else topic or otherwise)


def _members(clause: str) -> list[str]:
    """Return the members of a list, or the clause itself if it is no list."""
    members = [m for m in _LIST.split(clause) if m and m.strip()]
    short = all(len(m.split()) <= _MAX_MEMBER for m in members)
    plain = not any(_VERBED.search(m) for m in members[1:])
    read = recogniser().read
    listed = all(len(m.split()) >= 2 or read(m) for m in members) and len(members) >= 2
    return members if listed and short and plain else [clause]


def _tidy(text: str) -> str:
    text = re.sub(r"\s+", " ", text).strip(" ,.;:")
    text = re.sub(r"^(?:and|or|an?|the|some|with|of|also|who|which|that)\s+(?=\w)", "", text, flags=_I)
    return "" if len(text) < 3 or _EMPTY.match(text) else text
