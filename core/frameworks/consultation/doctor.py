"""Doctors of the benchmark and its solver: models, by rule, an oracle, and bounds (Liao et al., arXiv 2309.02077).

A doctor only inquires; another model, the solver, answers the task from what came out. The model under test sees its
prompt and the dialogue, nothing of M, T or the answer. The oracle is told which items there are, never what they say,
and asks about each in turn. The bounds hold no conversation: the solver is shown all of M (upper) or the patient's
opening words alone (lower). The solver took no part in the conversation and sees nothing of the case but what is shown
and the task.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from core.agents.base import Agent, Dialogue, Material, Question, Saying, Scene, Turn, at_once
from core.agents.calls import ModelAgent, Voice, call
from core.agents.parts import dialogue_parts, picture_parts, prompt_part
from core.agents.reference.doctor import ReferenceDoctor
from core.events import Token
from core.prompts import PromptPack
from core.text.case_items import ORDERS, Order, ordered

QUESTION = "What about {key}?"
CLOSING = "Thank you, that is all I need to know."
"""What the oracle says when every item has been asked for; it holds no question."""


class Inquirer(Agent, Protocol):
    """The doctor under test: asks, and never answers the task."""

    def ask(self, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying]:
        """Say the next message; one without a question mark ends the inquiry."""

    def differential(self, scene: Scene, dialogue: Dialogue) -> tuple[tuple[str, float], ...] | None:
        """Return the belief after the dialogue where the doctor can state it at no cost, else ``None``."""


class LLMInquirer(ModelAgent):
    """The model under test as a doctor that only asks; it is told how many questions it has."""

    def __init__(self, voice: Voice, pack: PromptPack, prompt: str, max_questions: int) -> None:
        super().__init__(voice.within(pack.prompts[f"doctor_{prompt}"]), pack)
        self._system = prompt_part(pack, f"doctor_{prompt}", "system", "system", max_questions=max_questions)

    def ask(self, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying]:
        """Say the next message, seeing the whole dialogue."""
        parts = [self._system, *picture_parts(self._pack, scene), *dialogue_parts(dialogue, "doctor")]
        return call(self._voice, parts, "doctor", "dialogue", scene.seed)

    def differential(self, scene: Scene, dialogue: Dialogue) -> None:
        """Return nothing: a language model's belief costs a call."""


@dataclass(frozen=True)
class OracleDoctor:
    """Asks about every item of a case, one a message."""

    order: Order

    @property
    def name(self) -> str:
        """Full name under which it is stored."""
        return f"reference/oracle-{self.order}"

    def about(self, keys: Sequence[str]) -> OracleInquiry:
        """Return the oracle as it asks about the items of one case."""
        return OracleInquiry(self, tuple(keys))


@dataclass(frozen=True)
class OracleInquiry:
    """The oracle with the keys of one case."""

    oracle: OracleDoctor
    keys: tuple[str, ...]

    @property
    def name(self) -> str:
        """Full name under which it is stored."""
        return self.oracle.name

    def ask(self, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying]:
        """Ask about the next item, or close where none is left."""
        asked = sum(turn.role == "doctor" for turn in dialogue)
        keys = ordered(self.keys, self.oracle.order, random.Random(f"{scene.seed}:oracle"))
        text = QUESTION.format(key=keys[asked]) if asked < len(keys) else CLOSING
        return at_once("doctor", "dialogue", text)

    def differential(self, scene: Scene, dialogue: Dialogue) -> None:
        """Return nothing: the oracle believes nothing."""


@dataclass(frozen=True)
class Bound:
    """No doctor: the solver sees all of M (``upper``), or the opening request only (``lower``)."""

    side: Literal["upper", "lower"]

    @property
    def name(self) -> str:
        """Full name under which it is stored."""
        return f"reference/{self.side}-bound"


class ReferenceInquirer:
    """The reference doctor, which takes every message of a patient for the reply to a question."""

    name = ReferenceDoctor.name

    def __init__(self, doctor: ReferenceDoctor | None = None) -> None:
        self._doctor = doctor or ReferenceDoctor()

    def ask(self, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying]:
        """Ask the next question, or conclude."""
        return self._doctor.ask(scene, greeted(dialogue))

    def differential(self, scene: Scene, dialogue: Dialogue) -> tuple[tuple[str, float], ...]:
        """Return the five likeliest diseases after the dialogue."""
        return self._doctor.differential(scene, greeted(dialogue))


def greeted(dialogue: Dialogue) -> Dialogue:
    """Return the dialogue with a greeting before the patient's opening words, as the reference doctor reads it."""
    return (_GREETING, *dialogue) if dialogue and dialogue[0].role == "patient" else dialogue


_GREETING = Turn("doctor", "Hello, what symptoms bring you in today?")

_WITHOUT_MODEL: tuple[OracleDoctor | Bound, ...] = (*map(OracleDoctor, ORDERS), Bound("upper"), Bound("lower"))
BY_NAME = {doctor.name: doctor for doctor in _WITHOUT_MODEL}
"""Oracle and bounds by their full names."""


_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_SPEAKERS = {"doctor": "Doctor", "patient": "Patient"}


class Solver(Agent, Protocol):
    """Who answers the task, and has taken no part in the conversation."""

    def solve(self, scene: Scene, material: Material, question: Question) -> AsyncIterator[Saying]:
        """Answer the question from the dialogue, or the text, in the material."""


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


class LLMSolver(ModelAgent):
    """A language model under the pack's prompt ``solver``."""

    prompt = "solver"

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
