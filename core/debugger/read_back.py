"""Reads what rules need (the dialogue, the case, the question, the names) back from messages that were edited.

The reference cast does not read instructions: of an edited prompt it takes what stands where a value was filled in.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from core.agents.base import Dialogue, Material, Question, Turn
from core.agents.parts import StepMessage
from core.events import Format, Speaker
from core.prompts import PromptPack

_MARK = "\ue000"
"""A character for private use, which no text holds: stands for a value to find where it is filled in."""
_LISTED = re.compile(r"^[ \t]*(?:[A-Z][.)]|[-*•])[ \t]+(.+?)[ \t]*$", re.MULTILINE)


def dialogue_in(messages: Sequence[StepMessage], speaking: Speaker) -> Dialogue:
    """Return the dialogue as the one who speaks next (the assistant) was shown it."""
    other: Speaker = "patient" if speaking == "doctor" else "doctor"
    said = [message for message in messages if message.part == "dialogue" and message.content.strip()]
    return tuple(Turn(speaking if message.role == "assistant" else other, message.content) for message in said)


def material_in(messages: Sequence[StepMessage], format_: Format, pack: PromptPack) -> Material:
    """Return what an answer was to be based on."""
    written = [value_in(message, "text", pack) for message in messages if message.part == "case"]
    if written:
        return Material(format_, text="\n\n".join(written))
    seen = [value_in(message, "examination", pack) for message in messages if message.part == "examination"]
    return Material(format_, dialogue_in(messages, "doctor"), examination="\n\n".join(seen) if seen else None)


def question_in(messages: Sequence[StepMessage], original: Question, pack: PromptPack) -> Question:
    """Return the question with the choices that the edited one lists; those of ``original`` where it lists none."""
    asked = next((message for message in messages if message.part == "question"), None)
    if asked is None or not original.choices or _unchanged(asked, pack):
        return original
    listed = tuple(found[1] for found in _LISTED.finditer(asked.content))
    return replace(original, choices=listed or original.choices)


def value_in(message: StepMessage, name: str, pack: PromptPack) -> str:
    """Return what stands in place of the prompt's input ``name``, or the whole text where that cannot be told."""
    prompt = pack.prompts.get(message.prompt or "")
    if prompt is None or name not in prompt.inputs or set(message.values) != set(prompt.inputs):
        return message.content
    marks = {key: f"{_MARK}{key}{_MARK}" for key, value in message.values.items() if isinstance(value, str)}
    shown = {key: mark for key, mark in marks.items() if mark in prompt.render(**{**message.values, key: mark})}
    pattern = re.escape(prompt.render(**{**message.values, **shown}))
    for key, mark in shown.items():
        pattern = pattern.replace(re.escape(mark), f"(?P<{key}>.*)", 1)
    found = re.fullmatch(pattern, message.content.strip(), re.DOTALL)
    return found[name] if found and name in shown else message.content


def _unchanged(message: StepMessage, pack: PromptPack) -> bool:
    prompt = pack.prompts.get(message.prompt or "")
    if prompt is None or set(message.values) != set(prompt.inputs):
        return False
    return prompt.render(**message.values) == message.content
