"""Negation: what a text denies, and how far a denial reaches.

``content_words`` yields for each word of a sentence what negates it, its clause, and whether it is about a relative; it
follows a denial through a clause, after the idea of NegEx. The patterns at the end find a denial at the beginning of a
clause, with the list that it denies. ``denies_something`` finds a denial anywhere in a reply.
"""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Iterator
from typing import NamedTuple

import snowballstemmer

from core.text.vocabulary import ABSENT, BESIDE, DENIED, DENIES, DENY, DENYING, alternatives, relatives, verbs

_WORD = re.compile(r"[a-z]*\d+\.\d+|[a-z0-9]+|[,;:]")
_STOP = frozenset(
    "a an the my his her our your their its of in on with and or is are was were be been being has have had i he she "
    "it they we you me him them to for at this that these those some any very also do does did can could would will "
    "just really there as from by am get gets got im ive s m ve re d ll quite bit little much lot so when "
    "during , ; :".split()
)
NEGATORS = frozenset((*DENYING, *ABSENT, DENY, DENIES, DENIED))
_STATES = frozenset(ABSENT) - {"lacks"}
"""Negators whose reach ends at "with" ("absent reflexes with marked weakness")."""
_BREAKS = frozenset(
    "but however except although though which who because since until after before while then except only despite "
    "due yet unless than positive ; :".split()
)
_SUBJECTS = frozenset("he she i it they we his her my".split())
_VERBS = frozenset(
    (*verbs("habits", "s").split("|"), *verbs("reporting", "s").split("|"), "shows", "reveals", "appears")
) | frozenset("has is was had were".split())
_NO_EFFECT = frozenset("improve improved improving improvement respond responded relieve relieved relief".split()) | (
    frozenset("response resolve resolved help helped better subside subsided".split())
)
"""After "not improve with ibuprofen" the ibuprofen itself is not denied."""
AFTERWARDS_ABSENT = frozenset(BESIDE) | _STATES - {"absence"}
QUALIFIED = frozenset("a an and or with the but".split())
"""A word for absence after one of these refers to the words after it ("and a normal blood count")."""
_RELATIVES = frozenset(
    relative + s for relative in relatives("parents", "siblings", "grandparents", "wider").split("|") for s in ("", "s")
)
_ACTS = _SUBJECTS | _VERBS
_PARTS = _BREAKS - {":"} | {",", "with"}
_KIN = _RELATIVES | {"family"}
_LINKS = frozenset(", and or his her my the maternal paternal older younger".split())
_PREDICATES = frozenset(
    "has had have having died dies with suffers suffered developed was is were are takes gets got underwent also both "
    "who".split()
)
_REPORTING = frozenset(verbs("reporting", "s", "past").split("|")) | frozenset(
    "noticed notices brings brought worried concerned thinks gave feels afraid physician doctor friend friends "
    "members".split()
)


class ContentWord(NamedTuple):
    """A content word: ``negated_by`` is the position of its negator, ``before`` the word before it."""

    stem: str
    negated_by: int | None
    relative: bool
    position: int
    clause: int
    before: str


_stemmer = snowballstemmer.stemmer("english")
_stemming = threading.Lock()
"""The stemmer stores the current word, so concurrent consultations (threads) need a lock."""


@functools.lru_cache(maxsize=50_000)
def stem_of(word: str) -> str:
    """Return the stem of a word (Snowball English)."""
    with _stemming:
        return str(_stemmer.stemWord(word))


def words_in(text: str) -> list[str]:
    """Return lower-case words, numbers, commas, colons and semicolons; contractions are written out."""
    plain = text.lower().replace("’", "'").replace("cannot", "can not").replace("can't", "can not")
    plain = plain.replace("won't", "will not").replace("n't", " not").replace("'s", "")
    return _WORD.findall(plain)


def is_content(word: str) -> bool:
    return word not in _STOP


