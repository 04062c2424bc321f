"""One call of a chat model as events: tokens while it streams, then the call's record."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, cast

from pydantic import BaseModel

from core.asking.memory import PendingCall, edited_messages, request
from core.asking.parts import PromptPart, messages_of, placed, wire
from core.asking.scene import AgentOutput, CallFailed, FinalMessage
from core.errors import ProviderError
from core.events import Called, CallRecord, Purpose, RoleName, Token, new_id
from core.models.base import (
    CALL,
    CONVERSATION,
    ChatModel,
    Completion,
    Delayed,
    Message,
    NoReply,
    OnlyThought,
    Restart,
    Sampling,
    Spent,
    StreamItem,
    TextPiece,
    Thought,
)
from core.models.finish import is_cut
from core.models.pictures import recorded
from core.prompts import Prompt, PromptPack


@dataclass(frozen=True)
class Voice:
    """A chat model with its sampling."""

    model: ChatModel
    sampling: Sampling = field(default=Sampling())

    def within(self, prompt: Prompt, form: type[BaseModel] | None = None) -> Voice:
        """Return the voice with the token limit of a prompt's reply and, if any, the JSON schema of the reply."""
        return replace(self, sampling=replace(self.sampling, limit=prompt.max_tokens, form=form))


class ModelAgent:
    """A language model in a seat, with a prompt pack; the token limit of ``prompt`` holds for its replies."""

    prompt: ClassVar[str] = ""

    def __init__(self, voice: Voice, pack: PromptPack) -> None:
        self._voice, self._pack = voice.within(pack.prompts[self.prompt]) if self.prompt else voice, pack

    @property
    def name(self) -> str:
        return self._voice.model.name


async def call(
    voice: Voice, parts: Sequence[PromptPart | Message], role: RoleName, purpose: Purpose, seed: int | None = None
) -> AsyncIterator[AgentOutput]:
    """Stream one reply: ``Token`` if somebody watches, ``Called``, ``FinalMessage``. Raises ``CallFailed``.

    ``parts`` are sent as messages; the record stores the prompt and values of each part. The model's reasoning is in
    tokens marked ``thought`` and in the record of the call, and nowhere else. Within a job a call is journaled before
    its reply is used, and a stored reply takes its place if there is one; a branch may send other messages in its place
    (``core.asking.memory``).
    """
    parts = edited_messages(role, purpose) or parts
    sent = wire(messages_of(parts, said=True))
    model = voice.model
    sampling = voice.sampling if seed is None or voice.sampling.seed is not None else replace(voice.sampling, seed=seed)
    pending = request(role, purpose, model.name, sent, sampling)
    if pending is not None and pending.reply is not None:
        stored = pending.reply
        yield Token(role=role, purpose=purpose, text=stored.response or "")
        if not pending.elsewhere:
            yield Called(call=stored)
        yield FinalMessage(stored.response or "", stored.call_id, cut=is_cut(stored.finish_reason))
        return
    call_id, streamed = new_id(), _Streamed(role, purpose, pending)
    CONVERSATION.set(f"{pending.unit.replies.run_id}/{pending.unit.trial_id}/{role}" if pending else role)
    CALL.set(f"{pending.unit.replies.run_id}/{pending.unit.unit_id}/{pending.key}/{pending.number}" if pending else "")
    most_usd = getattr(model, "most_usd", None)  # ``isinstance`` of a protocol takes as long as the whole request
    most = partial(most_usd, sent, sampling) if most_usd else float
    try:
        async with (
            pending.sending(most) if pending else nullcontext(),
            aclosing(cast(Any, model.stream(sent, sampling))) as items,
        ):
            async for item in items:
                if token := streamed.token_of(item):
                    yield token
    except ProviderError as error:
        record = _record_of_failure(call_id, role, purpose, model.name, parts, sent, error)
        if pending is not None:
            record = await pending.keep(record)
            if streamed.over_budget:  # the unit stays unfinished, and is resumed once there is more money
                pending.stop()
        raise CallFailed(Called(call=record), error) from error
    completion = streamed.completion
    assert completion is not None, "a stream ends with its completion"
    record = _record(call_id, role, purpose, model.name, parts, completion)
    if pending is not None:
        record = await pending.keep(record)
    if completion.on_journaled is not None:
        completion.on_journaled()
    yield Called(call=record)
    yield FinalMessage(completion.text, call_id, cut=is_cut(completion.finish_reason))


