"""Doctors, patients and the solver of the benchmark: models, rules, oracle and bounds (Liao et al., arXiv 2309.02077).

A doctor only inquires; another model, the solver, answers the task from what came out. The model under test sees its
prompt and the dialogue, nothing of M, T or the answer. The oracle is told which items there are, never what they say,
and asks about each in turn. The bounds hold no conversation: the solver is shown all of M (upper) or the patient's
opening words alone (lower). The solver took no part in the conversation and sees nothing of the case but what is shown
and the task.

The patient's model is a named person who sees M and nothing of T. By rule a question that names no item is answered by
the reference patient's own rules, with one fact: a reply never holds more than one item. An item of many facts takes
more words than the benchmark allows a model.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from core.agents.base import Agent, at_once, what_patient_holds
from core.agents.reference.doctor import ReferenceDoctor
from core.agents.reference.patient import ReferencePatient
from core.asking.calls import ModelAgent, Voice, call
from core.asking.parts import dialogue_parts, picture_parts, prompt_part
from core.asking.scene import Dialogue, Held, Material, Question, Saying, Scene, Turn
from core.events import Token
from core.prompts import PromptPack
from core.text.case_items import ORDERS, ItemizedCase, Order, SpokenItem, ordered
from core.text.demographics import patient_demographics
from core.text.rouge import words_of

QUESTION = "Can you tell me about {key}?"
"""How the oracle asks for an item (Liao et al., arXiv 2309.02077, the doctor by rule).

The doctor's measured precision depends on this form: its words count among those that the doctor says.
"""
CLOSING = "Thank you, that is all I need to know."
"""What the oracle says when every item has been asked for; it holds no question."""


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


class ReferenceInquirer(ReferenceDoctor):
    """The reference doctor, which takes every message of a patient for the reply to a question."""

    def ask(self, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying]:
        """Ask the next question, or conclude."""
        return super().ask(scene, greeted(dialogue))

    def differential(self, scene: Scene, dialogue: Dialogue) -> tuple[tuple[str, float], ...]:
        """Return the five likeliest diseases after the dialogue."""
        return super().differential(scene, greeted(dialogue))


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

    async def solve(self, scene: Scene, material: Material, question: Question) -> AsyncIterator[Saying]:
        """Answer as the reference doctor does."""
        heard = replace(material, dialogue=greeted(material.dialogue))
        async for item in ReferenceDoctor().answer(scene, heard, question):
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


_NAMES = {
    "female": ("Anna Becker", "Grace Osei", "Maria Lopez", "Nora Haddad", "Susan Clarke", "Yuki Tanaka"),
    "male": ("Ahmed Karimi", "Daniel Novak", "James Carter", "Luca Rossi", "Samuel Mensah", "Wei Chen"),
}
_ASKING = frozenset(
    "a about any are can could describe did do does have has how i is like me of on please say some something tell "
    "the there was what with would you your".split()
)
"""Words of a question that name nothing."""


@dataclass(frozen=True)
class Briefing:
    """All that a patient is given: information M, a name, the items in lay words; nothing of the task T.

    ``held`` is the same knowledge as facts, for a patient that answers by rule.
    """

    name: str
    held: Held
    items: tuple[SpokenItem, ...]


class ConsultationPatient(Agent, Protocol):
    """Who answers the doctor."""

    def reply(self, briefing: Briefing, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying]:
        """Answer the doctor's last message."""


def briefing_of(about: ItemizedCase) -> Briefing:
    """Return what the patient of a case is given; a case always has the same name."""
    sex = patient_demographics(about.case)[1]
    names = _NAMES[sex] if sex else (*_NAMES["female"], *_NAMES["male"])
    name = random.Random(f"{about.case.case_key}:name").choice(names)
    return Briefing(name, what_patient_holds(about.case), about.spoken)


class LLMConsultationPatient(ModelAgent):
    """The simulated patient: a named person who holds M and tells one point of it a reply."""

    prompt = "patient"

    def reply(self, briefing: Briefing, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying]:
        """Answer the doctor's last message. A reply over the limits of the prompt stays as it was said."""
        held = briefing.held
        told = {"name": briefing.name, "information": held.vignette, "caregiver": held.caregiver}
        system = prompt_part(self._pack, "patient", "system", "system", **told)
        return call(self._voice, [system, *dialogue_parts(dialogue, "patient")], "patient", "dialogue", scene.seed)


class ItemsPatient:
    """Answers by rule from the items of a case."""

    name = ReferencePatient.name

    def reply(self, briefing: Briefing, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying]:
        """Answer the last message of the dialogue."""
        item = named_item(dialogue[-1].text, briefing.items)
        if item is not None:
            return at_once("patient", "dialogue", item.lay)
        return ReferencePatient().reply(briefing.held, scene, dialogue)


def named_item(question: str, items: Sequence[SpokenItem]) -> SpokenItem | None:
    """Return the item that a question names by its whole key, and besides which it names nothing."""
    asked = frozenset(words_of(question))
    for item in items:
        key = frozenset(words_of(item.key))
        if key and key <= asked and asked - key <= _ASKING:
            return item
    return None
