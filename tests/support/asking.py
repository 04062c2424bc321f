"""Short ways to make a model for tests and to hear it out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import SecretStr

from core.models.base import ChatModel, Completion, Message, Restart, Sampling, StreamItem, TextPiece
from core.models.limits import RateLimiter, RateLimits
from core.models.openai_compatible import OpenAICompatibleModel
from core.models.spec import ModelSpec

HELLO: list[Message] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "How are you?"}]


@dataclass
class Naps:
    """A ``sleep`` that only notes how long it was asked to wait."""

    seconds: list[float] = field(default_factory=list)

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


@dataclass
class Clock:
    """A clock that stands still but for the sleeping done on it."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


def make_spec(base_url: str, **changes: Any) -> ModelSpec:
    facts = {"name": "openai/test", "provider": "openai", "kind": "openai", "model_id": "test", "display": "Test"}
    return ModelSpec(**{**facts, "base_url": base_url, **changes})


def make_model(
    spec: ModelSpec, *, key: str | None = None, naps: Naps | None = None, **more: Any
) -> OpenAICompatibleModel:
    """Make a client whose waits take no time and have no jitter."""
    clock = Clock()
    limiter = RateLimiter(RateLimits(), clock=clock, sleep=clock.sleep)
    secret = SecretStr(key) if key else None
    arguments = {"key": secret, "limiter": limiter, "sleep": naps or Naps(), "jitter": lambda: 0.0, **more}
    return OpenAICompatibleModel(spec, **arguments)


async def hear(
    model: ChatModel, messages: Sequence[Message] = HELLO, sampling: Sampling | None = None
) -> list[StreamItem]:
    return [item async for item in model.stream(messages, sampling or Sampling())]


async def ask(model: ChatModel, messages: Sequence[Message] = HELLO, sampling: Sampling | None = None) -> Completion:
    last = (await hear(model, messages, sampling))[-1]
    assert isinstance(last, Completion)
    return last


def heard_text(items: Sequence[StreamItem]) -> str:
    """Return what a listener is left with who forgets everything at a restart."""
    text = ""
    for item in items:
        if isinstance(item, Restart):
            text = ""
        elif isinstance(item, TextPiece):
            text += item.text
    return text
