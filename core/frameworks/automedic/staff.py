"""The reference clinical staff of AutoMedic: reports the results that a query names, word for word, and nothing else.

Which results a query names, in this order: all vital signs where these are named; the results that hold a finding or a
test of the query, or most of its telling words; a whole section (examination, laboratory, imaging, other tests) where
the query names the section and nothing more particular, or the particular only as an example. Else the staff says that
it is not available. It knows no reference ranges and explains nothing.
"""

from __future__ import annotations

import functools
import re
from collections.abc import AsyncIterator, Sequence
from typing import get_args

from core.agents.base import Dialogue, Saying, Scene, at_once
from core.case import Fact, Section
from core.frameworks.automedic.roles import NOT_AVAILABLE, Facts
from core.text.findings import Understanding, understanding
from core.text.negation import is_content, stem_of, words_in
from core.vocabulary import below, cues

MOST_PARTICULAR = 6
"""Results that a query for something particular is answered with at most."""
_LEAST_SHARE = 0.5
"""Of the best match, a result needs this share of the query's telling words."""

_TOPICS: dict[Section, str] = {section: section.replace("_", " ") for section in get_args(Section)}
_SECTION_NAMES = {
    section: re.compile(cues(topic, of=("order",), without=below(topic)), re.I) for section, topic in _TOPICS.items()
}
_EXAMPLES = re.compile(r"\b(?:including|includes?|such as|for example|e\.g\.|especially|particularly|like)\b", re.I)
_BY_HAND: frozenset[Section] = frozenset(("vital_signs", "examination"))
_ORDERED = tuple(
    (re.compile(asked, re.I), re.compile(cues(name, of=("result",)), re.I), section in _BY_HAND)
    for section, topic in _TOPICS.items()
    for name in below(topic)
    if (asked := cues(name, of=("order",)))
)
"""What is ordered, what a result of it looks like, and whether it is found at the bedside: names that share no word."""
_EMPTY = frozenset(
    stem_of(word)
    for word in (
        "what which how show shows showed reveal reveals find finding findings result results test tests testing value "
        "values report reports reported examination exam physical vital signs sign laboratory labs lab imaging scan "
        "scans study studies other further additional available please perform order obtain check measure give tell "
        "provide know see look there patient patient's today now current currently initial admission arrival recent "
        "full complete detailed basic routine standard general relevant overall done been taken recorded evidence "
        "all every each whole indicate level levels normal abnormal abnormalities anything work panel me us need would "
        "like let run"
    ).split()
)
"""Stems that name nothing particular."""


class ReferenceStaff:
    """Answers by rule from the optional facts."""

    name = "reference/staff"

    def __init__(self, reader: Understanding | None = None) -> None:
        self._reader = reader or understanding()

    def reply(self, results: Facts, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying]:
        """Answer the last message of the staff's own view."""
        found = self.named(dialogue[-1].text, results)
        return at_once("staff", "dialogue", " ".join(reported(fact) for fact in found) or NOT_AVAILABLE)

    def named(self, query: str, results: Facts) -> list[Fact]:
        """Return the results that a query names, in the order of the case."""
        sections = {section for section, names in _SECTION_NAMES.items() if names.search(query)}
        whole = {"vital_signs"} & sections
        telling, ordered = _particulars(query), any(names.search(query) for names, _, _ in _ORDERED)
        if not (telling or ordered) or _EXAMPLES.search(query):
            whole = whole | sections
        particular = self._particular(query, telling, [f for f in results if _section(f) not in whole])
        if not sections and not particular and not telling and _ASKS_FOR_ALL.search(query):
            return list(results)
        return [f for f in results if _section(f) in whole or f in particular]

    def _particular(self, query: str, telling: frozenset[str], results: Sequence[Fact]) -> list[Fact]:
        """Return the results of the findings, tests and words that a query names, the closest ones only."""
        asked = set(self._reader.recogniser.read(query))
        ordered = [(told, by_hand) for names, told, by_hand in _ORDERED if names.search(query)]
        by_name = [
            fact
            for fact in results
            if any(
                (_section(fact) in _BY_HAND) == by_hand and told.search(f"{fact.key} {fact.value}")
                for told, by_hand in ordered
            )
        ]
        by_finding = [f for f in results if asked & set(self._reader.recogniser.read(_text(f)))]
        shared = {id(f): len(telling & _telling(_text(f))) for f in results}
        best = max(shared.values(), default=0)
        # of several words one in common is not enough: "joint fluid" does not ask for the fluid of the belly
        close = [f for f in results if best and shared[id(f)] >= max(1, _LEAST_SHARE * best)]
        by_words = close if telling and best >= _LEAST_SHARE * len(telling) else []
        return [f for f in results if f in by_name or f in by_finding or f in by_words][:MOST_PARTICULAR]


_ASKS_FOR_ALL = re.compile(r"\b(?:results|findings|tests|values|data|report|studies)\b", re.IGNORECASE)


def reported(fact: Fact) -> str:
    """Return a result as the staff says it: its name and its value as they stand."""
    return f"{fact.key[:1].upper()}{fact.key[1:]}: {fact.value.rstrip('.')}."


def _particulars(query: str) -> frozenset[str]:
    """Return the telling stems of a query besides the names of sections and orders."""
    for names in (*_SECTION_NAMES.values(), *(asked for asked, _, _ in _ORDERED)):
        query = names.sub(" ", query)
    return _telling(query)


def _section(fact: Fact) -> Section:
    return fact.section or "other_tests"


def _text(fact: Fact) -> str:
    return f"{fact.key}: {fact.value}"


@functools.lru_cache(maxsize=20_000)
def _telling(text: str) -> frozenset[str]:
    """Return the stems of a text that name something."""
    stems = {stem_of(word) for word in words_in(text) if is_content(word) and not word[0].isdigit()}
    return frozenset(stems - _EMPTY)
