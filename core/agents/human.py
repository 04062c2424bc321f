"""A human in a seat: waits until somebody has written the next message."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from core.agents.base import Dialogue, Held, Material, Question, Said, Saying, Scene, token
from core.events import Purpose, Speaker, Waiting

Listen = Callable[[Speaker], Awaitable[str]]
"""Waits for the next message of a seat and returns it."""


@dataclass(frozen=True)
class Human:
    """Speaks from a seat by hand; what a question needs to be answered is shown with it."""

    role: Speaker
    listen: Listen
    name = "human"

    async def said(self, purpose: Purpose, prompt: str = "") -> AsyncIterator[Saying]:
        """Wait for what is said, with ``prompt`` (empty: the next message of the dialogue) before the human's eyes."""
        yield Waiting(role=self.role, purpose=purpose, prompt=prompt)
        text = (await self.listen(self.role)).strip()
        yield token(self.role, purpose, text)
        yield Said(text)

    def ask(self, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying]:
        """Wait for the next question or the final diagnosis."""
        return self.said("dialogue")

    def reply(self, held: Held, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying]:
        """Wait for the next reply."""
        return self.said("dialogue")

    def answer(self, scene: Scene, material: Material, question: Question) -> AsyncIterator[Saying]:
        """Wait for the answer to a question, showing the case in writing where there is one, and the choices."""
        written = [part for part in (material.text, material.examination) if part is not None]
        choices = "".join(f"\n- {choice}" for choice in question.choices)
        return self.said("answer", "\n\n".join([*written, f"{question.text}{choices}"]))

    def differential(self, scene: Scene, dialogue: Dialogue) -> None:
        """Return nothing: a human is not asked for a belief."""
