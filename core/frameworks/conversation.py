"""The conversation of a doctor and a patient: greeting, patient first, until the doctor stops (CRAFT-MD, Methods)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

from core.agents.base import CallFailed, Cast, Dialogue, Said, Scene, Turn, what_patient_holds
from core.case import Case
from core.errors import ProviderError
from core.events import Ended, EndReason, Event, Failed, Probed, Speaker, Utterance

FINAL_DIAGNOSIS = "Final Diagnosis"
"""The words by which a doctor ends the conversation."""
_NEVER_ENDING = 400
"""Messages after which a conversation without a cap is ended all the same."""


async def converse(
    case: Case,
    scene: Scene,
    cast: Cast,
    greeting: str,
    max_messages: int | None = 30,
    dialogue: Dialogue = (),
) -> AsyncIterator[Event]:
    """Yield the conversation from ``dialogue`` on (from the greeting if it is empty) up to ``Ended``.

    A dialogue whose last message ends it already is over at once.
    """
    held, told = replace(what_patient_holds(case), caregiver=scene.caregiver), scene.without_pictures()
    if not dialogue:
        yield Utterance(turn=0, role="doctor", text=greeting)
        dialogue = (Turn("doctor", greeting),)
    if len(dialogue) > 1 and dialogue[-1].role == "doctor" and (over := end_reason(dialogue, max_messages)):
        yield Ended(reason=over, doctor_turns=_doctor_turns(dialogue))
        return
    while True:
        patient_next = dialogue[-1].role == "doctor"
        speaking = cast.patient.reply(held, told, dialogue) if patient_next else cast.doctor.ask(scene, dialogue)
        said = Said("")
        try:
            async for item in speaking:
                if isinstance(item, Said):
                    said = item
                else:
                    yield item
            if not said.text.strip():
                raise ProviderError("empty", f"The {'patient' if patient_next else 'doctor'} said nothing.")
        except (CallFailed, ProviderError) as failure:
            for event in _broken_off(failure, dialogue):
                yield event
            return
        role: Speaker = "patient" if patient_next else "doctor"
        yield Utterance(turn=len(dialogue), role=role, text=said.text, call_id=said.call_id)
        dialogue = (*dialogue, Turn(role, said.text))
        if patient_next:
            async for event in _believe(scene, cast, dialogue):
                yield event
            continue
        reason = end_reason(dialogue, max_messages)
        if reason is not None:
            yield Ended(reason=reason, doctor_turns=_doctor_turns(dialogue))
            return


async def _believe(scene: Scene, cast: Cast, dialogue: Dialogue) -> AsyncIterator[Event]:
    """Yield what the doctor believes by now: by itself where it can tell, else by a probe where one is wanted."""
    belief = cast.doctor.differential(scene, dialogue)
    if belief:
        yield Probed(turn=len(dialogue) - 1, differential=belief)
    elif cast.probe is not None:
        async for event in cast.probe.believe(scene, dialogue):
            yield event


def end_reason(dialogue: Dialogue, max_messages: int | None) -> EndReason | None:
    """Return why the doctor's last message ends the conversation, or ``None`` if it goes on.

    It ends with a final diagnosis, without a question mark, or at the cap of messages, in this order.
    """
    text = dialogue[-1].text
    if FINAL_DIAGNOSIS in text:
        return "final_diagnosis"
    if "?" not in text:
        return "no_question"
    messages = len(dialogue) + 1  # the doctor's prompt counts as one
    cap = max_messages if max_messages is not None else _NEVER_ENDING
    return "turn_cap" if messages >= cap - 1 else None


def _doctor_turns(dialogue: Dialogue) -> int:
    return sum(turn.role == "doctor" for turn in dialogue) - 1


def _broken_off(failure: CallFailed | ProviderError, dialogue: Dialogue) -> list[Event]:
    events: list[Event] = []
    error = failure.error if isinstance(failure, CallFailed) else failure
    if isinstance(failure, CallFailed):
        events.append(failure.called)
    events.append(Failed(where="conversation", failure=error.kind, message=str(error)))
    reason: EndReason = "refusal" if error.kind == "refused" else "error"
    events.append(Ended(reason=reason, doctor_turns=_doctor_turns(dialogue), detail=str(error)))
    return events
