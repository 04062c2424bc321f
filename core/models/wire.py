"""The body of a chat completion request, and the reply assembled from its chunks."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson
from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from core.models.base import Message, Role, Sampling, TextPiece, Thought, Usage, joined, message
from core.models.bounds import check_line
from core.models.pictures import CACHE_MARK, TOKENS_A_PICTURE, recorded
from core.models.spec import EFFORT, Bounds, ModelSpec
from core.models.thinking import Thinking

_TOKENS_PER_WORD = 4 / 3
_ASSUMED_REPLY_TOKENS = 256
_LONGEST_ASSUMED = 1_024
_AROUND = 1_000
"""Tokens that a template, a provider's instructions or a form may add to a message."""
_MOST_A_PICTURE = 50_000
_AROUND_A_MESSAGE, _LARGE_PICTURE = 16, 6_400
"""Tokens that a template adds to a message, and tokens of a picture at the most expensive provider."""
_CACHE_WRITES = ("cache_write_tokens", "cache_creation_input_tokens", "cache_creation_tokens")
"""Fields with the tokens written to a cache: of OpenRouter, of Anthropic, and of some proxies."""
_LONGEST_REPEATED, _LEAST_REPEATED = 400, 2_000
"""Characters: maximum of a repeated text, and minimum of all its repetitions together."""
MOST_UNSAID = 200_000
"""Assumed maximum of hidden reasoning tokens if replies have no limit."""


class UnreadableChunk(ValueError):
    """A chunk is valid JSON but not a chunk of a chat completion."""


