"""Runs one step of a trial again with edited messages or another model, and stores the reply as a variant.

A model is sent exactly the messages; rules (if the framework has rules for this step) read what they need from them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from core.agents.base import Grader
from core.agents.grader import read_name, read_yes_no, settled
from core.asking.calls import Voice, call
from core.asking.memory import replies_in
from core.asking.parts import PromptPart, sent_messages
from core.asking.scene import AgentOutput, CallFailed, FinalMessage
from core.debugger.question import finish, start_asking
from core.debugger.steps import Step, StepKind, TrialRecord, by_rule_of, prompts_of
from core.errors import UsageError
from core.events import Called, Failed, Graded, Purpose, Rule, Token, Utterance, Verdict, grader_rule
from core.frameworks.answering import grade_answer, reason_of
from core.frameworks.base import default_pack, framework, grades_itself, seat_of, stored_settings
from core.frameworks.casting import Casting, full_name, is_model
from core.images import contents
from core.journal import journal_path
from core.live.session import Session
from core.models.base import Sampling
from core.models.pictures import pictures_of, refusal
from core.models.registry import Registry, load_registry
from core.store.database import Store
from core.store.queries import variants as stored
from core.store.queries.variants import Variant

__all__ = ["Variant", "start_rerun", "variants_of"]

_PURPOSES: dict[StepKind, Purpose] = {
    "ask": "dialogue", "reply": "dialogue", "summarise": "summarise", "answer": "answer", "extract": "extract",
    "judge": "judge", "probe": "probe", "rate": "rate",
}  # fmt: skip
_SEEDED: tuple[StepKind, ...] = ("ask", "reply", "answer")


@dataclass(frozen=True)
class _Player:
    """Plays a step of a trial: ``model`` is the full name of a model or of a reference player."""

    trial: TrialRecord
    step: Step
    model: str
    registry: Registry
    base_url: str | None = None

    def play(self, parts: Sequence[PromptPart]) -> AsyncIterator[AgentOutput]:
        """Yield the reply; raises ``UsageError`` if the model cannot be asked, or every message is empty."""
        sent, step = sent_messages(parts), self.step
        if not sent:
            raise UsageError("Nothing is left to send: every message is empty.")
        if not is_model(self.model):
            rules = by_rule_of(self.trial)
            if rules is None:
                raise UsageError("The rules of this framework read the case and no messages: choose a model.")
            lines = [e.text for e in self.trial.events if isinstance(e, Utterance) and e.role == "patient"]
            arm = (step.format, step.question_type) if step.format and step.question_type else None
            return rules.play(step.kind, arm, parts, lines)
        pictures = pictures_of(sent)
        if pictures and (why := refusal(self.registry.spec(self.model))):
            raise UsageError(why)
        for image in pictures:
            contents(image)  # raises for a missing file before anything is paid for
        voice = Voice(self.registry.open(self.model, base_url=self._address(step.role, self.model)), self._sampling())
        seed = self.trial.seed if step.kind in _SEEDED else None
        purpose = step.call.purpose if step.call is not None else _PURPOSES[step.kind]
        return call(voice, parts, step.role, purpose, seed)

    def grader(self, name: str) -> Grader:
        """Return the grader of a new answer, with the run's pack, or the default pack if that grades nothing."""
        own_grader = grades_itself(framework(self.trial.header.protocol))
        grading = prompts_of(self.trial.header).pack if own_grader else default_pack()
        return Casting(self.registry, grading, base_url=self._address("grader", name)).grader(name)

    def _address(self, role: str, name: str) -> str | None:
        """Return the address of a model: the one given now, else the address that the run used for the role."""
        settings = stored_settings(framework(self.trial.header.protocol), self.trial.header.settings)
        seated = str(getattr(self.trial.header, role, None) or self.trial.header.settings.get(role) or "")
        if self.base_url or name == seated:
            return self.base_url or settings.address_of(role)
        return None if is_model(name) and self.registry.has_own_address(name) else settings.base_url

    def _sampling(self) -> Sampling:
        """Return the sampling of the step; if no model replied in it, the sampling of its role in a run."""
        header = self.trial.header
        doctors = stored_settings(framework(header.protocol), header.settings).sampling
        effort = doctors.effort if self.step.role == "doctor" else None
        if self.step.call is not None and not self.step.call.error:
            request = self.step.call.request
            limit = request.get("max_completion_tokens", request.get("max_tokens"))
            stop = tuple(request.get("stop") or ())
            effort = request.get("reasoning_effort", effort)
            form = request.get("response_format")
            return Sampling(request.get("temperature"), limit, request.get("seed"), stop, effort, form=form)
        if self.step.role == "doctor" and self.step.kind != "probe":
            return doctors
        judging = self.step.role in ("grader", "solver", "staff") or self.step.kind == "probe"
        return Sampling(temperature=0.0 if judging else None, effort=effort)


