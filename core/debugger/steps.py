"""Every step of a trial as what was sent and what came back, whoever played it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from core.agents.calls import wire
from core.agents.parts import Part, StepMessage, messages_of
from core.case import Case
from core.errors import UsageError
from core.events import CallRecord, Event, Format, QuestionType, RoleName, Rule, Verdict
from core.frameworks.base import framework, title_of
from core.journal import RunHeader
from core.models.base import Message
from core.models.pictures import read_back

StepKind = Literal["ask", "reply", "summarise", "answer", "extract", "judge", "probe"]


@dataclass(frozen=True)
class Step:
    """One step of a trial.

    ``key`` is the same for the same step of the trial at every look: ``ask:2`` and ``reply:1`` (the message's turn),
    ``summarise``, ``answer:vignette:mcq``, ``extract:vignette:frq``, ``judge:vignette:frq``, ``probe:3``; the second
    of one key ends in ``#2``. ``response`` is what came back, raw; ``reason`` and ``detail`` say why there is none,
    or why it does not count. ``call`` is the model's call, ``None`` for the reference cast, humans and releases.
    ``would_be_sent`` marks messages that were not sent, but would be to a model under the same prompts; ``note`` says
    so in a sentence.
    """

    key: str
    kind: StepKind
    title: str
    role: RoleName
    model: str
    messages: tuple[StepMessage, ...]
    response: str | None = None
    extracted: str | None = None
    verdicts: tuple[tuple[Rule, Verdict], ...] = ()
    reason: Verdict | None = None
    detail: str = ""
    call: CallRecord | None = None
    would_be_sent: bool = False
    note: str = ""
    turn: int | None = None
    format: Format | None = None
    question_type: QuestionType | None = None
    belief: tuple[tuple[str, float], ...] = ()

    @property
    def sent(self) -> list[Message]:
        """The messages as they went over the wire, or as they would."""
        stored = self.call.request.get("messages") if self.call else None
        return [read_back(kept) for kept in stored] if stored else sent_messages(self.messages)


@dataclass(frozen=True)
class TrialRecord:
    """A trial with all that is needed to show its steps and run one again; see ``core.debugger.stored``."""

    trial_id: str
    case: Case
    header: RunHeader
    number: int
    seed: int
    events: tuple[Event, ...]
    system_prompt: str | None = None
    """The doctor's prompt of a release's conversation, as it was sent."""


def why_not(protocol: str) -> str | None:
    """Return in a sentence why trials of a protocol are not taken apart and where to read them, else ``None``."""
    if protocol == framework().name:
        return None
    return (
        f"The Case debugger takes {framework().title}'s trials apart; this one is {title_of(protocol)}'s, whose roles "
        "are sent other messages: read it under Transcripts, or take it away as data with every prompt and raw reply."
    )


def sent_messages(messages: Sequence[StepMessage]) -> list[Message]:
    """Return edited or original parts as the messages that are sent; empty parts are left out, with their pictures."""
    parts = [Part(m.role, m.content, m.part, joined=m.joined, images=m.images) for m in messages if m.content.strip()]
    return wire(messages_of(parts))


def steps_of(
    case: Case, header: RunHeader, events: Sequence[Event], system_prompt: str | None = None
) -> list[Step]:  # fmt: skip
    """Return the steps of a trial, running or finished, in the order in which they happened.

    ``system_prompt`` is the doctor's prompt of a release's conversation (``TrialRecord``). Raises ``UsageError`` for a
    trial of another protocol than CRAFT-MD, whose roles are sent other messages (``why_not``).
    """
    if (why := why_not(header.protocol)) is not None:
        raise UsageError(why)
    from core.debugger.retrace import Retrace  # which makes steps of the classes above

    return Retrace(case, header, events, system_prompt).steps


def steps_of_trial(trial: TrialRecord) -> list[Step]:
    """Return the steps of a trial."""
    return steps_of(trial.case, trial.header, trial.events, trial.system_prompt)
