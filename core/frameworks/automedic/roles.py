"""The roles of AutoMedic, their briefings, and a human and a model for each (Oh, Park, Kim, arXiv 2512.10195).

The doctor knows the demographics of the profile, the patient these and the basic facts, the clinical staff the optional
facts. No role gets the vignette, the question, the choices or the answer. Patient and staff see the queries to them and
their replies, without tags; the doctor sees the whole dialogue. A human writes without tags, which are added, and sees
the briefing of the seat; a model gets its briefing and its view of the dialogue, and nothing else of the case.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from core.agents.base import Agent
from core.agents.player import Human
from core.asking.ask import Parsed, Request, ask
from core.asking.calls import ModelAgent, Voice, call
from core.asking.parts import PromptPart, dialogue_parts, instruction_part, picture_parts, prompt_part, question_part
from core.asking.scene import AgentOutput, Dialogue, FinalMessage, Material, PatientKnowledge, Question, Scene, Turn
from core.case import Case, Fact, FactSection
from core.events import Speaker
from core.frameworks.automedic.tags import EMPATHY, END, TAG_OF, Addressee, queries_of, read_tags
from core.judging import request as judging
from core.judging.form import CANNOT_JUDGE, form_named
from core.prompts import PromptPack, quoted
from core.text.demographics import age_and_sex
from core.text.sections import divided

Facts = tuple[Fact, ...]
NOT_AVAILABLE = "That is not available."
"""Reply of the staff without a result: always of the reference staff, and of a model that follows its prompt."""


@dataclass(frozen=True)
class Briefings:
    """The parts of a case for each role of the conversation."""

    demographics: Facts
    """For the doctor."""
    patient: PatientKnowledge
    """For the patient: demographics and basic facts and nothing shown; the whole vignette if there is no profile."""
    results: Facts
    """For the staff."""


@dataclass(frozen=True)
class Rating:
    """The patient's rating of the doctor, 1 to 5, with the rater's words; ``None`` if it is missing or unreadable.

    A model's rating is ``None`` too if it is void, because a quotation is not in the doctor's messages.
    """

    rating: int | None
    words: str
    call_id: str | None = None


class TagDoctor(Agent, Protocol):
    """The model under test: asks patient and staff by tags, and answers the question."""

    def ask(self, scene: Scene, demographics: Facts, dialogue: Dialogue) -> AsyncIterator[AgentOutput]: ...

    def answer(
        self, scene: Scene, demographics: Facts, material: Material, question: Question
    ) -> AsyncIterator[AgentOutput]:
        """Answer after the conversation, or from the vignette if the material is a text."""

    def differential(
        self, scene: Scene, demographics: Facts, dialogue: Dialogue
    ) -> tuple[tuple[str, float], ...] | None:
        """Return the belief after the dialogue if the doctor can state it without a call, else ``None``."""


class AutoMedicPatient(Agent, Protocol):
    """Answers the queries to the patient, as the patient or as a caregiver (``PatientKnowledge.caregiver``)."""

    def reply(self, briefing: PatientKnowledge, scene: Scene, dialogue: Dialogue) -> AsyncIterator[AgentOutput]:
        """Answer the last message of the patient's view of the dialogue."""

    def rate(self, briefing: PatientKnowledge, scene: Scene, dialogue: Dialogue) -> AsyncIterator[AgentOutput | Rating]:
        """Rate the doctor's empathy from the patient's view of the dialogue; ``Rating`` comes last."""


class Staff(Agent, Protocol):
    """The clinical staff, which has the results of examination and tests."""

    def reply(self, results: Facts, scene: Scene, dialogue: Dialogue) -> AsyncIterator[AgentOutput]: ...


def briefings_of(case: Case) -> Briefings:
    """Return the briefing of each role.

    Without a profile the doctor knows age and sex, the patient the whole vignette, and the staff the sentences of it
    that say what examination and tests showed.
    """
    caregiver, profile = case.speaker == "caregiver", case.profile
    if profile is not None:
        patient = PatientKnowledge("", profile.demographics + profile.basic, (), caregiver)
        return Briefings(profile.demographics, patient, profile.optional)
    words = age_and_sex(case)
    demographics = (Fact(key="age and sex", value=words, lay=words),) if words else ()
    results = tuple(
        Fact(key=_SECTION[section].lower(), value=sentence, lay=sentence, section=section)
        for section, sentence in divided(case.vignette).results
    )
    return Briefings(demographics, PatientKnowledge(case.vignette, (), (), caregiver), results)


