"""Doctor, patient and clinical staff of AutoMedic played by language models (Oh, Park, Kim, arXiv 2512.10195).

Each is sent its own briefing and its own view of the dialogue, nothing else of the case.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from core.agents.ask import Asked, Request, ask
from core.agents.base import Dialogue, Held, Material, Question, Saying, Scene
from core.agents.calls import ModelAgent, Voice, call
from core.agents.parts import Part, dialogue_parts, instruction_part, picture_parts, prompt_part, question_part
from core.case import Fact, Section
from core.events import Speaker
from core.frameworks.automedic.roles import Facts, Rating
from core.prompts import PromptPack, quoted

_RATING = "two lines, the first beginning with Rating: and a whole number from 1 to 5, the second with Reason:"
_SECTION: dict[Section, str] = {
    "vital_signs": "Vital signs",
    "examination": "Physical examination",
    "laboratory": "Laboratory tests",
    "imaging": "Imaging",
    "other_tests": "Other tests",
}


class LLMTagDoctor(ModelAgent):
    """The model under test; it is told how many turns it has."""

    prompt = "doctor"

    def __init__(self, voice: Voice, pack: PromptPack, max_turns: int) -> None:
        super().__init__(voice, pack)
        self._max_turns = max_turns

    def ask(self, scene: Scene, demographics: Facts, dialogue: Dialogue) -> AsyncIterator[Saying]:
        """Say the next message, seeing demographics and the whole dialogue."""
        parts = self._consultation(scene, demographics, dialogue)
        return call(self._voice, parts, "doctor", "dialogue", scene.seed)

    def answer(
        self, scene: Scene, demographics: Facts, material: Material, question: Question
    ) -> AsyncIterator[Saying]:
        """Answer after the dialogue, or on the vignette alone."""
        if material.text is not None:
            written = prompt_part(self._pack, "static", "user", "case", vignette=material.text)
            shown = [*picture_parts(self._pack, scene), written]
        else:
            shown = self._consultation(scene, demographics, material.dialogue)
        part = question_part(self._pack, question)
        voice = self._voice.within(self._pack.prompts[f"answer_{question.question_type}"])
        return call(voice, [*shown, part], "doctor", "answer", scene.seed)

    def differential(self, scene: Scene, demographics: Facts, dialogue: Dialogue) -> None:
        """Return nothing: a language model's belief costs a call."""

    def _consultation(self, scene: Scene, demographics: Facts, dialogue: Dialogue) -> list[Part]:
        told = {"max_turns": self._max_turns, "caregiver": scene.caregiver}
        system = prompt_part(self._pack, "doctor", "system", "system", **told)
        opening = prompt_part(self._pack, "opening", "user", "case", demographics=_pairs(demographics))
        # the dialogue as the doctor sees it; several replies to one message each say who spoke
        parts = dialogue_parts(dialogue, "doctor")
        for number, turn in enumerate(dialogue):
            beside = [*dialogue[max(number - 1, 0) : number], *dialogue[number + 1 : number + 2]]
            if turn.role != "doctor" and any(other.role != "doctor" for other in beside):
                parts[number] = replace(parts[number], content=f"{_SPEAKS[turn.role]}: {turn.text}")
        return [system, *picture_parts(self._pack, scene), opening, *parts]


class LLMAutoMedicPatient(ModelAgent):
    """The simulated patient: holds demographics and basic facts in lay words."""

    prompt = "patient"

    def reply(self, held: Held, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying]:
        """Answer the last query."""
        return call(self._voice, self._spoken(held, dialogue), "patient", "dialogue", scene.seed)

    async def rate(self, held: Held, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying | Rating]:
        """Rate the doctor from 1 to 5; one that cannot be read rates nothing."""
        parts = [*self._spoken(held, dialogue), instruction_part(self._pack, "empathy")]
        request = Request("empathy", parts, "patient", "rate", read_rating, _RATING, seed=scene.seed)
        async for item in ask(self._voice, self._pack, request):
            if isinstance(item, Asked):
                rating, words = item.value or (None, f"The rating could not be read: {item.fault}.")
                yield Rating(rating, words, item.call_ids[-1] if item.call_ids else None)
            else:
                yield item

    def _spoken(self, held: Held, dialogue: Dialogue) -> list[Part]:
        told = {"facts": [fact.lay for fact in held.told], "caregiver": held.caregiver}
        return [prompt_part(self._pack, "patient", "system", "system", **told), *_view(dialogue, "patient")]


class LLMStaff(ModelAgent):
    """The clinical staff: holds the results."""

    prompt = "staff"

    def reply(self, results: Facts, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying]:
        """Answer the last query."""
        # the results under their sections; what has no section is another test
        grouped: dict[Section, list[Fact]] = {section: [] for section in _SECTION}
        for fact in results:
            grouped[fact.section or "other_tests"].append(fact)
        system = prompt_part(
            self._pack,
            "staff",
            "system",
            "system",
            sections=[(_SECTION[section], _pairs(facts)) for section, facts in grouped.items() if facts],
        )
        view = _view(dialogue, "staff")
        if "<quoted>" in self._pack.prompts[self.prompt].source:
            view = [replace(part, content=quoted(part.content)) if part.role == "user" else part for part in view]
        return call(self._voice, [system, *view], "staff", "dialogue", scene.seed)


def _pairs(facts: Sequence[Fact]) -> list[tuple[str, str]]:
    return [(fact.key, fact.value) for fact in facts]


_SPEAKS: dict[Speaker, str] = {"patient": "Patient", "staff": "Clinical staff"}


def _view(dialogue: Dialogue, speaking: Speaker) -> list[Part]:
    """Return a view of the dialogue as the one who speaks next sees it; its messages are not the dialogue's own."""
    return [replace(part, turn=None) for part in dialogue_parts(dialogue, speaking)]


_LABELLED = re.compile(r"\brating\b\W{0,8}?(?:is |of )?\W{0,4}?(-?\d+(?:[.,]\d+)?)(\s?(?:-|–|to)\s?\d)?", re.IGNORECASE)
_ALONE = re.compile(r"\A\W{0,4}(-?\d+(?:[.,]\d+)?)(\s?[-–]\s?\d)?\b")
_OUT_OF = re.compile(r"\A[\s*_]*(?:(?:/|out of|of)\s*5\b)?\W*", re.IGNORECASE)
_REASON = re.compile(r"\A\W*reason\b\W*", re.IGNORECASE)
_LONGEST = 500
"""Characters of the rater's words that are kept."""


def read_rating(reply: str) -> tuple[int, str]:
    """Return rating and words; raise ``ValueError`` where there is no such number, or several.

    The number follows the word "Rating", or stands alone at the beginning.
    """
    text = reply.strip()
    if not text:
        raise ValueError("it was empty")
    labelled = list(_LABELLED.finditer(text))
    first = labelled[0] if labelled else _ALONE.match(text)
    if first is None:
        raise ValueError("it held no line that begins with Rating")
    if len({found[1] for found in labelled}) > 1:
        raise ValueError("it held several ratings")
    if first[2] or first[1] not in ("1", "2", "3", "4", "5"):
        raise ValueError(f"{first[0].strip()!r} is no whole number from 1 to 5")
    # what stands beside a rating that begins its line, or the whole text where it is part of a sentence
    before, after = text[: first.start()], text[first.end() :]
    if re.search(r"\w", before.rpartition("\n")[2]):
        before, told = text, ""
    else:
        told = _REASON.sub("", _OUT_OF.sub("", after))
    return int(first[1]), " ".join(f"{before} {told}".split()).strip(' *_#{}"')[:_LONGEST]
