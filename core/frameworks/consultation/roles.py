"""Doctors, patients and the solver of the benchmark: models, rules, oracle and bounds (Liao et al., arXiv 2309.02077).

M is the information about the patient, T the task. A doctor only inquires; another model, the solver, answers the task
from the dialogue. The model under test sees its prompt and the dialogue, but not M, T or the answer. The oracle knows
the keys of the items, but not their values, and asks about each in turn. The bounds have no conversation: the solver
sees all of M (upper) or only the patient's opening (lower). The solver takes no part in the conversation; it sees the
dialogue and the task, and nothing else of the case.

The patient's model is a named person who sees M and nothing of T. If a question names no item, the patient by rule
answers like the reference patient, with one fact: a reply never has more than one item. An item of many facts takes
more words than the benchmark allows a model.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from core.agents.base import Agent, at_once, patient_knowledge
from core.agents.reference.doctor import ReferenceDoctor
from core.agents.reference.patient import ReferencePatient
from core.asking.calls import ModelAgent, Voice, call
from core.asking.parts import dialogue_parts, picture_parts, prompt_part
from core.asking.scene import AgentOutput, Dialogue, Material, PatientKnowledge, Question, Scene, Turn
from core.events import Token
from core.prompts import PromptPack
from core.text.case_items import ORDERS, ItemizedCase, Order, SpokenItem, ordered
from core.text.demographics import patient_demographics
from core.text.rouge import words_of

QUESTION = "Can you tell me about {key}?"
"""The oracle's question about an item (Liao et al., arXiv 2309.02077, the doctor by rule).

The doctor's measured precision depends on this wording, because its words count.
"""
CLOSING = "Thank you, that is all I need to know."
"""The oracle's last message, without a question."""


class LLMInquirer(ModelAgent):
    """The model under test as a doctor that only asks; its prompt has the maximum number of questions."""

    def __init__(self, voice: Voice, pack: PromptPack, prompt: str, max_questions: int) -> None:
        super().__init__(voice.within(pack.prompts[f"doctor_{prompt}"]), pack)
        self._system = prompt_part(pack, f"doctor_{prompt}", "system", "system", max_questions=max_questions)

    def ask(self, scene: Scene, dialogue: Dialogue) -> AsyncIterator[AgentOutput]:
        parts = [self._system, *picture_parts(self._pack, scene), *dialogue_parts(dialogue, "doctor")]
        return call(self._voice, parts, "doctor", "dialogue", scene.seed)

    def differential(self, scene: Scene, dialogue: Dialogue) -> None:
        """Return ``None``: a language model's belief costs a call."""


@dataclass(frozen=True)
class OracleDoctor:
    """Asks about every item of a case, one in each message."""

    order: Order

    @property
    def name(self) -> str:
        return f"reference/oracle-{self.order}"


@dataclass(frozen=True)
class OracleInquiry:
    """The oracle with the keys of one case."""

    oracle: OracleDoctor
    keys: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.oracle.name

    def ask(self, scene: Scene, dialogue: Dialogue) -> AsyncIterator[AgentOutput]:
        """Ask about the next item, or close after the last."""
        number = sum(turn.role == "doctor" for turn in dialogue)
        keys = ordered(self.keys, self.oracle.order, random.Random(f"{scene.seed}:oracle"))
        text = QUESTION.format(key=keys[number]) if number < len(keys) else CLOSING
        return at_once("doctor", "dialogue", text)

    def differential(self, scene: Scene, dialogue: Dialogue) -> None:
        """Return ``None``: the oracle has no belief."""


@dataclass(frozen=True)
class Bound:
    """No doctor: the solver sees all of M (``upper``), or only the opening request (``lower``)."""

    side: Literal["upper", "lower"]

    @property
    def name(self) -> str:
        return f"reference/{self.side}-bound"


class ReferenceInquirer(ReferenceDoctor):
    """The reference doctor; it reads every message of a patient as the reply to a question."""

    def ask(self, scene: Scene, dialogue: Dialogue) -> AsyncIterator[AgentOutput]:
        return super().ask(scene, greeted(dialogue))

    def differential(self, scene: Scene, dialogue: Dialogue) -> tuple[tuple[str, float], ...]:
        return super().differential(scene, greeted(dialogue))


