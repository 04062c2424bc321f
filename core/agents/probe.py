"""Asks the doctor's model, outside the dialogue, for its five likeliest diagnoses with probabilities.

The probe sees what the doctor sees; its question and reply never enter the dialogue. Its calls are recorded with the
purpose ``probe``. If a probe fails, only that belief is missing; the trial goes on.

The parser finds JSON in the reply, with or without prose and code fences, and takes the last value that states a
belief. It accepts a list of {"diagnosis", "probability"}, an object with such a list, and an object that maps names to
numbers.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any
from weakref import WeakValueDictionary

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    WithJsonSchema,
)

from core.asking.ask import Parsed, Request, ask, json_in
from core.asking.calls import Voice
from core.asking.parts import PromptPart, consultation_parts, messages_of, prompt_part, wire
from core.asking.scene import CallFailed, Dialogue, Scene
from core.errors import UsageError
from core.events import Called, Failed, Probed
from core.models.pictures import recorded
from core.prompts import PromptPack


def check_pack(pack: PromptPack) -> None:
    """Raise ``UsageError`` if a prompt pack has no prompt for beliefs."""
    if "belief" not in pack.prompts:
        raise UsageError(f"The prompts {pack.name} have no belief.md: add one, or run without the probe.")


class BeliefProbe:
    """The probe of one doctor. Equal requests are sent once."""

    def __init__(self, voice: Voice, pack: PromptPack) -> None:
        check_pack(pack)
        self._voice, self._pack = voice, pack
        self._beliefs: dict[str, StatedBelief] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def believe(self, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Called | Failed | Probed]:
        """Yield the calls and the belief after the dialogue; an unreadable or failed reply yields ``Failed``.

        A cached belief costs no call.
        """
        sent = [recorded(message) for message in wire(messages_of(self._parts(scene, dialogue)))]
        key = hashlib.sha256(json.dumps(sent).encode()).hexdigest()
        lock = self._locks.setdefault(key, asyncio.Lock())
        async with lock:  # trials with the same dialogue wait for the first of them
            events = [] if key in self._beliefs else [event async for event in self._ask(key, scene, dialogue)]
        for event in events:
            yield event
        if key in self._beliefs:
            yield Probed(turn=len(dialogue) - 1, differential=self._beliefs[key])

    async def _ask(self, key: str, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Called | Failed]:
        parts = self._parts(scene, dialogue)
        form = "five diagnoses and their probabilities in the JSON that was asked for"
        request = Request("belief", parts, "doctor", "probe", read_belief, form, BeliefReply, scene.seed)
        try:
            async for item in ask(self._voice, self._pack, request):
                if isinstance(item, Called):
                    yield item
                elif isinstance(item, Parsed) and item.value is not None:
                    self._beliefs[key] = item.value
                elif isinstance(item, Parsed):
                    kind = "cut" if item.cut else "unreadable"
                    words = f"What the doctor believes cannot be read: {item.fault}."
                    yield Failed(where="probe", failure=kind, message=words)
        except CallFailed as failure:
            yield failure.called
            yield Failed(where="probe", failure=failure.error.kind, message=str(failure.error))

    def _parts(self, scene: Scene, dialogue: Dialogue) -> list[PromptPart]:
        return [*consultation_parts(self._pack, scene, dialogue), prompt_part(self._pack, "belief", "user", "question")]


LISTED = 5
"""Number of diagnoses that the prompt asks for; of a longer list the likeliest count."""
StatedBelief = tuple[tuple[str, float], ...]
"""(Diagnosis, probability between 0 and 1), likeliest first; the remainder to 1 is any other diagnosis."""

_MAX_READ = 8_000
"""Characters at the end of a reply that are read: the belief follows the reasoning."""
_MAX_ENTRIES = 50
_OTHERS = frozenset(("other", "others", "other diagnoses", "other diagnosis", "unknown", "none"))


class _Number(float):
    """A number; ``per_cent`` says whether it had a per cent sign."""

    per_cent: bool = False


def _as_number(value: object) -> object:
    """Convert numbers and texts such as ``"0.4"`` and ``"40 %"``; raise ``ValueError`` for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("a probability must be a number")
    try:
        number = _Number(str(value).strip().removesuffix("%"))
    except ValueError:
        raise ValueError("a probability must be a number") from None
    number.per_cent = isinstance(value, str) and value.strip().endswith("%")
    return number


_Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
_Share = Annotated[Any, BeforeValidator(_as_number), WithJsonSchema({"type": "number"})]


class _Entry(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True)

    diagnosis: _Name = Field(validation_alias=AliasChoices("diagnosis", "name", "disease"))
    probability: _Share


class BeliefReply(BaseModel):
    """The form that the prompt asks for."""

    model_config = ConfigDict(strict=True, frozen=True)

    diagnoses: Annotated[list[_Entry], Field(min_length=1, max_length=_MAX_ENTRIES)]


def read_belief(reply: str) -> StatedBelief:
    """Return the belief that a reply states; raise ``ValueError`` if it states none.

    A number with a per cent sign is per cent. If any number without the sign is above 1, all of those are per cent,
    otherwise shares of 1. Shares that add up to more than 1 are divided by their sum. A repeated name gets the sum of
    its shares; "other" is no diagnosis and belongs to the remainder.
    """
    fault = "it holds no JSON"
    for value in reversed(json_in(reply[-_MAX_READ:])):
        try:
            entries = BeliefReply.model_validate(_as_reply(value)).diagnoses
            shares: dict[str, float] = {}
            names: dict[str, str] = {}
            plain = 100.0 if any(e.probability > 1 and not e.probability.per_cent for e in entries) else 1.0
            for entry in entries:
                share, name = entry.probability / (100.0 if entry.probability.per_cent else plain), entry.diagnosis
                if not 0 <= share <= 1:
                    raise ValueError("a probability lies outside 0 to 1")
                if name.casefold() not in _OTHERS:
                    names.setdefault(name.casefold(), name)
                    shares[name.casefold()] = shares.get(name.casefold(), 0.0) + share
            total = sum(shares.values())
            if total <= 0:
                raise ValueError("no diagnosis has a probability above 0")
            ranked = sorted(shares.items(), key=lambda item: -item[1])[:LISTED]
            return tuple((names[key], share / max(1.0, total)) for key, share in ranked)
        except ValidationError:
            fault = "the JSON does not have the form that was asked for" if fault == "it holds no JSON" else fault
        except ValueError as error:
            fault = str(error)
    raise ValueError(fault)


def _as_reply(value: Any) -> dict[str, Any]:
    """Convert any of the three forms into the form of ``BeliefReply``."""
    if isinstance(value, list):
        return {"diagnoses": value}
    lists = [item for item in value.values() if isinstance(item, list)]
    if len(lists) == 1:
        return {"diagnoses": lists[0]}
    (inner,) = value.values() if len(value) == 1 else (None,)
    value = inner if isinstance(inner, dict) else value
    return {"diagnoses": [{"diagnosis": name, "probability": share} for name, share in value.items()]}
