"""What the roles of AutoMedic can do, who is given what, a human and a model in each (Oh, Park, Kim, arXiv 2512.10195).

Of the profile the doctor knows the demographics, the patient these and the basic facts, the clinical staff the optional
ones. Nobody in the conversation is given the vignette, the question, the choices or the answer. Patient and staff see
what was addressed to them and what they said, without tags; the doctor sees the whole dialogue. A human speaks without
tags, which are put on, and is shown what the seat is briefed with; a model is sent its own briefing and its own view of
the dialogue, nothing else of the case.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from core.agents.base import Agent
from core.agents.player import Human
from core.asking.ask import Asked, Request, ask
from core.asking.calls import ModelAgent, Voice, call
from core.asking.parts import Part, dialogue_parts, instruction_part, picture_parts, prompt_part, question_part
from core.asking.scene import Dialogue, Held, Material, Question, Said, Saying, Scene, Turn
from core.case import Case, Fact, Section
from core.events import Speaker
from core.frameworks.automedic.tags import END, TAG_OF, Addressee, queries_of, read_tags
from core.prompts import PromptPack, quoted
from core.text.demographics import age_and_sex
from core.text.sections import divided

Facts = tuple[Fact, ...]
NOT_AVAILABLE = "That is not available."
"""What the staff says where it has no result: the reference staff always, a model where it keeps to its prompt."""


@dataclass(frozen=True)
class Briefings:
    """What of a case each role of the conversation is given."""

    demographics: Facts
    """The doctor's."""
    held: Held
    """The patient's: demographics and basic facts and nothing shown; the whole vignette if there is no profile."""
    results: Facts
    """The staff's."""


@dataclass(frozen=True)
class Rating:
    """The patient's rating of the doctor, 1 to 5 or ``None`` where it cannot be read, with the rater's words."""

    rating: int | None
    words: str
    call_id: str | None = None


class TagDoctor(Agent, Protocol):
    """The model under test: asks patient and staff by tags, and answers the question."""

    def ask(self, scene: Scene, demographics: Facts, dialogue: Dialogue) -> AsyncIterator[Saying]:
        """Say the next message, with its tags."""

    def answer(
        self, scene: Scene, demographics: Facts, material: Material, question: Question
    ) -> AsyncIterator[Saying]:
        """Answer after the conversation, or on the vignette alone where the material is a text."""

    def differential(
        self, scene: Scene, demographics: Facts, dialogue: Dialogue
    ) -> tuple[tuple[str, float], ...] | None:
        """Return the belief after the dialogue where the doctor can state it at no cost, else ``None``."""


class AutoMedicPatient(Agent, Protocol):
    """Who answers the queries to the patient, as the patient or as who speaks for them (``held.caregiver``)."""

    def reply(self, held: Held, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying]:
        """Answer the last message of the patient's own view."""

    def rate(self, held: Held, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying | Rating]:
        """Rate the doctor's empathy after the patient's own view of the conversation; ``Rating`` comes last."""


class Staff(Agent, Protocol):
    """The clinical staff, which has the results of examination and tests."""

    def reply(self, results: Facts, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying]:
        """Answer the last message of the staff's own view."""


def briefings_of(case: Case) -> Briefings:
    """Return who is given what of a case.

    Without a profile the doctor knows age and sex, the patient the whole vignette, and the staff the sentences of it
    that say what examination and tests showed.
    """
    caregiver, profile = case.speaker == "caregiver", case.profile
    if profile is not None:
        held = Held("", profile.demographics + profile.basic, (), caregiver)
        return Briefings(profile.demographics, held, profile.optional)
    words = age_and_sex(case)
    demographics = (Fact(key="age and sex", value=words, lay=words),) if words else ()
    results = tuple(
        Fact(key=_SECTION[section].lower(), value=sentence, lay=sentence, section=section)
        for section, sentence in divided(case.vignette).shown
    )
    return Briefings(demographics, Held(case.vignette, (), (), caregiver), results)


def view_of(dialogue: Dialogue, addressee: Addressee) -> Dialogue:
    """Return what the patient or the staff has seen of a dialogue: the queries that it answered, without tags."""
    answered = [query for query in queries_of(dialogue) if query.to == addressee and query.reply is not None]
    return tuple(turn for q in answered for turn in (Turn("doctor", q.text), Turn(addressee, q.reply or "")))


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
    to_staff = _STAFF.match(text)
    tag = TAG_OF["staff" if to_staff else "patient"]
    return f"<{tag}>{text[to_staff.end() :] if to_staff else text}</{tag}>"


class HumanRater(Human):
    """The patient by hand, who also rates the doctor."""

    async def rate(self, held: Held, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying | Rating]:
        """Wait for a rating from 1 to 5; other words are none."""
        async for item in self.said("rate", RATE, "12345"):
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


_RATING = "two lines, the first beginning with Reason:, the second with Rating: and a whole number from 1 to 5"
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
        told = {"facts": [fact.lay for fact in held.told] or [held.vignette], "caregiver": held.caregiver}
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

    The number follows the word "Rating", before or after the reason, or stands alone at the beginning.
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
    if re.search(r"\w", before.rpartition("\n")[2]) and not _REASON.match(before):
        before, told = text, ""
    else:
        before, told = _REASON.sub("", before), _REASON.sub("", _OUT_OF.sub("", after))
    return int(first[1]), " ".join(f"{before} {told}".split()).strip(' *_#{}"')[:_LONGEST]
