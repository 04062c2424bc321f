"""Doctor, patient and summariser played by a language model under a prompt pack (Johri et al. 2025, Methods)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from core.agents.base import Dialogue, Held, Material, Question, Saying, Scene
from core.agents.calls import Voice, call
from core.agents.parts import answer_parts, consultation_parts, patient_parts, summary_part
from core.prompts import PromptPack


class LLMDoctor:
    """The model under test: asks, and answers in every arm."""

    def __init__(self, voice: Voice, pack: PromptPack) -> None:
        self._voice, self._pack = voice.within(pack.prompts["doctor"]), pack

    @property
    def name(self) -> str:
        """Full name of the model."""
        return self._voice.model.name

    def ask(self, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying]:
        """Say the next message, seeing the whole dialogue."""
        return call(self._voice, consultation_parts(self._pack, scene, dialogue), "doctor", "dialogue", scene.seed)

    def answer(self, scene: Scene, material: Material, question: Question) -> AsyncIterator[Saying]:
        """Answer after the dialogue or the written case."""
        parts = answer_parts(self._pack, scene, material, question)
        voice = self._voice.within(self._pack.prompts[f"answer_{question.question_type}"])
        return call(voice, parts, "doctor", "answer", scene.seed)

    def differential(self, scene: Scene, dialogue: Dialogue) -> None:
        """Return nothing: a language model's belief costs a call, so it is not asked for here."""


class LLMPatient:
    """The simulated patient: holds the vignette without its question and sees neither choices nor answer."""

    def __init__(self, voice: Voice, pack: PromptPack) -> None:
        self._voice, self._pack = voice.within(pack.prompts["patient"]), pack

    @property
    def name(self) -> str:
        """Full name of the model."""
        return self._voice.model.name

    def reply(self, held: Held, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying]:
        """Answer the doctor's last message in one sentence; raise ``UsageError`` for a persona the pack cannot say."""
        parts = patient_parts(self._pack, held, scene, dialogue)
        return call(self._voice, parts, "patient", "dialogue", scene.seed)


class LLMSummariser:
    """Joins the patient's lines and has them rewritten as one paragraph in the third person."""

    def __init__(self, voice: Voice, pack: PromptPack) -> None:
        self._voice, self._pack = voice.within(pack.prompts["summariser"]), pack

    @property
    def name(self) -> str:
        """Full name of the model."""
        return self._voice.model.name

    def summarise(self, lines: Sequence[str]) -> AsyncIterator[Saying]:
        """Summarise the patient's lines, which is all that the model is given."""
        return call(self._voice, [summary_part(self._pack, lines)], "summariser", "summarise")