def start_rerun(
    step: Step,
    messages: Sequence[PromptPart],
    trial: TrialRecord,
    *,
    model: str | None = None,
    grader: str | None = None,
    base_url: str | None = None,
) -> Session:
    """Send exactly these messages, grade an answer as the trial does, and store the variant: the session's outcome.

    The trial's other replies are used again, for example a grader's on the same answer. ``model`` plays the step (by
    default the player of the trial), ``grader`` judges an answer (by default the trial's), ``base_url`` is the address
    of models (by default the run's). An extraction is only read, and a comparison only requested once: neither changes
    the trial. A provider's failure is a variant with its ``reason``. ``Session.error`` says why nothing can be sent: an
    unknown model, a missing key, no message.
    """

    async def source(session: Session) -> AsyncIterator[Any]:
        async with load_registry() as registry:
            if step.not_again:
                raise UsageError(step.not_again)
            name = model or step.model
            if name == "human":
                raise UsageError("A person played this step: choose a model, or the reference cast, to run it again.")
            seat = seat_of(framework(trial.header.protocol), step.role)
            full = full_name(step.role, name, registry, seat.rules if seat else ())
            player = _Player(trial, step, full, registry, base_url)
            async for item in _again(player, messages, grader):
                if isinstance(item, Variant):
                    await finish(session, stored.line_of(item, session.key))
                yield item

    own_call_id = step.call.call_id if step.call else ""
    others = replies_in(journal_path(trial.header.run_id), trial.trial_id, lambda call: call.call_id == own_call_id)
    sent = [(part.role, part.content, part.images) for part in messages]
    what = (trial.trial_id, step.key, sent, model, grader)
    return start_asking(stored.JOURNAL, what, step.title, source, others)


def variants_of(trial_id: str, step_key: str | None = None) -> list[Variant]:
    """Return the stored variants of a trial, or of one of its steps, oldest first."""
    with Store().read() as cursor:
        return stored.variants_of(cursor, trial_id, step_key)


async def _again(player: _Player, messages: Sequence[PromptPart], grader: str | None) -> AsyncIterator[Any]:
    """Yield tokens and calls when they happen, and last the variant."""
    step, trial = player.step, player.trial
    sent = tuple(message for message in messages if message.content.strip())
    variant = Variant(trial.trial_id, step.key, sent, player.model)
    free = step.kind == "answer" and grader_rule(step.question_type) is not None
    # raises for a missing key before a call is paid for
    judge = player.grader(grader or trial.header.grader if free else "reference")
    try:
        async for item in player.play(sent):
            variant = _with(variant, item)
            if not isinstance(item, FinalMessage):
                yield item
    except CallFailed as failure:
        yield failure.called
        reason = reason_of(failure.error.kind, answering=step.kind == "answer")
        yield replace(_with(variant, failure.called), reason=reason, detail=str(failure.error))
        return
    if (reply := variant.response) is None:
        blank: Verdict = "empty" if step.kind == "answer" else "provider_error"
        yield replace(variant, reason=blank, detail="the reply was blank")
        return
    if step.kind == "answer" and step.format and step.question_type:
        arm = (step.format, step.question_type)
        async for event in grade_answer(trial.case, judge, arm, reply, trial.header.many_choices):
            variant = _with(variant, event)
            if isinstance(event, Token | Called):
                yield event
    yield _graded(variant, step, reply)


def _graded(variant: Variant, step: Step, reply: str) -> Variant:
    """Return the variant of a grader's step with the verdict in its reply; other variants unchanged."""
    rule: Rule = grader_rule(step.question_type) or "frq"
    if step.kind == "judge":
        return replace(variant, extracted=step.extracted, verdicts=((rule, read_yes_no(reply) or "ungradable"),))
    if step.kind != "extract":
        return variant
    graded_answer = step.messages[0].values.get("response") if step.messages else None
    try:
        extracted = read_name(reply, str(graded_answer or ""))
    except ValueError as error:
        detail = f"The extraction cannot be used: {error}."
        return replace(variant, detail=detail, verdicts=((rule, "ungradable"),))
    special = settled(extracted)
    return replace(variant, extracted=extracted, verdicts=((rule, special),) if special else ())


def _with(variant: Variant, item: object) -> Variant:
    """Return the variant with a reply or an event of its grading added."""
    match item:
        case FinalMessage():
            return replace(variant, response=item.text if item.text.strip() else None)
        case Called():
            return replace(variant, calls=(*variant.calls, item.call))
        case Failed():
            return replace(variant, detail=item.message)
        case Graded():
            verdicts = (*variant.verdicts, (item.rule, item.verdict))
            extracted = item.extracted if item.extracted is not None else variant.extracted
            return replace(variant, verdicts=verdicts, extracted=extracted, grader=item.grader)
    return variant
