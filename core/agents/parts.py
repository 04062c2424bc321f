"""What a model is sent in each step, part by part, each with the prompt it comes from.

The agents send exactly these parts, and the bench shows them, also where rules play and nothing is sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from core.agents import pictures
from core.agents.base import Dialogue, Held, Material, Question, Scene
from core.events import Speaker
from core.images import Image
from core.models.base import Message, Role, joined, message
from core.persona import PLAIN, Persona, caregiver_speaks, persona_prompt
from core.prompts import PromptPack

PartName = Literal["system", "persona", "picture", "case", "dialogue", "examination", "question", "instruction"]


@dataclass(frozen=True)
class Part:
    """A message or, where it is ``joined`` to the one before it or both have one role, a part of one.

    ``prompt`` and ``values`` are the prompt of the pack and what is filled in (of JSON's types); ``turn`` is the
    dialogue's message. ``images`` go in the same message.
    """

    role: Role
    content: str
    part: PartName
    prompt: str | None = None
    values: Mapping[str, Any] = field(default_factory=dict)
    turn: int | None = None
    joined: bool = False
    images: tuple[Image, ...] = ()


@dataclass(frozen=True)
class StepMessage:
    """One message of a step, or one part of it where several were joined into one.

    ``part`` says what it is (``system``, ``persona``, ``picture``, ``case``, ``dialogue``, ``examination``,
    ``question``, ``instruction``). ``source`` is where its words come from: ``prompts/craftmd/doctor.md``,
    ``message 3`` (of the dialogue, the greeting being message 0), or ``None`` where that is not known; ``source_hash``
    is the hash of the prompt's file. ``prompt`` and ``values`` are the prompt's name in its pack and what was filled
    in: what ``core.debugger.templates`` takes. ``joined`` says that it was sent in one message with the part before it,
    after an empty line. ``images`` are the pictures in it, which go again from their files.
    """

    role: Role
    content: str
    part: PartName
    source: str | None = None
    source_hash: str | None = None
    prompt: str | None = None
    values: Mapping[str, Any] = field(default_factory=dict)
    joined: bool = False
    images: tuple[Image, ...] = ()


def messages_of(parts: Sequence[Part]) -> list[Message]:
    """Return parts as messages; ``core.agents.calls.wire`` joins those where one role follows itself."""
    messages: list[Message] = []
    for part in parts:
        said = message(part.role, part.content, part.images)
        # what it was joined to may have been left out at the bench
        if part.joined and messages and messages[-1]["role"] == part.role:
            messages[-1] = joined(messages[-1], said)
        else:
            messages.append(said)
    return messages


def consultation_parts(pack: PromptPack, scene: Scene, dialogue: Dialogue) -> list[Part]:
    """Return what the doctor sees before its next message."""
    system = _filled(pack, "doctor", "system", "system", specialty=scene.specialty)
    return [system, *picture_parts(pack, scene), *_said(dialogue, "doctor")]


def answer_parts(pack: PromptPack, scene: Scene, material: Material, question: Question) -> list[Part]:
    """Return what the doctor is shown and asked in an arm."""
    return [*_material_parts(pack, scene, material, question), question_part(pack, question)]


def picture_parts(pack: PromptPack, scene: Scene) -> list[Part]:
    """Return the pictures of the case as the doctor is shown them, with the words of the pack; often there are none."""
    if not scene.images:
        return []
    shown = _filled(pack, pictures.PROMPT, "user", "picture", **pictures.values_of(scene.images))
    return [replace(shown, images=scene.images)]


def question_part(pack: PromptPack, question: Question) -> Part:
    """Return the rendered question of an arm."""
    values: dict[str, Any] = {"question": question.text, "asks_for": question.asks_for}
    if question.question_type == "mcq":
        values["choices"] = [list(pair) for pair in zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", question.choices, strict=False)]
    elif question.question_type == "mcq_many":
        values["choices"] = list(question.choices)
    return _filled(pack, f"answer_{question.question_type}", "user", "question", **values)


def patient_parts(pack: PromptPack, held: Held, scene: Scene, dialogue: Dialogue) -> list[Part]:
    """Return what the patient sees before its reply; raises ``UsageError`` for a persona that the pack cannot say.

    The persona belongs to the system message before it, after an empty line.
    """
    caregiver = caregiver_speaks(scene.persona, held.caregiver)
    system = [_filled(pack, "patient", "system", "system", vignette=held.vignette, caregiver=caregiver)]
    if scene.persona != PLAIN:
        text = persona_prompt(pack, scene.persona, caregiver)
        system.append(
            Part("system", text, "persona", "persona", _persona_values(scene.persona, caregiver), joined=True)
        )
    return [*system, *_said(dialogue, "patient")]


def instruction_part(pack: PromptPack, prompt: str, **values: Any) -> Part:
    """Return a prompt that is sent alone: of the summariser, or of one of the grader's steps."""
    return _filled(pack, prompt, "user", "instruction", **values)


def summary_part(pack: PromptPack, lines: Sequence[str]) -> Part:
    """Return what the summariser is given: the patient's lines."""
    return instruction_part(pack, "summariser", lines=" ".join(lines))


def _material_parts(pack: PromptPack, scene: Scene, material: Material, question: Question) -> list[Part]:
    if material.text is not None:
        asked = {"specialty": scene.specialty, "asks_for": question.asks_for}
        system = _filled(pack, "answer_system", "system", "system", **asked)
        written = _filled(pack, "material", "user", "case", text=material.text, kind=material.format)
        return [system, *picture_parts(pack, scene), written]
    parts = consultation_parts(pack, scene, material.dialogue)
    if material.examination is not None:
        parts.append(_filled(pack, "exam", "user", "examination", examination=material.examination))
    return parts


def _persona_values(persona: Persona, caregiver: bool) -> dict[str, Any]:
    values = {"temperament": persona.temperament, "language": persona.language or "", "memory": persona.memory}
    return {**values, "caregiver": caregiver}


def _said(dialogue: Dialogue, speaking: Speaker) -> list[Part]:
    """Return the dialogue as the one who speaks next sees it: its own messages are the assistant's."""
    return [
        Part("assistant" if turn.role == speaking else "user", turn.text, "dialogue", turn=number)
        for number, turn in enumerate(dialogue)
    ]


def _filled(pack: PromptPack, prompt: str, role: Role, part: PartName, **values: Any) -> Part:
    return Part(role, pack.render(prompt, **values), part, prompt, pack.prompts[prompt].taken(values))
