"""Every step of a trial of any framework: the request, part by part, the reply, and its use.

Steps are read from the recorded calls, in order; the events after a call (a message, an answer, a verdict) are added to
its step. A step of rules or people has no call: it shows the messages that a model would be sent in their place if the
framework can build them (``Framework.by_rule``), else the dialogue before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from core.agents.grader import named_in_list, read_comparison, settled
from core.asking.parts import PromptPart, SeatRules, dialogue_parts, parts_of, sent_messages
from core.asking.scene import Dialogue, Turn
from core.case import Case
from core.errors import UsageError
from core.events import (
    GRADED_TYPES,
    Answered,
    Assessed,
    Called,
    CallRecord,
    Ended,
    Event,
    Failed,
    Finished,
    Format,
    Graded,
    Probed,
    QuestionType,
    RoleName,
    Rule,
    Speaker,
    Started,
    Summarised,
    Utterance,
    Verdict,
    grader_rule,
)
from core.frameworks.answering import reason_of
from core.frameworks.base import framework, pack_of, seat_of
from core.frameworks.casting import is_model
from core.journal import PLAYED_ELSEWHERE, RunHeader
from core.models.base import Message
from core.models.pictures import read_back
from core.prompts import PromptPack
from core.store.condition_parts import prompts_hash
from core.words import FORMAT, QUESTION_TYPE, ROLE

StepKind = Literal["ask", "reply", "summarise", "answer", "extract", "judge", "probe", "rate", "other"]
_TITLES: dict[str, str] = {
    "summarise": "Summary of the patient's lines", "answer": "Answer", "extract": "Grader reads the answer",
    "judge": "Grader compares it with the right answer", "rate": "Rating of the doctor",
}  # fmt: skip
_BY_RULE: dict[RoleName, str] = {
    "doctor": "The reference doctor reads the case and the dialogue in these messages, not the instructions.",
    "patient": "The reference patient reads the case's profile and the dialogue, not the instructions.",
    "summariser": "The reference summariser quotes the patient's lines; a model would be sent this.",
    "grader": "The reference grader compares names; a model would be sent this.",
}
_HUMAN = "A person spoke here; a model would be sent this."
_REMEMBERED = "The same request was sent before, in this run or in the run it branched from: the stored reply was used."
_UNRECORDED = (
    "This call was recorded by an older version: its messages are shown as they were sent, without the prompts that "
    "they come from."
)
_NO_MODEL = "Rules or a person played this step: no model was sent anything."
_DIALOGUE_ONLY = f"{_NO_MODEL} The dialogue before it is shown."
_CLOSING = "The doctor is not asked again: the message that ended the conversation is its answer."
_NOT_AGAIN = (
    "No model played this step, and this framework does not show what a model would be sent: to edit the messages, run "
    "a trial with a model in this role."
)


@dataclass(frozen=True)
class Step:
    """One step of a trial.

    ``key`` identifies the step, also after a reload: ``ask:2`` and ``reply:1`` (the message's turn),
    ``summarise``, ``answer:vignette:mcq``, ``extract:vignette:frq``, ``judge:vignette:frq``, ``probe:3``, ``rate``;
    the second step with the same key ends in ``#2``. ``response`` is the raw reply; ``reason`` and ``detail`` say why
    it is missing or does not count. ``call`` is the model's call, ``None`` for the reference cast, humans and releases.
    ``would_be_sent`` marks messages that were not sent, but that a model would be sent under the same prompts; ``note``
    says so in a sentence. ``not_again`` says why the request of the step cannot be edited.
    """

    key: str
    kind: StepKind
    title: str
    role: RoleName
    model: str
    messages: tuple[PromptPart, ...]
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
    not_again: str = ""

    @property
    def sent(self) -> list[Message]:
        stored = self.call.request.get("messages") if self.call else None
        return [read_back(message) for message in stored] if stored else sent_messages(self.messages)


@dataclass(frozen=True)
class TrialRecord:
    """A trial with everything needed to show its steps and run one again; see ``core.debugger.stored``."""

    trial_id: str
    case: Case
    header: RunHeader
    number: int
    seed: int
    events: tuple[Event, ...]
    system_prompt: str | None = None
    """The doctor's prompt of a release's conversation, as it was sent."""


@dataclass(frozen=True)
class Prompts:
    """The prompt pack of a run as it is now; ``changed`` says why it is not the pack that the run used, if so."""

    pack: PromptPack
    changed: str = ""


def prompts_of(header: RunHeader) -> Prompts:
    """Return the prompts of a run; if its pack is missing, the framework's, with a note."""
    own_framework = framework(header.protocol)
    if header.source in PLAYED_ELSEWHERE:
        origin = "release" if header.source == "release" else "imported log"
        words = f"The {origin} does not contain the prompt of this step; shown is that of {own_framework.name}"
        return Prompts(pack_of(own_framework), words)
    try:
        pack = pack_of(own_framework, header.prompt_pack)
    except UsageError:
        return Prompts(pack_of(own_framework), f"The prompts {header.prompt_pack} cannot be found any more")
    shown = {"belief", *(seat.role for seat in own_framework.seats)} & pack.parts.keys()
    if all(prompts_hash(header, part) == pack.parts[part] for part in shown):
        return Prompts(pack)
    now = f"({header.prompt_hash} then, {pack.hash} now)"
    return Prompts(pack, f"The prompts {header.prompt_pack} have changed since this run {now}")


def by_rule_of(trial: TrialRecord) -> SeatRules | None:
    """Return the rules that play steps of a trial and build the messages for a model, if there are any."""
    own_framework, pack = framework(trial.header.protocol), prompts_of(trial.header).pack
    return own_framework.by_rule(trial.case, trial.header, trial.seed, pack)


def steps_of_trial(trial: TrialRecord) -> list[Step]:
    """Return the steps of a running or finished trial, in their order."""
    reader = _Reader(trial)
    for event in trial.events:
        reader.take(event)
    return reader.steps


class _Reader:
    """Reads the events of a trial; ``steps`` are the steps so far."""

    def __init__(self, trial: TrialRecord) -> None:
        self.steps: list[Step] = []
        self._trial, self._header = trial, trial.header
        self._prompts, self._rules = prompts_of(trial.header), by_rule_of(trial)
        self._dialogue: Dialogue = ()
        self._summary = ""
        self._inherited, self._edited = 0, False
        """Messages that a branch took from its parent, and whether the user wrote the first message after them."""
        self._answers: list[CallRecord] = []
        """Calls for an answer whose arm is not known yet: only the ``Answered`` event names it."""
        self._arm: Answered | None = None

    def take(self, event: Event) -> None:
        match event:
            case Started(parent=parent) if parent is not None:
                self._inherited = parent.turn
                self._edited = f"message {parent.turn + 1} edited" in parent.changes
            case Called(call=call):
                turn = len(self._dialogue)
                match call.purpose:
                    case "dialogue":
                        self._called("ask" if call.role == "doctor" else "reply", call, turn=turn)
                    case "probe":
                        self._called("probe", call, turn=turn - 1)
                    case "answer":
                        self._answers.append(call)
                    case "summarise" | "rate":
                        self._called(call.purpose, call)
                    case "extract":
                        self._called("extract", call, about=self._arm)
                    case "judge":
                        step = self._called("judge", call, about=self._arm)
                        if self._arm is not None:
                            values = step.messages[0].values if step.messages else {}
                            rule: Rule = grader_rule(self._arm.question_type) or "frq"
                            read = () if call.response is None else ((rule, _compared(call.response, values)),)
                            self.steps[-1] = replace(step, extracted=values.get("extracted"), verdicts=read)
                    case _:
                        self._called("other", call)
            case Utterance():
                self._said(event)
            case Ended():
                self._broke_off(event)
            case Summarised():
                self._summary = event.text
                if not self._is_called(event.call_id):
                    self._by_rule("summarise", "summariser", response=event.text)
            case Assessed(turn=None) if event.value is not None and not self._is_called(event.call_id):
                self._by_rule("rate", "patient", response=f"Rating: {event.value}\n{event.words}".strip())
            case Answered():
                self._answered(event)
            case Graded():
                self._graded(event)
            case Probed():
                self._change(lambda s: s.kind == "probe" and s.turn == event.turn, belief=event.differential)
            case Failed(where="summariser"):
                if not any(step.kind == "summarise" for step in self.steps):
                    self._by_rule("summarise", "summariser", reason="provider_error", detail=event.message)
                self._change(lambda s: s.kind == "summarise", detail=event.message)
            case Finished():
                for call in self._answers:
                    self._called("answer", call)
            case _:
                pass

    def _said(self, event: Utterance) -> None:
        before, self._dialogue = self._dialogue, (*self._dialogue, Turn(event.role, event.text))
        inherited = event.turn < self._inherited or (
            event.turn == self._inherited and self._edited and event.call_id is None
        )
        kind: StepKind = "ask" if event.role == "doctor" else "reply"
        if self._is_called(event.call_id):
            self._change(lambda s: s.call is not None and s.call.call_id == event.call_id, response=event.text)
        elif event.turn > 0 and not inherited:
            # message 0 without a call is a greeting or the patient's opening: no step produced it
            self._by_rule(kind, event.role, before=before, turn=event.turn, response=event.text)

    def _is_called(self, call_id: str | None) -> bool:
        """Say whether the trial made this call; it may also use a stored reply to a call of another trial."""
        return any(step.call is not None and step.call.call_id == call_id for step in self.steps)

    def _broke_off(self, event: Ended) -> None:
        if event.reason not in ("error", "refusal") or not self._dialogue:
            return
        turn = len(self._dialogue)
        reason: Verdict = "refused" if event.reason == "refusal" else "provider_error"
        if not self._change(
            lambda s: s.kind in ("ask", "reply") and s.turn == turn, response=None, reason=reason, detail=event.detail
        ):
            role: Speaker = "doctor" if self._dialogue[-1].role == "patient" else "patient"
            kind: StepKind = "ask" if role == "doctor" else "reply"
            self._by_rule(kind, role, turn=turn, reason=reason, detail=event.detail)

    def _answered(self, event: Answered) -> None:
        calls = [call for call in self._answers if event.call_id in (None, call.call_id)]
        invalid = event.status == "invalid"
        call = calls[-1] if calls and (event.call_id or invalid) else None
        others = [other for other in calls if other is not call]
        self._arm, self._answers = event, []
        outcome: dict[str, Any] = {"response": event.response, "reason": event.reason, "detail": event.detail}
        if call is not None:
            self._called("answer", call, about=event, **outcome)
            for other in others:
                self._called("answer", other, about=event)
            return
        was_asked = self._header.source in PLAYED_ELSEWHERE if invalid else True
        role: RoleName = "solver" if seat_of(framework(self._header.protocol), "solver") else "doctor"
        show_messages = was_asked and event.reason != "not_applicable"
        if event.format == "closing":
            self._by_rule("answer", role, about=event, show_messages=False, **outcome)
            self.steps[-1] = replace(self.steps[-1], note=_CLOSING, not_again=_CLOSING)
            return
        self._by_rule("answer", role, about=event, show_messages=show_messages, **outcome)

    def _graded(self, event: Graded) -> None:
        about, arm = self._arm, f"{event.format}:{event.question_type}"
        free = event.rule in GRADED_TYPES
        for number, step in enumerate(self.steps):
            if step.key == f"answer:{arm}":
                extracted = event.extracted if free else step.extracted
                verdicts = (*step.verdicts, (event.rule, event.verdict))
                self.steps[number] = replace(step, verdicts=verdicts, extracted=extracted)
        if about is None or not free or _arm(about) != arm:
            return
        special = settled(event.extracted) if event.extracted is not None else None
        read: dict[str, Any] = {"extracted": event.extracted, "verdicts": ((event.rule, special),) if special else ()}
        here = (event.format, event.question_type)
        if event.rule != "frq_top3" and not self._change(
            lambda s: s.kind == "extract" and (s.format, s.question_type) == here, **read
        ):
            self._by_rule("extract", "grader", about=about, model=event.grader, response=event.extracted, **read)
        names = [event.extracted or ""] if event.rule != "frq_top3" else named_in_list(about.response or "")
        names = [name for name in names if settled(name) is None]
        judged = [s for s in self.steps if s.kind == "judge" and (s.format, s.question_type) == here]
        for step in judged if names else ():
            if step.extracted is None:  # a call of an older version, which did not record its values
                sent = step.messages[-1].content if step.messages else ""
                self._change(lambda s, step=step: s is step, extracted=next((n for n in names if n in sent), names[0]))
        if not judged and event.verdict != "provider_error":
            verdicts = ((event.rule, event.verdict),) if len(names) == 1 else ()
            for name in names:
                self._by_rule("judge", "grader", about=about, model=event.grader, extracted=name, verdicts=verdicts)

    def _change(self, matches: Any, **changes: Any) -> bool:
        for number in range(len(self.steps) - 1, -1, -1):
            if matches(self.steps[number]):
                self.steps[number] = replace(self.steps[number], **changes)
                return True
        return False

    def _by_rule(
        self,
        kind: StepKind,
        role: RoleName,
        *,
        before: Dialogue | None = None,
        about: Answered | None = None,
        model: str | None = None,
        turn: int | None = None,
        show_messages: bool = True,
        **outcome: Any,
    ) -> None:
        player = model or str(getattr(self._header, role, None) or self._header.settings.get(role) or "")
        dialogue = self._dialogue if before is None else before
        remembered = is_model(player) and not outcome.get("reason") and self._header.source not in PLAYED_ELSEWHERE
        if self._rules is None:
            parts = dialogue_parts(dialogue, role) if kind in ("ask", "reply") else []
            outcome |= {"note": _DIALOGUE_ONLY if parts else _NO_MODEL, "not_again": _NOT_AGAIN}
        else:
            arm = (about.format, about.question_type) if about else None
            response, extracted = about.response if about else None, str(outcome.get("extracted") or "")
            parts = (
                self._rules.parts(kind, dialogue, arm, self._summary, response or "", extracted)
                if show_messages
                else []
            )
            # parts with the same role would be sent as one message, as in recorded calls
            parts = [
                replace(part, joined=part.joined or (last is not None and last.role == part.role != "system"))
                for last, part in zip([None, *parts], parts, strict=False)
            ]
            if self._prompts.changed:
                parts = [replace(part, source=None, source_hash=None) for part in parts]
            was_sent = kind == "ask" and self._trial.system_prompt is not None
            if was_sent and parts:
                parts[0] = replace(parts[0], content=str(self._trial.system_prompt))
            changed, release = self._prompts.changed, self._header.source in PLAYED_ELSEWHERE
            changed = f"{changed}." if release else f"{changed}: files are not named." if changed else ""
            explanation = "" if is_model(player) else _HUMAN if player == "human" else _BY_RULE[role]
            note = "As the release holds it." if was_sent else f"{explanation} {changed}".strip()
            outcome |= {"note": note, "would_be_sent": bool(parts) and not was_sent}
        if remembered:
            outcome["note"] = _REMEMBERED
        self._add(kind, role, player, parts, turn=turn, about=about, **outcome)

    def _called(self, kind: StepKind, call: CallRecord, **outcome: Any) -> Step:
        parts, changed = parts_of(call), self._prompts.changed
        file_note = f"{changed}: the files named here are as they were then." if changed and call.parts else ""
        fields: dict[str, Any] = {
            "response": call.response,
            "note": _UNRECORDED if parts and not call.parts else file_note,
        }
        if call.error:
            fields |= {
                "reason": reason_of(call.error.partition(":")[0], answering=kind == "answer"),
                "detail": call.error,
            }
        return self._add(kind, call.role, call.model, parts, call=call, **fields | outcome)

    def _add(
        self,
        kind: StepKind,
        role: RoleName,
        model: str,
        parts: Sequence[PromptPart],
        *,
        call: CallRecord | None = None,
        turn: int | None = None,
        about: Answered | None = None,
        **outcome: Any,
    ) -> Step:
        name = call.purpose if call is not None and kind == "other" else kind
        key = f"{name}:{_arm(about)}" if about else name if turn is None else f"{name}:{turn}"
        same = sum(step.key.partition("#")[0] == key for step in self.steps)
        arm = f", {FORMAT[about.format].lower()}, {QUESTION_TYPE[about.question_type].lower()}" if about else ""
        number = (turn or 0) + 1
        spoken = f"Belief after message {number}" if kind == "probe" else f"{ROLE[role]}, message {number}"
        title = _TITLES.get(kind) or (spoken if turn is not None else f"{ROLE[role]}: {key}")
        step = Step(
            f"{key}#{same + 1}" if same else key,
            kind,
            f"{title}{arm}",
            role,
            model,
            tuple(parts),
            call=call,
            turn=turn,
            format=about.format if about else None,
            question_type=about.question_type if about else None,
            **outcome,
        )
        self.steps.append(step)
        return step


def _compared(reply: str, values: Mapping[str, Any]) -> Verdict:
    """Return the verdict of a comparison; ``values`` are its prompt's inputs."""
    right = (values.get("answer", ""), *values.get("accepted", ()))
    try:
        return read_comparison(reply, values.get("extracted", ""), right)
    except ValueError:
        return "ungradable"


def _arm(about: Answered) -> str:
    return f"{about.format}:{about.question_type}"
