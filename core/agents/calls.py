"""One call of a chat model as events: tokens while it streams, then the call's record."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace

from core.agents.base import CallFailed, Said, Saying
from core.agents.parts import Part, messages_of, placed, wire
from core.errors import ProviderError
from core.events import Called, CallRecord, Purpose, RoleName, Token, new_id
from core.models.base import ChatModel, Completion, Message, OnlyThought, Piece, Restart, Sampling, Thought
from core.models.pictures import recorded


@dataclass(frozen=True)
class Voice:
    """A chat model with the sampling it is to use."""

    model: ChatModel
    sampling: Sampling = field(default=Sampling())


async def call(
    voice: Voice, parts: Sequence[Part | Message], role: RoleName, purpose: Purpose, seed: int | None = None
) -> AsyncIterator[Saying]:
    """Stream one reply: ``Token`` events, then ``Called``, then ``Said``; raise ``CallFailed`` if none came.

    ``parts`` are sent as messages and recorded with what they were made of; of a bare message only its words are known.
    What the model thinks is in tokens that say so and in the record of the call, and nowhere else.
    """
    sent = wire(messages_of(parts))
    sampling = voice.sampling if seed is None or voice.sampling.seed is not None else replace(voice.sampling, seed=seed)
    call_id = new_id()
    try:
        async for item in voice.model.stream(sent, sampling):
            if isinstance(item, Piece):
                yield Token(role=role, purpose=purpose, text=item.text)
            elif isinstance(item, Thought):
                yield Token(role=role, purpose=purpose, text=item.text, restart=item.void, thought=True)
            elif isinstance(item, Restart):
                yield Token(role=role, purpose=purpose, text="", restart=True)
            else:
                yield Called(call=_record(call_id, role, purpose, voice.model.name, parts, item))
                yield Said(item.text, call_id)
    except ProviderError as error:
        words = f"{error.kind}: {error}"
        kept = [recorded(one) for one in sent]
        record = CallRecord(
            call_id=call_id, role=role, purpose=purpose, model=voice.model.name, attempts=error.attempts,
            request={"messages": kept}, parts=placed(parts, kept), error=words,
        )  # fmt: skip
        if isinstance(error, OnlyThought):
            thought = _record(call_id, role, purpose, voice.model.name, parts, error.completion)
            record = thought.model_copy(update={"response": None, "error": words})
        raise CallFailed(Called(call=record), error) from error


def _record(
    call_id: str, role: RoleName, purpose: Purpose, model: str, parts: Sequence[Part | Message], done: Completion
) -> CallRecord:  # fmt: skip
    return CallRecord(
        call_id=call_id, role=role, purpose=purpose, model=model, request=done.request,
        parts=placed(parts, done.request.get("messages") or ()), response=done.text,
        finish_reason=done.finish_reason, served_by=done.served_by, prompt_tokens=done.usage.prompt_tokens,
        completion_tokens=done.usage.completion_tokens, tokens_estimated=done.usage.estimated,
        latency_s=done.latency_s, first_token_s=done.first_token_s, attempts=done.attempts, cost_usd=done.cost_usd,
        reasoning=done.reasoning, reasoning_tokens=done.usage.reasoning_tokens,
    )  # fmt: skip
