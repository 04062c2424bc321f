"""How conversations under AutoMedic are read and put in words: a doctor's messages are queries in tags."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from core.events import Assessed, Ended, Event
from core.frameworks.automedic.roles import tagged
from core.frameworks.automedic.tags import (
    MISUSE,
    MISUSE_WORDS,
    ONE_QUERY,
    TAGS,
    message_of,
    plain_words,
    queries_passed_on,
    read_tags,
    speaks_in_tags,
    without_tags,
)
from core.frameworks.speech import Queries, Shown, Speech
from core.words import END


class TagSpeech(Speech):
    """A doctor's message holds queries in tags; what counts are those that were passed on."""

    addresses, tags, one_query = True, TAGS, ONE_QUERY

    def shown(self, role: str, text: str) -> tuple[Shown, ...]:
        """Return a message without tags: a doctor's to whom each of its queries went."""
        return (message_of(text) if role == "doctor" else Shown("", text),)

    def spoken(self, role: str, text: str) -> str:
        """Return a doctor's words without tags and reasoning."""
        return without_tags(text) if role == "doctor" else text

    def written(self, role: str, text: str) -> str:
        """Return a doctor's words in a tag, where they stand in none."""
        return tagged(text) if role == "doctor" else text

    def queries(self, message: str) -> Queries:
        """Return what stands in a message's tags, and how many words stand in them and outside."""
        return Queries(tuple(query.text for query in read_tags(message).queries), len(plain_words(message)))

    def questions(self, events: Sequence[Event]) -> int:
        """Return how many of the doctor's queries were passed on."""
        return queries_passed_on(events)

    def recognises(self, events: Iterable[Event]) -> bool:
        """Say whether somebody spoke in tags."""
        return speaks_in_tags(events)

    def ending(self, ended: Ended) -> str:
        """Return why a conversation ended, and how many queries were passed on."""
        words = {"end_tag": "the doctor wrote the end tag", "no_tag": "the doctor’s message held no tag to pass on"}
        queries = "query was" if ended.doctor_turns == 1 else "queries were"
        return f"{words.get(ended.reason, END[ended.reason])}; {ended.doctor_turns} {queries} passed on"

    def remark(self, assessment: Assessed) -> str:
        """Return what a message did against the tag protocol, or the patient's rating as a heading of its words."""
        if assessment.name == MISUSE:
            kinds = (MISUSE_WORDS.get(kind, kind.replace("_", " ")) for kind in assessment.values)  # type: ignore[call-overload]
            return f"Against the tag protocol: {'; '.join(kinds)}."
        name = assessment.name.capitalize()
        if assessment.value is None:
            return f"{name} not rated by {assessment.by} as the patient"
        return f"{name} {assessment.value} of {assessment.most}, rated by {assessment.by} as the patient"

    def answering(self, events: Sequence[Event]) -> str:
        """Say that the doctor answers twice."""
        return (
            "The doctor answers twice: from the whole question on paper (vignette), and from what it gathered in this "
            "conversation (multi-turn)."
        )

    def invitation(self, role: str, tested: str) -> str:
        """Return what a person in a seat is invited to say; a doctor also how it asks the staff, and ends."""
        if role == tested:
            return "Ask the patient, or “staff: …”, or end with “done”"
        return super().invitation(role, tested)

    def cap(self, settings: Mapping[str, object], tested: str) -> str:
        """Return the cap of turns."""
        return f"{turns} turns" if (turns := settings.get("max_turns")) else ""
