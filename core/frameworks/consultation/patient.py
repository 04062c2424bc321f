"""Patients of the benchmark: a model that holds M, and one by rule that tells the item that a question names.

The model is a named person who sees M and nothing of the task T (Liao et al., arXiv 2309.02077). By rule a question
that names no item is answered by the reference patient's own rules, with one fact: a reply never holds more than one
item. An item of many facts takes more words than the benchmark allows a model.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from core.agents.base import Agent, Dialogue, Held, Saying, Scene, at_once, what_patient_holds
from core.agents.calls import ModelAgent, call
from core.agents.parts import dialogue_parts, prompt_part
from core.agents.reference.patient import ReferencePatient
from core.text.case_items import ItemizedCase, SpokenItem
from core.text.rouge import words_of

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
    sex = about.case.demographics()[1]
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

    def __init__(self, patient: ReferencePatient | None = None) -> None:
        self._patient = patient or ReferencePatient()

    def reply(self, briefing: Briefing, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying]:
        """Answer the last message of the dialogue."""
        item = named_item(dialogue[-1].text, briefing.items)
        if item is not None:
            return at_once("patient", "dialogue", item.lay)
        return self._patient.reply(briefing.held, scene, dialogue)


def named_item(question: str, items: Sequence[SpokenItem]) -> SpokenItem | None:
    """Return the item that a question names by its whole key, and besides which it names nothing."""
    asked = frozenset(words_of(question))
    for item in items:
        key = frozenset(words_of(item.key))
        if key and key <= asked and asked - key <= _ASKING:
            return item
    return None
