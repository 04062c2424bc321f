"""What each role can do, whoever fills it: a language model, rules (reference), or a human.

An agent keeps no state of a conversation: it is given the dialogue each time, so that any dialogue, stored or
running, can be taken up again at any turn.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from core.asking.scene import AgentOutput, Dialogue, FinalMessage, Material, PatientKnowledge, Question, Scene
from core.case import Case
from core.events import Called, Failed, Probed, Purpose, RoleName, Rule, Token, Verdict


class Agent(Protocol):
    """Who sits in a seat."""

    @property
    def name(self) -> str:
        """Full name under which it is stored."""


class Inquirer(Agent, Protocol):
    """A doctor that takes a history, whoever answers in the end."""

    def ask(self, scene: Scene, dialogue: Dialogue) -> AsyncIterator[AgentOutput]:
        """Say the next message of the consultation; one without a question mark ends it."""

    def differential(self, scene: Scene, dialogue: Dialogue) -> tuple[tuple[str, float], ...] | None:
        """Return the belief after the dialogue where the doctor can state it at no cost, else ``None``."""


class Doctor(Inquirer, Protocol):
    """The model under test."""

    def answer(self, scene: Scene, material: Material, question: Question) -> AsyncIterator[AgentOutput]:
        """Answer a question on what is shown."""


class Patient(Agent, Protocol):
    """Who answers. It holds the vignette or profile, never the question, the choices or the answer."""

    def reply(self, held: PatientKnowledge, scene: Scene, dialogue: Dialogue) -> AsyncIterator[AgentOutput]:
        """Answer the doctor's last message."""


def patient_knowledge(case: Case) -> PatientKnowledge:
    """Return the part of a case that a patient may know."""
    profile = case.profile
    told = profile.demographics + profile.basic if profile else ()
    return PatientKnowledge(case.vignette, told, profile.optional if profile else (), case.speaker == "caregiver")


@dataclass(frozen=True)
class Judgement:
    """A grader's last word: the diagnosis it extracted and its verdict, with the calls that led there.

    ``rule_version`` is that of a rule by hand, or of how a model's words were read.
    """

    rule: Rule
    extracted: str | None
    verdict: Verdict
    call_ids: tuple[str, ...] = ()
    rule_version: int = 1


class Grader(Agent, Protocol):
    """Who judges free responses."""

    def grade(self, case: Case, response: str) -> AsyncIterator[Token | Called | Judgement]:
        """Extract the diagnosis of a free response and compare it with the answer; ``Judgement`` comes last."""

    def read(self, case: Case, response: str) -> AsyncIterator[Token | Called | Judgement]:
        """Extract alone; ``Judgement`` comes last, ``ungradable`` where the name is to be compared."""

    def grade_top3(self, case: Case, response: str) -> AsyncIterator[Token | Called | Judgement]:
        """Judge up to three listed diagnoses: correct if any of them is."""


class Summariser(Agent, Protocol):
    """Who writes one paragraph from the patient's lines."""

    def summarise(self, lines: Sequence[str]) -> AsyncIterator[AgentOutput]:
        """Rewrite the lines as a vignette in the third person."""


class Probe(Protocol):
    """Who asks the doctor's model, outside the dialogue, what it believes."""

    def believe(self, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Called | Failed | Probed]:
        """Yield the belief after the dialogue, or why there is none; never raises ``CallFailed``."""


@dataclass(frozen=True)
class Cast:
    """Who plays which role in a trial; ``probe`` is there where beliefs are asked for."""

    doctor: Doctor
    patient: Patient
    grader: Grader
    summariser: Summariser
    probe: Probe | None = None
    greeting: str = "Hello, what symptoms bring you in today?"
    """What the doctor says first."""


async def at_once(role: RoleName, purpose: Purpose, text: str) -> AsyncIterator[AgentOutput]:
    """Say a text that is there already, as who plays by rule does."""
    yield Token(role=role, purpose=purpose, text=text)
    yield FinalMessage(text)
