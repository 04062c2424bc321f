"""A conversation in progress: its start, its messages and its end; shared by all frameworks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from core.agents.base import Inquirer, Probe
from core.agents.player import Human
from core.agents.probe import StatedBelief
from core.asking.persona import PLAIN, Persona
from core.asking.scene import AgentOutput, CallFailed, Dialogue, FinalMessage, Scene, Turn
from core.case import Case
from core.errors import ProviderError
from core.events import (
    FINAL_DIAGNOSIS,
    Assessed,
    Ended,
    EndReason,
    Event,
    Failed,
    Probed,
    Speaker,
    Started,
    Utterance,
    Waiting,
)
from core.frameworks.base import Branch, Framework, Trial
from core.frameworks.speech import END_RULE
from core.images import local_images

GO_ON, END_HERE = "Go on", "End here"
"""The choices of a person whose message would end a model's conversation; any other text counts as ``GO_ON``."""
_END_OR_GO_ON = "Your message has no question mark. A model’s conversation would end here. End here, or go on?"


@dataclass
class TrialDialogue:
    """The dialogue of one trial. ``turns`` computes ``Ended.doctor_turns`` from a dialogue."""

    dialogue: Dialogue
    turns: Callable[[Dialogue], int]
    ended: Ended | None = None

    @property
    def broken(self) -> Ended | None:
        """The ``Ended`` event, if a provider's failure or refusal ended the conversation."""
        return self.ended if self.ended is not None and self.ended.reason in ("error", "refusal") else None

    def repeated(self) -> list[Event]:
        return [
            Utterance(turn=turn, role=message.role, text=message.text) for turn, message in enumerate(self.dialogue)
        ]

    def said_by(self, role: Speaker) -> int:
        return sum(turn.role == role for turn in self.dialogue)

    async def say(
        self, role: Speaker, title: str, speaking: AsyncIterator[AgentOutput], *, strip: bool = False
    ) -> AsyncIterator[Event]:
        """Yield the events of a speaker, then the message; or, if a provider fails, ``Failed`` and ``Ended``."""
        reply = FinalMessage("")
        try:
            async for item in speaking:
                if isinstance(item, FinalMessage):
                    reply = item
                else:
                    yield item
            if not reply.text.strip():
                raise ProviderError("empty", f"The {title} said nothing.")
        except (CallFailed, ProviderError) as failure:
            error = failure.error if isinstance(failure, CallFailed) else failure
            if isinstance(failure, CallFailed):
                yield failure.called
            yield Failed(where="conversation", failure=error.kind, message=str(error))
            yield self.over("refusal" if error.kind == "refused" else "error", str(error))
            return
        text = reply.text.strip() if strip else reply.text
        yield Utterance(turn=len(self.dialogue), role=role, text=text, call_id=reply.call_id)
        self.dialogue = (*self.dialogue, Turn(role, text))

    def over(self, reason: EndReason, detail: str = "") -> Ended:
        self.ended = Ended(reason=reason, doctor_turns=self.turns(self.dialogue), detail=detail)
        return self.ended

    async def believe(
        self, scene: Scene, belief: StatedBelief | None, probe: Probe | None = None
    ) -> AsyncIterator[Event]:
        """Yield the doctor's present belief: ``belief`` if the doctor states it, else the result of the probe."""
        if belief:
            yield Probed(turn=len(self.dialogue) - 1, differential=belief)
        elif probe is not None:
            async for event in probe.believe(scene, self.dialogue):
                yield event


async def in_turns(
    trial_dialogue: TrialDialogue,
    scene: Scene,
    doctor: Inquirer,
    reply: Callable[[Dialogue], AsyncIterator[AgentOutput]],
    capped: Callable[[Dialogue], bool],
    probe: Probe | None = None,
) -> AsyncIterator[Event]:
    """Yield the rest of a conversation in which doctor and patient take turns, up to ``Ended``.

    It ends when the doctor concludes, or before a message if ``capped`` is true of the dialogue. A person whose message
    has no question is asked whether to end; if not, the rule's decision is stored as an assessment of the message. The
    doctor's belief follows each reply of the patient.
    """
    while not trial_dialogue.ended:
        dialogue = trial_dialogue.dialogue
        by_doctor = dialogue[-1].role == "doctor"
        reason = concluded(dialogue[-1].text) if by_doctor and len(dialogue) > 1 else None
        if reason == "no_question" and isinstance(doctor, Human):
            decision = ""
            async for item in doctor.wait("dialogue", _END_OR_GO_ON, (GO_ON, END_HERE)):
                if isinstance(item, Waiting):
                    yield item
                elif isinstance(item, FinalMessage):
                    decision = item.text
            if decision != END_HERE:
                yield Assessed(name=END_RULE, turn=len(dialogue) - 1, values=(reason,))
                reason = None
        if reason is None and capped(dialogue):
            reason = "turn_cap"
        if reason is not None:
            yield trial_dialogue.over(reason)
        elif by_doctor:
            async for event in trial_dialogue.say("patient", "patient", reply(dialogue)):
                yield event
            if not trial_dialogue.ended:
                async for event in trial_dialogue.believe(
                    scene, doctor.differential(scene, trial_dialogue.dialogue), probe
                ):
                    yield event
        else:
            async for event in trial_dialogue.say("doctor", "doctor", doctor.ask(scene, dialogue)):
                yield event


def concluded(text: str) -> EndReason | None:
    """Return why a doctor's message ends a conversation of question and answer, or ``None`` if it continues.

    A final diagnosis ends it, or else a message without a question mark (Johri et al. 2025, Methods).
    """
    if FINAL_DIAGNOSIS in text:
        return "final_diagnosis"
    return None if "?" in text else "no_question"


def started(framework: Framework, trial: Trial, branch: Branch | None = None) -> Started:
    parent = branch.parent if branch else None
    return Started(
        trial_id=trial.trial_id,
        case_key=trial.case.case_key,
        trial=trial.number,
        seed=trial.seed,
        parent=parent,
        framework=framework.name,
        framework_version=framework.version,
    )


def scene_of(
    case: Case, seed: int, persona: Persona = PLAIN, *, with_specialty: bool = True, pictures: bool = False
) -> Scene:
    """Return the scene of a trial; a persona can replace the speaker of the case.

    ``with_specialty`` tells the doctor the case's specialty (except Other); ``pictures`` includes the case's imported
    pictures.
    """
    specialty = case.specialty if with_specialty and case.specialty != "Other" else ""
    caregiver = (persona.speaker or case.speaker) == "caregiver"
    return Scene(specialty, seed, caregiver, persona, local_images(case.images) if pictures else ())