class _Streamed:
    """A reply that is streaming in: its tokens, its completion, and the cost of requests that gave no reply."""

    def __init__(self, role: RoleName, purpose: Purpose, pending: PendingCall | None) -> None:
        self._role, self._purpose, self._pending = role, purpose, pending
        self.completion: Completion | None = None
        self.over_budget = False
        self._lost = Spent()
        self._begun = False

    def token_of(self, item: StreamItem) -> Token | None:
        """Take the next item; return its token if somebody watches. Raises ``NoReply`` when the budget is used up."""
        match item:
            case TextPiece() | Thought():
                return self._token_of_text(item)
            case Restart():
                return self._restart(item)
            case Delayed():
                if self._pending is not None:
                    self._pending.waits = item.words
            case Completion():
                self.completion = item
        return None

    def _token_of_text(self, item: TextPiece | Thought) -> Token | None:
        if self._pending is not None:
            self._pending.count_piece()
            if not self._pending.unit.replies.watched:
                return None
        self._begun = True
        thought = isinstance(item, Thought)
        void = isinstance(item, Thought) and item.void
        return Token(role=self._role, purpose=self._purpose, text=item.text, restart=void, thought=thought)

    def _restart(self, item: Restart) -> Token | None:
        if self._pending is not None:
            self._pending.restart(item.attempt, item.reason)
            self._lost += item.lost
            if self._pending.overruns(self._lost.cost_usd or 0.0):
                self.over_budget = True
                words = f"The budget is used up by requests that gave no reply ({item.reason})."
                raise NoReply("cancelled", words, attempts=item.attempt - 1, spent=self._lost)
        begun, self._begun = self._begun, False
        return Token(role=self._role, purpose=self._purpose, text="", restart=True) if begun else None


def _record_of_failure(
    call_id: str,
    role: RoleName,
    purpose: Purpose,
    model: str,
    parts: Sequence[PromptPart | Message],
    sent: Sequence[Message],
    error: ProviderError,
) -> CallRecord:
    reason = f"{error.kind}: {error}"
    if isinstance(error, OnlyThought):
        thinking = _record(call_id, role, purpose, model, parts, error.completion)
        return thinking.model_copy(update={"response": None, "error": reason})
    messages = [recorded(message) for message in sent]
    record = CallRecord(
        call_id=call_id,
        role=role,
        purpose=purpose,
        model=model,
        attempts=error.attempts,
        request={"messages": messages},
        parts=placed(parts, messages),
        error=reason,
    )
    if not isinstance(error, NoReply):
        return record
    usage = error.spent.usage
    spent = {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "tokens_estimated": usage.estimated,
        "cost_usd": error.spent.cost_usd if usage.total_tokens else None,
    }
    return record.model_copy(update=spent)


def _record(
    call_id: str,
    role: RoleName,
    purpose: Purpose,
    model: str,
    parts: Sequence[PromptPart | Message],
    completion: Completion,
) -> CallRecord:
    return CallRecord(
        call_id=call_id,
        role=role,
        purpose=purpose,
        model=model,
        request=completion.request,
        parts=placed(parts, completion.request.get("messages") or ()),
        response=completion.text,
        finish_reason=completion.finish_reason,
        served_by=completion.served_by,
        prompt_tokens=completion.usage.prompt_tokens,
        completion_tokens=completion.usage.completion_tokens,
        tokens_estimated=completion.usage.estimated,
        latency_s=completion.latency_s,
        first_token_s=completion.first_token_s,
        attempts=completion.attempts,
        cost_usd=completion.cost_usd,
        reasoning=completion.reasoning,
        reasoning_tokens=completion.usage.reasoning_tokens,
        cached_tokens=completion.usage.cached_tokens,
        cache_write_tokens=completion.usage.cache_write_tokens,
        price_source=completion.price_source,
    )
