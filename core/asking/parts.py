"""The parts of a request: each with the prompt and the values that it was rendered from.

Agents pass parts to ``core.asking.calls.call``, which sends them as messages and records the position of each part in
the messages; ``parts_of`` cuts them out of the record again.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from core.asking.persona import PLAIN, caregiver_speaks, persona_prompt
from core.asking.scene import Dialogue, Material, PatientKnowledge, Question, Scene
from core.errors import UsageError
from core.events import CallRecord, Format, QuestionType, SentPart, Speaker
from core.images import Image
from core.models.base import Message, Role, joined, message
from core.models.pictures import read_back
from core.prompts import PromptPack

PartName = Literal[
    "system", "persona", "picture", "case", "dialogue", "examination", "question", "instruction", "message"
]
"""The kind of a part. A ``message`` has no known prompt or values."""
_BETWEEN = "\n\n"
"""Separates parts that are sent as one message (``core.models.base.joined``)."""
AFTER_CONVERSATION = "after_conversation"
"""The prompt between a conversation and the question about it."""
_MIN_PACKED = 24
"""A value of at least this many characters is stored as its position in the part, which is shorter."""


class SeatRules(Protocol):
    """The parts that a model would receive in place of the rules in a trial's seats."""

    def parts(
        self,
        kind: str,
        dialogue: Dialogue,
        arm: tuple[Format, QuestionType] | None = None,
        summary: str = "",
        response: str = "",
        extracted: str = "",
    ) -> list[PromptPart]:
        """Return the parts that a model would receive in a step; empty if the step sends nothing.

        Args:
            kind: The kind of step (``core.debugger.steps.StepKind``).
            dialogue: The dialogue before the step.
            arm: Format and question type of an answer.
            summary: The summary before the step.
            response: The response to be graded.
            extracted: The diagnosis extracted from it.
        """


