"""What goes over the wire: the body of a chat completion, and the reply put together from its chunks."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson

from core.models.base import Message, Piece, Role, Sampling, Thought, Usage, joined, message
from core.models.bounds import check_line
from core.models.pictures import CACHE_MARK, TOKENS_A_PICTURE, recorded
from core.models.spec import EFFORT, Bounds, ModelSpec
from core.models.thinking import Thinking

_TOKENS_PER_WORD = 4 / 3
_ASSUMED_REPLY_TOKENS = 256
_LONGEST_ASSUMED = 1_024
_AROUND = 1_000
"""Tokens that a template, a provider's own instructions or a form may add to a message."""
_MOST_A_PICTURE = 50_000
_AROUND_A_MESSAGE, _LARGE_PICTURE = 16, 6_400
"""Tokens that a template adds to a message, and of a picture as the dearest of providers count it."""
_CACHE_WRITES = ("cache_write_tokens", "cache_creation_input_tokens", "cache_creation_tokens")
"""Where servers say how many tokens they keep: OpenRouter, Anthropic's own word, and that of some proxies."""
_LONGEST_REPEATED, _LEAST_REPEATED = 400, 2_000
"""Characters: of what is said again and again, and of all its repetitions together."""
MOST_UNSAID = 200_000
"""Tokens that a model may think unseen where its replies have no limit."""


class UnreadableChunk(ValueError):
    """A chunk is valid JSON but no chat completion chunk."""


def request_body(spec: ModelSpec, messages: Sequence[Message], sampling: Sampling) -> dict[str, Any]:
    """Build the body as it is kept, without what the model does not support.

    ``core.models.pictures.with_parts`` makes it what is sent.
    """
    settings: dict[str, Any] = {
        "temperature": sampling.temperature,
        "max_tokens": sampling.max_tokens,
        "seed": sampling.seed,
        "stop": list(sampling.stop) or None,
        "reasoning_effort": None if effort_fields(spec) else sampling.effort,
    }
    sent = {name: value for name, value in settings.items() if value is not None and name not in spec.unsupported}
    if "max_tokens" in sent:
        sent[spec.max_tokens_field] = sent.pop("max_tokens")
    taken = fitting_messages(spec, messages)
    fitting = [recorded(one) for one in taken]
    last = max((number for number, one in enumerate(taken) if one.get("said")), default=None)
    if spec.cache_marks and last is not None:  # the next message of the dialogue is asked for with all up to here
        fitting[last]["cache_control"] = dict(CACHE_MARK)
    extra = _filled(spec.extra_body, sampling.effort) or {}
    return {"model": spec.model_id, "messages": fitting, "stream": True, **sent, **extra}


def effort_fields(spec: ModelSpec) -> list[str]:
    """Return the fields of ``extra_body`` in which the effort is sent; empty where it has the usual field."""
    return [name for name, value in spec.extra_body.items() if _filled(value, None) != value]


def _filled(value: Any, effort: str | None) -> Any:
    """Return a value with the effort where its place is held; ``None`` for what holds nothing but an unset effort."""
    if isinstance(value, Mapping):
        filled = {name: _filled(under, effort) for name, under in value.items()}
        return {name: under for name, under in filled.items() if under is not None} or None
    if isinstance(value, str) and EFFORT in value:
        return None if effort is None else value.replace(EFFORT, effort)
    return value


def fitting_messages(spec: ModelSpec, messages: Sequence[Message]) -> list[Message]:
    """Return ``messages`` as the model takes them.

    A chat template that knows users and assistants in strict alternation gets a system message as the user's words.
    """
    first = [one["role"] for one in messages[:2]]
    if spec.system_role == "system" or (spec.system_role == "before_user" and first == ["system", "user"]):
        return list(messages)
    fitted: list[Message] = []
    for one in messages:
        role: Role = "user" if one["role"] == "system" else one["role"]
        if fitted and fitted[-1]["role"] == role:
            fitted[-1] = joined(fitted[-1], one)
        else:
            fitted.append(message(role, one["content"], one.get("images", ())))
    return fitted


def estimated_tokens(text: str) -> int:
    """Guess the tokens of ``text`` from its words."""
    return math.ceil(len(text.split()) * _TOKENS_PER_WORD)


def prompt_tokens(body: Mapping[str, Any]) -> int:
    """Guess the tokens of a body's messages, words and pictures."""
    pictures = sum(len(kept.get("images", ())) for kept in body["messages"])
    return sum(estimated_tokens(kept["content"]) for kept in body["messages"]) + pictures * TOKENS_A_PICTURE


def expected_tokens(body: Mapping[str, Any]) -> int:
    """Guess what a call will be charged with: its prompt, and what it may answer; few take all of a long limit."""
    reply = body.get("max_tokens") or body.get("max_completion_tokens") or _ASSUMED_REPLY_TOKENS
    return prompt_tokens(body) + min(int(reply), _LONGEST_ASSUMED)


