"""CRAFT-MD's reference cast in the debugger: the parts that models would receive in its place, and replies to them.

The rules do not read instructions. From edited messages they read the values of the prompt: the dialogue, the case, the
choices, the names to compare.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from core.agents.base import GraderResult, patient_knowledge
from core.agents.reference.doctor import ReferenceDoctor
from core.agents.reference.grader import ReferenceGrader, ReferenceSummariser
from core.agents.reference.patient import ReferencePatient
from core.asking.parts import (
    PromptPart,
    answer_parts,
    consultation_parts,
    instruction_part,
    patient_parts,
    summary_part,
)
from core.asking.scene import AgentOutput, Dialogue, FinalMessage, Material, Question, Scene, Turn
from core.case import Case
from core.errors import UsageError
from core.events import Format, Speaker
from core.frameworks.answering import question_of, shown
from core.frameworks.base import Arm
from core.frameworks.conversation import scene_of
from core.journal import RunHeader
from core.prompts import PromptPack
from core.text.questions import question_kind

_MARK = "\ue000"
"""A character of the private use area, which no text contains; it marks the position of a value."""
_LISTED = re.compile(r"^[ \t]*(?:[A-Z][.)]|[-*•])[ \t]+(.+?)[ \t]*$", re.MULTILINE)


@dataclass(frozen=True)
class ByRule:
    """The rules of one trial (``core.asking.parts.SeatRules``), with the prompts of the pack."""

    case: Case
    header: RunHeader
    seed: int
    pack: PromptPack

    def parts(
        self,
        kind: str,
        dialogue: Dialogue,
        arm: Arm | None = None,
        summary: str = "",
        response: str = "",
        extracted: str = "",
    ) -> list[PromptPart]:
        """Return the parts that a model would receive in a step; empty if the step sends nothing."""
        case, pack = self.case, self.pack
        match kind:
            case "ask":
                return consultation_parts(pack, self._scene, dialogue)
            case "reply":
                return patient_parts(pack, patient_knowledge(case), self._scene, dialogue)
            case "summarise":
                return [summary_part(pack, [turn.text for turn in dialogue if turn.role == "patient"])]
            case "answer" if arm is not None and arm[0] != "closing":
                question = question_of(case, arm[1], self.header.many_choices)
                material = self._material(arm[0], dialogue, summary)
                return answer_parts(pack, self._scene, material, question) if material else []
            case "extract":
                return [instruction_part(pack, "grader_extract", response=response, asks_for=question_kind(case))]
            case "judge":
                names = {"answer": case.answer, "extracted": extracted}
                return [instruction_part(pack, "grader_judge", asks_for=question_kind(case), **names)]
        return []

    def play(
        self, kind: str, arm: Arm | None, parts: Sequence[PromptPart], lines: Sequence[str]
    ) -> AsyncIterator[AgentOutput]:
        case, scene = self.case, self._scene.without_pictures()
        match kind:
            case "ask":
                return ReferenceDoctor().ask(scene, _dialogue_in(parts, "doctor"))
            case "answer" if arm is not None:
                original = question_of(case, arm[1], self.header.many_choices)
                material = _material_in(parts, arm[0], self.pack)
                return ReferenceDoctor().answer(scene, material, _question_in(parts, original))
            case "reply":
                return ReferencePatient().reply(patient_knowledge(case), scene, _dialogue_in(parts, "patient"))
            case "summarise":
                (joined,) = _values_in(parts[0], self.pack, "lines")
                return ReferenceSummariser().summarise(lines if " ".join(lines) == joined else [joined])
            case "extract":
                return _extract(case, *_values_in(parts[0], self.pack, "response"))
            case "judge":
                return _compare(case, *_values_in(parts[0], self.pack, "answer", "extracted"))
        raise UsageError("The reference doctor is not asked for its belief: it tells it by itself.")

    @property
    def _scene(self) -> Scene:
        return scene_of(self.case, self.seed, pictures=bool(self.header.settings.get("images")))

    def _material(self, format_: Format, dialogue: Dialogue, summary: str) -> Material | None:
        if format_ == "summarized":
            return Material(format_, text=summary) if summary else None
        if format_ not in ("vignette", "exam_only") and not dialogue:
            return None
        return shown(format_, self.case, dialogue)


def _dialogue_in(parts: Sequence[PromptPart], speaking: Speaker) -> Dialogue:
    """Return the dialogue in the parts; the next speaker's messages have the role ``assistant``."""
    other: Speaker = "patient" if speaking == "doctor" else "doctor"
    messages = [part for part in parts if part.part == "dialogue" and part.content.strip()]
    return tuple(Turn(speaking if part.role == "assistant" else other, part.content) for part in messages)


def _material_in(parts: Sequence[PromptPart], format_: Format, pack: PromptPack) -> Material:
    written = [_values_in(part, pack, "text")[0] for part in parts if part.part == "case"]
    if written:
        return Material(format_, text="\n\n".join(written))
    examinations = [_values_in(part, pack, "examination")[0] for part in parts if part.part == "examination"]
    return Material(
        format_, _dialogue_in(parts, "doctor"), examination="\n\n".join(examinations) if examinations else None
    )


def _question_in(parts: Sequence[PromptPart], original: Question) -> Question:
    """Return the question with the choices of the edited text, or of ``original`` if the text lists none."""
    text = next((part.content for part in parts if part.part == "question"), "")
    listed = tuple(line[1] for line in _LISTED.finditer(text)) if original.choices else ()
    return replace(original, choices=listed or original.choices)


def _values_in(part: PromptPart, pack: PromptPack, *names: str) -> list[str]:
    """Return the values of these prompt inputs in an edited part; the whole text if the prompt does not match."""
    prompt = pack.prompts.get(part.prompt or "")
    if prompt is not None and set(names) <= set(part.values) == set(prompt.inputs):
        marks = {name: f"{_MARK}{name}{_MARK}" for name in names}
        values: dict[str, Any] = {**part.values, **marks}
        pattern = re.escape(prompt.render(**values))
        for name, mark in marks.items():
            pattern = pattern.replace(re.escape(mark), f"(?P<{name}>.*)", 1)
        if match := re.fullmatch(pattern, part.content.strip(), re.DOTALL):
            return [match[name] for name in names]
    return [part.content] * len(names)


async def _extract(case: Case, response: str) -> AsyncIterator[AgentOutput]:
    async for item in ReferenceGrader().grade(case, response):
        if isinstance(item, GraderResult):
            yield FinalMessage(item.extracted or "None")


async def _compare(case: Case, answer: str, extracted: str) -> AsyncIterator[AgentOutput]:
    if answer != case.answer:
        # synonyms and subtypes belong to the original answer only
        no_names: dict[str, object] = {"synonyms": (), "supertypes": (), "subtypes": ()}
        case = case.model_copy(update={"answer": answer, **no_names})
    async for item in ReferenceGrader().grade(case, f"**Final Diagnosis:** {extracted}"):
        if isinstance(item, GraderResult):
            yield FinalMessage("Yes" if item.verdict == "correct" else "No")