@dataclass(frozen=True)
class PromptPart:
    """A message, or a part of one.

    A part shares a message with the part before it if it is ``joined`` to it or if both have the same role.

    ``prompt`` names a prompt of the pack, ``values`` are its inputs (JSON types), ``source`` is its file
    (``prompts/PACK/doctor.md``) and ``source_hash`` the file's hash. ``turn`` is the number of the dialogue's message,
    from 0. ``images`` are sent in the same message.
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


def prompt_part(pack: PromptPack, prompt: str, role: Role, part: PartName, **values: Any) -> PromptPart:
    template = pack.prompts[prompt]
    taken = template.taken(values)
    return PromptPart(role, template.filled(taken), part, prompt, pack.file_of(prompt), template.hash, taken)


def instruction_part(pack: PromptPack, prompt: str, **values: Any) -> PromptPart:
    """Return a prompt that is sent alone, such as the summariser's or one of the grader's."""
    return prompt_part(pack, prompt, "user", "instruction", **values)


def dialogue_parts(dialogue: Dialogue, speaking: Speaker) -> list[PromptPart]:
    """Return the dialogue from the view of the next speaker, whose own messages have the role ``assistant``."""
    return [
        PromptPart("assistant" if turn.role == speaking else "user", turn.text, "dialogue", turn=number)
        for number, turn in enumerate(dialogue)
    ]


def messages_of(parts: Sequence[PromptPart | Message], *, said: bool = False) -> list[Message]:
    """Return parts as messages; ``wire`` joins neighbours of one role.

    With ``said``, messages of the dialogue carry that mark (``core.models.base.Message``).
    """
    messages: list[Message] = []
    for part in parts:
        new = message(part.role, part.content, part.images) if isinstance(part, PromptPart) else part
        if said and isinstance(part, PromptPart) and part.part == "dialogue":
            new["said"] = True
        # a user may have deleted the part that this one was joined to
        if isinstance(part, PromptPart) and part.joined and messages and messages[-1]["role"] == part.role:
            messages[-1] = joined(messages[-1], new)
        else:
            messages.append(new)
    return messages


def wire(messages: Sequence[Message]) -> list[Message]:
    """Return the messages as they are sent: neighbours of one role are joined, because many chat templates need it."""
    sent: list[Message] = []
    for new in messages:
        if sent and sent[-1]["role"] == new["role"] != "system":
            sent[-1] = joined(sent[-1], new)
        else:
            sent.append(new)
    return sent


def sent_messages(parts: Sequence[PromptPart]) -> list[Message]:
    """Return parts, edited or not, as messages to send; empty parts are left out with their pictures."""
    return wire(messages_of([part for part in parts if part.content.strip()]))


def placed(parts: Sequence[PromptPart | Message], messages: Sequence[Mapping[str, Any]]) -> tuple[SentPart, ...]:
    """Return the position of each part in the sent messages; empty if the messages contain anything else."""
    positions: list[SentPart] = []
    number = at = 0
    for item in parts:
        part = item if isinstance(item, PromptPart) else _unknown(item)
        content = str(messages[number]["content"]) if number < len(messages) else ""
        end = at + len(part.content)
        if number == len(messages) or content[at:end] != part.content:
            return ()
        if part.prompt is None and not part.values:
            position = _message_position(part.role, part.part, number, at, end, part.turn, part.joined)
        else:
            position = SentPart(
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
        positions.append(position)
        if end == len(content):
            number, at = number + 1, 0
        elif content.startswith(_BETWEEN, end):
            at = end + len(_BETWEEN)
        else:
            return ()
    return tuple(positions) if number == len(messages) else ()


@functools.lru_cache(maxsize=16_384)
def _message_position(
    role: str, part: str, number: int, start: int, end: int, turn: int | None, joined: bool
) -> SentPart:
    """Return the position of a message of the dialogue, which every later request of the conversation repeats."""
    return SentPart(role=role, part=part, message=number, start=start, end=end, turn=turn, joined=joined)


def parts_of(call: CallRecord) -> tuple[PromptPart, ...]:
    """Return the parts of a recorded request; whole messages if the positions of parts were not recorded."""
    messages = [read_back(stored) for stored in call.request.get("messages") or ()]
    if not call.parts:
        return tuple(_unknown(sent) for sent in messages)
    parts: list[PromptPart] = []
    for number, position in enumerate(call.parts):
        text = messages[position.message]["content"][position.start : position.end]
        neighbour = number > 0 and call.parts[number - 1].message == position.message
        parts.append(
            PromptPart(
                position.role,  # type: ignore[arg-type]
                text,
                position.part,  # type: ignore[arg-type]
                position.prompt,
                position.source,
                position.source_hash,
                {name: _unpacked(value, text) for name, value in position.values.items()},
                position.turn,
                position.joined or neighbour,
            )
        )
    for number, sent in enumerate(messages):
        if images := sent.get("images"):
            places = [n for n, position in enumerate(call.parts) if position.message == number]
            place = next((n for n in places if parts[n].part == "picture"), places[0])
            parts[place] = replace(parts[place], images=images)
    return tuple(parts)


def _unknown(sent: Message) -> PromptPart:
    return PromptPart(sent["role"], sent["content"], "message", images=sent.get("images", ()))


def _packed(value: Any, text: str) -> Any:
    """Return a value in which long strings that occur in the text are replaced by their position there."""
    if isinstance(value, list | tuple):
        return [_packed(item, text) for item in value]
    if isinstance(value, dict):
        return {name: _packed(item, text) for name, item in value.items()}
    if isinstance(value, str) and len(value) >= _MIN_PACKED and (start := text.find(value)) >= 0:
        return {"at": [start, start + len(value)]}
    return value


def _unpacked(value: Any, text: str) -> Any:
    if isinstance(value, list):
        return [_unpacked(item, text) for item in value]
    if isinstance(value, dict) and value.keys() == {"at"}:  # no prompt takes a mapping with this one member
        start, end = value["at"]
        return text[start:end]
    if isinstance(value, dict):
        return {name: _unpacked(item, text) for name, item in value.items()}
    return value


def consultation_parts(pack: PromptPack, scene: Scene, dialogue: Dialogue) -> list[PromptPart]:
    system = prompt_part(pack, "doctor", "system", "system", specialty=scene.specialty)
    return [system, *picture_parts(pack, scene), *dialogue_parts(dialogue, "doctor")]


def answer_parts(pack: PromptPack, scene: Scene, material: Material, question: Question) -> list[PromptPart]:
    parts: list[PromptPart]
    if material.text is not None:
        values = {"specialty": scene.specialty, "asks_for": question.asks_for}
        system = prompt_part(pack, "answer_system", "system", "system", **values)
        case = prompt_part(pack, "material", "user", "case", text=material.text, kind=material.format)
        parts = [system, *picture_parts(pack, scene), case]
    else:
        parts = consultation_parts(pack, scene, material.dialogue)
    if material.examination is not None:
        parts.append(prompt_part(pack, "exam", "user", "examination", examination=material.examination))
    return [*parts, *(after_conversation(pack) if material.text is None else []), question_part(pack, question)]


def after_conversation(pack: PromptPack) -> list[PromptPart]:
    """Return the prompt that ends the questions to the patient; empty if the pack has none.

    Without it the doctor's system prompt still says to go on asking, because the message with the diagnosis is cut.
    Johri et al. 2025 end the conversation in this way, too.
    """
    return [instruction_part(pack, AFTER_CONVERSATION)] if AFTER_CONVERSATION in pack.prompts else []


def picture_parts(pack: PromptPack, scene: Scene) -> list[PromptPart]:
    """Return the pictures of the case with the pack's words for them; empty for a case without pictures."""
    if not scene.images:
        return []
    picture = prompt_part(pack, "picture", "user", "picture", count=len(scene.images))
    return [replace(picture, images=scene.images)]