def content_words(words: list[str]) -> Iterator[ContentWord]:
    """Yield content words with their negators and clauses, and whether they are about a relative."""
    of_relatives = _about_relatives(words)
    negator: int | None = None
    stating = False
    position = clause = 0
    for index, word in enumerate(words):
        before = words[index - 1] if index else ""
        joined = before in (",", "and", "or")
        if word in _BREAKS or (joined and word in _ACTS) or (stating and word == "with"):
            negator = None
        if word in _PARTS:
            clause += 1
        hyphenated = before == "non"  # "non-tender" denies this one word
        content = word not in _STOP
        if content:
            negated_by = position - 1 if hyphenated else negator
            # a relative who only brings the patient has no findings
            stem = "" if (words[index] in _RELATIVES and "by" in words[max(0, index - 2) : index]) else stem_of(word)
            yield ContentWord(stem, negated_by, of_relatives[index], position, clause, before)
            if negator is not None and word in _NO_EFFECT and position - negator <= 2:
                negator = None
        follows = words[index + 1] if index + 1 < len(words) else ""
        if word in NEGATORS and not (word in ("not", "no") and follows in ("only", ",")):
            negator, stating = position, word in _STATES
        position += content


def _about_relatives(words: list[str]) -> list[bool]:
    """Return for each word whether it is about a relative of the patient.

    These are the words from "his father had", "family history" or "run in the family" to the next subject, and the
    words before "in his mother". Relatives who only report or bring the patient do not count.
    """
    about = [False] * len(words)
    if _KIN.isdisjoint(words):
        return about
    active = False
    for index, word in enumerate(words):
        before = words[index - 1] if index else ""
        if word in ("but", "however", ";", "because", "although", "presents", "comes") or (
            word in _SUBJECTS - {"his", "her", "my"} and before in (",", "and", "that", "but")
        ):
            active = False
        nearby = words[index + 1 : index + 5]
        if word in _RELATIVES and not _REPORTING.intersection(nearby):
            following = [w for w in words[index + 1 : index + 9] if w not in _RELATIVES and w not in _LINKS]
            active = active or bool(following and following[0] in _PREDICATES) or words[index - 1 : index] == ["a"]
            preceding = [w for w in words[max(0, index - 5) : index] if w not in _RELATIVES and w not in _LINKS]
            if preceding[-1:] == ["in"]:  # as in "colon cancer in his father"
                active = True
                for earlier in range(index - 1, -1, -1):
                    if words[earlier] in _SUBJECTS - {"his", "her", "my"} or words[earlier] in _BREAKS:
                        break
                    about[earlier] = True
        elif word == "family" and not _REPORTING.intersection(nearby[:2]):
            active = True
        about[index] = active
    return about


_I = re.IGNORECASE
_SPOKEN = re.compile(r"\b(?:no|not|never|nothing)\b|n't\b", _I)
_OPENS = re.compile(rf"^(?:(?:{alternatives(DENYING)})\b|{DENIES}|has (?:not|never)|non-)", _I)
DENIAL_WORDS = ("no", DENIES, DENIED, "denying", "not", "without", "never", "negative", "neither", "absent")
"""Words of denial for joined values, the plainest first."""
FIRST_DENIAL = re.compile(
    rf"^(?:(?:has|have|had|is|was|are|were|does|did|do) )?(?:no|not|never|without|{DENIES}|{DENIED}|neither)\b"
    r"(?: (?:have|had|having|any|an?)\b)* ?",
    _I,
)
"""The denial at the beginning of a fact, up to the denied thing."""
DENIAL = re.compile(
    r"^(?:(?:and|or|she|he|they|the patient|patient|her|his|there|also|otherwise|review of systems|"
    rf"(?:her|his) (?:{relatives('parents')}))\s+)*({DENIES}|{DENIED}|denying|no\b|without|negative for|"
    r"(?:(?:has|have) had|has|have|had|is|was|are|"
    r"were|does|did|do) "
    r"(?:no|not(?: have| had| been)?|never(?: had| been)?)\b|never(?: had)?)\s*(?:any |having |recent )?",
    _I,
)
INNER_DENIAL = re.compile(rf",?\s+(?:with no|without|and no|but no|and {DENIES})\s+(?:any )?", _I)
"""The denial inside a clause; ``DENIAL`` is that at the beginning. A denied list follows."""


def is_negated(text: str) -> bool:
    """Say whether a fact begins with a word of denial ("no fever")."""
    return bool(_OPENS.search(text))


def denies_something(text: str) -> bool:
    return bool(_SPOKEN.search(text))
