"""How what is said and noted under a framework is read, shown and put in words.

A framework whose doctor speaks in a form of its own, such as tags, brings a ``Speech`` that knows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from core.events import Assessed, Ended, Event, Utterance
from core.words import how_it_ended


@dataclass(frozen=True)
class Shown:
    """A message as a reader is shown it: to whom it went (empty: to everybody), and its words.

    ``goes`` says the same to a program: a role, ``both``, ``end`` or ``nowhere``. ``whole`` is the message as it was
    written, where it holds more than is shown.
    """

    to: str
    text: str
    goes: str = ""
    whole: str | None = None


class Queries(NamedTuple):
    """What a doctor's message asks, query by query, single spaces between words, and how many words it has in all."""

    texts: tuple[str, ...]
    words: int


class Speech:
    """The usual one: a message is one query, and is shown as it was said."""

    addresses: ClassVar[bool] = False
    """Whether its doctor says to whom each message goes: nobody opens then, and what counts are queries passed on."""
    tags: ClassVar[tuple[str, ...]] = ()
    """The marks in which its doctor speaks: a search for words passes over them, in any case of letters."""
    one_query: ClassVar[str] = ""
    """A message that is nothing but one query, as an RE2 pattern for the database, which reads such messages without
    ``queries``: its groups are the opening mark, the words with single spaces between them, and the closing mark, which
    is to be the same. Empty: ``queries`` reads all."""
    kinds: ClassVar[Mapping[str, str]] = {}
    """Reference kind → what it does, where its seat's title does not say it: a name, and after a colon the rest."""

    def shown(self, role: str, text: str) -> tuple[Shown, ...]:
        """Return a message as a reader is shown it; by default to everybody, as it was said."""
        return (Shown("", text),)

    def spoken(self, role: str, text: str) -> str:
        """Return the words of a message alone, also of one that is still being said."""
        return text

    def written(self, role: str, text: str) -> str:
        """Return what a person wrote in a seat's place as a message of the framework."""
        return text

    def queries(self, message: str) -> Queries:
        """Return the queries of a doctor's message; by default it is one."""
        words = message.split()
        return Queries((" ".join(words),), len(words))

    def questions(self, events: Sequence[Event]) -> int:
        """Return how many messages the doctor said after the opening one, whoever said that."""
        return sum(isinstance(event, Utterance) and event.role == "doctor" and event.turn > 0 for event in events)

    def recognises(self, events: Iterable[Event]) -> bool:
        """Say whether a conversation is the framework's, by what no other framework's has."""
        return False

    def ending(self, ended: Ended) -> str:
        """Return why a conversation ended, to follow "because"."""
        return how_it_ended(ended.reason, ended.doctor_turns)

    def remark(self, assessment: Assessed) -> str:
        """Return an assessment in words: a sentence on a message, or a heading of its own words on a conversation."""
        words = assessment.name.replace("_", " ").capitalize()
        if assessment.values:
            words += f": {', '.join(assessment.values)}"
        if assessment.value is not None:
            words += f" {assessment.value}" + (f" of {assessment.most}" if assessment.most is not None else "")
        return words + (f", by {assessment.by}" if assessment.by else "")

    def answering(self, events: Sequence[Event]) -> str:
        """Say in a sentence who answers, and from what, where that is not simply the doctor; else nothing."""
        return ""

    def invitation(self, role: str, tested: str) -> str:
        """Return what a person in a seat is invited to say; ``tested`` is the role under test."""
        return "Ask the patient one question" if role == tested else "Answer the doctor"

    def in_words(self, name: str, value: object) -> str:
        """Return the value of a setting in words."""
        return str(value)

    def cap(self, settings: Mapping[str, object], tested: str) -> str:
        """Return the cap of a stored run's conversations in words; empty where there is none."""
        return ""
