"""The interface of each role, played by a language model, by rules (reference) or by a person.

An agent keeps no state of a conversation. It receives the whole dialogue each time, so a stored or running dialogue
can continue from any turn.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from core.asking.scene import AgentOutput, Dialogue, FinalMessage, Material, PatientKnowledge, Question, Scene
from core.case import Case
from core.events import Called, Failed, Probed, Purpose, RoleName, Rule, Token, Verdict


class Agent(Protocol):
    """A player of a seat."""

    @property
    def name(self) -> str: ...


class Inquirer(Agent, Protocol):
    """A doctor that takes a history; another agent may give the answer."""

    def ask(self, scene: Scene, dialogue: Dialogue) -> AsyncIterator[AgentOutput]:
        """Yield the next message of the consultation; a message without a question mark ends it."""

    def differential(self, scene: Scene, dialogue: Dialogue) -> tuple[tuple[str, float], ...] | None:
        """Return (diagnosis, probability) pairs after the dialogue, or ``None`` if that would cost a call."""


class Doctor(Inquirer, Protocol):
    """The model under test."""

    def answer(self, scene: Scene, material: Material, question: Question) -> AsyncIterator[AgentOutput]: ...


class Patient(Agent, Protocol):
    """The simulated patient. It knows the vignette or profile, never the question, the choices or the answer."""

    def reply(self, knowledge: PatientKnowledge, scene: Scene, dialogue: Dialogue) -> AsyncIterator[AgentOutput]: ...


def patient_knowledge(case: Case) -> PatientKnowledge:
    profile = case.profile
    history = profile.demographics + profile.basic if profile else ()
    return PatientKnowledge(case.vignette, history, profile.optional if profile else (), case.speaker == "caregiver")


@dataclass(frozen=True)
class GraderResult:
    """A grader's result: the extracted diagnosis and the verdict, with the ids of the calls.

    ``rule_version`` is the version of the rule, or of the parser of a model's reply.
    """

    rule: Rule
    extracted: str | None
    verdict: Verdict
    call_ids: tuple[str, ...] = ()
    rule_version: int = 1


class Grader(Agent, Protocol):
    """Grades free responses."""

    def grade(self, case: Case, response: str) -> AsyncIterator[Token | Called | GraderResult]:
        """Extract the diagnosis of a free response and compare it with the answer; ``GraderResult`` comes last."""

    def read(self, case: Case, response: str) -> AsyncIterator[Token | Called | GraderResult]:
        """Extract only; ``GraderResult`` comes last, ``ungradable`` if the diagnosis still has to be compared."""

    def grade_top3(self, case: Case, response: str) -> AsyncIterator[Token | Called | GraderResult]:
        """Grade up to three listed diagnoses: correct if any of them is."""


class Summariser(Agent, Protocol):
    """Writes one paragraph from the patient's messages."""

    def summarise(self, lines: Sequence[str]) -> AsyncIterator[AgentOutput]: ...


class Probe(Protocol):
    """Asks the doctor's model for its belief, outside the dialogue."""

    def believe(self, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Called | Failed | Probed]:
        """Yield the belief after the dialogue, or ``Failed``; never raises ``CallFailed``."""


@dataclass(frozen=True)
class Cast:
    """The players of a trial. ``probe`` is set if the run asks for beliefs."""

    doctor: Doctor
    patient: Patient
    grader: Grader
    summariser: Summariser
    probe: Probe | None = None
    greeting: str = "Hello, what symptoms bring you in today?"
    """The doctor's first message."""


async def at_once(role: RoleName, purpose: Purpose, text: str) -> AsyncIterator[AgentOutput]:
    yield Token(role=role, purpose=purpose, text=text)
    yield FinalMessage(text)
