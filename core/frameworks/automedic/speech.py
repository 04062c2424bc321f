"""Reading and wording of AutoMedic's conversations: a doctor's messages are queries in tags."""

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
from core.frameworks.casting import is_rule
from core.frameworks.speech import Queries, ShownMessage, Speech
from core.words import END


class TagSpeech(Speech):
    """A doctor's message has queries in tags; queries that were passed on count."""

    addresses, tags, one_query = True, TAGS, ONE_QUERY

    def shown(self, role: str, text: str, assessed: Assessed | None = None) -> tuple[ShownMessage, ...]:
        """Return a message without tags, a doctor's with its addressees."""
        return (message_of(text, assessed) if role == "doctor" else ShownMessage("", text),)

    def spoken(self, role: str, text: str) -> str:
        return without_tags(text) if role == "doctor" else text

    def written(self, role: str, text: str) -> str:
        return tagged(text) if role == "doctor" else text

    def queries(self, message: str) -> Queries:
        """Return the queries in a message's tags, and the number of words inside and outside of tags."""
        return Queries(tuple(query.text for query in read_tags(message).queries), len(plain_words(message)))

    def questions(self, events: Sequence[Event]) -> int:
        return queries_passed_on(events)

    def recognises(self, events: Iterable[Event]) -> bool:
        return speaks_in_tags(events)

    def ending(self, ended: Ended) -> str:
        words = {"end_tag": "the doctor wrote the end tag", "no_tag": "the doctor’s message had no tag to pass on"}
        queries = "query was" if ended.doctor_turns == 1 else "queries were"
        return f"{words.get(ended.reason, END[ended.reason])}; {ended.doctor_turns} {queries} passed on"

    def remark(self, assessment: Assessed) -> str:
        """Return the misuse of tags in a message, or the patient's rating as a heading for its words."""
        if assessment.name == MISUSE:
            kinds = (MISUSE_WORDS.get(kind, kind.replace("_", " ")) for kind in assessment.values)  # type: ignore[call-overload]
            return f"Against the tag protocol: {'; '.join(kinds)}."
        name = assessment.name.capitalize()
        if is_rule(assessment.by):
            return f"{name} not judged: a rule plays the patient"
        if assessment.value is None:
            return f"{name} not rated by {assessment.by} as the patient"
        return f"{name} {assessment.value} of {assessment.most}, rated by {assessment.by} as the patient"

    def answering(self, events: Sequence[Event]) -> str:
        return "The doctor answers twice: from the whole vignette, and from this conversation (multi-turn)."

    def invitation(self, role: str, tested: str) -> str:
        """Return the prompt for a person in a seat; for a doctor with the ways to ask the staff and to end."""
        if role == tested:
            return "Ask the patient, or “staff: …”, or end with “done”"
        return super().invitation(role, tested)

    def cap(self, settings: Mapping[str, object], tested: str) -> str:
        return f"{turns} turns" if (turns := settings.get("max_turns")) else ""
