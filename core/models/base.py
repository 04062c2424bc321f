"""What every model that can speak has in common: one streaming interface, messages, sampling and usage.

A ``ChatModel`` knows nothing of doctors or patients; roles live in ``core.agents``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NotRequired, Protocol, TypedDict, runtime_checkable

from pydantic import BaseModel, ConfigDict

from core.errors import FailureKind, ProviderError
from core.images import Image

Role = Literal["system", "user", "assistant"]
CONVERSATION: ContextVar[str] = ContextVar("conversation", default="")
"""What the next call belongs to, such as a trial: by that an application tells one conversation from another."""


CALL: ContextVar[str] = ContextVar("call", default="")
"""Names the next call within its job, the same whenever the job is taken up again; empty outside of one."""


class Table(BaseModel):
    """A table of the models file: nothing else may stand in it, and what is left out keeps its default."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Message(TypedDict):
    """One message of a chat; pictures go beside its text as content parts of their own.

    One that is ``said`` belongs to a dialogue: the next call of whoever reads it begins with it and all before it.
    """

    role: Role
    content: str
    images: NotRequired[tuple[Image, ...]]
    said: NotRequired[bool]


def message(role: Role, content: str, images: Sequence[Image] = ()) -> Message:
    """Return a message; without pictures it has no key for them."""
    plain = Message(role=role, content=content)
    return Message(role=role, content=content, images=tuple(images)) if images else plain


def joined(first: Message, second: Message) -> Message:
    """Return two neighbours as one message of the first one's role: an empty line between, their pictures together."""
    images = (*first.get("images", ()), *second.get("images", ()))
    return message(first["role"], f"{first['content']}\n\n{second['content']}", images)


@dataclass(frozen=True)
class Sampling:
    """How the model is asked to sample. ``None`` leaves a setting to the provider and sends nothing for it."""

    temperature: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    effort: str | None = None
    """How much the model is to think before it replies: a word of the provider's own, such as low or high."""
    limit: int | None = None
    """Tokens that fit what is asked, where neither the call nor the model's settings say ``max_tokens``.

    They bound what is said: a model that thinks first is given room for its thoughts besides.
    """
    form: type[BaseModel] | None = None
    """What the reply is to be as JSON; a server that can hold its model to a schema is sent it."""

    def over(self, default: Sampling) -> Sampling:
        """Return it with what it leaves open filled from a model's defaults."""
        given = {name: value for name, value in vars(self).items() if value is not None and value != ()}
        return replace(default, **given)


@dataclass(frozen=True)
class Usage:
    """Tokens of one call. ``estimated`` is true where the provider sent no figures and words were counted.

    ``reasoning_tokens`` are those of ``completion_tokens`` that went into thinking. Of ``prompt_tokens``,
    ``cached_tokens`` are those that the provider had read before, ``cache_write_tokens`` those that it keeps for the
    next call. ``None`` where it is not told.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    estimated: bool = False
    reasoning_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None

    @property
    def total_tokens(self) -> int:
        """Tokens of prompt and completion together."""
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
    """What requests were charged with; ``cost_usd`` is ``None`` if a price is not known."""

    usage: Usage = field(default=Usage())
    cost_usd: float | None = 0.0

    def __add__(self, other: Spent) -> Spent:
        unknown = self.cost_usd is None or other.cost_usd is None
        return Spent(self.usage + other.usage, None if unknown else (self.cost_usd or 0.0) + (other.cost_usd or 0.0))


@dataclass(frozen=True)
class Piece:
    """The next bit of text of a reply that is streaming in."""

    text: str


@dataclass(frozen=True)
class Thought:
    """The next bit of what the model thinks, which is shown to whoever watches and is no part of its reply.

    ``void`` says that the pieces so far were thought too: only now a closing tag came that no opening one had
    announced. ``text`` is then all that was thought up to here.
    """

    text: str
    void: bool = False


@dataclass(frozen=True)
class Restart:
    """The call failed in a way that can heal and is made again: forget the pieces and thoughts so far, if any came.

    ``lost`` is what the failed request was charged with.
    """

    reason: str
    attempt: int
    lost: Spent = field(default=Spent())


@dataclass(frozen=True)
class Delayed:
    """The call is not sent yet, for a reason in a few words; none once it is."""

    words: str


@dataclass(frozen=True)
class Completion:
    """A finished reply: always the last item of a stream.

    ``text`` is what the model says, without its ``reasoning``, which is ``None`` where none was shown.
    ``latency_s`` is the wall time in seconds of the successful attempt, ``first_token_s`` the time to its first
    piece or thought; ``attempts`` counts all requests made; ``cost_usd`` is ``None`` where no price is known,
    ``price_source`` whose price it is (``core.models.prices.source``). ``request`` is the body that was sent (never a
    key or a header); ``served_by`` the model name the provider reports.
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
    kept: Callable[[], None] | None = None
    """To be called once the reply is journaled, where whoever gave it has to know."""

    def including(self, lost: Spent) -> Completion:
        """Return the reply with what the failed requests before it were charged with added to its usage and cost."""
        whole = Spent(self.usage, self.cost_usd) + lost
        return replace(self, usage=whole.usage, cost_usd=whole.cost_usd)


CUT_SHORT = ("length", "repetition")
"""Reasons of ending that say: there was more to come."""
StreamItem = Piece | Thought | Restart | Delayed | Completion


class NoReply(ProviderError):
    """No request of a call gave a reply; ``spent`` is what they were charged with all the same."""

    def __init__(self, kind: FailureKind, message: str, *, attempts: int, spent: Spent) -> None:
        super().__init__(kind, message, attempts=attempts)
        self.spent = spent


class OnlyThought(ProviderError):
    """The model thought and said nothing; ``completion`` has its reasoning, and what that took, and no text."""

    def __init__(self, kind: FailureKind, message: str, completion: Completion) -> None:
        super().__init__(kind, message, attempts=completion.attempts)
        self.completion = completion


@runtime_checkable
class Priced(Protocol):
    """A model whose calls may cost something, and which can say how much at most."""

    def most_usd(self, messages: Sequence[Message], sampling: Sampling) -> float:
        """Return what a call may cost at most, in US dollars; 0 where it costs nothing or nobody knows."""
        ...


class ChatModel(Protocol):
    """A model that answers a list of messages, piece by piece."""

    @property
    def name(self) -> str:
        """The full name ``provider/model`` under which it is stored and shown."""
        ...

    def stream(self, messages: Sequence[Message], sampling: Sampling) -> AsyncIterator[StreamItem]:
        """Yield pieces, thoughts and at last one ``Completion``; raise ``ProviderError`` when no reply can be had."""
        ...

    async def aclose(self) -> None:
        """Give back connections and child processes. Safe to call twice."""
        ...
