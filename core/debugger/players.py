"""Plays one step of a trial on messages as they are given: a model is sent them, rules read what they need in them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace

from core.agents.base import Grader, Judgement, Said, Saying, Scene, what_patient_holds
from core.agents.calls import Voice, call
from core.agents.parts import StepMessage
from core.agents.reference.doctor import ReferenceDoctor
from core.agents.reference.grader import ReferenceGrader, ReferenceSummariser
from core.agents.reference.patient import ReferencePatient
from core.case import Case
from core.debugger.read_back import dialogue_in, material_in, question_in, value_in
from core.debugger.sent import prompts_of
from core.debugger.steps import Step, StepKind, TrialRecord, sent_messages
from core.errors import UsageError
from core.events import Purpose, Utterance
from core.frameworks.answering import question_of
from core.frameworks.base import FrameworkSettings, framework, scene_of
from core.frameworks.casting import REFERENCE, Casting, CastNames, is_model
from core.images import contents
from core.models.base import Message, Sampling
from core.models.pictures import pictures_of, refusal
from core.models.registry import Registry
from core.persona import parse_persona

_PURPOSES: dict[StepKind, Purpose] = {
    "ask": "dialogue", "reply": "dialogue", "summarise": "summarise", "answer": "answer", "extract": "extract",
    "judge": "judge", "probe": "probe",
}  # fmt: skip
_SEEDED: tuple[StepKind, ...] = ("ask", "reply", "answer")


@dataclass(frozen=True)
class Player:
    """Who plays a step of a trial: ``model`` is the full name of a model or of one of the reference cast."""

    trial: TrialRecord
    step: Step
    model: str
    registry: Registry
    base_url: str | None = None

    def play(self, messages: Sequence[StepMessage]) -> AsyncIterator[Saying]:
        """Say what comes next; raises ``UsageError`` where the model cannot be asked, or nothing is left to send."""
        sent = sent_messages(messages)
        if not sent:
            raise UsageError("Nothing is left to send: every message is empty.")
        if not is_model(self.model):
            return self._by_rule(messages)
        self._check_pictures(sent)
        voice = Voice(
            self.registry.open(self.model, base_url=self._address(self.step.role, self.model)), self._sampling()
        )
        seed = self.trial.seed if self.step.kind in _SEEDED else None
        return call(voice, sent, self.step.role, _PURPOSES[self.step.kind], seed)

    def _check_pictures(self, sent: Sequence[Message]) -> None:
        """Raise ``UsageError`` where a picture of the step cannot be sent again: for its file, or for the model."""
        shown = pictures_of(sent)
        if shown and (why := refusal(self.registry.spec(self.model))):
            raise UsageError(why)
        for image in shown:
            contents(image)

    def grader(self, name: str) -> Grader:
        """Return who judges a new answer."""
        address = self._address("grader", name)
        return Casting(self.registry, prompts_of(self.trial.header).pack, base_url=address).grader(name)

    def _address(self, role: str, name: str) -> str | None:
        """Return where a model is reached: as said now, else where the run reached whoever had the role."""
        stored, own = (str(self.trial.header.settings.get(key) or "") for key in ("base_url", "own_address"))
        held = FrameworkSettings(base_url=stored or None, own_address=own)
        same = name == getattr(self.trial.header, role, None)
        return self.base_url or (held.address_of(role) if same else held.base_url)

    def _sampling(self) -> Sampling:
        """Return how the role is sampled in a run (``core.frameworks.casting``)."""
        stored = self.trial.header.settings
        doctors = framework(self.trial.header.protocol).stored_settings(stored).sampling
        if self.step.kind in ("ask", "answer"):
            return doctors
        if self.step.kind == "probe":
            return Sampling(temperature=0.0, effort=doctors.effort)
        return Sampling(temperature=0.0) if self.step.kind in ("extract", "judge") else Sampling()

    @property
    def _scene(self) -> Scene:
        persona = parse_persona(str(self.trial.header.settings.get("persona", "")))
        return scene_of(self.trial.case, self.trial.seed, persona)  # rules see no pictures

    def _by_rule(self, messages: Sequence[StepMessage]) -> AsyncIterator[Saying]:
        step, case, scene = self.step, self.trial.case, self._scene
        pack = prompts_of(self.trial.header).pack
        match step.kind:
            case "ask":
                return ReferenceDoctor().ask(scene, dialogue_in(messages, "doctor"))
            case "answer" if step.format and step.question_type:
                original = question_of(case, step.question_type, self.trial.header.many_choices)
                material = material_in(messages, step.format, pack)
                return ReferenceDoctor().answer(scene, material, question_in(messages, original, pack))
            case "reply":
                held = replace(what_patient_holds(case), caregiver=scene.caregiver)
                return ReferencePatient().reply(held, scene, dialogue_in(messages, "patient"))
            case "summarise":
                return ReferenceSummariser().summarise(self._lines(value_in(messages[0], "lines", pack)))
            case "extract":
                return _extract(case, value_in(messages[0], "response", pack))
            case "judge":
                return _compare(case, *(value_in(messages[0], name, pack) for name in ("answer", "extracted")))
            case _:
                raise UsageError("The reference doctor is not asked for its belief: it tells it by itself.")

    def _lines(self, joined: str) -> list[str]:
        """Return the patient's lines, or what they were edited to as one."""
        said = [e.text for e in self.trial.events if isinstance(e, Utterance) and e.role == "patient"]
        return said if " ".join(said) == joined else [joined]


def player_of(
    trial: TrialRecord, step: Step, model: str, registry: Registry, base_url: str | None = None
) -> Player:  # fmt: skip
    """Return who plays a step under a name or alias; raise ``UsageError`` for one that cannot play it."""
    if model == "human":
        raise UsageError("A person played this step: choose a model, or the reference cast, to run it again.")
    names = framework(trial.header.protocol).full_names(CastNames(**{**REFERENCE, step.role: model}), registry)
    return Player(trial, step, names[step.role], registry, base_url)


async def _extract(case: Case, response: str) -> AsyncIterator[Saying]:
    async for item in ReferenceGrader().grade(case, response):
        if isinstance(item, Judgement):
            yield Said(item.extracted or "None")


async def _compare(case: Case, answer: str, extracted: str) -> AsyncIterator[Saying]:
    """Say yes or no, as the grader's model is asked to; the names that go with an answer go with it alone."""
    if answer != case.answer:
        alone: dict[str, object] = {"synonyms": (), "supertypes": (), "subtypes": ()}
        case = case.model_copy(update={"answer": answer, **alone})
    async for item in ReferenceGrader().grade(case, f"**Final Diagnosis:** {extracted}"):
        if isinstance(item, Judgement):
            yield Said("Yes" if item.verdict == "correct" else "No")
