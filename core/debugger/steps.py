"""Every step of a trial of any framework: what was sent, part by part, what came back, and what was made of it.

Steps are read from the recorded calls, in order; what follows a call (a message, an answer, a verdict) is added to its
step. Where rules or people played, a step has no call: it shows what a model would be sent in their place where the
framework can tell (``Framework.by_rule``), else what was said before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from core.agents.grader import named_in_list, read_yes_no, settled
from core.asking.parts import Part, Rules, dialogue_parts, parts_of, sent_messages
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
from core.journal import RunHeader
from core.models.base import Message
from core.models.pictures import read_back
from core.prompts import PromptPack
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
_REMEMBERED = "The same had been asked before, in this run or where it branched off: it was not asked again."
_UNRECORDED = (
    "This call was recorded before calls kept what they were made of: its messages are shown as they were sent, "
    "without the prompts that they come from."
)
_GIVEN = "Rules or a person played this step and no model was sent anything."
_SAID_BEFORE = f"{_GIVEN} Shown is what was said before it."
_NOT_AGAIN = (
    "No model played this step, and what one would be sent in its place is not known in this framework: run a trial "
    "with a model in this seat to edit what it is sent."
)


@dataclass(frozen=True)
class Step:
    """One step of a trial.

    ``key`` is the same for the same step of the trial at every look: ``ask:2`` and ``reply:1`` (the message's turn),
    ``summarise``, ``answer:vignette:mcq``, ``extract:vignette:frq``, ``judge:vignette:frq``, ``probe:3``, ``rate``;
    the second of one key ends in ``#2``. ``response`` is what came back, raw; ``reason`` and ``detail`` say why there
    is none, or why it does not count. ``call`` is the model's call, ``None`` for the reference cast, humans and
    releases. ``would_be_sent`` marks messages that were not sent, but would be to a model under the same prompts;
    ``note`` says so in a sentence. ``not_again`` says why the step cannot be edited and run again.
    """

    key: str
    kind: StepKind
    title: str
    role: RoleName
    model: str
    messages: tuple[Part, ...]
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


@dataclass(frozen=True)
class Prompts:
    """The prompt pack of a run as it can be had now; ``changed`` says why it is not what the run used, if it is not."""

    pack: PromptPack
    changed: str = ""


def prompts_of(header: RunHeader) -> Prompts:
    """Return the prompts of a run, or its framework's own with a note where they cannot be had any more."""
    known = framework(header.protocol)
    if header.source == "release":
        words = f"The release does not hold the wording of this step: shown is what the pack {known.name} would send"
        return Prompts(pack_of(known), words)
    try:
        pack = pack_of(known, header.prompt_pack)
    except UsageError:
        return Prompts(pack_of(known), f"The prompt pack {header.prompt_pack} cannot be found any more")
    if pack.hash == header.prompt_hash:
        return Prompts(pack)
    now = f"({header.prompt_hash} then, {pack.hash} now)"
    return Prompts(pack, f"The prompt pack {header.prompt_pack} has changed since this run {now}")


def by_rule_of(trial: TrialRecord) -> Rules | None:
    """Return what shows and plays a trial's rules, where its framework has it."""
    known, pack = framework(trial.header.protocol), prompts_of(trial.header).pack
    return known.by_rule(trial.case, trial.header, trial.seed, pack)


def steps_of_trial(trial: TrialRecord) -> list[Step]:
    """Return the steps of a trial, running or finished, in the order in which they happened."""
    reader = _Reader(trial)
    for event in trial.events:
        reader.take(event)
    return reader.steps


class _Reader:
    """Goes through the events of a trial; ``steps`` are those so far."""

    def __init__(self, trial: TrialRecord) -> None:
        self.steps: list[Step] = []
        self._trial, self._header = trial, trial.header
        self._prompts, self._rules = prompts_of(trial.header), by_rule_of(trial)
        self._dialogue: Dialogue = ()
        self._summary = ""
        self._kept, self._edited = 0, False
        """Messages that a branch brought along, and whether the first behind them was written by whoever branched."""
        self._answers: list[CallRecord] = []
        """Calls for an answer, which belongs to an arm that is named only once it was given."""
        self._arm: Answered | None = None

    def take(self, event: Event) -> None:
        match event:
            case Started(parent=parent) if parent is not None:
                self._kept = parent.turn
                self._edited = any("message" in change for change in parent.changes)
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
                            named = step.messages[0].values.get("extracted") if step.messages else None
                            rule: Rule = grader_rule(self._arm.question_type) or "frq"
                            read = (
                                ((rule, read_yes_no(call.response) or "ungradable"),)
                                if call.response is not None
                                else ()
                            )
                            self.steps[-1] = replace(step, extracted=named, verdicts=read)
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
        given = event.turn < self._kept or (event.turn == self._kept and self._edited and event.call_id is None)
        kind: StepKind = "ask" if event.role == "doctor" else "reply"
        if self._is_called(event.call_id):
            self._change(lambda s: s.call is not None and s.call.call_id == event.call_id, response=event.text)
        elif event.turn > 0 and not given:
            # message 0 without a call is a greeting or the patient's opening, which nobody was asked for
            self._by_rule(kind, event.role, before=before, turn=event.turn, response=event.text)

    def _is_called(self, call_id: str | None) -> bool:
        """Say whether a call is the trial's own; what it was given otherwise was paid for elsewhere."""
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
        found = [call for call in self._answers if event.call_id in (None, call.call_id)]
        invalid = event.status == "invalid"
        call = found[-1] if found and (event.call_id or invalid) else None
        others = [other for other in found if other is not call]
        self._arm, self._answers = event, []
        given: dict[str, Any] = {"response": event.response, "reason": event.reason, "detail": event.detail}
        if call is not None:
            self._called("answer", call, about=event, **given)
            for other in others:
                self._called("answer", other, about=event)
            return
        asked = self._header.source == "release" if invalid else True
        role: RoleName = "solver" if seat_of(framework(self._header.protocol), "solver") else "doctor"
        known = asked and event.reason != "not_applicable"
        self._by_rule("answer", role, about=event, known=known, **given)

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
            if step.extracted is None:  # of a call that did not keep what it was made of
                sent = step.messages[-1].content if step.messages else ""
                self._change(lambda s, step=step: s is step, extracted=next((n for n in names if n in sent), names[0]))
        if not judged and event.verdict != "provider_error":
            verdicts = ((event.rule, event.verdict),) if len(names) == 1 else ()
            for name in names:
                self._by_rule("judge", "grader", about=about, model=event.grader, extracted=name, verdicts=verdicts)

    def _change(self, wanted: Any, **changes: Any) -> bool:
        """Change the last step that is wanted; say whether there is one."""
        for number in range(len(self.steps) - 1, -1, -1):
            if wanted(self.steps[number]):
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
        known: bool = True,
        **outcome: Any,
    ) -> None:
        """Add a step that no model was asked for."""
        player = model or str(getattr(self._header, role, None) or self._header.settings.get(role) or "")
        dialogue = self._dialogue if before is None else before
        remembered = is_model(player) and not outcome.get("reason") and self._header.source != "release"
        if self._rules is None:
            shown = dialogue_parts(dialogue, role) if kind in ("ask", "reply") else []
            outcome |= {"note": _SAID_BEFORE if shown else _GIVEN, "not_again": _NOT_AGAIN}
        else:
            arm = (about.format, about.question_type) if about else None
            response, extracted = about.response if about else None, str(outcome.get("extracted") or "")
            shown = self._rules.parts(kind, dialogue, arm, self._summary, response or "", extracted) if known else []
            # what would be sent as one message is joined, as in recorded ones
            shown = [
                replace(part, joined=part.joined or (last is not None and last.role == part.role != "system"))
                for last, part in zip([None, *shown], shown, strict=False)
            ]
            if self._prompts.changed:
                shown = [replace(part, source=None, source_hash=None) for part in shown]
            was_sent = kind == "ask" and self._trial.system_prompt is not None
            if was_sent and shown:
                shown[0] = replace(shown[0], content=str(self._trial.system_prompt))
            changed, release = self._prompts.changed, self._header.source == "release"
            changed = f"{changed}." if release else f"{changed}: files are not named." if changed else ""
            said = "" if is_model(player) else _HUMAN if player == "human" else _BY_RULE[role]
            note = "As the release holds it." if was_sent else f"{said} {changed}".strip()
            outcome |= {"note": note, "would_be_sent": bool(shown) and not was_sent}
        if remembered:
            outcome["note"] = _REMEMBERED
        self._add(kind, role, player, shown, turn=turn, about=about, **outcome)

    def _called(self, kind: StepKind, call: CallRecord, **outcome: Any) -> Step:
        parts, changed = parts_of(call), self._prompts.changed
        then = f"{changed}: the files named here are as they were then." if changed and call.parts else ""
        came: dict[str, Any] = {"response": call.response, "note": _UNRECORDED if parts and not call.parts else then}
        if call.error:
            came |= {
                "reason": reason_of(call.error.partition(":")[0], answering=kind == "answer"),
                "detail": call.error,
            }
        return self._add(kind, call.role, call.model, parts, call=call, **came | outcome)

    def _add(
        self,
        kind: StepKind,
        role: RoleName,
        model: str,
        parts: Sequence[Part],
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


def _arm(about: Answered) -> str:
    return f"{about.format}:{about.question_type}"
