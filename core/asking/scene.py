"""The material of prompts, and the output of an agent."""

from __future__ import annotations

from dataclasses import dataclass, replace

from core.asking.persona import PLAIN, Persona
from core.case import AsksFor, Fact
from core.errors import ProviderError
from core.events import Called, Format, QuestionType, Speaker, Token, Waiting
from core.images import Image


@dataclass(frozen=True)
class Turn:
    """One message of a dialogue.

    ``scripted``: the program wrote it, such as a greeting or the opening request of a case. It shows nothing of a model
    or a person. ``to`` is the recipient in words, empty for everybody.
    """

    role: Speaker
    text: str
    scripted: bool = False
    to: str = ""


Dialogue = tuple[Turn, ...]


@dataclass(frozen=True)
class FinalMessage:
    """An agent's complete message, with the id of the call that produced it, if any.

    ``cut`` says that the model's reply reached its token limit.
    """

    text: str
    call_id: str | None = None
    cut: bool = False


AgentOutput = Token | Called | Waiting | FinalMessage
"""What an agent yields; ``FinalMessage`` comes last."""


@dataclass(frozen=True)
class Scene:
    """The setting of a trial: the doctor's specialty (empty for Other), the speaker and persona, and the trial's seed.

    ``images`` are the pictures that the doctor sees; the scene of every other role has none.
    """

    specialty: str
    seed: int
    caregiver: bool = False
    persona: Persona = PLAIN
    images: tuple[Image, ...] = ()

    def without_pictures(self) -> Scene:
        return replace(self, images=())


@dataclass(frozen=True)
class Material:
    """What the doctor sees before the question: a dialogue or a text, sometimes with the examination."""

    format: Format
    dialogue: Dialogue = ()
    text: str | None = None
    examination: str | None = None


@dataclass(frozen=True)
class Question:
    """The question to the doctor: type, wording, and choices (none for a free response).

    ``asks_for`` is the kind of answer, such as a diagnosis.
    """

    question_type: QuestionType
    text: str
    choices: tuple[str, ...] = ()
    asks_for: AsksFor = "diagnosis"


@dataclass(frozen=True)
class PatientKnowledge:
    """The part of a case that a patient may know; see ``core.agents.base.patient_knowledge``."""

    vignette: str
    history: tuple[Fact, ...]
    """Facts that the patient knows without an examination; empty if the profile is unknown."""
    findings: tuple[Fact, ...]
    """Results of examination and tests. The vignette contains them, so the patient may repeat them when asked."""
    caregiver: bool


class CallFailed(Exception):
    """A provider failed in an agent's call; carries the call to record and the provider's error."""

    def __init__(self, called: Called, error: ProviderError) -> None:
        super().__init__(str(error))
        self.called = called
        self.error = error
