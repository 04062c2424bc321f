"""What each role can do, whoever fills it: a language model, rules (reference), or a human.

An agent keeps no state of a conversation: it is given the dialogue each time, so that any dialogue, stored or
running, can be taken up again at any turn.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from core.case import Case, Fact
from core.errors import ProviderError
from core.events import (
    Called,
    Failed,
    Format,
    Probed,
    Purpose,
    QuestionType,
    RoleName,
    Rule,
    Speaker,
    Token,
    Verdict,
    Waiting,
)
from core.images import Image
from core.persona import PLAIN, Persona
from core.questions import AsksFor


@dataclass(frozen=True)
class Turn:
    """One message of a dialogue."""

    role: Speaker
    text: str


Dialogue = tuple[Turn, ...]


@dataclass(frozen=True)
class Said:
    """What an agent finally says, with the call that it came from, if a model was called.

    ``cut`` says that the model was stopped by the limit of its reply.
    """

    text: str
    call_id: str | None = None
    cut: bool = False


Saying = Token | Called | Waiting | Said
"""What an agent yields while it speaks; ``Said`` is the last."""


@dataclass(frozen=True)
class Scene:
    """What surrounds a trial: the doctor's specialty (empty for Other), who speaks and how, and the trial's seed.

    ``images`` are the pictures that the doctor is shown: no other role is handed a scene that holds any.
    """

    specialty: str
    seed: int
    caregiver: bool = False
    persona: Persona = PLAIN
    images: tuple[Image, ...] = ()

    def without_pictures(self) -> Scene:
        """Return the scene as everybody but the doctor is given it."""
        return replace(self, images=())


@dataclass(frozen=True)
class Material:
    """What the doctor is shown before the question: a dialogue or a text, and perhaps the examination."""

    format: Format
    dialogue: Dialogue = ()
    text: str | None = None
    examination: str | None = None


@dataclass(frozen=True)
class Question:
    """How the doctor is asked: question type, wording, and the choices it may pick from (none for free response).

    ``asks_for`` is the kind of answer that the wording asks for.
    """

    question_type: QuestionType
    text: str
    choices: tuple[str, ...] = ()
    asks_for: AsksFor = "diagnosis"


class Agent(Protocol):
    """Who sits in a seat."""

    @property
    def name(self) -> str:
        """Full name under which it is stored."""


class Inquirer(Agent, Protocol):
    """A doctor that takes a history, whoever answers in the end."""

    def ask(self, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying]:
        """Say the next message of the consultation; one without a question mark ends it."""

    def differential(self, scene: Scene, dialogue: Dialogue) -> tuple[tuple[str, float], ...] | None:
        """Return the belief after the dialogue where the doctor can state it at no cost, else ``None``."""


class Doctor(Inquirer, Protocol):
    """The model under test."""

    def answer(self, scene: Scene, material: Material, question: Question) -> AsyncIterator[Saying]:
        """Answer a question on what is shown."""


class Patient(Agent, Protocol):
    """Who answers. It holds the vignette or profile, never the question, the choices or the answer."""

    def reply(self, held: Held, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying]:
        """Answer the doctor's last message."""


@dataclass(frozen=True)
class Held:
    """All that a patient may know of a case; made with ``what_patient_holds``."""

    vignette: str
    told: tuple[Fact, ...]
    """What the patient can tell without having been examined; empty where the profile is unknown."""
    shown: tuple[Fact, ...]
    """What examination and tests showed; the vignette tells it, so a patient who is asked may repeat it."""
    caregiver: bool


def what_patient_holds(case: Case) -> Held:
    """Return the part of a case that a patient may know."""
    profile = case.profile
    told = profile.demographics + profile.basic if profile else ()
    return Held(case.vignette, told, profile.optional if profile else (), case.speaker == "caregiver")


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

    def summarise(self, lines: Sequence[str]) -> AsyncIterator[Saying]:
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


class CallFailed(Exception):
    """A provider failed within an agent: carries the call to be recorded and the provider's error."""

    def __init__(self, called: Called, error: ProviderError) -> None:
        super().__init__(str(error))
        self.called = called
        self.error = error


async def at_once(role: RoleName, purpose: Purpose, text: str) -> AsyncIterator[Saying]:
    """Say a text that is there already, as who plays by rule does."""
    yield Token(role=role, purpose=purpose, text=text)
    yield Said(text)
