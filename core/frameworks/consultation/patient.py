"""The reference patient of the Consultation benchmark: tells the item that a question names, in lay words.

A question that names no item is answered by the reference patient's own rules, with one fact (``reference_patient``).
So a reply never holds more than one item. An item of many facts takes more words than the benchmark allows a model.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence

from core.agents.base import Dialogue, Said, Saying, Scene, token
from core.agents.reference.patient import ReferencePatient
from core.frameworks.consultation.roles import Briefing
from core.text.case_items import SpokenItem

_WORD = re.compile(r"[a-z0-9]+")
_ASKING = frozenset(
    "a about any are can could describe did do does have has how i is like me of on please say some something tell "
    "the there was what with would you your".split()
)
"""Words of a question that name nothing."""


class ItemsPatient:
    """Answers by rule from the items of a case."""

    name = ReferencePatient.name

    def __init__(self, patient: ReferencePatient | None = None) -> None:
        self._patient = patient or ReferencePatient()

    async def reply(self, briefing: Briefing, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying]:
        """Answer the last message of the dialogue."""
        item = named_item(dialogue[-1].text, briefing.items)
        if item is not None:
            yield token("patient", "dialogue", item.lay)
            yield Said(item.lay)
            return
        async for saying in self._patient.reply(briefing.held, scene, dialogue):
            yield saying


def named_item(question: str, items: Sequence[SpokenItem]) -> SpokenItem | None:
    """Return the item that a question names by its whole key, and besides which it names nothing."""
    asked = frozenset(_WORD.findall(question.lower()))
    for item in items:
        key = frozenset(_WORD.findall(item.key.lower()))
        if key and key <= asked and asked - key <= _ASKING:
            return item
    return None
