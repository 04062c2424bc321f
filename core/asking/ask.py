"""Requests whose reply must be parsed: with a JSON schema if the server supports it, and with up to two repairs.

A repair shows the model its reply, the fault and the expected form, and samples otherwise. If the reply is still
unreadable, or equal to the one before, the result says so and names the calls. A model's text is data: the parser finds
JSON in it, with or without prose and code fences.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError
from rapidfuzz import fuzz

from core.asking.calls import Voice, call
from core.asking.parts import PromptPart, instruction_part
from core.asking.scene import FinalMessage
from core.events import Called, Purpose, RoleName, Token
from core.folding import folded
from core.models.base import Message
from core.prompts import PromptPack, load_pack
from core.words import fault_of

MAX_ASKS = 3
"""The request and two repairs."""
_QUOTED = 4_000
"""Characters of an unreadable reply that a repair repeats."""
_REPAIR_TEMPERATURE = 0.8
"""Of a repair of a request at temperature 0, which would otherwise often repeat its reply.

At 0.3 a model of 1.5B parameters repeated 19 of 25 replies and mended 1, at 0.8 it repeated 12 and mended 4.
"""
PLACEHOLDER = re.compile(r': "([A-Z][A-Z0-9]*(?: [A-Z0-9]+)+)"')
"""A value of an example in a prompt that stands for the real one: ``"complaint": "WORDS COPIED FROM THE TEXT"``."""
_COMPARED = 500
"""Characters of words that are searched for the most similar ones in a text."""
_SIMILAR = 50.0
"""Least similarity (0 to 100) of the words of a text that a fault quotes."""
_MOST_OPENINGS = 2_000
"""Opening brackets of a reply that are tried; a text of nothing but brackets would take minutes."""
_OPENING = re.compile(r"[\[{]")
_TRAILING_COMMA = re.compile(r",(?=\s*[\]}])")
_SHORTEST = 3
"""Minimum number of letters and digits in a quotation."""
_MOST_PLACES = 1_000
"""Occurrences of a quotation inside longer words that are tried, so that no text takes long."""
_EMPHASIS = str.maketrans(dict.fromkeys("*_`", "\u200b"))
"""Marks of Markdown in ``**Final Diagnosis:** gout``, which models leave out of their quotations → no width."""
T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True)
class Request(Generic[T]):
    """A request and the parser of its reply.

    Attributes:
        prompt: The prompt in ``messages`` whose token limit holds.
        read: Parses a reply; raises ``ValueError`` with a message that the model can act on.
        wanted: The expected form, in words that follow "Reply again with".
        form: The expected form as a JSON schema, for servers that support one.
    """

    prompt: str
    messages: Sequence[PromptPart | Message]
    role: RoleName
    purpose: Purpose
    read: Callable[[str], T]
    wanted: str = "the JSON that was asked for"
    form: type[BaseModel] | None = None
    seed: int | None = None


@dataclass(frozen=True)
class Parsed(Generic[T]):
    """The result of a request: ``value``, or ``fault`` if no reply could be parsed, with the ids of all calls.

    ``cut`` says that the last reply reached its token limit.
    """

    value: T | None
    fault: str
    call_ids: tuple[str, ...]
    cut: bool = False


async def ask(voice: Voice, pack: PromptPack, request: Request[T]) -> AsyncIterator[Token | Called | Parsed[T]]:
    """Yield at most ``MAX_ASKS`` calls, then ``Parsed``. Raises ``CallFailed`` if the provider fails."""
    voice = voice.within(pack.prompts[request.prompt], request.form)
    repairs = pack if "repair" in pack.prompts else _shared()
    placeholders = PLACEHOLDER.findall(pack.prompts[request.prompt].source)
    messages, calls = list[PromptPart | Message](request.messages), list[str]()
    reply, fault = FinalMessage(""), ""
    for number in range(MAX_ASKS):
        limit, before = None, reply.text if number else None
        sampled = _resampled(voice, request.seed, number) if number else voice
        async for item in call(sampled, messages, request.role, request.purpose, request.seed):
            if isinstance(item, FinalMessage):
                reply = item
                calls += [item.call_id] if item.call_id else []
                continue
            if isinstance(item, Called):
                limit = item.call.request.get("max_tokens") or item.call.request.get("max_completion_tokens")
            if isinstance(item, Token | Called):
                yield item
        try:
            _check_placeholders(reply.text, placeholders)
            yield Parsed(request.read(reply.text), "", tuple(calls), reply.cut)
            return
        except ValueError as error:  # pydantic's and json's errors are ValueErrors
            fault = fault_of(error, "the reply")
        if reply.cut:
            cut = f"it was cut off at its limit of {limit or 'so many'} tokens"
            # what is missing from an object without its end is no fault that the model can mend
            fault = f"{cut}: write less" if request.form else f"{fault}; {cut}"
        if reply.text == before:
            break
        messages += [
            {"role": "assistant", "content": reply.text.strip()[:_QUOTED] or "(nothing)"},
            instruction_part(repairs, "repair", fault=fault, wanted=request.wanted),
        ]
    yield Parsed(None, fault, tuple(calls), reply.cut)


def unreadable(voice: Voice, parsed: Parsed[Any]) -> str:
    return f"{voice.model.name} gave no readable answer in {len(parsed.call_ids)} tries: {parsed.fault}."


def _resampled(voice: Voice, seed: int | None, repair: int) -> Voice:
    """Return the voice with another seed for each repair, and some randomness."""
    sampling = voice.sampling
    first = sampling.seed if sampling.seed is not None else seed
    temperature = _REPAIR_TEMPERATURE if sampling.temperature == 0 else sampling.temperature
    return replace(voice, sampling=replace(sampling, seed=(first or 0) + repair, temperature=temperature))


def _check_placeholders(reply: str, placeholders: Sequence[str]) -> None:
    """Raise ``ValueError`` if the JSON of a reply has a value of the prompt's example."""
    answered = json.dumps(json_in(reply)[-1:], ensure_ascii=False) if placeholders else ""
    for placeholder in placeholders:
        if f'"{placeholder}"' in answered:
            raise ValueError(f"it repeats {placeholder!r} from the example instead of an answer")


