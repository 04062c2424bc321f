"""What a prompt is made of, and what an agent yields while it speaks."""

from __future__ import annotations

from dataclasses import dataclass, replace

from core.asking.persona import PLAIN, Persona
from core.case import AsksFor, Fact
from core.errors import ProviderError
from core.events import Called, Format, QuestionType, Speaker, Token, Waiting
from core.images import Image


@dataclass(frozen=True)
class Turn:
    """One message of a dialogue."""

    role: Speaker
    text: str


Dialogue = tuple[Turn, ...]


@dataclass(frozen=True)
class FinalMessage:
    """What an agent finally says, with the call that it came from, if a model was called.

    ``cut`` says that the model was stopped by the limit of its reply.
    """

    text: str
    call_id: str | None = None
    cut: bool = False


AgentOutput = Token | Called | Waiting | FinalMessage
"""What an agent yields while it speaks; ``FinalMessage`` is the last."""


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


@dataclass(frozen=True)
class PatientKnowledge:
    """All that a patient may know of a case; made with ``patient_knowledge``."""

    vignette: str
    told: tuple[Fact, ...]
    """What the patient can tell without having been examined; empty where the profile is unknown."""
    shown: tuple[Fact, ...]
    """What examination and tests showed; the vignette tells it, so a patient who is asked may repeat it."""
    caregiver: bool


class CallFailed(Exception):
    """A provider failed within an agent: carries the call to be recorded and the provider's error."""

    def __init__(self, called: Called, error: ProviderError) -> None:
        super().__init__(str(error))
        self.called = called
        self.error = error
