"""The solver of the Consultation benchmark: answers the task T from the dialogue, or from a text (Liao et al.).

It took no part in the conversation and sees nothing of the case but what is shown and the task.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Protocol

from core.agents.base import Material, Question, Saying, Scene
from core.agents.calls import Voice, call
from core.agents.parts import prompt_part
from core.agents.reference.doctor import ReferenceDoctor
from core.events import Token
from core.frameworks.consultation.doctor import greeted
from core.prompts import PromptPack

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_SPEAKERS = {"doctor": "Doctor", "patient": "Patient"}


class Solver(Protocol):
    """Who answers the task, and has taken no part in the conversation."""

    @property
    def name(self) -> str:
        """Full name under which it is stored."""
        ...

    def solve(self, scene: Scene, material: Material, question: Question) -> AsyncIterator[Saying]:
        """Answer the question from the dialogue, or the text, in the material."""
        ...


class ReferenceSolver:
    """The reference doctor's answer on the material, by the evidence that its words hold."""

    name = "reference/solver"

    def __init__(self, doctor: ReferenceDoctor | None = None) -> None:
        self._doctor = doctor or ReferenceDoctor()

    async def solve(self, scene: Scene, material: Material, question: Question) -> AsyncIterator[Saying]:
        """Answer as the reference doctor does."""
        heard = replace(material, dialogue=greeted(material.dialogue))
        async for item in self._doctor.answer(scene, heard, question):
            yield item if not isinstance(item, Token) else item.model_copy(update={"role": "solver"})


class LLMSolver:
    """A language model under the pack's prompt ``solver``."""

    def __init__(self, voice: Voice, pack: PromptPack) -> None:
        self._voice, self._pack = voice.within(pack.prompts["solver"]), pack

    @property
    def name(self) -> str:
        """Full name of the model."""
        return self._voice.model.name

    def solve(self, scene: Scene, material: Material, question: Question) -> AsyncIterator[Saying]:
        """Answer from the dialogue or the text, in one message."""
        task = prompt_part(
            self._pack,
            "solver",
            "user",
            "question",
            dialogue=[(_SPEAKERS[turn.role], turn.text) for turn in material.dialogue],
            text=material.text or "",
            question=question.text,
            choices=list(zip(_LETTERS, question.choices, strict=False)),
            asks_for=question.asks_for,
        )
        return call(self._voice, [task], "solver", "answer", scene.seed)