def request_body(spec: ModelSpec, messages: Sequence[Message], sampling: Sampling) -> dict[str, Any]:
    """Return the body as it is stored, without settings that the model does not support.

    ``core.models.pictures.with_parts`` turns it into the body that is sent.
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
    fitting = fitting_messages(spec, messages)
    stored = [recorded(each) for each in fitting]
    last = max((number for number, each in enumerate(fitting) if each.get("said")), default=None)
    if spec.cache_marks and last is not None:  # the next request of the dialogue begins with the messages up to here
        stored[last]["cache_control"] = dict(CACHE_MARK)
    extra = _filled(spec.extra_body, sampling.effort) or {}
    return {"model": spec.model_id, "messages": stored, "stream": True, **sent, **extra}


_MOST_ENTRIES = 80
"""More than a case has facts or topics."""


class _StrictSchema(GenerateJsonSchema):
    """Schemas as strict servers demand them: every field is required, and there are no others.

    A field with a default is sent with the value that stands for its absence. Lengths of texts are left out, because
    strict servers refuse them; the reader checks them. Every list has a limit, because a small model repeats an entry
    until its tokens end.
    """

    def list_schema(self, schema: core_schema.ListSchema) -> JsonSchemaValue:
        return {"maxItems": _MOST_ENTRIES, **super().list_schema(schema)}

    def field_is_required(self, field: Any, total: bool) -> bool:
        return True

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def str_schema(self, schema: core_schema.StringSchema) -> JsonSchemaValue:
        return {"type": "string"}

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        return {**super().model_schema(schema), "additionalProperties": False}


def strict_format(form: type[BaseModel]) -> dict[str, Any]:
    """Return the ``response_format`` of a reply in JSON that has exactly the fields of a form."""
    schema = form.model_json_schema(schema_generator=_StrictSchema)
    return {"type": "json_schema", "json_schema": {"name": "reply", "strict": True, "schema": schema}}


def effort_fields(spec: ModelSpec) -> list[str]:
    """Return the fields of ``extra_body`` that contain the effort; empty if the standard field is used."""
    return [name for name, value in spec.extra_body.items() if _filled(value, None) != value]


def _filled(value: Any, effort: str | None) -> Any:
    """Replace the placeholder of the effort in a value; ``None`` if the value contains only an unset effort."""
    if isinstance(value, Mapping):
        filled = {name: _filled(under, effort) for name, under in value.items()}
        return {name: under for name, under in filled.items() if under is not None} or None
    if isinstance(value, str) and EFFORT in value:
        return None if effort is None else value.replace(EFFORT, effort)
    return value


def fitting_messages(spec: ModelSpec, messages: Sequence[Message]) -> list[Message]:
    """Return ``messages`` in the form that the model accepts.

    For a chat template with strictly alternating users and assistants, a system message becomes part of the user's.
    """
    first = [each["role"] for each in messages[:2]]
    if spec.system_role == "system" or (spec.system_role == "before_user" and first == ["system", "user"]):
        return list(messages)
    fitted: list[Message] = []
    for each in messages:
        role: Role = "user" if each["role"] == "system" else each["role"]
        if fitted and fitted[-1]["role"] == role:
            fitted[-1] = joined(fitted[-1], each)
        else:
            fitted.append(message(role, each["content"], each.get("images", ())))
    return fitted


def estimated_tokens(text: str) -> int:
    return math.ceil(len(text.split()) * _TOKENS_PER_WORD)


def prompt_tokens(body: Mapping[str, Any]) -> int:
    pictures = sum(len(each.get("images", ())) for each in body["messages"])
    return sum(estimated_tokens(each["content"]) for each in body["messages"]) + pictures * TOKENS_A_PICTURE


def expected_tokens(body: Mapping[str, Any]) -> int:
    """Estimate the tokens of a call: its prompt and its limit, capped because few replies use all of a long limit."""
    reply = body.get("max_tokens") or body.get("max_completion_tokens") or _ASSUMED_REPLY_TOKENS
    return prompt_tokens(body) + min(int(reply), _LONGEST_ASSUMED)


def most_tokens(body: Mapping[str, Any], longest: int) -> Usage:
    """Return an upper bound of the tokens of a call.

    A text has at most half as many tokens as bytes. A reply has at most the tokens of its limit, or ``longest`` if that
    is less or there is no limit.
    """
    words = sum(len(each["content"].encode()) for each in body["messages"]) + len(str(body.get("response_format", "")))
    pictures = sum(len(each.get("images", ())) for each in body["messages"])
    prompt = words // 2 + _AROUND_A_MESSAGE * (len(body["messages"]) + 1) + pictures * _LARGE_PICTURE
    limit = body.get("max_tokens") or body.get("max_completion_tokens")
    return Usage(prompt, min(int(limit), longest) if limit else longest, estimated=True)


_FIELDS = (b":", b"event", b"id", b"retry")
_READ_OF_NO_EVENTS, _MOST_LINES_OF_NO_EVENTS = 4_000, 40


class ServerSentEvents:
    """Parses the JSON events of a byte stream; ``done`` is true after the last event.

    Source: https://html.spec.whatwg.org/multipage/server-sent-events.html; only the field ``data`` is read.
    """

    def __init__(self) -> None:
        self.done = self._begun = False
        self._pending: list[bytes] = []
        self._length = 0
        self._data: list[bytes] = []
        self._data_length = 0
        self._no_events: list[bytes] = []

    @property
    def other_text(self) -> str:
        """The beginning of a body that is no event stream, such as an error in plain text."""
        return b"\n".join([*self._no_events, *self._pending])[:_READ_OF_NO_EVENTS].decode(errors="replace").strip()

    def take(self, block: bytes) -> Iterator[object]:
        """Take the next bytes and yield complete events; raise ``ValueError`` for invalid JSON."""
        if not self._begun:
            block, self._begun = block.removeprefix(b"\xef\xbb\xbf"), True
        self._pending.append(block)
        self._length += len(block)
        check_line(self._length)
        if b"\n" not in block:  # a long line comes in thousands of blocks: join them only at its end
            return
        *lines, incomplete = b"".join(self._pending).replace(b"\r\n", b"\n").split(b"\n")
        self._pending, self._length = [incomplete], len(incomplete)
        for line in lines:
            if line.startswith(b"data:"):
                self._data.append(line[5:].strip())
                self._data_length += len(line)
                check_line(self._data_length)
            elif line and not line.startswith(_FIELDS) and len(self._no_events) < _MOST_LINES_OF_NO_EVENTS:
                self._no_events.append(line)
            elif not line and self._data:
                data, self._data, self._data_length = b"\n".join(self._data), [], 0
                if data.strip() in (b"", b"null", b'""'):  # a heartbeat
                    continue
                if data.startswith(b"[DONE]"):
                    self.done = True
                    return
                try:
                    yield orjson.loads(data)
                except orjson.JSONDecodeError:
                    try:
                        yield json.loads(data)  # unlike orjson it accepts half a surrogate pair in an escape
                    except RecursionError:
                        raise UnreadableChunk("it is nested too deeply") from None
                    except ValueError:
                        words = data[:_READ_OF_NO_EVENTS].decode(errors="replace")
                        raise UnreadableChunk(f"no JSON: {words}") from None


@dataclass
class StreamedReply:
    """A reply that is streaming in; ``thinking`` separates its reasoning from its message."""

    thinking: Thinking = field(default_factory=Thinking)
    delivered: bool = False
    """Whether the caller has received any text."""
    finish_reason: str | None = None
    refused: bool = False
    served_by: str | None = None
    usage: Usage | None = None
    begun: bool = False
    """Whether the server has begun to answer, and therefore charges for the request."""
    sent_s: float = 0.0
    finished_s: float | None = None
    """The time of the finish reason; later text removes it."""
    finished_with_text: bool = False
    """Whether the chunk of the finish reason had text: some servers send the reason with every chunk."""
    finish_means_nothing: bool = False
    """Whether text came after a finish reason."""
    first_token_s: float | None = None
    latency_s: float = 0.0
    charged: Usage = field(default=Usage())
    """What the complete reply costs: the provider's token counts, or an estimate."""
    on_journaled: Callable[[], None] | None = None
    """To be called when the reply is journaled (``core.models.base.Completion``)."""
    _choice: object = None
    """The index of the choice that is read: some servers send several choices in separate chunks."""

    @property
    def text(self) -> str:
        return _whole_characters(self.thinking.text)

    @property
    def reasoning(self) -> str:
        return _whole_characters(self.thinking.reasoning)

    def take(self, chunk: object) -> list[TextPiece | Thought]:
        texts: list[TextPiece | Thought] = []
        if not isinstance(chunk, dict):
            raise UnreadableChunk("no choices in the chunk")
        if isinstance(model := chunk.get("model"), str) and model:
            self.served_by = model
        if usage := chunk.get("usage"):
            self._take_usage(usage)
        choices = chunk.get("choices")
        if isinstance(choices, list) and choices:
            choice = choices[0] if isinstance(choices[0], dict) else {}
            if (index := choice.get("index")) is not None:
                self._choice = index if self._choice is None else self._choice
                if index != self._choice:
                    return texts
            delta = choice.get("delta")
            content: object = ""
            if isinstance(delta, dict):
                content = delta.get("content") or ""
                self.refused = self.refused or bool(delta.get("refusal"))
                if not _THOUGHTS.isdisjoint(delta) and (reasoning := _reasoning_in(delta)):
                    texts += self.thinking.think(reasoning)
            if isinstance(content, str):
                spoken = bool(content)
                if spoken:
                    texts += self.thinking.take(content)
            else:
                parts = list(_parts_of(content))
                for thought, text in parts:
                    texts += self.thinking.think(text) if thought else self.thinking.take(text)
                spoken = any(text for _, text in parts)
            if self.first_token_s is None and (spoken or self.thinking.reasoning):
                # on arrival: a text that may be a heading of thoughts is passed on later
                self.first_token_s = time.monotonic() - self.sent_s
            if spoken and self.finish_reason is not None:
                self.finish_means_nothing, self.finished_s = True, None
            # set last, because an unreadable chunk must not complete the reply
            if isinstance(reason := choice.get("finish_reason"), str) and reason:
                self.finish_reason, self.finished_with_text = reason, spoken
        return texts

    def take_whole(self, body: object) -> list[TextPiece | Thought]:
        """Add a parsed reply that was not streamed, and return its text."""
        choices = _field(body, "choices")
        if not isinstance(choices, list):
            raise UnreadableChunk("no choices in the reply")
        deltas = [{**each, "delta": _field(each, "message")} for each in choices if isinstance(each, dict)]
        return self.take({"model": _field(body, "model"), "usage": _field(body, "usage"), "choices": deltas})

    def _take_usage(self, usage: object) -> None:
        prompt, completion = _field(usage, "prompt_tokens"), _field(usage, "completion_tokens")
        if type(prompt) is not int or type(completion) is not int:
            return
        thought = _count(_field(_field(usage, "completion_tokens_details"), "reasoning_tokens"))
        if thought and _field(usage, "total_tokens") == prompt + completion + thought:
            completion += thought  # some servers do not include reasoning in the completion tokens
        cached = _count(_field(_field(usage, "prompt_tokens_details"), "cached_tokens"))
        if cached is None:
            cached = _count(_field(usage, "prompt_cache_hit_tokens"))
        details = _field(usage, "prompt_tokens_details")
        counts = [_count(_field(of, name)) for of in (details, usage) for name in _CACHE_WRITES]
        written = next((count for count in counts if count is not None), None)
        self.usage = Usage(
            prompt,
            completion,
            reasoning_tokens=thought if thought is not None and thought <= completion else None,
            cached_tokens=cached if cached is not None and cached <= prompt else None,
            cache_write_tokens=written if written is not None and written + (cached or 0) <= prompt else None,
        )

    def usage_or_estimate(self, body: Mapping[str, Any]) -> Usage:
        """Return the provider's token counts, or an estimate from the words if they are missing or impossible.

        A token has at least one byte; hidden reasoning may use all of the reply's limit.
        """
        words, reported = f"{self.reasoning} {self.text}", self.usage
        if reported is not None:
            sent = sum(len(each["content"].encode()) for each in body["messages"])
            pictures = sum(len(each.get("images", ())) for each in body["messages"])
            most_prompt = sent + _AROUND * (len(body["messages"]) + 1) + _MOST_A_PICTURE * pictures
            limit = body.get("max_tokens") or body.get("max_completion_tokens") or MOST_UNSAID
            most_reply = max(int(limit), len(words.encode())) + _AROUND
            if 0 <= reported.prompt_tokens <= most_prompt and 0 <= reported.completion_tokens <= most_reply:
                return reported
        return Usage(prompt_tokens(body), estimated_tokens(words), estimated=True)


