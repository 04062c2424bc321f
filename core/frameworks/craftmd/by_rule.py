"""The parts that models would receive in place of CRAFT-MD's reference cast."""

from __future__ import annotations

from dataclasses import dataclass

from core.agents.base import patient_knowledge
from core.asking.parts import (
    PromptPart,
    answer_parts,
    consultation_parts,
    instruction_part,
    patient_parts,
    summary_part,
)
from core.asking.scene import Dialogue, Material, Scene
from core.case import Case
from core.events import Format
from core.frameworks.answering import question_of, shown
from core.frameworks.base import Arm
from core.frameworks.conversation import scene_of
from core.journal import RunHeader
from core.prompts import PromptPack
from core.text.questions import question_kind


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

    @property
    def _scene(self) -> Scene:
        return scene_of(self.case, self.seed, pictures=bool(self.header.settings.get("images")))

    def _material(self, format_: Format, dialogue: Dialogue, summary: str) -> Material | None:
        if format_ == "summarized":
            return Material(format_, text=summary) if summary else None
        if format_ not in ("vignette", "exam_only") and not dialogue:
            return None
        return shown(format_, self.case, dialogue)
