"""Asks the doctor's model, outside the dialogue, for its five likeliest diagnoses with probabilities.

The probe sees what the doctor sees and leaves no trace: its question and reply never enter the dialogue. It costs
calls of its own, recorded under the purpose ``probe``. A probe that fails is a gap in what is known of the doctor's
belief; it harms nothing else of the trial.

The reply is data: JSON is looked for in it, with or without prose and code fences around it, and the last piece that
holds a belief counts. Three forms are taken: a list of {"diagnosis", "probability"}, an object with such a list, and
an object of names with numbers.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any
from weakref import WeakValueDictionary

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError

from core.asking.ask import Parsed, Request, ask, json_in
from core.asking.calls import Voice
from core.asking.parts import Part, consultation_parts, messages_of, prompt_part, wire
from core.asking.scene import CallFailed, Dialogue, Scene
from core.errors import UsageError
from core.events import Called, Failed, Probed
from core.models.pictures import recorded
from core.prompts import PromptPack


def check_pack(pack: PromptPack) -> None:
    """Raise ``UsageError`` where a prompt pack cannot ask for beliefs."""
    if "belief" not in pack.prompts:
        raise UsageError(f"The prompt pack {pack.name} has no belief.md: add one, or run without the probe.")


class BeliefProbe:
    """The probe of one doctor. Dialogues that read the same on the wire are asked about once."""

    def __init__(self, voice: Voice, pack: PromptPack) -> None:
        check_pack(pack)
        self._voice, self._pack = voice, pack
        self._known: dict[str, Belief] = {}
        self._asking: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def believe(self, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Called | Failed | Probed]:
        """Yield the calls and the belief after the dialogue; an unreadable or failed reply yields ``Failed``.

        A known belief costs no call and comes alone.
        """
        # a short text that is the same for the same messages on the wire
        sent = [recorded(one) for one in wire(messages_of(self._parts(scene, dialogue)))]
        key = hashlib.sha256(json.dumps(sent).encode()).hexdigest()
        lock = self._asking.setdefault(key, asyncio.Lock())
        async with lock:  # trials that stand at the same dialogue wait for the first of them
            events = [] if key in self._known else [event async for event in self._ask(key, scene, dialogue)]
        for event in events:
            yield event
        if key in self._known:
            yield Probed(turn=len(dialogue) - 1, differential=self._known[key])

    async def _ask(self, key: str, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Called | Failed]:
        parts = self._parts(scene, dialogue)
        wanted = "five diagnoses and their probabilities in the JSON that was asked for"
        request = Request("belief", parts, "doctor", "probe", read_belief, wanted, BeliefReply, scene.seed)
        try:
            async for item in ask(self._voice, self._pack, request):
                if isinstance(item, Called):
                    yield item
                elif isinstance(item, Parsed) and item.value is not None:
                    self._known[key] = item.value
                elif isinstance(item, Parsed):
                    kind = "cut" if item.cut else "unreadable"
                    words = f"What the doctor believes cannot be read: {item.fault}."
                    yield Failed(where="probe", failure=kind, message=words)
        except CallFailed as failure:
            yield failure.called
            yield Failed(where="probe", failure=failure.error.kind, message=str(failure.error))

    def _parts(self, scene: Scene, dialogue: Dialogue) -> list[Part]:
        asked = prompt_part(self._pack, "belief", "user", "question")
        return [*consultation_parts(self._pack, scene, dialogue), asked]


LISTED = 5
"""So many diagnoses are asked for; of more, the likeliest are kept."""
Belief = tuple[tuple[str, float], ...]
"""(Diagnosis, probability between 0 and 1), likeliest first; what is missing to 1 is anything else."""

_LONGEST = 8_000
"""Characters of a reply that are looked at, from its end: the belief comes after whatever was thought aloud."""
_MOST_ENTRIES = 50
_REST = frozenset(("other", "others", "other diagnoses", "other diagnosis", "unknown", "none"))


class _Number(float):
    """A number with the note whether it was written with a per cent sign."""

    per_cent: bool = False


def _number(value: object) -> object:
    """Take numbers, and texts such as ``"0.4"`` and ``"40 %"``; leave all else to be refused."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("a probability must be a number")
    try:
        number = _Number(str(value).strip().removesuffix("%"))
    except ValueError:
        raise ValueError("a probability must be a number") from None
    number.per_cent = isinstance(value, str) and value.strip().endswith("%")
    return number


_Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
_Share = Annotated[Any, BeforeValidator(_number)]


class _Entry(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True)

    diagnosis: _Name = Field(validation_alias=AliasChoices("diagnosis", "name", "disease"))
    probability: _Share


class BeliefReply(BaseModel):
    """The form that is asked for."""

    model_config = ConfigDict(strict=True, frozen=True)

    diagnoses: Annotated[list[_Entry], Field(min_length=1, max_length=_MOST_ENTRIES)]


def read_belief(reply: str) -> Belief:
    """Return the belief that a reply states; raise ``ValueError`` where it states none.

    Probabilities: a number with a per cent sign is per cent; where any without one is above 1, all without one are per
    cent, otherwise shares of 1. Where they add up to more than 1 they are divided by their sum; less is left as it is.
    A name that stands there twice counts once with both shares; "other" is no diagnosis and stays in the rest.
    """
    why = "it holds no JSON"
    for value in reversed(json_in(reply[-_LONGEST:])):
        try:
            entries = BeliefReply.model_validate(_as_reply(value)).diagnoses
            shares: dict[str, float] = {}
            names: dict[str, str] = {}
            plain = 100.0 if any(e.probability > 1 and not e.probability.per_cent for e in entries) else 1.0
            for entry in entries:
                share, name = entry.probability / (100.0 if entry.probability.per_cent else plain), entry.diagnosis
                if not 0 <= share <= 1:
                    raise ValueError("a probability lies outside 0 to 1")
                if name.casefold() not in _REST:
                    names.setdefault(name.casefold(), name)
                    shares[name.casefold()] = shares.get(name.casefold(), 0.0) + share
            total = sum(shares.values())
            if total <= 0:
                raise ValueError("no diagnosis has a probability above 0")
            ranked = sorted(shares.items(), key=lambda item: -item[1])[:LISTED]
            return tuple((names[key], share / max(1.0, total)) for key, share in ranked)
        except ValidationError:
            why = "the JSON does not have the form that was asked for" if why == "it holds no JSON" else why
        except ValueError as fault:
            why = str(fault)
    raise ValueError(why)


def _as_reply(value: Any) -> dict[str, Any]:
    """Bring the three forms into one."""
    if isinstance(value, list):
        return {"diagnoses": value}
    listed = [held for held in value.values() if isinstance(held, list)]
    if len(listed) == 1:
        return {"diagnoses": listed[0]}
    (inner,) = value.values() if len(value) == 1 else (None,)
    value = inner if isinstance(inner, dict) else value
    return {"diagnoses": [{"diagnosis": name, "probability": share} for name, share in value.items()]}
