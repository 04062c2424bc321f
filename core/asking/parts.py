"""What a model is sent, part by part: each with the prompt and the values it was made of.

Agents hand parts to ``core.asking.calls.call``, which sends them as messages and records where each part stands in
these; ``parts_of`` cuts them out of the record again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from core.asking.persona import PLAIN, caregiver_speaks, persona_prompt
from core.asking.scene import AgentOutput, Dialogue, Material, PatientKnowledge, Question, Scene
from core.errors import UsageError
from core.events import CallRecord, Format, QuestionType, SentPart, Speaker
from core.images import Image
from core.models.base import Message, Role, joined, message
from core.models.pictures import read_back
from core.prompts import PromptPack

PartName = Literal[
    "system", "persona", "picture", "case", "dialogue", "examination", "question", "instruction", "message"
]
"""What a part is; a ``message`` is one of which no more is known than what was sent."""
_BETWEEN = "\n\n"
"""Between parts that are sent as one message (``core.models.base.joined``)."""
AFTER_CONVERSATION = "after_conversation"
"""The prompt between a conversation and the question about it."""
_LEAST = 24
"""Characters from which a value is kept as its place in the part, which is then the shorter way."""


class Rules(Protocol):
    """The rules that played a trial's seats: what models would be sent in their place, and rules on that edited."""

    def parts(
        self,
        kind: str,
        dialogue: Dialogue,
        arm: tuple[Format, QuestionType] | None = None,
        summary: str = "",
        response: str = "",
        extracted: str = "",
    ) -> list[Part]:
        """Return what a model would be sent in a step (``core.debugger.steps.StepKind``); empty where nothing is.

        ``dialogue`` and ``summary`` are those so far, ``response`` and what was ``extracted`` of it are to be graded.
        """

    def play(
        self, kind: str, arm: tuple[Format, QuestionType] | None, parts: Sequence[Part], lines: Sequence[str]
    ) -> AsyncIterator[AgentOutput]:
        """Play a step on parts as they stand, edited or not; ``lines`` are what the patient said in the trial."""


@dataclass(frozen=True)
class Part:
    """A message or, where it is ``joined`` to the one before it or both have one role, a part of one.

    ``prompt`` and ``values`` are the prompt of the pack and what is filled in (of JSON's types); ``source`` is the
    prompt's file (``prompts/PACK/doctor.md``) and ``source_hash`` the hash of that. ``turn`` is the dialogue's
    message, from 0. ``images`` go in the same message.
    """

    role: Role
    content: str
    part: PartName
    prompt: str | None = None
    source: str | None = None
    source_hash: str | None = None
    values: Mapping[str, Any] = field(default_factory=dict)
    turn: int | None = None
    joined: bool = False
    images: tuple[Image, ...] = ()


def prompt_part(pack: PromptPack, prompt: str, role: Role, part: PartName, **values: Any) -> Part:
    """Return a prompt of the pack, filled in."""
    found = pack.prompts[prompt]
    return Part(role, found.render(**values), part, prompt, pack.file_of(prompt), found.hash, found.taken(values))


def instruction_part(pack: PromptPack, prompt: str, **values: Any) -> Part:
    """Return a prompt that is sent alone: of the summariser, or of one of the grader's steps."""
    return prompt_part(pack, prompt, "user", "instruction", **values)


def dialogue_parts(dialogue: Dialogue, speaking: Speaker) -> list[Part]:
    """Return the dialogue as the one who speaks next sees it: its own messages are the assistant's."""
    return [
        Part("assistant" if turn.role == speaking else "user", turn.text, "dialogue", turn=number)
        for number, turn in enumerate(dialogue)
    ]