def _count(value: object) -> int | None:
    return value if type(value) is int and value >= 0 else None


_THOUGHTS = frozenset({"reasoning", "reasoning_content", "reasoning_details"})


def _reasoning_in(delta: object) -> str:
    """Return the reasoning of a delta from one field: some servers send the same text in several."""
    for name in ("reasoning", "reasoning_content"):
        if text := _text_in(delta, name):
            return text
    return _thought_of(_field(delta, "reasoning_details"))


def _thought_of(value: object) -> str:
    """Return the text of reasoning in any of its JSON shapes; empty if it is encrypted."""
    if isinstance(value, list):
        return "".join(map(_thought_of, value))
    if isinstance(value, dict):
        return next((_thought_of(value[name]) for name in ("text", "summary", "thinking") if value.get(name)), "")
    return value if isinstance(value, str) else ""


def _parts_of(content: object) -> Iterator[tuple[bool, str]]:
    """Yield (is reasoning, text) of a delta's content, which is a list of parts for some servers."""
    if not isinstance(content, list):
        raise UnreadableChunk("the text of the chunk is no text")
    for part in content:
        if _field(part, "type") in ("thinking", "reasoning"):
            yield True, _thought_of(part)
        else:
            yield False, part if isinstance(part, str) else _text_in(part, "text") or ""


class Endless:
    """Detects a reply beyond the bounds of its model; ``words`` describe what is wrong."""

    def __init__(self, bounds: Bounds, limit: int) -> None:
        self._repeats, self._most = bounds.repeats, bounds.characters_a_token * limit
        self._length = self._looked = 0
        self._tail = self.words = ""

    def ends(self, text: str) -> Literal["length", "repetition"] | None:
        """Take the next piece of text and return why the reply must be cut, or ``None``."""
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
    """Replace unpaired surrogates by U+FFFD: they cannot be stored as UTF-8."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _field(value: object, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _text_in(value: object, name: str) -> str | None:
    text = _field(value, name)
    return text if isinstance(text, str) else None
