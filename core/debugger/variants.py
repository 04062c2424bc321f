"""Runs one step of a trial again with edited messages or another model, and keeps what came back as a variant."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

from core.agents.base import CallFailed, Grader, Said
from core.agents.grader import read_extracted, read_yes_no, special_verdict
from core.agents.parts import StepMessage
from core.debugger.players import Player, player_of
from core.debugger.steps import Step, TrialRecord
from core.events import Called, Failed, Graded, Rule, Token, Verdict
from core.frameworks.answering import grade_answer
from core.live.session import Session
from core.models.registry import Registry, load_registry
from core.store.database import Store
from core.store.queries import variants as stored
from core.store.queries.variants import Variant

__all__ = ["Rerun", "Variant", "rerun", "start_rerun", "variants_of"]


async def rerun(
    step: Step,
    messages: Sequence[StepMessage],
    trial: TrialRecord,
    *,
    model: str | None = None,
    grader: str | None = None,
    note: str = "",
    base_url: str | None = None,
    registry: Registry | None = None,
    keep: bool = True,
) -> Variant:
    """Send exactly these messages, grade an answer as the trial does, store the variant and return it.

    ``model`` is who plays the step (by default whoever did), ``grader`` who judges an answer (by default the trial's),
    ``base_url`` where models are reached (by default where the run reached them). An extraction is only read, and a
    comparison asked once: neither changes the trial. A provider's failure is a variant with its ``reason``. Raises
    ``UsageError`` where nothing can be sent: an unknown model, a missing key, no message left.
    """
    async with AsyncExitStack() as stack:
        if registry is None:
            registry = await stack.enter_async_context(load_registry())
        player = player_of(trial, step, model or step.model, registry, base_url)
        variants = [item async for item in _again(player, messages, grader, note) if isinstance(item, Variant)]
    if keep:
        await asyncio.to_thread(stored.keep_variant, Store(), variants[-1])
    return variants[-1]


class Rerun:
    """A step that is being run again in a thread; safe to read from other threads."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def running(self) -> bool:
        """Whether something may still come."""
        return self._session.running

    @property
    def draft(self) -> str:
        """What the model has said so far."""
        draft = self._session.draft
        return draft.text if draft else ""

    @property
    def error(self) -> str | None:
        """Why it could not be done, in one sentence; a provider's failure is in the variant instead."""
        return self._session.error

    @property
    def variant(self) -> Variant | None:
        """The stored variant, once it is there."""
        items: list[Any] = list(self._session.snapshot())
        return next((item for item in items if isinstance(item, Variant)), None)

    def stop(self) -> None:
        """Break it off; nothing is stored."""
        self._session.stop()

    def join(self, timeout: float | None = None) -> None:
        """Wait until it has ended."""
        self._session.join(timeout)


def start_rerun(
    step: Step,
    messages: Sequence[StepMessage],
    trial: TrialRecord,
    *,
    model: str | None = None,
    grader: str | None = None,
    note: str = "",
    base_url: str | None = None,
) -> Rerun:
    """Do ``rerun`` in a thread; raises nothing: ``Rerun.error`` has the sentence."""
    session = Session(key=f"rerun-{uuid.uuid4().hex[:12]}", title=step.title, paced=False)

    async def source(_: Session) -> AsyncIterator[Any]:
        async with load_registry() as registry:
            player = player_of(trial, step, model or step.model, registry, base_url)
            async for item in _again(player, messages, grader, note):
                if isinstance(item, Variant):
                    await asyncio.to_thread(stored.keep_variant, Store(), item)
                yield item

    session.start(source)
    return Rerun(session)


def variants_of(trial_id: str, step_key: str | None = None) -> list[Variant]:
    """Return the stored variants of a trial, or of one of its steps, the oldest first."""
    with Store().read() as cursor:
        return stored.variants_of(cursor, trial_id, step_key)


async def _again(
    player: Player, messages: Sequence[StepMessage], grader: str | None, note: str
) -> AsyncIterator[Token | Called | Variant]:
    """Yield what is said while it is said, and last the variant."""
    kept = tuple(message for message in messages if message.content.strip())
    judge = _grader(player, grader)  # a missing key shows before a call is paid for
    variant = Variant(player.trial.trial_id, player.step.key, kept, player.model, note=note)
    try:
        async for item in player.play(kept):
            if isinstance(item, Said):
                variant = replace(variant, response=item.text if item.text.strip() else None)
            elif isinstance(item, Called):
                variant = replace(variant, calls=(*variant.calls, item.call))
                yield item
            elif isinstance(item, Token):
                yield item
    except CallFailed as failure:
        yield failure.called
        reason: Verdict = "refused" if failure.error.kind == "refused" else "provider_error"
        yield replace(variant, calls=(failure.called.call,), reason=reason, detail=str(failure.error))
        return
    if variant.response is None:
        yield replace(variant, reason="provider_error", detail="the reply was empty")
        return
    async for judged in _judged(player, variant, judge):
        yield judged


def _grader(player: Player, name: str | None) -> Grader | None:
    if player.step.kind != "answer" or player.step.question_type in ("mcq", "mcq_many"):
        return None
    return player.grader(name or player.trial.header.grader)


async def _judged(
    player: Player, variant: Variant, judge: Grader | None
) -> AsyncIterator[Token | Called | Variant]:  # fmt: skip
    """Yield the grader's calls, and the variant with what is made of its response."""
    step, response = player.step, variant.response or ""
    rule: Rule = "frq_top3" if step.question_type == "frq_top3" else "frq"
    if step.kind == "extract":
        extracted = read_extracted(response)
        special = special_verdict(extracted)
        variant = replace(variant, extracted=extracted, verdicts=((rule, special),) if special else ())
    elif step.kind == "judge":
        variant = replace(variant, extracted=step.extracted, verdicts=((rule, read_yes_no(response) or "ungradable"),))
    elif step.kind == "answer" and step.format and step.question_type:
        arm = (step.format, step.question_type)
        many = player.trial.header.many_choices
        async for event in grade_answer(player.trial.case, judge or player.grader("reference"), arm, response, many):
            variant = _with(variant, event)
            if isinstance(event, Token | Called):
                yield event
    yield variant


def _with(variant: Variant, event: object) -> Variant:
    """Return the variant with what an event of its grading tells."""
    if isinstance(event, Called):
        return replace(variant, calls=(*variant.calls, event.call))
    if isinstance(event, Failed):
        return replace(variant, detail=event.message)
    if isinstance(event, Graded):
        verdicts = (*variant.verdicts, (event.rule, event.verdict))
        extracted = event.extracted if event.extracted is not None else variant.extracted
        return replace(variant, verdicts=verdicts, extracted=extracted, grader=event.grader)
    return variant
