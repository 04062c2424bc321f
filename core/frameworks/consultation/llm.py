"""Doctor and patient of the Consultation benchmark played by language models (Liao et al., arXiv 2309.02077).

The doctor sees its prompt and the dialogue, nothing of M, T or the answer; the patient sees M and nothing of T.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from core.agents.base import Dialogue, Saying, Scene
from core.agents.calls import Voice, call
from core.agents.parts import messages_of, picture_parts
from core.events import Speaker
from core.frameworks.consultation.roles import Briefing
from core.models.base import Message
from core.prompts import PromptPack

DOCTOR_PROMPTS = ("long", "short")
"""What the doctor is told: what a history holds and how to ask, or the bare task."""


class LLMInquirer:
    """The model under test as a doctor that only asks; it is told how many questions it has."""

    def __init__(self, voice: Voice, pack: PromptPack, prompt: str, max_questions: int) -> None:
        self._voice, self._pack = voice.within(pack.prompts[f"doctor_{prompt}"]), pack
        self._system = pack.render(f"doctor_{prompt}", max_questions=max_questions)

    @property
    def name(self) -> str:
        """Full name of the model."""
        return self._voice.model.name

    def ask(self, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying]:
        """Say the next message, seeing the whole dialogue."""
        system, *said = _under(self._system, dialogue, "doctor")
        messages = [system, *messages_of(picture_parts(self._pack, scene)), *said]
        return call(self._voice, messages, "doctor", "dialogue", scene.seed)

    def differential(self, scene: Scene, dialogue: Dialogue) -> None:
        """Return nothing: a language model's belief costs a call."""


class LLMConsultationPatient:
    """The simulated patient: a named person who holds M and tells one point of it a reply."""

    def __init__(self, voice: Voice, pack: PromptPack) -> None:
        self._voice, self._pack = voice.within(pack.prompts["patient"]), pack

    @property
    def name(self) -> str:
        """Full name of the model."""
        return self._voice.model.name

    def reply(self, briefing: Briefing, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying]:
        """Answer the doctor's last message. A reply over the limits of the prompt stays as it was said."""
        held = briefing.held
        system = self._pack.render(
            "patient", name=briefing.name, information=held.vignette, caregiver=held.caregiver
        )  # fmt: skip
        return call(self._voice, _under(system, dialogue, "patient"), "patient", "dialogue", scene.seed)


def _under(system: str, dialogue: Dialogue, speaking: Speaker) -> list[Message]:
    """Return a system prompt and the dialogue as the one who speaks next sees it."""
    said: list[Message] = [
        {"role": "assistant" if turn.role == speaking else "user", "content": turn.text} for turn in dialogue
    ]
    return [{"role": "system", "content": system}, *said]
