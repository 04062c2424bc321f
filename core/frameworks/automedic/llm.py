"""Doctor, patient and clinical staff of AutoMedic played by language models (Oh, Park, Kim, arXiv 2512.10195).

Each is sent its own briefing and its own view of the dialogue, nothing else of the case.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from core.agents.ask import Asked, Request, ask
from core.agents.base import Dialogue, Held, Material, Question, Saying, Scene, Turn
from core.agents.calls import Voice, call
from core.agents.parts import messages_of, picture_parts, question_part
from core.case import Fact, Section
from core.events import Speaker
from core.frameworks.automedic.rating import read_rating
from core.frameworks.automedic.roles import Facts, Rating
from core.models.base import Message
from core.prompts import PromptPack

_RATING = "two lines, the first beginning with Rating: and a whole number from 1 to 5, the second with Reason:"
_SECTION: dict[Section, str] = {
    "vital_signs": "Vital signs",
    "examination": "Physical examination",
    "laboratory": "Laboratory tests",
    "imaging": "Imaging",
    "other_tests": "Other tests",
}


class LLMTagDoctor:
    """The model under test; it is told how many turns it has."""

    def __init__(self, voice: Voice, pack: PromptPack, max_turns: int) -> None:
        self._voice, self._pack, self._max_turns = voice.within(pack.prompts["doctor"]), pack, max_turns

    @property
    def name(self) -> str:
        """Full name of the model."""
        return self._voice.model.name

    def ask(self, scene: Scene, demographics: Facts, dialogue: Dialogue) -> AsyncIterator[Saying]:
        """Say the next message, seeing demographics and the whole dialogue."""
        messages = self._consultation(scene, demographics, dialogue)
        return call(self._voice, messages, "doctor", "dialogue", scene.seed)

    def answer(
        self, scene: Scene, demographics: Facts, material: Material, question: Question
    ) -> AsyncIterator[Saying]:
        """Answer after the dialogue, or on the vignette alone."""
        if material.text is not None:
            written = _user(self._pack.render("static", vignette=material.text))
            shown: list[Message] = [*messages_of(picture_parts(self._pack, scene)), written]
        else:
            shown = self._consultation(scene, demographics, material.dialogue)
        part = question_part(self._pack, question)
        voice = self._voice.within(self._pack.prompts[f"answer_{question.question_type}"])
        return call(voice, [*shown, _user(part.content)], "doctor", "answer", scene.seed)

    def differential(self, scene: Scene, demographics: Facts, dialogue: Dialogue) -> None:
        """Return nothing: a language model's belief costs a call."""

    def _consultation(self, scene: Scene, demographics: Facts, dialogue: Dialogue) -> list[Message]:
        system = self._pack.render("doctor", max_turns=self._max_turns, caregiver=scene.caregiver)
        opening = self._pack.render("opening", demographics=_pairs(demographics))
        pictures = messages_of(picture_parts(self._pack, scene))
        return [_system(system), *pictures, _user(opening), *_heard(dialogue)]


class LLMAutoMedicPatient:
    """The simulated patient: holds demographics and basic facts in lay words."""

    def __init__(self, voice: Voice, pack: PromptPack) -> None:
        self._voice, self._pack = voice.within(pack.prompts["patient"]), pack

    @property
    def name(self) -> str:
        """Full name of the model."""
        return self._voice.model.name

    def reply(self, held: Held, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying]:
        """Answer the last query."""
        return call(self._voice, self._spoken(held, dialogue), "patient", "dialogue", scene.seed)

    async def rate(self, held: Held, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying | Rating]:
        """Rate the doctor from 1 to 5; one that cannot be read rates nothing."""
        messages = [*self._spoken(held, dialogue), _user(self._pack.render("empathy"))]
        request = Request("empathy", messages, "patient", "rate", read_rating, _RATING, seed=scene.seed)
        async for item in ask(self._voice, self._pack, request):
            if isinstance(item, Asked):
                rating, words = item.value or (None, f"The rating could not be read: {item.fault}.")
                yield Rating(rating, words, item.call_ids[-1] if item.call_ids else None)
            else:
                yield item

    def _spoken(self, held: Held, dialogue: Dialogue) -> list[Message]:
        facts = [fact.lay for fact in held.told]
        system = self._pack.render("patient", facts=facts, caregiver=held.caregiver)
        return [_system(system), *_said(dialogue, "patient")]


class LLMStaff:
    """The clinical staff: holds the results."""

    def __init__(self, voice: Voice, pack: PromptPack) -> None:
        self._voice, self._pack = voice.within(pack.prompts["staff"]), pack

    @property
    def name(self) -> str:
        """Full name of the model."""
        return self._voice.model.name

    def reply(self, results: Facts, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying]:
        """Answer the last query."""
        system = self._pack.render("staff", sections=_by_section(results))
        return call(self._voice, [_system(system), *_said(dialogue, "staff")], "staff", "dialogue", scene.seed)


def _by_section(results: Facts) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the results under their sections; what has no section is another test."""
    grouped: dict[Section, list[Fact]] = {section: [] for section in _SECTION}
    for fact in results:
        grouped[fact.section or "other_tests"].append(fact)
    return [(_SECTION[section], _pairs(facts)) for section, facts in grouped.items() if facts]


def _pairs(facts: Sequence[Fact]) -> list[tuple[str, str]]:
    return [(fact.key, fact.value) for fact in facts]


def _heard(dialogue: Dialogue) -> list[Message]:
    """Return the dialogue as the doctor sees it; several replies to one message are one message that says who spoke."""
    found: list[Message] = []
    replies: list[Turn] = []
    for turn in [*dialogue, None]:
        if turn is not None and turn.role != "doctor":
            replies.append(turn)
            continue
        if len(replies) == 1:
            found.append(_user(replies[0].text))
        elif replies:
            found.append(_user("\n\n".join(f"{_SPEAKS[reply.role]}: {reply.text}" for reply in replies)))
        replies = []
        if turn is not None:
            found += _said((turn,), "doctor")
    return found


_SPEAKS: dict[Speaker, str] = {"patient": "Patient", "staff": "Clinical staff"}


def _said(dialogue: Dialogue, speaking: Speaker) -> list[Message]:
    """Return a view of the dialogue as the one who speaks next sees it."""
    return [
        {"role": "assistant", "content": turn.text} if turn.role == speaking else _user(turn.text) for turn in dialogue
    ]


def _system(content: str) -> Message:
    return {"role": "system", "content": content}


def _user(content: str) -> Message:
    return {"role": "user", "content": content}
