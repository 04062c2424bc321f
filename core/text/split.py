"""Cuts a vignette without a profile into single findings, by rule.

A sentence is cut at semicolons, at "but" and where a new clause begins; lists become one piece a member; what is denied
as a list is denied piece by piece ("denies fever, chills and weight loss" → "no fever", "no chills", "no weight loss").
Age and sex, and how long the complaint has lasted, are pieces of their own. Every piece is made of the vignette's own
words (but for the "no" of a denied list).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from core.case import sentences
from core.text.findings import understanding
from core.text.negation import DENIAL, INNER_DENIAL
from core.text.topics import SHOWN, Topic, shown_topic, topic_by_words
from core.vocabulary import DENIES, PERSON, relatives

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
    read = understanding().recogniser.read
    listed = all(len(m.split()) >= 2 or read(m) for m in members) and len(members) >= 2
    return members if listed and short and plain else [clause]


def _tidy(text: str) -> str:
    text = re.sub(r"\s+", " ", text).strip(" ,.;:")
    text = re.sub(r"^(?:and|or|an?|the|some|with|of|also|who|which|that)\s+(?=\w)", "", text, flags=_I)
    return "" if len(text) < 3 or _EMPTY.match(text) else text