def messages_of(parts: Sequence[Part | Message], *, said: bool = False) -> list[Message]:
    """Return parts as messages; ``wire`` joins those where one role follows itself.

    With ``said`` those of the dialogue are known as such (``core.models.base.Message``).
    """
    messages: list[Message] = []
    for part in parts:
        one = message(part.role, part.content, part.images) if isinstance(part, Part) else part
        if said and isinstance(part, Part) and part.part == "dialogue":
            one["said"] = True
        # what it was joined to may have been left out by whoever edited it
        if isinstance(part, Part) and part.joined and messages and messages[-1]["role"] == part.role:
            messages[-1] = joined(messages[-1], one)
        else:
            messages.append(one)
    return messages


def wire(messages: Sequence[Message]) -> list[Message]:
    """Return the messages as they are sent: neighbours of one role are joined, as many chat templates want."""
    sent: list[Message] = []
    for one in messages:
        if sent and sent[-1]["role"] == one["role"] != "system":
            sent[-1] = joined(sent[-1], one)
        else:
            sent.append(one)
    return sent


def sent_messages(parts: Sequence[Part]) -> list[Message]:
    """Return parts, edited or not, as the messages that are sent; empty ones are left out, with their pictures."""
    return wire(messages_of([part for part in parts if part.content.strip()]))


def placed(parts: Sequence[Part | Message], messages: Sequence[Mapping[str, Any]]) -> tuple[SentPart, ...]:
    """Return where each part stands in messages as they were sent; nothing where they are not just these parts."""
    found: list[SentPart] = []
    number = at = 0
    for one in parts:
        part = one if isinstance(one, Part) else _unknown(one)
        content = str(messages[number]["content"]) if number < len(messages) else ""
        end = at + len(part.content)
        if number == len(messages) or content[at:end] != part.content:
            return ()
        found.append(
            SentPart(
                role=part.role,
                part=part.part,
                message=number,
                start=at,
                end=end,
                prompt=part.prompt,
                source=part.source,
                source_hash=part.source_hash,
                turn=part.turn,
                joined=part.joined,
                values={name: _packed(value, part.content) for name, value in part.values.items()},
            )
        )
        if end == len(content):
            number, at = number + 1, 0
        elif content.startswith(_BETWEEN, end):
            at = end + len(_BETWEEN)
        else:
            return ()
    return tuple(found) if number == len(messages) else ()


def parts_of(call: CallRecord) -> tuple[Part, ...]:
    """Return what a call was sent, cut into its parts; message by message where these were not recorded."""
    messages = [read_back(kept) for kept in call.request.get("messages") or ()]
    if not call.parts:
        return tuple(_unknown(one) for one in messages)
    found: list[Part] = []
    for number, kept in enumerate(call.parts):
        within = messages[kept.message]
        text = within["content"][kept.start : kept.end]
        neighbour = number > 0 and call.parts[number - 1].message == kept.message
        found.append(
            Part(
                kept.role,  # type: ignore[arg-type]
                text,
                kept.part,  # type: ignore[arg-type]
                kept.prompt,
                kept.source,
                kept.source_hash,
                {name: _unpacked(value, text) for name, value in kept.values.items()},
                kept.turn,
                kept.joined or neighbour,
            )
        )
    for number, one in enumerate(messages):
        if images := one.get("images"):
            places = [n for n, kept in enumerate(call.parts) if kept.message == number]
            place = next((n for n in places if found[n].part == "picture"), places[0])
            found[place] = replace(found[place], images=images)
    return tuple(found)


def _unknown(one: Message) -> Part:
    return Part(one["role"], one["content"], "message", images=one.get("images", ()))


def _packed(value: Any, text: str) -> Any:
    """Return a value with its long words as their place in the text, where they stand there."""
    if isinstance(value, list | tuple):
        return [_packed(one, text) for one in value]
    if isinstance(value, str) and len(value) >= _LEAST and (start := text.find(value)) >= 0:
        return {"at": [start, start + len(value)]}
    return value


def _unpacked(value: Any, text: str) -> Any:
    if isinstance(value, list):
        return [_unpacked(one, text) for one in value]
    if isinstance(value, dict):
        start, end = value["at"]
        return text[start:end]
    return value


