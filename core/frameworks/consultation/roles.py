"""What the roles of the Consultation benchmark can do, whoever fills them (Liao et al., arXiv 2309.02077).

A doctor only inquires; another model, the solver, answers the task from what came out. Unlike in CRAFT-MD, the patient
speaks first.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol

from core.agents.base import Dialogue, Held, Material, Question, Saying, Scene, what_patient_holds
from core.case import read_demographics
from core.text.case_items import ItemizedCase, SpokenItem

_NAMES = {
    "female": ("Anna Becker", "Grace Osei", "Maria Lopez", "Nora Haddad", "Susan Clarke", "Yuki Tanaka"),
    "male": ("Ahmed Karimi", "Daniel Novak", "James Carter", "Luca Rossi", "Samuel Mensah", "Wei Chen"),
}


@dataclass(frozen=True)
class Briefing:
    """All that a patient is given: information M, a name, the items in lay words; nothing of the task T.

    ``held`` is the same knowledge as facts, for a patient that answers by rule.
    """

    name: str
    held: Held
    items: tuple[SpokenItem, ...]


class Inquirer(Protocol):
    """The doctor under test: asks, and never answers the task."""

    @property
    def name(self) -> str:
        """Full name under which it is stored."""
        ...

    def ask(self, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying]:
        """Say the next message; one without a question mark ends the inquiry."""
        ...

    def differential(self, scene: Scene, dialogue: Dialogue) -> tuple[tuple[str, float], ...] | None:
        """Return the belief after the dialogue where the doctor can state it at no cost, else ``None``."""
        ...


class ConsultationPatient(Protocol):
    """Who answers the doctor."""

    @property
    def name(self) -> str:
        """Full name under which it is stored."""
        ...

    def reply(self, briefing: Briefing, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying]:
        """Answer the doctor's last message."""
        ...


class Solver(Protocol):
    """Who answers the task, and has taken no part in the conversation."""

    @property
    def name(self) -> str:
        """Full name under which it is stored."""
        ...

    def solve(self, scene: Scene, material: Material, question: Question) -> AsyncIterator[Saying]:
        """Answer the question from the dialogue, or the text, in the material."""
        ...


def briefing_of(about: ItemizedCase) -> Briefing:
    """Return what the patient of a case is given; a case always has the same name."""
    sex = about.case.sex or read_demographics(about.case.vignette)[1]
    names = _NAMES[sex] if sex else (*_NAMES["female"], *_NAMES["male"])
    name = random.Random(f"{about.case.case_key}:name").choice(names)
    return Briefing(name, what_patient_holds(about.case), about.spoken)
