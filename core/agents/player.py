"""A player for any seat: a model under the pack's prompts, rules, or a human; what a new framework seats by default."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from core.agents.base import Dialogue, Material, Question, Said, Saying, Scene, token
from core.agents.calls import Voice, call
from core.agents.human import Human
from core.agents.parts import dialogue_parts, prompt_part, question_part
from core.events import RoleName
from core.prompts import PromptPack


@dataclass(frozen=True)
class Asked:
    """What rules are given to speak: which prompt a model would be sent, its values, and the dialogue.

    ``question`` is there where an answer is asked for.
    """

    prompt: str
    scene: Scene
    dialogue: Dialogue
    values: Mapping[str, Any]
    question: Question | None = None


Rule = Callable[[Asked], str]
"""Says what a seat says next, by rule."""


class Player(Protocol):
    """Who sits in a seat."""

    @property
    def name(self) -> str:
        """Full name under which it is stored."""
        ...

    def say(self, prompt: str, scene: Scene, dialogue: Dialogue, **values: Any) -> AsyncIterator[Saying]:
        """Say the next message, seeing the whole dialogue; ``prompt`` of the pack is the system's, with ``values``."""
        ...

    def answer(
        self, prompt: str, scene: Scene, material: Material, question: Question, **values: Any
    ) -> AsyncIterator[Saying]:
        """Answer a question on what is shown, under a prompt as in ``say``."""
        ...


@dataclass(frozen=True)
class ModelPlayer:
    """A language model."""

    role: RoleName
    voice: Voice
    pack: PromptPack

    @property
    def name(self) -> str:
        """Full name of the model."""
        return self.voice.model.name

    def say(self, prompt: str, scene: Scene, dialogue: Dialogue, **values: Any) -> AsyncIterator[Saying]:
        """Say the next message."""
        parts = [prompt_part(self.pack, prompt, "system", "system", **values), *dialogue_parts(dialogue, self.role)]
        return call(self.voice.within(self.pack.prompts[prompt]), parts, self.role, "dialogue", scene.seed)

    def answer(
        self, prompt: str, scene: Scene, material: Material, question: Question, **values: Any
    ) -> AsyncIterator[Saying]:
        """Answer the question."""
        system = prompt_part(self.pack, prompt, "system", "system", **values)
        parts = [system, *dialogue_parts(material.dialogue, self.role), question_part(self.pack, question)]
        return call(self.voice.within(self.pack.prompts[prompt]), parts, self.role, "answer", scene.seed)


@dataclass(frozen=True)
class RulePlayer:
    """A rule under its name."""

    role: RoleName
    name: str
    rule: Rule

    async def say(self, prompt: str, scene: Scene, dialogue: Dialogue, **values: Any) -> AsyncIterator[Saying]:
        """Say the next message."""
        text = self.rule(Asked(prompt, scene, dialogue, values))
        yield token(self.role, "dialogue", text)
        yield Said(text)

    async def answer(
        self, prompt: str, scene: Scene, material: Material, question: Question, **values: Any
    ) -> AsyncIterator[Saying]:
        """Answer the question."""
        text = self.rule(Asked(prompt, scene, material.dialogue, values, question))
        yield token(self.role, "answer", text)
        yield Said(text)


@dataclass(frozen=True)
class HumanPlayer:
    """A person."""

    human: Human
    name = Human.name

    def say(self, prompt: str, scene: Scene, dialogue: Dialogue, **values: Any) -> AsyncIterator[Saying]:
        """Wait for the next message."""
        return self.human.said("dialogue")

    def answer(
        self, prompt: str, scene: Scene, material: Material, question: Question, **values: Any
    ) -> AsyncIterator[Saying]:
        """Wait for the answer."""
        return self.human.answer(scene, material, question)
