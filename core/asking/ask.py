"""Asks a model for a reply in a form that can be read: held to a schema where its server can, repaired where it cannot.

A reply that cannot be read is never asked for again in the same words: the model is shown what it wrote, what is wrong
with it and the form that is wanted, at most twice. What stays unreadable is said so, with the calls that led there.
What a model writes is data: JSON is looked for in it, with or without prose and code fences around it.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from core.asking.calls import Voice, call
from core.asking.parts import Part, instruction_part
from core.asking.scene import FinalMessage
from core.events import Called, Purpose, RoleName, Token
from core.models.base import Message
from core.prompts import PromptPack, load_pack
from core.words import fault_of

MAX_ASKS = 3
"""The question, and two repairs."""
_QUOTED = 4_000
"""Characters of an unreadable reply that the model is shown of it."""
_MOST_OPENINGS = 2_000
"""Brackets of a reply that are looked at: a text of nothing else would take minutes."""
_OPENING = re.compile(r"[\[{]")
_TRAILING_COMMA = re.compile(r",(?=\s*[\]}])")
_SHORTEST = 3
"""Letters and digits that a quotation has at least; a name of one letter quotes nothing."""
_MOST_PLACES = 1_000
"""Places of a text that hold a quotation inside longer words: more would be a text made to take long."""
_QUOTES = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"'})

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True)
class Request(Generic[T]):
    """What is asked, and how the reply is read.

    ``prompt`` is the prompt in ``messages`` whose limit holds. ``read`` raises ``ValueError``, in words that can be
    said to the model, for a reply that it cannot read; ``wanted`` names the form after "Reply again with". ``form`` is
    that form as JSON, for a server that can hold its model to it.
    """

    prompt: str
    messages: Sequence[Part | Message]
    role: RoleName
    purpose: Purpose
    read: Callable[[str], T]
    wanted: str = "the JSON that was asked for"
    form: type[BaseModel] | None = None
    seed: int | None = None


@dataclass(frozen=True)
class Parsed(Generic[T]):
    """What came of a request: ``value``, or ``fault`` in words where no reply could be read, and the calls of both.

    ``cut`` says that the last reply was stopped by its limit.
    """

    value: T | None
    fault: str
    call_ids: tuple[str, ...]
    cut: bool = False


async def ask(voice: Voice, pack: PromptPack, request: Request[T]) -> AsyncIterator[Token | Called | Parsed[T]]:
    """Yield the calls, at most ``MAX_ASKS``, and at last ``Parsed``; raises ``CallFailed`` where the provider fails."""
    voice = voice.within(pack.prompts[request.prompt], request.form)
    repairs = pack if "repair" in pack.prompts else _shared()
    messages, calls = list[Part | Message](request.messages), list[str]()
    said, fault = FinalMessage(""), ""
    for _ in range(MAX_ASKS):
        limit = None
        async for item in call(voice, messages, request.role, request.purpose, request.seed):
            if isinstance(item, FinalMessage):
                said = item
                calls += [item.call_id] if item.call_id else []
                continue
            if isinstance(item, Called):
                limit = item.call.request.get("max_tokens") or item.call.request.get("max_completion_tokens")
            if isinstance(item, Token | Called):
                yield item
        try:
            yield Parsed(request.read(said.text), "", tuple(calls), said.cut)
            return
        except ValueError as error:  # pydantic's and json's errors are ValueErrors
            fault = fault_of(error, "the reply")
        if said.cut:
            fault += f"; it was cut off at its limit of {limit or 'so many'} tokens"
        messages += [
            {"role": "assistant", "content": said.text.strip()[:_QUOTED] or "(nothing)"},
            instruction_part(repairs, "repair", fault=fault, wanted=request.wanted),
        ]
    yield Parsed(None, fault, tuple(calls), said.cut)


def unreadable(voice: Voice, asked: Parsed[Any]) -> str:
    """Say in a sentence that no reply could be read, and why."""
    return f"{voice.model.name} gave no readable answer in {MAX_ASKS} tries: {asked.fault}."


@cache
def _shared() -> PromptPack:
    return load_pack("shared", ("repair",))


def read_json(text: str, form: type[M]) -> M:
    """Return the last JSON of that form in a text: what comes before it may be thought aloud.

    Raises ``ValueError`` where there is none. A bare list is taken for the one field of a form that has but one.
    """
    fault: ValueError = ValueError("it holds no JSON object that is whole")
    first = _OPENING.search(text)
    # a list within an object that was cut off is not all of it
    wrapped = next(iter(form.model_fields)) if len(form.model_fields) == 1 and first and first[0] == "[" else None
    for tried in (text, _TRAILING_COMMA.sub("", text)):
        for value in reversed(json_in(tried)):
            if isinstance(value, list) and not wrapped:
                continue
            try:
                return form.model_validate({wrapped: value} if isinstance(value, list) else value)
            except ValidationError as error:
                fault = error
    raise fault


def json_in(text: str) -> list[Any]:
    """Return the outermost JSON objects and lists of a text, in their order."""
    decoder, values, at = json.JSONDecoder(), list[Any](), 0
    for _ in range(_MOST_OPENINGS):
        found = _OPENING.search(text, at)
        if found is None:
            break
        try:
            value, at = decoder.raw_decode(text, found.start())
            values.append(value)
        except RecursionError:
            raise ValueError("its JSON is nested too deeply") from None
        except ValueError:
            at = found.end()
    return values


def quotation(words: str, text: str) -> str | None:
    """Return the words as they stand in a text, whatever their quotes, spaces and case of letters; else ``None``.

    The time grows with the length of both, whatever a model wrote: no pattern is searched that could backtrack.
    """
    wanted, _ = _spaced(words.translate(_QUOTES).strip(" \n\"'….").split())
    if sum(map(str.isalnum, wanted)) < _SHORTEST:
        return None
    tokens = list(re.finditer(r"\S+", text.translate(_QUOTES)))
    spaced, starts = _spaced([token[0] for token in tokens])
    at = -1
    for _ in range(_MOST_PLACES):
        at = spaced.find(wanted, at + 1)
        if at < 0:
            break
        end = at + len(wanted)
        if not (_is_word(spaced[at - 1 : at]) or _is_word(spaced[end : end + 1])):
            return text[_place(at, starts, tokens) : _place(end - 1, starts, tokens) + 1]
    return None


def _spaced(tokens: Sequence[str]) -> tuple[str, list[int]]:
    """Return the tokens in small letters with one space between, and where each begins there."""
    # a letter whose small form has another length would move all that follows it
    small = ["".join(low if len(low := letter.lower()) == 1 else letter for letter in token) for token in tokens]
    return " ".join(small), list(accumulate((len(token) + 1 for token in small), initial=0))


def _place(at: int, starts: Sequence[int], tokens: Sequence[re.Match[str]]) -> int:
    """Return where a character of the spaced text stands in the original."""
    number = bisect_right(starts, at) - 1
    return tokens[number].start() + at - starts[number]


def _is_word(letter: str) -> bool:
    return letter.isalnum() or letter == "_"
