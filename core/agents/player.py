"""Players of a seat: a model with the prompts of a pack, rules, or a person.

A new framework uses ``Player`` by default; ``LLMDoctor``, ``LLMPatient`` and ``LLMSummariser`` play the roles
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
    """The input of a rule: the name and values of the prompt that a model would receive, and the dialogue.

    ``question`` is set if the rule has to answer one.
    """

    prompt: str
    scene: Scene
    dialogue: Dialogue
    values: Mapping[str, Any]
    question: Question | None = None


PlayerRule = Callable[[RuleInput], str]
"""Returns the next message of a seat."""


class Player(Agent, Protocol):
    """A player of any seat."""

    def say(self, prompt: str, scene: Scene, dialogue: Dialogue, **values: Any) -> AsyncIterator[AgentOutput]:
        """Yield the next message; the pack's ``prompt``, rendered with ``values``, is the system message."""

    def answer(
        self, prompt: str, scene: Scene, material: Material, question: Question, **values: Any
    ) -> AsyncIterator[AgentOutput]: ...


@dataclass(frozen=True)
class ModelPlayer:
    """A language model."""

    role: RoleName
    voice: Voice
    pack: PromptPack

    @property
    def name(self) -> str:
        return self.voice.model.name

    def say(self, prompt: str, scene: Scene, dialogue: Dialogue, **values: Any) -> AsyncIterator[AgentOutput]:
        parts = [prompt_part(self.pack, prompt, "system", "system", **values), *dialogue_parts(dialogue, self.role)]
        return call(self.voice.within(self.pack.prompts[prompt]), parts, self.role, "dialogue", scene.seed)

    def answer(
        self, prompt: str, scene: Scene, material: Material, question: Question, **values: Any
    ) -> AsyncIterator[AgentOutput]:
        system = prompt_part(self.pack, prompt, "system", "system", **values)
        dialogue = dialogue_parts(material.dialogue, self.role)
        parts = [system, *dialogue, *after_conversation(self.pack), question_part(self.pack, question)]
        return call(self.voice.within(self.pack.prompts[prompt]), parts, self.role, "answer", scene.seed)


@dataclass(frozen=True)
class RulePlayer:
    """A rule under its name."""

    role: RoleName
    name: str
    rule: PlayerRule

    def say(self, prompt: str, scene: Scene, dialogue: Dialogue, **values: Any) -> AsyncIterator[AgentOutput]:
        return at_once(self.role, "dialogue", self.rule(RuleInput(prompt, scene, dialogue, values)))

    def answer(
        self, prompt: str, scene: Scene, material: Material, question: Question, **values: Any
    ) -> AsyncIterator[AgentOutput]:
        return at_once(self.role, "answer", self.rule(RuleInput(prompt, scene, material.dialogue, values, question)))


Listen = Callable[[Speaker], Awaitable[str]]
"""Waits for the next message of a seat and returns it."""


@dataclass(frozen=True)
class Human:
    """A person who types the messages of a seat; a question comes with the material to answer it."""

    role: Speaker
    listen: Listen
    name = "human"

    async def wait(self, purpose: Purpose, prompt: str = "", choices: Sequence[str] = ()) -> AsyncIterator[AgentOutput]:
        """Wait for the person's message; ``prompt`` is displayed (empty: the next message of the dialogue)."""
        yield Waiting(role=self.role, purpose=purpose, prompt=prompt, choices=tuple(choices))
        text = (await self.listen(self.role)).strip()
        yield Token(role=self.role, purpose=purpose, text=text)
        yield FinalMessage(text)

    def ask(self, scene: Scene, dialogue: Dialogue) -> AsyncIterator[AgentOutput]:
        return self.wait("dialogue")

    def reply(self, knowledge: PatientKnowledge, scene: Scene, dialogue: Dialogue) -> AsyncIterator[AgentOutput]:
        return self.wait("dialogue")

    def answer(self, scene: Scene, material: Material, question: Question) -> AsyncIterator[AgentOutput]:
        """Wait for the answer to a question; display the arm, and the case if it is written."""
        written = [part for part in (material.text, material.examination) if part is not None]
        explanation = arm_explained(material.format, question.question_type)
        return self.wait("answer", "\n\n".join([explanation, *written, question.text]), question.choices)

    def differential(self, scene: Scene, dialogue: Dialogue) -> None:
        pass


@dataclass(frozen=True)
class HumanPlayer:
    """A person."""

    human: Human
    name = Human.name

    def say(self, prompt: str, scene: Scene, dialogue: Dialogue, **values: Any) -> AsyncIterator[AgentOutput]:
        return self.human.wait("dialogue")

    def answer(
        self, prompt: str, scene: Scene, material: Material, question: Question, **values: Any
    ) -> AsyncIterator[AgentOutput]:
        return self.human.answer(scene, material, question)


class LLMDoctor(ModelAgent):
    """The model under test: takes the history, and answers in every arm."""

    prompt = "doctor"

    def ask(self, scene: Scene, dialogue: Dialogue) -> AsyncIterator[AgentOutput]:
        return call(self._voice, consultation_parts(self._pack, scene, dialogue), "doctor", "dialogue", scene.seed)

    def answer(self, scene: Scene, material: Material, question: Question) -> AsyncIterator[AgentOutput]:
        parts = answer_parts(self._pack, scene, material, question)
        voice = self._voice.within(self._pack.prompts[answer_prompt(question.question_type)])
        return call(voice, parts, "doctor", "answer", scene.seed)

    def differential(self, scene: Scene, dialogue: Dialogue) -> None:
        """Return ``None``: a language model's belief costs a call; see ``core.agents.probe``."""


class LLMPatient(ModelAgent):
    """The simulated patient: knows the vignette without its question, and neither choices nor answer."""

    prompt = "patient"

    def reply(self, knowledge: PatientKnowledge, scene: Scene, dialogue: Dialogue) -> AsyncIterator[AgentOutput]:
        """Answer the doctor's last message; raise ``UsageError`` if the pack has no prompt for the persona."""
        parts = patient_parts(self._pack, knowledge, scene, dialogue)
        return call(self._voice, parts, "patient", "dialogue", scene.seed)


class LLMSummariser(ModelAgent):
    """Rewrites the patient's messages as one paragraph in the third person."""

    prompt = "summariser"

    def summarise(self, lines: Sequence[str]) -> AsyncIterator[AgentOutput]:
        """Summarise the patient's messages; the model sees nothing else."""
        return call(self._voice, [summary_part(self._pack, lines)], "summariser", "summarise")
