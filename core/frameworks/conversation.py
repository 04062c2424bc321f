"""A conversation as it grows: how it begins, what is said, by whom, and how it ends; shared by every framework."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from core.agents.base import Inquirer, Probe
from core.asking.persona import PLAIN, Persona
from core.asking.scene import CallFailed, Dialogue, Said, Saying, Scene, Turn
from core.case import Case
from core.errors import ProviderError
from core.events import FINAL_DIAGNOSIS, Ended, EndReason, Event, Failed, Probed, Speaker, Started, Utterance
from core.frameworks.base import Branch, Framework, Trial
from core.images import local_images

Belief = tuple[tuple[str, float], ...] | None


@dataclass
class Talk:
    """The dialogue of one trial. ``turns`` counts, in a dialogue, what ``Ended.doctor_turns`` is to say."""

    dialogue: Dialogue
    turns: Callable[[Dialogue], int]
    ended: Ended | None = None

    @property
    def broken(self) -> Ended | None:
        """How a provider ended it, if one did."""
        return self.ended if self.ended is not None and self.ended.reason in ("error", "refusal") else None

    def repeated(self) -> list[Event]:
        """Return the messages that it begins with."""
        return [Utterance(turn=turn, role=said.role, text=said.text) for turn, said in enumerate(self.dialogue)]

    def said_by(self, role: Speaker) -> int:
        """Return how many messages a role has said."""
        return sum(turn.role == role for turn in self.dialogue)

    async def say(
        self, role: Speaker, title: str, speaking: AsyncIterator[Saying], *, strip: bool = False
    ) -> AsyncIterator[Event]:
        """Yield what a speaker yields, and the message; where a provider fails, why, and ``Ended`` instead."""
        said = Said("")
        try:
            async for item in speaking:
                if isinstance(item, Said):
                    said = item
                else:
                    yield item
            if not said.text.strip():
                raise ProviderError("empty", f"The {title} said nothing.")
        except (CallFailed, ProviderError) as failure:
            error = failure.error if isinstance(failure, CallFailed) else failure
            if isinstance(failure, CallFailed):
                yield failure.called
            yield Failed(where="conversation", failure=error.kind, message=str(error))
            yield self.over("refusal" if error.kind == "refused" else "error", str(error))
            return
        text = said.text.strip() if strip else said.text
        yield Utterance(turn=len(self.dialogue), role=role, text=text, call_id=said.call_id)
        self.dialogue = (*self.dialogue, Turn(role, text))

    def over(self, reason: EndReason, detail: str = "") -> Ended:
        """End the conversation; return the event that says so."""
        self.ended = Ended(reason=reason, doctor_turns=self.turns(self.dialogue), detail=detail)
        return self.ended

    async def believe(self, scene: Scene, told: Belief, probe: Probe | None = None) -> AsyncIterator[Event]:
        """Yield what the doctor believes by now: what it tells by itself, else what a probe gets to know."""
        if told:
            yield Probed(turn=len(self.dialogue) - 1, differential=told)
        elif probe is not None:
            async for event in probe.believe(scene, self.dialogue):
                yield event


async def in_turns(
    talk: Talk,
    scene: Scene,
    doctor: Inquirer,
    reply: Callable[[Dialogue], AsyncIterator[Saying]],
    over: Callable[[Dialogue], EndReason | None],
    probe: Probe | None = None,
) -> AsyncIterator[Event]:
    """Yield a conversation in which doctor and patient take turns, from where it stands up to ``Ended``.

    ``over`` says before each message why none is to follow the last; what the doctor believes is told after a reply.
    """
    while not talk.ended:
        if reason := over(talk.dialogue):
            yield talk.over(reason)
        elif talk.dialogue[-1].role != "doctor":
            async for event in talk.say("doctor", "doctor", doctor.ask(scene, talk.dialogue)):
                yield event
        else:
            async for event in talk.say("patient", "patient", reply(talk.dialogue)):
                yield event
            if not talk.ended:
                async for event in talk.believe(scene, doctor.differential(scene, talk.dialogue), probe):
                    yield event


def concluded(text: str) -> EndReason | None:
    """Return why a doctor's message ends a conversation of question and answer, or ``None`` if it goes on.

    It ends with a final diagnosis, or without a question mark, in this order (Johri et al. 2025, Methods).
    """
    if FINAL_DIAGNOSIS in text:
        return "final_diagnosis"
    return None if "?" in text else "no_question"


def started(of: Framework, trial: Trial, branch: Branch | None = None) -> Started:
    """Return the event by which a trial of a framework begins."""
    parent = branch.parent if branch else None
    return Started(
        trial_id=trial.trial_id,
        case_key=trial.case.case_key,
        trial=trial.number,
        seed=trial.seed,
        parent=parent,
        framework=of.name,
        framework_version=of.version,
    )


def scene_of(case: Case, seed: int, persona: Persona = PLAIN, *, named: bool = True, pictures: bool = False) -> Scene:
    """Return the scene of a trial; a persona may say who speaks.

    ``named`` tells the doctor the case's specialty (never for Other), ``pictures`` shows it those whose files were
    brought along.
    """
    specialty = case.specialty if named and case.specialty != "Other" else ""
    caregiver = (persona.speaker or case.speaker) == "caregiver"
    return Scene(specialty, seed, caregiver, persona, local_images(case.images) if pictures else ())