def most_tokens(body: Mapping[str, Any], longest: int) -> Usage:
    """Return the most that a call may be charged with, which is more than it will be.

    No text has more tokens than half its bytes, templates included. A reply ends at its limit; ``longest`` is taken
    where it is less, or where there is none.
    """
    words = sum(len(kept["content"].encode()) for kept in body["messages"]) + len(str(body.get("response_format", "")))
    pictures = sum(len(kept.get("images", ())) for kept in body["messages"])
    prompt = words // 2 + _AROUND_A_MESSAGE * (len(body["messages"]) + 1) + pictures * _LARGE_PICTURE
    limit = body.get("max_tokens") or body.get("max_completion_tokens")
    return Usage(prompt, min(int(limit), longest) if limit else longest, estimated=True)


class ServerSentEvents:
    """The JSON of a stream of events as its bytes come; ``done`` with the event that ends it.

    Source: https://html.spec.whatwg.org/multipage/server-sent-events.html, of which only ``data`` is read.
    """

    def __init__(self) -> None:
        self.done = False
        self._pending: list[bytes] = []
        self._length = 0
        self._data: list[bytes] = []
        self._data_length = 0

    def take(self, block: bytes) -> Iterator[object]:
        """Take the next bytes and yield what is whole; raise ``ValueError`` for what is no JSON."""
        self._pending.append(block)
        self._length += len(block)
        check_line(self._length)
        if b"\n" not in block:  # joined once, at its end: a long line comes in thousands of blocks
            return
        *lines, rest = b"".join(self._pending).replace(b"\r\n", b"\n").split(b"\n")
        self._pending, self._length = [rest], len(rest)
        for line in lines:
            if line.startswith(b"data:"):
                self._data.append(line[5:].strip())
                self._data_length += len(line)
                check_line(self._data_length)
            elif not line and self._data:
                data, self._data, self._data_length = b"\n".join(self._data), [], 0
                if data.startswith(b"[DONE]"):
                    self.done = True
                    return
                try:
                    yield orjson.loads(data)
                except orjson.JSONDecodeError:
                    try:
                        yield json.loads(data)  # half a character in an escape is no fault of the stream's
                    except RecursionError:
                        raise UnreadableChunk("it is nested too deeply") from None


@dataclass
class Reply:
    """A reply as far as it has come; ``thinking`` tells what it says from what it thinks."""

    thinking: Thinking = field(default_factory=Thinking)
    shown: bool = False
    """Whether anything of it was handed on."""
    finish_reason: str | None = None
    refused: bool = False
    served_by: str | None = None
    usage: Usage | None = None
    begun: bool = False
    """Whether the server has begun to answer, and so charges for the request."""
    sent_s: float = 0.0
    finished_s: float | None = None
    first_token_s: float | None = None
    latency_s: float = 0.0
    kept: Callable[[], None] | None = None
    """To be called once it is journaled (``core.models.base.Completion``)."""
    _choice: object = None
    """The index of the choice that is read: some servers send several, each in chunks of its own."""

    @property
    def text(self) -> str:
        """All that was said so far, without what was thought."""
        return _whole_characters(self.thinking.text)

    @property
    def reasoning(self) -> str:
        """All that was thought so far."""
        return _whole_characters(self.thinking.reasoning)

    def take(self, chunk: object) -> Iterator[Piece | Thought]:
        """Add a chunk, as the JSON it came as, and yield the text it brought."""
        self.served_by = _text_in(chunk, "model") or self.served_by
        if usage := _field(chunk, "usage"):
            self._take_usage(usage)
        choices = _field(chunk, "choices")
        if choices is None and self.usage is None:
            raise UnreadableChunk("no choices in the chunk")
        if isinstance(choices, list) and choices:
            choice = choices[0]
            if (index := _field(choice, "index")) is not None:
                self._choice = index if self._choice is None else self._choice
                if index != self._choice:
                    return
            delta = _field(choice, "delta")
            self.refused = self.refused or bool(_field(delta, "refusal"))
            if isinstance(delta, dict) and not _THOUGHTS.isdisjoint(delta) and (reasoning := _reasoning_in(delta)):
                yield from self.thinking.think(reasoning)
            for thought, text in _parts_of(_field(delta, "content") or ""):
                yield from self.thinking.think(text) if thought else self.thinking.take(text)
            # only now: a chunk that cannot be read does not make the reply whole
            self.finish_reason = _text_in(choice, "finish_reason") or self.finish_reason

    def take_whole(self, body: object) -> Iterator[Piece | Thought]:
        """Add a reply that was not streamed, as the JSON it came as, and yield its text."""
        choices = _field(body, "choices")
        if not isinstance(choices, list):
            raise UnreadableChunk("no choices in the reply")
        made = [{**one, "delta": _field(one, "message")} for one in choices if isinstance(one, dict)]
        yield from self.take({"model": _field(body, "model"), "usage": _field(body, "usage"), "choices": made})

    def _take_usage(self, usage: object) -> None:
        prompt, completion = _field(usage, "prompt_tokens"), _field(usage, "completion_tokens")
        if type(prompt) is not int or type(completion) is not int:
            return
        thought = _count(_field(_field(usage, "completion_tokens_details"), "reasoning_tokens"))
        if thought and _field(usage, "total_tokens") == prompt + completion + thought:
            completion += thought  # some servers count what was thought beside the reply
        cached = _count(_field(_field(usage, "prompt_tokens_details"), "cached_tokens"))
        if cached is None:
            cached = _count(_field(usage, "prompt_cache_hit_tokens"))
        details = _field(usage, "prompt_tokens_details")
        written = [_count(_field(of, name)) for of in (details, usage) for name in _CACHE_WRITES]
        kept = next((count for count in written if count is not None), None)
        self.usage = Usage(
            prompt,
            completion,
            reasoning_tokens=thought if thought is not None and thought <= completion else None,
            cached_tokens=cached if cached is not None and cached <= prompt else None,
            cache_write_tokens=kept if kept is not None and kept + (cached or 0) <= prompt else None,
        )

    def usage_or_estimate(self, body: Mapping[str, Any]) -> Usage:
        """Return the provider's figures, or a guess from the words where it sent none or such as cannot be.

        No token is shorter than a byte; thoughts that are not shown count as far as the reply's limit goes.
        """
        words, held = f"{self.reasoning} {self.text}", self.usage
        if held is not None:
            sent = sum(len(kept["content"].encode()) for kept in body["messages"])
            pictures = sum(len(kept.get("images", ())) for kept in body["messages"])
            most_sent = sent + _AROUND * (len(body["messages"]) + 1) + _MOST_A_PICTURE * pictures
            limit = body.get("max_tokens") or body.get("max_completion_tokens") or MOST_UNSAID
            most_said = max(int(limit), len(words.encode())) + _AROUND
            if 0 <= held.prompt_tokens <= most_sent and 0 <= held.completion_tokens <= most_said:
                return held
        return Usage(prompt_tokens(body), estimated_tokens(words), estimated=True)