def view_of(dialogue: Dialogue, addressee: Addressee) -> Dialogue:
    """Return the patient's or the staff's view of a dialogue: the queries that it answered, without tags."""
    answered = [query for query in queries_of(dialogue) if query.to == addressee and query.reply is not None]
    return tuple(turn for q in answered for turn in (Turn("doctor", q.text), Turn(addressee, q.reply or "")))


HOW = (
    "You may ask the patient by writing plainly, the clinical staff by beginning with “staff:”, and end with “done”, "
    "after which you are asked for your answer."
)
"""Instruction for a human doctor before the first message."""
RATE = "How much empathy did the doctor show, from 1 (none) to 5 (very much)?"
_STAFF = re.compile(r"\s*(?:clinical )?staff\s*[:,]\s*", re.IGNORECASE)
_DONE = re.compile(r"\W*(?:done|end|i am done|that is all)\W*", re.IGNORECASE)


@dataclass(frozen=True)
class HumanTagDoctor:
    """A person as the doctor."""

    human: Human
    name = Human.name

    async def ask(self, scene: Scene, demographics: Facts, dialogue: Dialogue) -> AsyncIterator[AgentOutput]:
        briefing = "; ".join(f"{fact.key}: {fact.value}" for fact in demographics)
        async for item in self.human.wait("dialogue", "" if dialogue else f"{briefing}\n\n{HOW}".strip()):
            yield FinalMessage(tagged(item.text), item.call_id) if isinstance(item, FinalMessage) else item

    def answer(
        self, scene: Scene, demographics: Facts, material: Material, question: Question
    ) -> AsyncIterator[AgentOutput]:
        return self.human.answer(scene, material, question)

    def differential(self, scene: Scene, demographics: Facts, dialogue: Dialogue) -> None:
        pass


def tagged(text: str) -> str:
    """Return the text of a person as a message with tags; a text that already has tags is not changed."""
    spoken = read_tags(text)
    if spoken.queries or spoken.ends:
        return text
    if _DONE.fullmatch(text):
        return END
    to_staff = _STAFF.match(text)
    tag = TAG_OF["staff" if to_staff else "patient"]
    return f"<{tag}>{text[to_staff.end() :] if to_staff else text}</{tag}>"


class HumanRater(Human):
    """A person as the patient, who also rates the doctor."""

    async def rate(
        self, briefing: PatientKnowledge, scene: Scene, dialogue: Dialogue
    ) -> AsyncIterator[AgentOutput | Rating]:
        async for item in self.wait("rate", RATE, "12345"):
            if isinstance(item, FinalMessage):
                match = re.search(r"[1-5]", item.text)
                yield Rating(int(match[0]) if match else None, item.text)
            else:
                yield item


@dataclass(frozen=True)
class HumanStaff:
    """A person as the clinical staff, who sees the results."""

    human: Human
    name = Human.name

    def reply(self, results: Facts, scene: Scene, dialogue: Dialogue) -> AsyncIterator[AgentOutput]:
        listed = "\n".join(f"- {fact.key}: {fact.value}" for fact in results)
        return self.human.wait("dialogue", f"{dialogue[-1].text}\n\n{listed}" if listed else dialogue[-1].text)


_SECTION: dict[FactSection, str] = {
    "vital_signs": "Vital signs",
    "examination": "Physical examination",
    "laboratory": "Laboratory tests",
    "imaging": "Imaging",
    "other_tests": "Other tests",
}


