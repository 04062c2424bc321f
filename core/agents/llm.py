"""Doctor, patient and summariser played by a language model under a prompt pack (CRAFT-MD, Methods)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from core.agents.base import Dialogue, Held, Material, Question, Saying, Scene
from core.agents.calls import Voice, call
from core.models.base import Message
from core.prompts import PromptPack


class LLMDoctor:
    """The model under test: asks, and answers in every arm."""

    def __init__(self, voice: Voice, pack: PromptPack) -> None:
        self._voice, self._pack = voice, pack

    @property
    def name(self) -> str:
        """Full name of the model."""
        return self._voice.model.name

    def ask(self, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying]:
        """Say the next message, seeing the whole dialogue."""
        return call(self._voice, self._consultation(scene, dialogue), "doctor", "dialogue", scene.seed)

    def answer(self, scene: Scene, material: Material, question: Question) -> AsyncIterator[Saying]:
        """Answer after the dialogue or the written case."""
        messages = self._shown(scene, material)
        messages.append({"role": "user", "content": self.question_prompt(question)})
        return call(self._voice, messages, "doctor", "answer", scene.seed)

    def differential(self, scene: Scene, dialogue: Dialogue) -> None:
        """Return nothing: a language model's belief costs a call, so it is not asked for here."""

    def question_prompt(self, question: Question) -> str:
        """Return the rendered question of an arm."""
        name = f"answer_{question.question_type}"
        if question.question_type == "mcq":
            letters = list(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", question.choices, strict=False))
            return self._pack.render(name, question=question.text, choices=letters)
        if question.question_type == "mcq_many":
            return self._pack.render(name, question=question.text, choices=question.choices)
        return self._pack.render(name, question=question.text)

    def _consultation(self, scene: Scene, dialogue: Dialogue) -> list[Message]:
        messages: list[Message] = [
            {"role": "system", "content": self._pack.render("doctor", specialty=scene.specialty)}
        ]
        for turn in dialogue:
            messages.append({"role": "assistant" if turn.role == "doctor" else "user", "content": turn.text})
        return messages

    def _shown(self, scene: Scene, material: Material) -> list[Message]:
        if material.text is None:
            messages = self._consultation(scene, material.dialogue)
            if material.examination is not None:
                handed = self._pack.render("exam", examination=material.examination)
                messages.append({"role": "user", "content": handed})
            return messages
        return [
            {"role": "system", "content": self._pack.render("answer_system", specialty=scene.specialty)},
            {"role": "user", "content": self._pack.render("material", text=material.text, kind=material.format)},
        ]


class LLMPatient:
    """The simulated patient: holds the vignette without its question and sees neither choices nor answer."""

    def __init__(self, voice: Voice, pack: PromptPack) -> None:
        self._voice, self._pack = voice, pack

    @property
    def name(self) -> str:
        """Full name of the model."""
        return self._voice.model.name

    def reply(self, held: Held, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying]:
        """Answer the doctor's last message in one sentence."""
        system = self._pack.render("patient", vignette=held.vignette, caregiver=held.caregiver)
        messages: list[Message] = [{"role": "system", "content": system}]
        for turn in dialogue:
            messages.append({"role": "user" if turn.role == "doctor" else "assistant", "content": turn.text})
        return call(self._voice, messages, "patient", "dialogue", scene.seed)


class LLMSummariser:
    """Joins the patient's lines and has them rewritten as one paragraph in the third person."""

    def __init__(self, voice: Voice, pack: PromptPack) -> None:
        self._voice, self._pack = voice, pack

    @property
    def name(self) -> str:
        """Full name of the model."""
        return self._voice.model.name

    def summarise(self, lines: Sequence[str]) -> AsyncIterator[Saying]:
        """Summarise the patient's lines, which is all that the model is given."""
        prompt = self._pack.render("summariser", lines=" ".join(lines))
        return call(self._voice, [{"role": "user", "content": prompt}], "summariser", "summarise")
