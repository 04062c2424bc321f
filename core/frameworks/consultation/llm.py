"""Doctor and patient of the Consultation benchmark played by language models (Liao et al., arXiv 2309.02077).

The doctor sees its prompt and the dialogue, nothing of M, T or the answer; the patient sees M and nothing of T.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from core.agents.base import Dialogue, Saying, Scene
from core.agents.calls import Voice, call
from core.agents.parts import dialogue_parts, picture_parts, prompt_part
from core.frameworks.consultation.roles import Briefing
from core.prompts import PromptPack

DOCTOR_PROMPTS = ("long", "short")
"""What the doctor is told: what a history holds and how to ask, or the bare task."""


class LLMInquirer:
    """The model under test as a doctor that only asks; it is told how many questions it has."""

    def __init__(self, voice: Voice, pack: PromptPack, prompt: str, max_questions: int) -> None:
        self._voice, self._pack = voice.within(pack.prompts[f"doctor_{prompt}"]), pack
        self._system = prompt_part(pack, f"doctor_{prompt}", "system", "system", max_questions=max_questions)

    @property
    def name(self) -> str:
        """Full name of the model."""
        return self._voice.model.name

    def ask(self, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying]:
        """Say the next message, seeing the whole dialogue."""
        parts = [self._system, *picture_parts(self._pack, scene), *dialogue_parts(dialogue, "doctor")]
        return call(self._voice, parts, "doctor", "dialogue", scene.seed)

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
        told = {"name": briefing.name, "information": held.vignette, "caregiver": held.caregiver}
        system = prompt_part(self._pack, "patient", "system", "system", **told)
        return call(self._voice, [system, *dialogue_parts(dialogue, "patient")], "patient", "dialogue", scene.seed)