def greeted(dialogue: Dialogue) -> Dialogue:
    """Return the dialogue with a greeting before the patient's opening, as the reference doctor expects it."""
    return (_GREETING, *dialogue) if dialogue and dialogue[0].role == "patient" else dialogue


_GREETING = Turn("doctor", "Hello, what symptoms bring you in today?")

_WITHOUT_MODEL: tuple[OracleDoctor | Bound, ...] = (*map(OracleDoctor, ORDERS), Bound("upper"), Bound("lower"))
BY_NAME = {doctor.name: doctor for doctor in _WITHOUT_MODEL}
"""Oracle and bounds by their full names."""


_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_SPEAKERS = {"doctor": "Doctor", "patient": "Patient"}


class Solver(Agent, Protocol):
    """Answers the task, without a part in the conversation."""

    def solve(self, scene: Scene, material: Material, question: Question) -> AsyncIterator[AgentOutput]:
        """Answer the question from the dialogue, or the text, in the material."""


class ReferenceSolver:
    """The reference doctor's answer from the evidence in the words of the material."""

    name = "reference/solver"

    async def solve(self, scene: Scene, material: Material, question: Question) -> AsyncIterator[AgentOutput]:
        material = replace(material, dialogue=greeted(material.dialogue))
        async for item in ReferenceDoctor().answer(scene, material, question):
            yield item if not isinstance(item, Token) else item.model_copy(update={"role": "solver"})


class LLMSolver(ModelAgent):
    """A language model with the pack's prompt ``solver``."""

    prompt = "solver"

    def solve(self, scene: Scene, material: Material, question: Question) -> AsyncIterator[AgentOutput]:
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
"""Words of a question that do not name an item."""


@dataclass(frozen=True)
class Briefing:
    """The briefing of a patient: information M, a name, the items in lay words; nothing of the task T.

    ``facts`` has M as a text and as facts, for a patient by rule.
    """

    name: str
    facts: PatientKnowledge
    items: tuple[SpokenItem, ...]


class ConsultationPatient(Agent, Protocol):
    """Answers the doctor."""

    def reply(self, briefing: Briefing, scene: Scene, dialogue: Dialogue) -> AsyncIterator[AgentOutput]:
        """Answer the doctor's last message."""


def briefing_of(itemized: ItemizedCase) -> Briefing:
    """Return the briefing of the patient of a case; the name of a case is always the same."""
    sex = patient_demographics(itemized.case)[1]
    names = _NAMES[sex] if sex else (*_NAMES["female"], *_NAMES["male"])
    name = random.Random(f"{itemized.case.case_key}:name").choice(names)
    return Briefing(name, patient_knowledge(itemized.case), itemized.spoken)


class LLMConsultationPatient(ModelAgent):
    """The simulated patient: a named person who knows M and tells one point of it in each reply."""

    prompt = "patient"

    def reply(self, briefing: Briefing, scene: Scene, dialogue: Dialogue) -> AsyncIterator[AgentOutput]:
        """Answer the doctor's last message; a reply over the limits of the prompt is not shortened."""
        facts = briefing.facts
        values = {"name": briefing.name, "information": facts.vignette, "caregiver": facts.caregiver}
        system = prompt_part(self._pack, "patient", "system", "system", **values)
        return call(self._voice, [system, *dialogue_parts(dialogue, "patient")], "patient", "dialogue", scene.seed)


class ItemsPatient:
    """Answers by rule from the items of a case."""

    name = ReferencePatient.name

    def reply(self, briefing: Briefing, scene: Scene, dialogue: Dialogue) -> AsyncIterator[AgentOutput]:
        item = named_item(dialogue[-1].text, briefing.items)
        if item is not None:
            return at_once("patient", "dialogue", item.lay)
        return ReferencePatient().reply(briefing.facts, scene, dialogue)


def named_item(question: str, items: Sequence[SpokenItem]) -> SpokenItem | None:
    """Return the item whose whole key is in a question that names nothing else."""
    words = frozenset(words_of(question))
    for item in items:
        key = frozenset(words_of(item.key))
        if key and key <= words and words - key <= _ASKING:
            return item
    return None
