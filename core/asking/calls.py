"""One call of a chat model as events: tokens while it streams, then the call's record."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar

from pydantic import BaseModel

from core.asking.memory import asking
from core.asking.parts import Part, messages_of, placed, wire
from core.asking.scene import AgentOutput, CallFailed, FinalMessage
from core.errors import ProviderError
from core.events import Called, CallRecord, Purpose, RoleName, Token, new_id
from core.models.base import (
    CALL,
    CONVERSATION,
    CUT_SHORT,
    ChatModel,
    Completion,
    Delayed,
    Message,
    NoReply,
    OnlyThought,
    Priced,
    Restart,
    Sampling,
    Spent,
    Thought,
)
from core.models.pictures import recorded
from core.prompts import Prompt, PromptPack


@dataclass(frozen=True)
class Voice:
    """A chat model with the sampling it is to use."""

    model: ChatModel
    sampling: Sampling = field(default=Sampling())

    def within(self, prompt: Prompt, form: type[BaseModel] | None = None) -> Voice:
        """Return the voice with the limit of a prompt's reply, and with the form of JSON that the reply is to have."""
        return replace(self, sampling=replace(self.sampling, limit=prompt.max_tokens, form=form))


class ModelAgent:
    """A language model in a seat, under a prompt pack; ``prompt`` is the one whose limit holds for its replies."""

    prompt: ClassVar[str] = ""

    def __init__(self, voice: Voice, pack: PromptPack) -> None:
        self._voice, self._pack = voice.within(pack.prompts[self.prompt]) if self.prompt else voice, pack

    @property
    def name(self) -> str:
        """Full name of the model."""
        return self._voice.model.name


async def call(
    voice: Voice, parts: Sequence[Part | Message], role: RoleName, purpose: Purpose, seed: int | None = None
) -> AsyncIterator[AgentOutput]:
    """Stream one reply: ``Token`` where it is watched, ``Called``, ``FinalMessage``; raise ``CallFailed`` if none came.

    ``parts`` are sent as messages and recorded with what they were made of; of a bare message only its words are known.
    What the model thinks is in tokens that say so and in the record of the call, and nowhere else. Within a job the
    call is journaled before anybody acts on it, and not made where it was answered before (``core.asking.memory``).
    """
    sent = wire(messages_of(parts, said=True))
    sampling = voice.sampling if seed is None or voice.sampling.seed is not None else replace(voice.sampling, seed=seed)
    asked = asking(role, purpose, voice.model.name, sent, sampling)
    if asked is not None and asked.reply is not None:
        yield Token(role=role, purpose=purpose, text=asked.reply.response or "")
        if not asked.elsewhere:
            yield Called(call=asked.reply)
        yield FinalMessage(asked.reply.response or "", asked.reply.call_id, cut=asked.reply.finish_reason in CUT_SHORT)
        return
    call_id, begun, broke, lost = new_id(), False, False, Spent()
    CONVERSATION.set(f"{asked.unit.replies.run_id}/{asked.unit.trial_id}/{role}" if asked else role)
    model = voice.model
    most = partial(model.most_usd, sent, sampling) if isinstance(model, Priced) else float
    CALL.set(f"{asked.unit.replies.run_id}/{asked.unit.unit_id}/{asked.key}/{asked.number}" if asked else "")
    try:
        async with asked.in_the_air(most) if asked else nullcontext():
            async for item in model.stream(sent, sampling):
                if isinstance(item, Completion):
                    done = item
                elif isinstance(item, Delayed):
                    if asked is not None:
                        asked.waits = item.words
                elif isinstance(item, Restart):
                    if asked is not None:
                        asked.again(item.attempt, item.reason)
                        lost += item.lost
                        if asked.overruns(lost.cost_usd or 0.0):
                            broke = True
                            words = f"The budget is used up by requests that gave no reply ({item.reason})."
                            raise NoReply("cancelled", words, attempts=item.attempt - 1, spent=lost)
                    if begun:
                        yield Token(role=role, purpose=purpose, text="", restart=True)
                    begun = False
                else:
                    if asked is not None:
                        asked.piece()
                        if not asked.unit.replies.watched:
                            continue
                    begun = True
                    thought = isinstance(item, Thought)
                    void = isinstance(item, Thought) and item.void
                    yield Token(role=role, purpose=purpose, text=item.text, restart=void, thought=thought)
    except ProviderError as error:
        words = f"{error.kind}: {error}"
        kept = [recorded(one) for one in sent]
        record = CallRecord(
            call_id=call_id,
            role=role,
            purpose=purpose,
            model=voice.model.name,
            attempts=error.attempts,
            request={"messages": kept},
            parts=placed(parts, kept),
            error=words,
        )
        if isinstance(error, NoReply):
            usage = error.spent.usage
            paid = {
                "prompt_tokens": usage.prompt_tokens,
                "completion_tokens": usage.completion_tokens,
                "tokens_estimated": usage.estimated,
                "cost_usd": error.spent.cost_usd if usage.total_tokens else None,
            }
            record = record.model_copy(update=paid)
        if isinstance(error, OnlyThought):
            only = _record(call_id, role, purpose, voice.model.name, parts, error.completion)
            record = only.model_copy(update={"response": None, "error": words})
        if asked is not None:
            await asked.keep(record)
            if broke:  # the piece of work is not done: with more money it is taken up again
                asked.stop()
        raise CallFailed(Called(call=record), error) from error
    record = _record(call_id, role, purpose, voice.model.name, parts, done)
    if asked is not None:
        await asked.keep(record)
    if done.kept is not None:
        done.kept()
    yield Called(call=record)
    yield FinalMessage(done.text, call_id, cut=done.finish_reason in CUT_SHORT)


def _record(
    call_id: str, role: RoleName, purpose: Purpose, model: str, parts: Sequence[Part | Message], done: Completion
) -> CallRecord:
    return CallRecord(
        call_id=call_id,
        role=role,
        purpose=purpose,
        model=model,
        request=done.request,
        parts=placed(parts, done.request.get("messages") or ()),
        response=done.text,
        finish_reason=done.finish_reason,
        served_by=done.served_by,
        prompt_tokens=done.usage.prompt_tokens,
        completion_tokens=done.usage.completion_tokens,
        tokens_estimated=done.usage.estimated,
        latency_s=done.latency_s,
        first_token_s=done.first_token_s,
        attempts=done.attempts,
        cost_usd=done.cost_usd,
        reasoning=done.reasoning,
        reasoning_tokens=done.usage.reasoning_tokens,
        cached_tokens=done.usage.cached_tokens,
        cache_write_tokens=done.usage.cache_write_tokens,
        price_source=done.price_source,
    )
