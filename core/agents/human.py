"""A human in the doctor's or the patient's seat: waits until somebody has written the next message."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

from core.agents.base import Dialogue, Held, Material, Question, Said, Saying, Scene, token
from core.events import Purpose, Speaker, Waiting

Listen = Callable[[Speaker], Awaitable[str]]
"""Waits for the next message of a seat and returns it."""


class HumanDoctor:
    """Asks and answers by hand."""

    name = "human"

    def __init__(self, listen: Listen) -> None:
        self._listen = listen

    async def ask(self, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying]:
        """Wait for the next question or the final diagnosis."""
        async for item in _wait(self._listen, "doctor", "dialogue", ""):
            yield item

    async def answer(self, scene: Scene, material: Material, question: Question) -> AsyncIterator[Saying]:
        """Wait for the answer to a question, showing the case in writing where there is one, and the choices."""
        case = f"{material.text}\n\n" if material.text is not None else ""
        handed = f"{material.examination}\n\n" if material.examination is not None else ""
        shown = case + handed + question.text + "".join(f"\n- {choice}" for choice in question.choices)
        async for item in _wait(self._listen, "doctor", "answer", shown):
            yield item

    def differential(self, scene: Scene, dialogue: Dialogue) -> None:
        """Return nothing: a human is not asked for a belief."""


class HumanPatient:
    """Replies by hand; sees what the patient holds."""

    name = "human"

    def __init__(self, listen: Listen) -> None:
        self._listen = listen

    async def reply(self, held: Held, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying]:
        """Wait for the next reply."""
        async for item in _wait(self._listen, "patient", "dialogue", ""):
            yield item


async def _wait(listen: Listen, role: Speaker, purpose: Purpose, prompt: str) -> AsyncIterator[Saying]:
    yield Waiting(role=role, purpose=purpose, prompt=prompt)
    text = (await listen(role)).strip()
    yield token(role, purpose, text)
    yield Said(text)