@cache
def _shared() -> PromptPack:
    return load_pack("shared", ("repair",))


def read_json(text: str, form: type[M]) -> M:
    """Return the last JSON value of a form in a text; earlier values may be part of the model's reasoning.

    If the form has a single field, a bare list is its value.

    Raises:
        ValueError: The text contains no such JSON.
    """
    fault: ValueError = ValueError("it holds no JSON object that is whole")
    first = _OPENING.search(text)
    # a list inside an object that was cut off may be incomplete
    wrapped = next(iter(form.model_fields)) if len(form.model_fields) == 1 and first and first[0] == "[" else None
    for candidate in (text, _TRAILING_COMMA.sub("", text)):
        for value in reversed(json_in(candidate)):
            if isinstance(value, list) and not wrapped:
                continue
            try:
                return form.model_validate({wrapped: value} if isinstance(value, list) else value)
            except ValidationError as error:
                fault = error
    raise fault


def json_in(text: str) -> list[Any]:
    """Return the outermost JSON objects and lists of a text, in order."""
    decoder, values, at = json.JSONDecoder(), list[Any](), 0
    for _ in range(_MOST_OPENINGS):
        opening = _OPENING.search(text, at)
        if opening is None:
            break
        try:
            value, at = decoder.raw_decode(text, opening.start())
            values.append(value)
        except RecursionError:
            raise ValueError("its JSON is nested too deeply") from None
        except ValueError:
            at = opening.end()
    return values


def quotation(words: str, text: str) -> str | None:
    """Return the words as written in a text, ``None`` if the text lacks them.

    Quotes, spaces, case, accents, Markdown's emphasis, invisible characters and look-alike letters are ignored. The
    time is linear in the length of both, whatever the model wrote: no pattern can backtrack.
    """
    needle = folded(words.translate(_EMPHASIS))[0].strip(" \"'.")
    if sum(map(str.isalnum, needle)) < _SHORTEST:
        return None
    plain, positions = folded(text.translate(_EMPHASIS))
    at = -1
    for _ in range(_MOST_PLACES):
        at = plain.find(needle, at + 1)
        if at < 0:
            break
        end = at + len(needle)
        if not (_is_word(plain[at - 1 : at]) or _is_word(plain[end : end + 1])):
            return text[positions[at] : positions[end - 1] + 1]
    return None


def not_copied(words: str, text: str) -> str:
    """Return the fault of words that are not in a text, with the words of the text that are most like them."""
    if sum(map(str.isalnum, words)) < _SHORTEST:
        return f"“{words}” is too short: copy the words around it, too"
    fault = f"“{words}” does not stand in the text: copy its words letter by letter"
    nearest = fuzz.partial_ratio_alignment(words[:_COMPARED].lower(), text.lower(), score_cutoff=_SIMILAR)
    if nearest is None:
        return fault
    start, end = nearest.dest_start, min(nearest.dest_end, len(text))
    while start > 0 and _is_word(text[start - 1]):
        start -= 1
    while end < len(text) and _is_word(text[end]):
        end += 1
    return f"{fault}. The nearest words in it are “{text[start:end].strip()}”"


def _is_word(letter: str) -> bool:
    return letter.isalnum() or letter == "_"
