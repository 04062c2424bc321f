"""What the roles of AutoMedic can do, who is given what, and a human in each (Oh, Park, Kim, arXiv 2512.10195).

Of the profile the doctor knows the demographics, the patient these and the basic facts, the clinical staff the optional
ones. Nobody in the conversation is given the vignette, the question, the choices or the answer. Patient and staff see
what was addressed to them and what they said, without tags; the doctor sees the whole dialogue. A human
speaks without tags, which are put on, and is shown what the seat is briefed with.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol

from core.agents.base import Agent, Dialogue, Held, Material, Question, Said, Saying, Scene, Turn
from core.agents.player import Human
from core.case import Case, Fact
from core.frameworks.automedic.tags import END, TAG_OF, Addressee, queries_of, read_tags

Facts = tuple[Fact, ...]
NOT_AVAILABLE = "That is not available."
"""What the staff says where it has no result: the reference staff always, a model where it keeps to its prompt."""


@dataclass(frozen=True)
class Briefings:
    """What of a case each role of the conversation is given."""

    demographics: Facts
    """The doctor's."""
    held: Held
    """The patient's: demographics and basic facts, no vignette, nothing shown."""
    results: Facts
    """The staff's."""


@dataclass(frozen=True)
class Rating:
    """The patient's rating of the doctor, 1 to 5 or ``None`` where it cannot be read, with the rater's words."""

    rating: int | None
    words: str
    call_id: str | None = None


class TagDoctor(Agent, Protocol):
    """The model under test: asks patient and staff by tags, and answers the question."""

    def ask(self, scene: Scene, demographics: Facts, dialogue: Dialogue) -> AsyncIterator[Saying]:
        """Say the next message, with its tags."""

    def answer(
        self, scene: Scene, demographics: Facts, material: Material, question: Question
    ) -> AsyncIterator[Saying]:
        """Answer after the conversation, or on the vignette alone where the material is a text."""

    def differential(
        self, scene: Scene, demographics: Facts, dialogue: Dialogue
    ) -> tuple[tuple[str, float], ...] | None:
        """Return the belief after the dialogue where the doctor can state it at no cost, else ``None``."""


class AutoMedicPatient(Agent, Protocol):
    """Who answers the queries to the patient, as the patient or as who speaks for them (``held.caregiver``)."""

    def reply(self, held: Held, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying]:
        """Answer the last message of the patient's own view."""

    def rate(self, held: Held, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying | Rating]:
        """Rate the doctor's empathy after the patient's own view of the conversation; ``Rating`` comes last."""


class Staff(Agent, Protocol):
    """The clinical staff, which has the results of examination and tests."""

    def reply(self, results: Facts, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying]:
        """Answer the last message of the staff's own view."""


def briefings_of(case: Case) -> Briefings:
    """Return who is given what of a case; raise ``ValueError`` for one without a profile."""
    profile = case.profile
    if profile is None:
        raise ValueError(f"{case.case_key} has no profile: prepare the cases first")
    held = Held("", profile.demographics + profile.basic, (), case.speaker == "caregiver")
    return Briefings(profile.demographics, held, profile.optional)


def view_of(dialogue: Dialogue, addressee: Addressee) -> Dialogue:
    """Return what the patient or the staff has seen of a dialogue: the queries that it answered, without tags."""
    answered = [query for query in queries_of(dialogue) if query.to == addressee and query.reply is not None]
    return tuple(turn for q in answered for turn in (Turn("doctor", q.text), Turn(addressee, q.reply or "")))


HOW = (
    "You may ask the patient by writing plainly, the clinical staff by beginning with “staff:”, and end with “done”, "
    "after which you are asked for your answer."
)
"""What a human doctor is told before its first message."""
RATE = "How much empathy did the doctor show, from 1 (none) to 5 (very much)?"
_STAFF = re.compile(r"\s*(?:clinical )?staff\s*[:,]\s*", re.IGNORECASE)
_DONE = re.compile(r"\W*(?:done|end|i am done|that is all)\W*", re.IGNORECASE)


@dataclass(frozen=True)
class HumanTagDoctor:
    """The doctor by hand."""

    human: Human
    name = Human.name

    async def ask(self, scene: Scene, demographics: Facts, dialogue: Dialogue) -> AsyncIterator[Saying]:
        """Wait for the next query; words without a tag are put into one."""
        known = "; ".join(f"{fact.key}: {fact.value}" for fact in demographics)
        async for item in self.human.said("dialogue", "" if dialogue else f"{known}\n\n{HOW}".strip()):
            yield Said(tagged(item.text), item.call_id) if isinstance(item, Said) else item

    def answer(
        self, scene: Scene, demographics: Facts, material: Material, question: Question
    ) -> AsyncIterator[Saying]:
        """Wait for the answer."""
        return self.human.answer(scene, material, question)

    def differential(self, scene: Scene, demographics: Facts, dialogue: Dialogue) -> None:
        """Return nothing: a human is not asked for a belief."""


def tagged(text: str) -> str:
    """Return what a person wrote as a message under the tag protocol; what holds tags already stays as it is."""
    spoken = read_tags(text)
    if spoken.queries or spoken.ends:
        return text
    if _DONE.fullmatch(text):
        return END
    to = "staff" if _STAFF.match(text) else "patient"
    tag = TAG_OF["staff" if to == "staff" else "patient"]
    return f"<{tag}>{_STAFF.sub('', text, count=1) if to == 'staff' else text}</{tag}>"


@dataclass(frozen=True)
class HumanRater:
    """The patient by hand, who also rates the doctor."""

    human: Human
    name = Human.name

    def reply(self, held: Held, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying]:
        """Wait for the reply to the last query."""
        return self.human.reply(held, scene, dialogue)

    async def rate(self, held: Held, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying | Rating]:
        """Wait for a rating from 1 to 5; other words are none."""
        async for item in self.human.said("rate", RATE, "12345"):
            if isinstance(item, Said):
                found = re.search(r"[1-5]", item.text)
                yield Rating(int(found[0]) if found else None, item.text)
            else:
                yield item


@dataclass(frozen=True)
class HumanStaff:
    """The clinical staff by hand; the results are before its eyes."""

    human: Human
    name = Human.name

    def reply(self, results: Facts, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying]:
        """Wait for the answer to the last query."""
        held = "\n".join(f"- {fact.key}: {fact.value}" for fact in results)
        return self.human.said("dialogue", f"{dialogue[-1].text}\n\n{held}" if held else dialogue[-1].text)
