"""Who takes a seat: a model under a pack's prompts, rules, or a human.

``Player`` is what a new framework seats by default; ``LLMDoctor``, ``LLMPatient`` and ``LLMSummariser`` play the roles
of ``core.agents.base`` (Johri et al. 2025, Methods).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from core.agents.base import Agent, at_once
from core.asking.calls import ModelAgent, Voice, call
from core.asking.parts import (
    after_conversation,
    answer_parts,
    answer_prompt,
    consultation_parts,
    dialogue_parts,
    patient_parts,
    prompt_part,
    question_part,
    summary_part,
)
from core.asking.scene import AgentOutput, Dialogue, FinalMessage, Material, PatientKnowledge, Question, Scene
from core.events import Purpose, RoleName, Speaker, Token, Waiting
from core.prompts import PromptPack
from core.words import arm_explained


@dataclass(frozen=True)
class RuleInput:
    """What rules are given to speak: which prompt a model would be sent, its values, and the dialogue.

    ``question`` is there where an answer is asked for.
    """

    prompt: str
    scene: Scene
    dialogue: Dialogue
    values: Mapping[str, Any]
    question: Question | None = None


Rule = Callable[[RuleInput], str]
"""Says what a seat says next, by rule."""


class Player(Agent, Protocol):
    """Who sits in a seat."""

    def say(self, prompt: str, scene: Scene, dialogue: Dialogue, **values: Any) -> AsyncIterator[AgentOutput]:
        """Say the next message, seeing the whole dialogue; ``prompt`` of the pack is the system's, with ``values``."""

    def answer(
        self, prompt: str, scene: Scene, material: Material, question: Question, **values: Any
    ) -> AsyncIterator[AgentOutput]:
        """Answer a question on what is shown, under a prompt as in ``say``."""


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

    def say(self, prompt: str, scene: Scene, dialogue: Dialogue, **values: Any) -> AsyncIterator[AgentOutput]:
        """Say the next message."""
        parts = [prompt_part(self.pack, prompt, "system", "system", **values), *dialogue_parts(dialogue, self.role)]
        return call(self.voice.within(self.pack.prompts[prompt]), parts, self.role, "dialogue", scene.seed)

    def answer(
        self, prompt: str, scene: Scene, material: Material, question: Question, **values: Any
    ) -> AsyncIterator[AgentOutput]:
        """Answer the question."""
        system = prompt_part(self.pack, prompt, "system", "system", **values)
        asked = [*after_conversation(self.pack), question_part(self.pack, question)]
        parts = [system, *dialogue_parts(material.dialogue, self.role), *asked]
        return call(self.voice.within(self.pack.prompts[prompt]), parts, self.role, "answer", scene.seed)


@dataclass(frozen=True)
class RulePlayer:
    """A rule under its name."""

    role: RoleName
    name: str
    rule: Rule

    def say(self, prompt: str, scene: Scene, dialogue: Dialogue, **values: Any) -> AsyncIterator[AgentOutput]:
        """Say the next message."""
        return at_once(self.role, "dialogue", self.rule(RuleInput(prompt, scene, dialogue, values)))

    def answer(
        self, prompt: str, scene: Scene, material: Material, question: Question, **values: Any
    ) -> AsyncIterator[AgentOutput]:
        """Answer the question."""
        return at_once(self.role, "answer", self.rule(RuleInput(prompt, scene, material.dialogue, values, question)))


Listen = Callable[[Speaker], Awaitable[str]]
"""Waits for the next message of a seat and returns it."""


@dataclass(frozen=True)
class Human:
    """Speaks from a seat by hand; what a question needs to be answered is shown with it."""

    role: Speaker
    listen: Listen
    name = "human"

    async def said(self, purpose: Purpose, prompt: str = "", choices: Sequence[str] = ()) -> AsyncIterator[AgentOutput]:
        """Wait for what is said, with ``prompt`` (empty: the next message of the dialogue) before the human's eyes."""
        yield Waiting(role=self.role, purpose=purpose, prompt=prompt, choices=tuple(choices))
        text = (await self.listen(self.role)).strip()
        yield Token(role=self.role, purpose=purpose, text=text)
        yield FinalMessage(text)

    def ask(self, scene: Scene, dialogue: Dialogue) -> AsyncIterator[AgentOutput]:
        """Wait for the next question or the final diagnosis."""
        return self.said("dialogue")

    def reply(self, held: PatientKnowledge, scene: Scene, dialogue: Dialogue) -> AsyncIterator[AgentOutput]:
        """Wait for the next reply."""
        return self.said("dialogue")

    def answer(self, scene: Scene, material: Material, question: Question) -> AsyncIterator[AgentOutput]:
        """Wait for the answer to a question, saying what it is given from and showing the case where it is written."""
        written = [part for part in (material.text, material.examination) if part is not None]
        asked = arm_explained(material.format, question.question_type)
        return self.said("answer", "\n\n".join([asked, *written, question.text]), question.choices)

    def differential(self, scene: Scene, dialogue: Dialogue) -> None:
        """Return nothing: a human is not asked for a belief."""


@dataclass(frozen=True)
class HumanPlayer:
    """A person."""

    human: Human
    name = Human.name

    def say(self, prompt: str, scene: Scene, dialogue: Dialogue, **values: Any) -> AsyncIterator[AgentOutput]:
        """Wait for the next message."""
        return self.human.said("dialogue")

    def answer(
        self, prompt: str, scene: Scene, material: Material, question: Question, **values: Any
    ) -> AsyncIterator[AgentOutput]:
        """Wait for the answer."""
        return self.human.answer(scene, material, question)


class LLMDoctor(ModelAgent):
    """The model under test: asks, and answers in every arm."""

    prompt = "doctor"

    def ask(self, scene: Scene, dialogue: Dialogue) -> AsyncIterator[AgentOutput]:
        """Say the next message, seeing the whole dialogue."""
        return call(self._voice, consultation_parts(self._pack, scene, dialogue), "doctor", "dialogue", scene.seed)

    def answer(self, scene: Scene, material: Material, question: Question) -> AsyncIterator[AgentOutput]:
        """Answer after the dialogue or the written case."""
        parts = answer_parts(self._pack, scene, material, question)
        voice = self._voice.within(self._pack.prompts[answer_prompt(question.question_type)])
        return call(voice, parts, "doctor", "answer", scene.seed)

    def differential(self, scene: Scene, dialogue: Dialogue) -> None:
        """Return nothing: a language model's belief costs a call, so it is not asked for here."""


class LLMPatient(ModelAgent):
    """The simulated patient: holds the vignette without its question and sees neither choices nor answer."""

    prompt = "patient"

    def reply(self, held: PatientKnowledge, scene: Scene, dialogue: Dialogue) -> AsyncIterator[AgentOutput]:
        """Answer the doctor's last message in one sentence; raise ``UsageError`` for a persona the pack cannot say."""
        parts = patient_parts(self._pack, held, scene, dialogue)
        return call(self._voice, parts, "patient", "dialogue", scene.seed)


class LLMSummariser(ModelAgent):
    """Joins the patient's lines and has them rewritten as one paragraph in the third person."""

    prompt = "summariser"

    def summarise(self, lines: Sequence[str]) -> AsyncIterator[AgentOutput]:
        """Summarise the patient's lines, which is all that the model is given."""
        return call(self._voice, [summary_part(self._pack, lines)], "summariser", "summarise")
