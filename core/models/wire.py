"""What goes over the wire: the body of a chat completion, and the reply put together from its chunks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from core.models.base import Message, Role, Sampling, Usage, joined, message
from core.models.pictures import TOKENS_A_PICTURE, recorded
from core.models.spec import ModelSpec

_TOKENS_PER_WORD = 4 / 3
_ASSUMED_REPLY_TOKENS = 256


class UnreadableChunk(ValueError):
    """A chunk is valid JSON but no chat completion chunk."""


def merged(call: Sampling, default: Sampling) -> Sampling:
    """Fill what a call leaves open with the model's defaults."""
    return Sampling(
        temperature=default.temperature if call.temperature is None else call.temperature,
        max_tokens=default.max_tokens if call.max_tokens is None else call.max_tokens,
        seed=default.seed if call.seed is None else call.seed,
        stop=call.stop or default.stop,
    )


def request_body(spec: ModelSpec, messages: Sequence[Message], sampling: Sampling) -> dict[str, Any]:
    """Build the body as it is kept, without what the model does not support.

    ``core.models.pictures.with_parts`` makes it what is sent.
    """
    settings: dict[str, Any] = {
        "temperature": sampling.temperature,
        "max_tokens": sampling.max_tokens,
        "seed": sampling.seed,
        "stop": list(sampling.stop) or None,
    }
    sent = {name: value for name, value in settings.items() if value is not None and name not in spec.unsupported}
    if "max_tokens" in sent:
        sent[spec.max_tokens_field] = sent.pop("max_tokens")
    fitting = [recorded(one) for one in fitting_messages(spec, messages)]
    return {"model": spec.model_id, "messages": fitting, "stream": True, **sent}


def fitting_messages(spec: ModelSpec, messages: Sequence[Message]) -> list[Message]:
    """Return ``messages`` as the model takes them.

    A chat template that knows users and assistants in strict alternation gets a system message as the user's words.
    """
    if _takes_system(spec, messages):
        return list(messages)
    fitted: list[Message] = []
    for one in messages:
        role: Role = "user" if one["role"] == "system" else one["role"]
        if fitted and fitted[-1]["role"] == role:
            fitted[-1] = joined(fitted[-1], one)
        else:
            fitted.append(message(role, one["content"], one.get("images", ())))
    return fitted


def _takes_system(spec: ModelSpec, messages: Sequence[Message]) -> bool:
    if spec.system_role == "before_user":
        return [one["role"] for one in messages[:2]] == ["system", "user"]
    return spec.system_role == "system"


def estimated_tokens(text: str) -> int:
    """Guess the tokens of ``text`` from its words."""
    return math.ceil(len(text.split()) * _TOKENS_PER_WORD)


def prompt_tokens(body: Mapping[str, Any]) -> int:
    """Guess the tokens of a body's messages, words and pictures."""
    pictures = sum(len(kept.get("images", ())) for kept in body["messages"])
    return sum(estimated_tokens(kept["content"]) for kept in body["messages"]) + pictures * TOKENS_A_PICTURE


def expected_tokens(body: Mapping[str, Any]) -> int:
    """Guess what a call will be charged with: its prompt, and as much as it may answer."""
    reply = body.get("max_tokens") or body.get("max_completion_tokens") or _ASSUMED_REPLY_TOKENS
    return prompt_tokens(body) + int(reply)


@dataclass
class Reply:
    """A reply as far as it has come."""

    pieces: list[str] = field(default_factory=list)
    finish_reason: str | None = None
    refused: bool = False
    served_by: str | None = None
    usage: Usage | None = None
    sent_s: float = 0.0
    first_token_s: float | None = None
    latency_s: float = 0.0

    @property
    def text(self) -> str:
        """All text so far; half a character that no other half follows becomes U+FFFD, for nothing could store it."""
        return "".join(self.pieces).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")

    def take(self, chunk: object) -> str:
        """Add a chunk, as the JSON it came as, and return the text it brought."""
        self.served_by = _text_in(chunk, "model") or self.served_by
        self._take_usage(_field(chunk, "usage"))
        choices = _field(chunk, "choices")
        if choices is None and self.usage is None:
            raise UnreadableChunk("no choices in the chunk")
        return self._take_choice(choices[0]) if isinstance(choices, list) and choices else ""

    def _take_usage(self, usage: object) -> None:
        prompt, completion = _field(usage, "prompt_tokens"), _field(usage, "completion_tokens")
        if isinstance(prompt, int) and isinstance(completion, int):
            self.usage = Usage(prompt, completion)

    def _take_choice(self, choice: object) -> str:
        self.finish_reason = _text_in(choice, "finish_reason") or self.finish_reason
        delta = _field(choice, "delta")
        self.refused = self.refused or bool(_field(delta, "refusal"))
        text = _field(delta, "content") or ""
        if not isinstance(text, str):
            raise UnreadableChunk("the text of the chunk is no text")
        if text:
            self.pieces.append(text)
        return text

    def usage_or_estimate(self, body: Mapping[str, Any]) -> Usage:
        """Return the provider's figures, or a guess from the words where it sent none."""
        return self.usage or Usage(prompt_tokens(body), estimated_tokens(self.text), estimated=True)


def _field(value: object, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _text_in(value: object, name: str) -> str | None:
    found = _field(value, name)
    return found if isinstance(found, str) else None
