"""A conversation of AutoMedic as a reader is shown it: to whom each of the doctor's messages went, without its tags.

Read with the same rules by which the protocol passes messages on (``tags``), so that what stands here as a query is
what the patient or the clinical staff was given.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from core.events import Ended, Event, Misused, Rated, Utterance
from core.frameworks.automedic.tags import read_tags, without_thinking

Goes = Literal["patient", "staff", "both", "end", "nowhere"]
"""To whom a doctor's message went; ``both``: queries to either; ``end`` closed the consultation, ``nowhere`` could not
be passed on."""
GOES: dict[Goes, str] = {
    "patient": "to the patient",
    "staff": "to the clinical staff",
    "both": "to the patient and the clinical staff",
    "end": "ends the consultation",
    "nowhere": "to nobody",
}
_TAG = re.compile(r"</?\s*(?:patient|clinical|end)\s*/?\s*>", re.IGNORECASE)
_BEGINS = re.compile(r"\s*<(?:think\b|/?(?:patient|clinical|end)\b)", re.IGNORECASE)
_CUT_OFF = re.compile(r"<[^<>]*$")


@dataclass(frozen=True)
class Message:
    """A doctor's message: where it went, its queries, and all of it where it holds more than these.

    ``whole`` is ``None`` where the message is nothing but its tag and the query in it.
    """

    goes: Goes
    text: str
    whole: str | None = None


def speaks_in_tags(events: Iterable[Event], begun: str = "") -> bool:
    """Say whether a conversation is AutoMedic's, from what has happened in it; ``begun`` is what is just being said.

    For those who do not know its run, whose protocol decides. It is known by what no other protocol has: clinical
    staff, a misuse of tags, a rating, an end by the tags, or a whole query in tags in the doctor's first message
    (elsewhere the greeting), which the patient never precedes. A word that only looks like a tag is none.
    """
    said: list[Utterance] = []
    for event in events:
        if isinstance(event, Misused | Rated) or (isinstance(event, Ended) and event.reason in ("end_tag", "no_tag")):
            return True
        if isinstance(event, Utterance):
            if event.role == "staff":
                return True
            said.append(event)
    if said:
        spoken = read_tags(said[0].text)
        return said[0].role == "doctor" and bool(spoken.queries or spoken.ends)
    return _BEGINS.match(begun) is not None


def message_of(text: str) -> Message:
    """Return a message of AutoMedic's doctor as it is shown."""
    spoken = read_tags(text)
    alone = not spoken.misuses and without_thinking(text) == text.strip()
    if spoken.ends:
        return Message("end", "", None if alone else text)
    if not spoken.queries:
        return Message("nowhere", text)
    asked: set[Goes] = {query.to for query in spoken.queries}
    goes: Goes = "both" if len(asked) > 1 else asked.pop()
    lines = [f"{GOES[q.to].capitalize()}: {q.text}" if goes == "both" else q.text for q in spoken.queries]
    return Message(goes, "\n\n".join(lines), None if alone else text)


def without_tags(text: str) -> str:
    """Return a message without its tags and the reasoning in it, also one that is still being said."""
    return _CUT_OFF.sub("", _TAG.sub("", without_thinking(text))).strip()


def queries_passed_on(events: Sequence[Event]) -> int:
    """Return how many of the doctor's queries were answered, and with them those of a message still without reply."""
    said = [event for event in events if isinstance(event, Utterance)]
    answered = sum(event.role != "doctor" for event in said)
    return answered + (len(read_tags(said[-1].text).queries) if said and said[-1].role == "doctor" else 0)