class LLMTagDoctor(ModelAgent):
    """The model under test; its prompt has the number of turns."""

    prompt = "doctor"

    def __init__(self, voice: Voice, pack: PromptPack, max_turns: int) -> None:
        super().__init__(voice, pack)
        self._max_turns = max_turns

    def ask(self, scene: Scene, demographics: Facts, dialogue: Dialogue) -> AsyncIterator[AgentOutput]:
        """Yield the next message, from demographics and the whole dialogue."""
        parts = self._consultation(scene, demographics, dialogue)
        return call(self._voice, parts, "doctor", "dialogue", scene.seed)

    def answer(
        self, scene: Scene, demographics: Facts, material: Material, question: Question
    ) -> AsyncIterator[AgentOutput]:
        if material.text is not None:
            written = prompt_part(self._pack, "static", "user", "case", vignette=material.text)
            parts = [*picture_parts(self._pack, scene), written]
        else:
            parts = self._consultation(scene, demographics, material.dialogue)
        voice = self._voice.within(self._pack.prompts[f"answer_{question.question_type}"])
        return call(voice, [*parts, question_part(self._pack, question)], "doctor", "answer", scene.seed)

    def differential(self, scene: Scene, demographics: Facts, dialogue: Dialogue) -> None:
        """Return ``None``: a language model's belief costs a call."""

    def _consultation(self, scene: Scene, demographics: Facts, dialogue: Dialogue) -> list[PromptPart]:
        values = {"max_turns": self._max_turns, "caregiver": scene.caregiver}
        system = prompt_part(self._pack, "doctor", "system", "system", **values)
        opening = prompt_part(self._pack, "opening", "user", "case", demographics=_pairs(demographics))
        # if one message has several replies, each begins with the name of its speaker
        parts = dialogue_parts(dialogue, "doctor")
        for number, turn in enumerate(dialogue):
            neighbours = [*dialogue[max(number - 1, 0) : number], *dialogue[number + 1 : number + 2]]
            if turn.role != "doctor" and any(other.role != "doctor" for other in neighbours):
                parts[number] = replace(parts[number], content=f"{_SPEAKS[turn.role]}: {turn.text}")
        return [system, *picture_parts(self._pack, scene), opening, *parts]


class LLMAutoMedicPatient(ModelAgent):
    """The simulated patient, which knows demographics and basic facts in lay words."""

    prompt = "patient"

    def reply(self, briefing: PatientKnowledge, scene: Scene, dialogue: Dialogue) -> AsyncIterator[AgentOutput]:
        return call(self._voice, self._parts(briefing, dialogue), "patient", "dialogue", scene.seed)

    async def rate(
        self, briefing: PatientKnowledge, scene: Scene, dialogue: Dialogue
    ) -> AsyncIterator[AgentOutput | Rating]:
        """Fill in the form on the doctor's empathy; without an answer that counts the rating is ``None``."""
        form = form_named(EMPATHY)
        asked = instruction_part(self._pack, "empathy"), judging.form_part(judging.judging_pack(), form, form.questions)
        request = Request(
            "empathy",
            [*self._parts(briefing, dialogue), *asked],
            "patient",
            "rate",
            lambda text: judging.answers_in(text, form, form.questions, judging.Material(dialogue), numbers=False),
            form=judging.reply_form(form, form.questions, numbers=False),
            seed=scene.seed,
        )
        async for item in ask(self._voice, self._pack, request):
            if isinstance(item, Parsed):
                call_id = item.call_ids[-1] if item.call_ids else None
                unread = Rating(None, f"The rating could not be read: {item.fault}.", call_id)
                yield rating_of(item.value[0], call_id) if item.value else unread
            else:
                yield item

    def _parts(self, briefing: PatientKnowledge, dialogue: Dialogue) -> list[PromptPart]:
        facts = [fact.lay for fact in briefing.history] or [briefing.vignette]
        values = {"facts": facts, "caregiver": briefing.caregiver}
        return [prompt_part(self._pack, "patient", "system", "system", **values), *_view(dialogue, "patient")]


class LLMStaff(ModelAgent):
    """The clinical staff, which knows the results."""

    prompt = "staff"

    def reply(self, results: Facts, scene: Scene, dialogue: Dialogue) -> AsyncIterator[AgentOutput]:
        # results without a section are other tests
        grouped: dict[FactSection, list[Fact]] = {section: [] for section in _SECTION}
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


def _view(dialogue: Dialogue, speaking: Speaker) -> list[PromptPart]:
    """Return the parts of a role's view of a dialogue; its turns have other numbers than those of the dialogue."""
    return [replace(part, turn=None) for part in dialogue_parts(dialogue, speaking)]


_LONGEST = 500
"""Maximum number of characters of the rater's words that are stored."""


def rating_of(answer: judging.FormAnswer, call_id: str | None = None) -> Rating:
    """Return the rating with reason and quotations; none if it is void, or if the patient cannot judge."""
    if answer.void:
        words = f"Void, because these are no words of the doctor: “{answer.quotations[-1].words}”. {answer.reason}"
    else:
        words = " ".join([answer.reason, *(f"“{quoted.words}”" for quoted in answer.quotations)])
    value = None if answer.void or answer.value == CANNOT_JUDGE else int(answer.value)
    return Rating(value, words.strip()[:_LONGEST], call_id)