def consultation_parts(pack: PromptPack, scene: Scene, dialogue: Dialogue) -> list[Part]:
    """Return what the doctor sees before its next message."""
    system = prompt_part(pack, "doctor", "system", "system", specialty=scene.specialty)
    return [system, *picture_parts(pack, scene), *dialogue_parts(dialogue, "doctor")]


def answer_parts(pack: PromptPack, scene: Scene, material: Material, question: Question) -> list[Part]:
    """Return what the doctor is shown and asked in an arm."""
    if material.text is not None:
        asked = {"specialty": scene.specialty, "asks_for": question.asks_for}
        system = prompt_part(pack, "answer_system", "system", "system", **asked)
        written = prompt_part(pack, "material", "user", "case", text=material.text, kind=material.format)
        shown = [system, *picture_parts(pack, scene), written]
    else:
        shown = consultation_parts(pack, scene, material.dialogue)
    if material.examination is not None:
        shown.append(prompt_part(pack, "exam", "user", "examination", examination=material.examination))
    return [*shown, *(after_conversation(pack) if material.text is None else []), question_part(pack, question)]


def after_conversation(pack: PromptPack) -> list[Part]:
    """Return what tells the doctor to ask the patient nothing more; a pack need not have words for it.

    The doctor's system prompt still says to go on asking, and the message with its diagnosis is cut. Johri et al.
    2025 say so before the question, too.
    """
    return [instruction_part(pack, AFTER_CONVERSATION)] if AFTER_CONVERSATION in pack.prompts else []


def picture_parts(pack: PromptPack, scene: Scene) -> list[Part]:
    """Return the pictures of the case as the doctor is shown them, with the words of the pack; often there are none."""
    if not scene.images:
        return []
    shown = prompt_part(pack, "picture", "user", "picture", count=len(scene.images))
    return [replace(shown, images=scene.images)]


def question_part(pack: PromptPack, question: Question) -> Part:
    """Return the rendered question of an arm."""
    values: dict[str, Any] = {"question": question.text, "asks_for": question.asks_for}
    if question.question_type == "mcq":
        values["choices"] = [list(pair) for pair in zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", question.choices, strict=False)]
    elif question.question_type in ("mcq_many", "mcq_answers"):
        values["choices"] = list(question.choices)
    return prompt_part(pack, answer_prompt(question.question_type), "user", "question", **values)


def answer_prompt(question_type: QuestionType) -> str:
    """Return the prompt by which a question type is asked."""
    return "answer_mcq_many" if question_type == "mcq_answers" else f"answer_{question_type}"


def patient_parts(pack: PromptPack, held: PatientKnowledge, scene: Scene, dialogue: Dialogue) -> list[Part]:
    """Return what the patient sees before its reply; raises ``UsageError`` for a persona that the pack cannot say.

    The persona belongs to the system message before it, after an empty line.
    """
    caregiver = caregiver_speaks(scene.persona, held.caregiver)
    system = [prompt_part(pack, "patient", "system", "system", vignette=held.vignette, caregiver=caregiver)]
    if scene.persona != PLAIN:
        text = persona_prompt(pack, scene.persona, caregiver)
        persona = scene.persona
        how = {"temperament": persona.temperament, "language": persona.language or "", "memory": persona.memory}
        values = {**how, "caregiver": caregiver}
        file, hashed = pack.file_of("persona"), pack.prompts["persona"].hash
        system.append(Part("system", text, "persona", "persona", file, hashed, values, joined=True))
    return [*system, *dialogue_parts(dialogue, "patient")]


def summary_part(pack: PromptPack, lines: Sequence[str]) -> Part:
    """Return what the summariser is given: the patient's lines."""
    return instruction_part(pack, "summariser", lines=" ".join(lines))


def check_picture_prompt(pack: PromptPack) -> None:
    """Raise ``UsageError`` where a prompt pack has no words for pictures; it needs them only where these are shown."""
    if "picture" not in pack.prompts:
        raise UsageError(
            f"The prompt pack {pack.name} has no picture.md, which goes with the pictures of a case: add one, or run "
            "without pictures."
        )