def _count(value: object) -> int | None:
    return value if type(value) is int and value >= 0 else None


_THOUGHTS = frozenset({"reasoning", "reasoning_content", "reasoning_details"})


def _reasoning_in(delta: object) -> str:
    """Return the reasoning of a delta. Some servers send the same words in several of these fields: one is read."""
    for name in ("reasoning", "reasoning_content"):
        if text := _text_in(delta, name):
            return text
    return _thought_of(_field(delta, "reasoning_details"))


def _thought_of(value: object) -> str:
    """Return the words of a thought, whichever shape it has; encrypted ones have none."""
    if isinstance(value, list):
        return "".join(map(_thought_of, value))
    if isinstance(value, dict):
        return next((_thought_of(value[name]) for name in ("text", "summary", "thinking") if value.get(name)), "")
    return value if isinstance(value, str) else ""


def _parts_of(content: object) -> Iterator[tuple[bool, str]]:
    """Yield the texts of a delta's content, and of each whether it is a thought; some servers send a list of parts."""
    if isinstance(content, str):
        yield False, content
        return
    if not isinstance(content, list):
        raise UnreadableChunk("the text of the chunk is no text")
    for part in content:
        if _field(part, "type") in ("thinking", "reasoning"):
            yield True, _thought_of(part)
        else:
            yield False, part if isinstance(part, str) else _text_in(part, "text") or ""


class Endless:
    """Watches whether a reply that comes goes on beyond the bounds of its model, and has the ``words`` to say so."""

    def __init__(self, bounds: Bounds, limit: int) -> None:
        self._repeats, self._most = bounds.repeats, bounds.characters_a_token * limit
        self._length = self._looked = 0
        self._tail = self.words = ""

    def ends(self, text: str) -> Literal["length", "repetition"] | None:
        """Take the next piece of it and return why it is to end here, if it is."""
        self._length += len(text)
        self._tail = (self._tail + text)[-_LEAST_REPEATED - _LONGEST_REPEATED * (self._repeats + 1) :]
        if self._length > self._most:
            self.words = "goes on beyond the limit of its reply"
            return "length"
        if self._repeats and self._length >= self._looked + _LEAST_REPEATED // 4:
            self._looked = self._length
            for size in range(1, _LONGEST_REPEATED + 1):
                filled = max(_LEAST_REPEATED, size * self._repeats) + size
                end = self._tail[-filled:]
                if len(end) == filled and end[size:] == end[:-size]:
                    self.words = f"says the same over and over again ({end[-size:].strip()[:60]!r})"
                    return "repetition"
        return None


def _whole_characters(text: str) -> str:
    """Return text with U+FFFD for half a character that no other half followed: nothing could store it."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _field(value: object, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _text_in(value: object, name: str) -> str | None:
    found = _field(value, name)
    return found if isinstance(found, str) else None
