"""A step of a trial as the start of a branch, which keeps the messages before it and sends its request edited."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.asking.parts import PromptPart, sent_messages
from core.debugger.steps import Step, StepKind, TrialRecord
from core.errors import UsageError
from core.events import Purpose, Utterance
from core.frameworks.base import Arm
from core.journal import FirstRequest
from core.models.pictures import recorded

_PURPOSES: dict[StepKind, Purpose] = {
    "ask": "dialogue", "reply": "dialogue", "summarise": "summarise", "answer": "answer", "extract": "extract",
    "judge": "judge", "probe": "probe", "rate": "rate",
}  # fmt: skip


@dataclass(frozen=True)
class BranchStart:
    """Where a branch from a step begins: the number of messages that are kept, and the request.

    ``arms`` are the questions that the step belongs to; without any, every question can be asked.
    """

    turn: int
    request: FirstRequest
    arms: tuple[Arm, ...]
    many_choices: tuple[str, ...]


def start_at(record: TrialRecord, steps: Sequence[Step], step: Step, messages: Sequence[PromptPart]) -> BranchStart:
    """Return the start of a branch that sends ``messages`` in a step; empty ones are left out.

    A branch from an answer, its grading or its summary asks no other question. Raises ``UsageError`` if every message
    is empty.
    """
    sent = [recorded(message) for message in sent_messages(messages)]
    if not sent:
        raise UsageError("Nothing is left to send: every message is empty.")
    spoken = sum(isinstance(event, Utterance) for event in record.events)
    arm = (step.format, step.question_type) if step.format and step.question_type else None
    # a grader may compare several diagnoses of one answer; any other request is the first of its kind in the branch
    alike = [s.key for s in steps if s.kind == step.kind == "judge" and (s.format, s.question_type) == arm]
    request = FirstRequest(
        role=step.role,
        purpose=step.call.purpose if step.call is not None else _PURPOSES[step.kind],
        number=alike.index(step.key) if alike else 0,
        title=step.title,
        messages=sent if sent != [recorded(message) for message in step.sent] else [],
    )
    of_header: list[Arm] = [(format_, kind) for format_, kind in record.header.arms]  # type: ignore[misc]
    summarised = [of for of in of_header if of[0] == "summarized" and step.kind == "summarise"]
    arms = (arm,) if arm else tuple(summarised)
    return BranchStart(spoken if step.turn is None else step.turn, request, arms, tuple(record.header.many_choices))