def question_part(pack: PromptPack, question: Question) -> PromptPart:
    values: dict[str, Any] = {"question": question.text, "asks_for": question.asks_for}
    if question.question_type == "mcq":
        values["choices"] = [list(pair) for pair in zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", question.choices, strict=False)]
    elif question.question_type in ("mcq_many", "mcq_answers"):
        values["choices"] = list(question.choices)
    return prompt_part(pack, answer_prompt(question.question_type), "user", "question", **values)


def answer_prompt(question_type: QuestionType) -> str:
    return "answer_mcq_many" if question_type == "mcq_answers" else f"answer_{question_type}"


def patient_parts(pack: PromptPack, knowledge: PatientKnowledge, scene: Scene, dialogue: Dialogue) -> list[PromptPart]:
    """Return the request for the patient's reply; the persona follows in the same system message.

    Raises:
        UsageError: The pack has no prompt for the persona.
    """
    caregiver = caregiver_speaks(scene.persona, knowledge.caregiver)
    system = [prompt_part(pack, "patient", "system", "system", vignette=knowledge.vignette, caregiver=caregiver)]
    if scene.persona != PLAIN:
        persona = scene.persona
        values = {
            "temperament": persona.temperament,
            "language": persona.language or "",
            "memory": persona.memory,
            "caregiver": caregiver,
        }
        text = persona_prompt(pack, persona, caregiver)
        file, file_hash = pack.file_of("persona"), pack.prompts["persona"].hash
        system.append(PromptPart("system", text, "persona", "persona", file, file_hash, values, joined=True))
    return [*system, *dialogue_parts(dialogue, "patient")]


def summary_part(pack: PromptPack, lines: Sequence[str]) -> PromptPart:
    return instruction_part(pack, "summariser", lines=" ".join(lines))


def check_picture_prompt(pack: PromptPack) -> None:
    """Raise ``UsageError`` if a prompt pack has no prompt for pictures; only cases with pictures need it."""
    if "picture" not in pack.prompts:
        raise UsageError(
            f"The prompts {pack.name} have no picture.md, which cases with pictures need: add one, or run "
            "without pictures."
        )
