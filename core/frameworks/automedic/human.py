"""A human in a seat of AutoMedic: speaks without tags, which are put on, and is shown what the seat is briefed with."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass

from core.agents.base import Dialogue, Held, Material, Question, Said, Saying, Scene
from core.agents.human import Human
from core.frameworks.automedic.roles import Facts, Rating
from core.frameworks.automedic.tags import END, TAG_OF, read_tags

HOW = (
    "You may ask the patient by writing plainly, the clinical staff by beginning with “staff:”, and end with “done”, "
    "after which you are asked for your answer."
)
"""What a human doctor is told before its first message."""
RATE = "How much empathy did the doctor show, from 1 (none) to 5 (very much)?"
_STAFF = re.compile(r"\s*(?:clinical )?staff\s*[:,]\s*", re.IGNORECASE)
_DONE = re.compile(r"\W*(?:done|end|i am done|that is all)\W*", re.IGNORECASE)


@dataclass(frozen=True)
class HumanTagDoctor:
    """The doctor by hand."""

    human: Human
    name = Human.name

    async def ask(self, scene: Scene, demographics: Facts, dialogue: Dialogue) -> AsyncIterator[Saying]:
        """Wait for the next query; words without a tag are put into one."""
        known = "; ".join(f"{fact.key}: {fact.value}" for fact in demographics)
        async for item in self.human.said("dialogue", "" if dialogue else f"{known}\n\n{HOW}".strip()):
            yield Said(tagged(item.text), item.call_id) if isinstance(item, Said) else item

    def answer(
        self, scene: Scene, demographics: Facts, material: Material, question: Question
    ) -> AsyncIterator[Saying]:
        """Wait for the answer."""
        return self.human.answer(scene, material, question)

    def differential(self, scene: Scene, demographics: Facts, dialogue: Dialogue) -> None:
        """Return nothing: a human is not asked for a belief."""


def tagged(text: str) -> str:
    """Return what a person wrote as a message under the tag protocol; what holds tags already stays as it is."""
    spoken = read_tags(text)
    if spoken.queries or spoken.ends:
        return text
    if _DONE.fullmatch(text):
        return END
    to = "staff" if _STAFF.match(text) else "patient"
    tag = TAG_OF["staff" if to == "staff" else "patient"]
    return f"<{tag}>{_STAFF.sub('', text, count=1) if to == 'staff' else text}</{tag}>"


@dataclass(frozen=True)
class HumanRater:
    """The patient by hand, who also rates the doctor."""

    human: Human
    name = Human.name

    def reply(self, held: Held, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying]:
        """Wait for the reply to the last query."""
        return self.human.reply(held, scene, dialogue)

    async def rate(self, held: Held, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying | Rating]:
        """Wait for a rating from 1 to 5; other words are none."""
        async for item in self.human.said("rate", RATE):
            if isinstance(item, Said):
                found = re.search(r"[1-5]", item.text)
                yield Rating(int(found[0]) if found else None, item.text)
            else:
                yield item


@dataclass(frozen=True)
class HumanStaff:
    """The clinical staff by hand; the results are before its eyes."""

    human: Human
    name = Human.name

    def reply(self, results: Facts, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying]:
        """Wait for the answer to the last query."""
        held = "\n".join(f"- {fact.key}: {fact.value}" for fact in results)
        return self.human.said("dialogue", f"{dialogue[-1].text}\n\n{held}" if held else dialogue[-1].text)
