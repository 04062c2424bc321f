"""How messages, events and settings of a framework are read, shown and worded.

A framework whose doctor's messages have a special form, such as tags, has a subclass of ``Speech``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from core.events import Assessed, Ended, Event, Utterance
from core.words import END, how_it_ended

END_RULE = "end_rule"
"""Name of the assessment of a person's message after which a model's conversation would have ended.

Its ``values`` are the reason of that end.
"""


@dataclass(frozen=True)
class ShownMessage:
    """A message for display: its recipient in words (empty: everybody), and its text.

    ``goes`` is the recipient for programs: a role, ``both``, ``end`` or ``nowhere``. ``whole`` is the original message,
    if it has more than ``text``.
    """

    to: str
    text: str
    goes: str = ""
    whole: str | None = None


class Queries(NamedTuple):
    """The queries of a doctor's message, with single spaces between words, and the number of words of the message."""

    texts: tuple[str, ...]
    words: int


class Speech:
    """The default: a message is one query, and is shown unchanged."""

    addresses: ClassVar[bool] = False
    """Whether the doctor addresses each message: then there is no opening, and queries that were passed on count."""
    tags: ClassVar[tuple[str, ...]] = ()
    """Tags in the doctor's messages, which a text search ignores, in any case of letters."""
    one_query: ClassVar[str] = ""
    """An RE2 pattern of messages that are exactly one query, which the database reads without ``queries``. Its groups
    are the opening tag, the words with single spaces between them, and the closing tag, which must have the same name.
    If empty, ``queries`` reads all messages."""
    kinds: ClassVar[Mapping[str, str]] = {}
    """Reference kind → description, if the seat's title is not enough: a name, and after a colon the details."""

    def shown(self, role: str, text: str, assessed: Assessed | None = None) -> tuple[ShownMessage, ...]:
        """Return the parts of a message for display; by default one part for everybody, unchanged.

        ``assessed`` is the stored assessment of the message by the framework's rules.
        """
        return (ShownMessage("", text),)

    def spoken(self, role: str, text: str) -> str:
        return text

    def written(self, role: str, text: str) -> str:
        """Return the text of a person in a seat as a message of the framework."""
        return text

    def queries(self, message: str) -> Queries:
        words = message.split()
        return Queries((" ".join(words),), len(words))

    def questions(self, events: Sequence[Event]) -> int:
        """Return the number of the doctor's messages after the first message of the conversation."""
        return sum(isinstance(event, Utterance) and event.role == "doctor" and event.turn > 0 for event in events)

    def recognises(self, events: Iterable[Event]) -> bool:
        """Return whether a conversation is of this framework, by features that no other framework has."""
        return False

    def ending(self, ended: Ended) -> str:
        """Return why a conversation ended, to follow "because"."""
        return how_it_ended(ended.reason, ended.doctor_turns)

    def remark(self, assessment: Assessed) -> str:
        """Return an assessment in words: a sentence about a message, or a heading for its text on a conversation."""
        if assessment.name == END_RULE:
            reasons = " and ".join(words for reason, words in END.items() if reason in assessment.values)
            return f"A model’s conversation would have ended here, because {reasons}. The person went on."
        words = assessment.name.replace("_", " ").capitalize()
        if assessment.values:
            words += f": {', '.join(assessment.values)}"
        if assessment.value is not None:
            words += f" {assessment.value}" + (f" of {assessment.most}" if assessment.most is not None else "")
        return words + (f", by {assessment.by}" if assessment.by else "")

    def answering(self, events: Sequence[Event]) -> str:
        """Return a sentence on who answers, and from what material, if this is not simply the doctor; else empty."""
        return ""

    def invitation(self, role: str, tested: str) -> str:
        """Return the prompt for a person in a seat; ``tested`` is the role under test."""
        return "Ask the patient one question" if role == tested else "Answer the doctor"

    def in_words(self, name: str, value: object) -> str:
        return str(value)

    def cap(self, settings: Mapping[str, object], tested: str) -> str:
        """Return the cap of a stored run's conversations in words; empty if there is none."""
        return ""
