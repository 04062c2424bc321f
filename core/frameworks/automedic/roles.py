"""What the roles of AutoMedic can do, whoever fills them, and who is given what (Oh, Park, Kim, arXiv 2512.10195).

Of the profile the doctor knows the demographics, the patient these and the basic facts, the clinical staff the optional
ones. Nobody in the conversation is given the vignette, the question, the choices or the answer. Patient and staff see
what was addressed to them and what they said, without tags; the doctor sees the whole dialogue.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol

from core.agents.base import Dialogue, Held, Material, Question, Saying, Scene, Turn
from core.case import Case, Fact
from core.frameworks.automedic.tags import Addressee, queries_of

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


class TagDoctor(Protocol):
    """The model under test: asks patient and staff by tags, and answers the question."""

    @property
    def name(self) -> str:
        """Full name under which it is stored."""
        ...

    def ask(self, scene: Scene, demographics: Facts, dialogue: Dialogue) -> AsyncIterator[Saying]:
        """Say the next message, with its tags."""
        ...

    def answer(
        self, scene: Scene, demographics: Facts, material: Material, question: Question
    ) -> AsyncIterator[Saying]:
        """Answer after the conversation, or on the vignette alone where the material is a text."""
        ...

    def differential(
        self, scene: Scene, demographics: Facts, dialogue: Dialogue
    ) -> tuple[tuple[str, float], ...] | None:
        """Return the belief after the dialogue where the doctor can state it at no cost, else ``None``."""
        ...


class AutoMedicPatient(Protocol):
    """Who answers the queries to the patient, as the patient or as who speaks for them (``held.caregiver``)."""

    @property
    def name(self) -> str:
        """Full name under which it is stored."""
        ...

    def reply(self, held: Held, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying]:
        """Answer the last message of the patient's own view."""
        ...

    def rate(self, held: Held, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying | Rating]:
        """Rate the doctor's empathy after the patient's own view of the conversation; ``Rating`` comes last."""
        ...


class Staff(Protocol):
    """The clinical staff, which has the results of examination and tests."""

    @property
    def name(self) -> str:
        """Full name under which it is stored."""
        ...

    def reply(self, results: Facts, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying]:
        """Answer the last message of the staff's own view."""
        ...


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
