"""The reference patient of AutoMedic: answers by rule from demographics and basic facts, and rates by rule.

Answers are the reference patient's own (``core.agents.reference.patient``). The rating counts what can be counted in
the queries that reached it and says so; it judges no meaning.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass

from core.agents.base import Dialogue, Held, Saying, Scene, Turn, at_once
from core.agents.reference.patient import ReferencePatient
from core.frameworks.automedic.roles import Rating
from core.text.asked_facts import by_topic
from core.text.findings import Understanding, understanding
from core.text.patient_terms import is_technical, words
from core.text.topics import topics_asked

_NOTHING_KNOWN = "I don't know."
_WELCOME = (Turn("doctor", "Hello."), Turn("patient", "Hello."))
"""Stands before a first query that asks for something in particular, which is then answered as any other."""

_FEELING = re.compile(
    r"\bsorry\b|i (?:can )?(?:understand|see|imagine|hear)\b|must (?:be|have been|feel)|worr(?:y|ied|ying)|"
    r"difficult|frighten|scar(?:y|ed)|upsetting|distress|tough|hard (?:for|on) you|that sounds|take your time|"
    r"how (?:do|are) you feel|bother(?:s|ing)? you",
    re.IGNORECASE,
)
_COURTESY = re.compile(
    r"\b(?:please|thank you|thanks|hello|good (?:morning|afternoon|evening)|welcome)\b", re.IGNORECASE
)
_OPEN = re.compile(
    r"\b(?:what brings|tell me|describe|how (?:do|did|are|have|has|would|does)|in your own words|"
    r"what (?:do|did|is|was) (?:you|it|that|the \w+) (?:feel|like|think|worr)|"
    r"what (?:else|happened|worries)|anything else)\b",
    re.IGNORECASE,
)
_NOT_PLAIN = 0.05
"""Share of technical words in the queries above which the doctor is hard to follow."""
_OFTEN_COURTEOUS = 0.25
"""Share of queries with a courtesy from which on the doctor is courteous."""


class ReferenceAutoMedicPatient:
    """Answers and rates by rule."""

    name = ReferencePatient.name

    def __init__(self, patient: ReferencePatient | None = None, reader: Understanding | None = None) -> None:
        self._patient = patient or ReferencePatient()
        self._reader = reader or understanding()

    def reply(self, held: Held, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying]:
        """Answer the last query."""
        if not held.told:
            return at_once("patient", "dialogue", _NOTHING_KNOWN)
        first = all(turn.role == "doctor" for turn in dialogue)
        seen = (*_WELCOME, *dialogue) if first and self._is_particular(dialogue[-1].text, held) else dialogue
        return self._patient.reply(held, scene, seen)

    async def rate(self, held: Held, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying | Rating]:
        """Rate by what the queries hold."""
        counted = count([turn.text for turn in dialogue if turn.role == "doctor"])
        yield Rating(counted.rating, counted.words)

    def _is_particular(self, query: str, held: Held) -> bool:
        """Say whether a query is after something other than the complaint."""
        found = (
            self._reader.asked_findings(query) or by_topic(query, held.told) or "demographics" in topics_asked(query)
        )
        return bool(found)


@dataclass(frozen=True)
class Manners:
    """What the rule counts in the queries to the patient."""

    queries: int
    feelings: int
    """Queries that speak of how the patient feels."""
    courtesies: int
    open_questions: int
    repeated: int
    technical: float
    """Share of technical words."""

    @property
    def rating(self) -> int:
        """From 1 to 5, beginning with 2.

        One up each for a query about feelings, courtesy in a quarter of the queries, and an open question; one down
        each for more than one technical word in twenty and for a repeated query.
        """
        up = (self.feelings > 0) + (self.courtesies >= _OFTEN_COURTEOUS * self.queries) + (self.open_questions > 0)
        return max(1, 2 + up - (self.technical > _NOT_PLAIN) - (self.repeated > 0))

    @property
    def words(self) -> str:
        """The figures in a sentence."""
        return (
            f"By rule, of {self.queries} queries: {self.feelings} about feelings, {self.courtesies} courteous, "
            f"{self.open_questions} open, {self.repeated} repeated; {self.technical:.0%} technical words."
        )


def count(queries: list[str]) -> Manners:
    """Count what the rule rates."""
    spoken = [word for query in queries for word in words(query)]
    plain = [" ".join(words(_COURTESY.sub("", query))) for query in queries]
    return Manners(
        queries=len(queries),
        feelings=sum(bool(_FEELING.search(query)) for query in queries),
        courtesies=sum(bool(_COURTESY.search(query)) for query in queries),
        open_questions=sum(bool(_OPEN.search(query)) for query in queries),
        repeated=len(plain) - len(set(plain)),
        technical=sum(map(is_technical, spoken)) / len(spoken) if spoken else 0.0,
    )
