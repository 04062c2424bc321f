"""The interface of all chat models: streaming, messages, sampling and usage.

A ``ChatModel`` knows nothing of doctors or patients; roles are in ``core.agents``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NotRequired, Protocol, TypedDict

from pydantic import BaseModel, ConfigDict

from core.errors import FailureKind, ProviderError
from core.images import Image

Role = Literal["system", "user", "assistant"]
CONVERSATION: ContextVar[str] = ContextVar("conversation", default="")
"""The trial or other unit of the next call, by which an application distinguishes conversations."""


CALL: ContextVar[str] = ContextVar("call", default="")
"""The name of the next call in its job, which is the same after a resume; empty outside of a job."""


class TomlTable(BaseModel):
    """A table of the models file: unknown keys are errors, missing keys have defaults."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Message(TypedDict):
    """One message of a chat; pictures are sent as separate content parts.

    ``said``: the message belongs to a dialogue, so the next request in the dialogue begins with the same messages.
    """

    role: Role
    content: str
    images: NotRequired[tuple[Image, ...]]
    said: NotRequired[bool]


def message(role: Role, content: str, images: Sequence[Image] = ()) -> Message:
    """Return a message; it has the key ``images`` only with pictures."""
    plain = Message(role=role, content=content)
    return Message(role=role, content=content, images=tuple(images)) if images else plain


def joined(first: Message, second: Message) -> Message:
    """Join two messages into one with the first role: texts separated by an empty line, all pictures."""
    images = (*first.get("images", ()), *second.get("images", ()))
    return message(first["role"], f"{first['content']}\n\n{second['content']}", images)


@dataclass(frozen=True)
class Sampling:
    """Sampling settings of a request. ``None`` leaves a setting to the provider: it is not sent."""

    temperature: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    effort: str | None = None
    """Reasoning effort: a word that the provider defines, such as low or high."""
    limit: int | None = None
    """Tokens of a usual reply, which is the limit if neither the call nor the model's settings have ``max_tokens``.

    It bounds the message only: a reasoning model gets additional tokens.
    """
    form: type[BaseModel] | Mapping[str, Any] | None = None
    """The schema of a reply in JSON, or the recorded ``response_format`` of a request that is sent again."""

    def over(self, default: Sampling) -> Sampling:
        """Return these settings, with missing ones filled from a model's defaults."""
        settings = {name: value for name, value in vars(self).items() if value is not None and value != ()}
        return replace(default, **settings)


@dataclass(frozen=True)
class Usage:
    """Tokens of one call. ``estimated``: the provider sent no counts, and words were counted.

    ``reasoning_tokens`` are part of ``completion_tokens``. ``cached_tokens`` (read from the provider's cache) and
    ``cache_write_tokens`` (written to it) are parts of ``prompt_tokens``. ``None`` if the provider does not report
    them.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    estimated: bool = False
    reasoning_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.estimated or other.estimated,
            _sum(self.reasoning_tokens, other.reasoning_tokens),
            _sum(self.cached_tokens, other.cached_tokens),
            _sum(self.cache_write_tokens, other.cache_write_tokens),
        )


def _sum(first: int | None, second: int | None) -> int | None:
    return None if first is None and second is None else (first or 0) + (second or 0)


@dataclass(frozen=True)
class Spent:
    """Tokens and cost of requests; ``cost_usd`` is ``None`` if a price is unknown."""

    usage: Usage = field(default=Usage())
    cost_usd: float | None = 0.0

    def __add__(self, other: Spent) -> Spent:
        unknown = self.cost_usd is None or other.cost_usd is None
        return Spent(self.usage + other.usage, None if unknown else (self.cost_usd or 0.0) + (other.cost_usd or 0.0))


@dataclass(frozen=True)
class TextPiece:
    """A piece of the text of a streaming reply."""

    text: str


@dataclass(frozen=True)
class Thought:
    """A piece of the model's reasoning, which is shown to the user but is not part of the reply.

    ``void``: a closing tag without an opening one has arrived, so that all pieces so far were reasoning too. ``text``
    is then all reasoning so far.
    """

    text: str
    void: bool = False


@dataclass(frozen=True)
class Restart:
    """The request failed and is repeated: the pieces and thoughts so far are void.

    ``lost`` is the charge for the failed request.
    """

    reason: str
    attempt: int
    lost: Spent = field(default=Spent())


@dataclass(frozen=True)
class Delayed:
    """The request waits for the reason in ``words``; empty when it is sent."""

    words: str


@dataclass(frozen=True)
class Completion:
    """A finished reply: always the last item of a stream.

    ``text`` is the model's message, without its ``reasoning``, which is ``None`` if the provider shows none.
    ``latency_s`` is the wall time in seconds of the successful attempt, ``first_token_s`` the time to its first piece
    or thought; ``attempts`` counts all requests; ``cost_usd`` is ``None`` if no price is known, ``price_source`` is the
    source of the price (``core.models.prices.source``). ``request`` is the body that was sent (never a key or a
    header); ``served_by`` is the model name that the provider reports.
    """

    text: str
    finish_reason: str
    usage: Usage
    model: str
    latency_s: float = 0.0
    first_token_s: float | None = None
    attempts: int = 1
    cost_usd: float | None = None
    price_source: str | None = None
    served_by: str | None = None
    request: dict[str, Any] = field(default_factory=dict)
    reasoning: str | None = None
    on_journaled: Callable[[], None] | None = None
    """To be called when the reply is journaled; ``None`` if the model does not need to know."""

    def including(self, lost: Spent) -> Completion:
        """Return the reply with the charges for failed requests added to its usage and cost."""
        total = Spent(self.usage, self.cost_usd) + lost
        return replace(self, usage=total.usage, cost_usd=total.cost_usd)


StreamItem = TextPiece | Thought | Restart | Delayed | Completion


class NoReply(ProviderError):
    """All requests of a call failed; ``spent`` is what the provider charged for them."""

    def __init__(self, kind: FailureKind, message: str, *, attempts: int, spent: Spent) -> None:
        super().__init__(kind, message, attempts=attempts)
        self.spent = spent


class OnlyThought(ProviderError):
    """The reply has reasoning but no message; ``completion`` has its reasoning and usage, and an empty text."""

    def __init__(self, kind: FailureKind, message: str, completion: Completion) -> None:
        super().__init__(kind, message, attempts=completion.attempts)
        self.completion = completion


class ChatModel(Protocol):
    """A model that replies to a list of messages as a stream.

    It may have ``most_usd(messages, sampling)``: the maximum cost of a call in US dollars, 0 if it is free or unknown.
    """

    @property
    def name(self) -> str: ...

    def stream(self, messages: Sequence[Message], sampling: Sampling) -> AsyncIterator[StreamItem]:
        """Yield pieces and thoughts, then one ``Completion``; raise ``ProviderError`` if there is no reply."""
        ...

    async def aclose(self) -> None:
        """Release connections and child processes. Safe to call twice."""
        ...
