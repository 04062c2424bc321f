"""The facts ledger by a language model: a splitter of vignettes, and a judge that marks a conversation.

Both ask for JSON, check it, and ask again at most twice where it cannot be read. What a model writes is data: a fact
whose words the vignette does not hold is rejected and counted, a mark for an unknown fact or turn is unreadable.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from core.agents.base import Dialogue, Said
from core.agents.calls import Voice, call
from core.case import Case
from core.events import Called, Token
from core.prompts import PromptPack
from core.text.facts import AtomicFact, with_ids
from core.text.judged import Judged, JudgedFact, Mark
from core.text.reading import in_vignette
from core.text.topics import TOPICS, Topic

MAX_ASKS = 3
"""A reply that cannot be read is asked for again at most twice."""
T = TypeVar("T")


class _SplitFact(BaseModel):
    model_config = ConfigDict(extra="ignore")

    text: str
    lay: str
    topic: Topic
    told: bool


class _MarkedFact(BaseModel):
    model_config = ConfigDict(extra="ignore")

    id: str
    mark: Mark
    turn: int | None = None


class _Marked(BaseModel):
    model_config = ConfigDict(extra="ignore")

    facts: list[_MarkedFact]


_SPLIT: TypeAdapter[list[_SplitFact]] = TypeAdapter(list[_SplitFact])


@dataclass(frozen=True)
class SplitFacts:
    """What a splitter made of a case: facts, how many it invented and were rejected, and why nothing could be read."""

    facts: tuple[AtomicFact, ...]
    rejected: tuple[str, ...] = ()
    unreadable: str | None = None
    call_ids: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Read:
    value: Any
    fault: str | None
    call_ids: tuple[str, ...]


class FactSplitter:
    """Takes vignettes apart."""

    def __init__(self, voice: Voice, pack: PromptPack) -> None:
        self._voice, self._pack = voice, pack

    @property
    def name(self) -> str:
        """Full name of the model."""
        return self._voice.model.name

    async def split(self, case: Case) -> AsyncIterator[Token | Called | SplitFacts]:
        """Yield the calls and at last the facts; raises ``CallFailed`` where the provider fails."""
        prompt = self._pack.render("facts", vignette=case.vignette, topics=TOPICS)
        async for item in _ask(self._voice, prompt, lambda text: _SPLIT.validate_python(json_of(text))):
            if isinstance(item, _Read):
                yield self._checked(case, item)
            else:
                yield item

    def _checked(self, case: Case, found: _Read) -> SplitFacts:
        if found.fault is not None:
            return SplitFacts((), (), found.fault, found.call_ids)
        kept = [fact for fact in found.value if in_vignette(fact.text, case.vignette)]
        rejected = tuple(fact.text for fact in found.value if fact not in kept)
        facts = with_ids(
            AtomicFact(id=f.text, key=f.topic, text=f.text, lay=f.lay or f.text, told=f.told, topic=f.topic)
            for f in kept
        )
        return SplitFacts(facts, rejected, None, found.call_ids)


class FactJudge:
    """Marks a conversation."""

    def __init__(self, voice: Voice, pack: PromptPack) -> None:
        self._voice, self._pack = voice, pack

    @property
    def name(self) -> str:
        """Full name of the model."""
        return self._voice.model.name

    async def judge(self, facts: Sequence[AtomicFact], dialogue: Dialogue) -> AsyncIterator[Token | Called | Judged]:
        """Yield the calls and at last the marks; raises ``CallFailed`` where the provider fails."""
        lines = [(number, turn.role, turn.text) for number, turn in enumerate(dialogue)]
        prompt = self._pack.render("judge_facts", facts=[(f.id, f.text) for f in facts], dialogue=lines)
        ids = {fact.id for fact in facts}
        spoken = {number for number, turn in enumerate(dialogue) if turn.role == "patient"}
        async for item in _ask(self._voice, prompt, lambda text: _marks(text, ids, spoken)):
            if isinstance(item, _Read):
                yield self._judged(item)
            else:
                yield item

    def _judged(self, found: _Read) -> Judged:
        if found.fault is not None:
            return Judged(self.name, unreadable=found.fault, call_ids=found.call_ids)
        marks = tuple(JudgedFact(f.id, f.mark, f.turn) for f in found.value.facts)
        return Judged(self.name, marks, None, found.call_ids)


def json_of(text: str) -> Any:
    """Return the JSON list or object in a reply, also where words or a code fence stand around it."""
    starts = [at for at in (text.find("["), text.find("{")) if at >= 0]
    if not starts:
        raise ValueError("it holds no JSON")
    return json.JSONDecoder().raw_decode(text[min(starts) :])[0]


def _marks(text: str, ids: set[str], spoken: set[int]) -> _Marked:
    marked = _Marked.model_validate(json_of(text))
    named = [fact.id for fact in marked.facts]
    if set(named) != ids or len(named) != len(ids):
        raise ValueError("it does not mark every fact once")
    turns = [fact.turn for fact in marked.facts if fact.mark != "never_elicited"]
    if not set(turns) <= spoken:
        raise ValueError("it names a turn in which the patient does not speak")
    return marked


async def _ask(voice: Voice, prompt: str, parse: Callable[[str], T]) -> AsyncIterator[Token | Called | _Read]:
    """Ask until the reply can be read, at most ``MAX_ASKS`` times; ``_Read`` comes last."""
    calls: list[str] = []
    fault = ""
    for _ in range(MAX_ASKS):
        async for item in call(voice, [{"role": "user", "content": prompt}], "grader", "judge"):
            if isinstance(item, Token | Called):
                yield item
            elif isinstance(item, Said):
                calls += [item.call_id] if item.call_id else []
                try:
                    value = parse(item.text)
                except (ValueError, RecursionError) as error:  # ValidationError and JSONDecodeError are ValueErrors
                    fault = fault_of(error)
                    continue
                yield _Read(value, None, tuple(calls))
                return
    yield _Read(None, f"{voice.model.name} gave no readable answer in {MAX_ASKS} tries: {fault}.", tuple(calls))


def fault_of(error: Exception) -> str:
    """Return what makes a reply unreadable, in a few words for the user and for the model that is asked again."""
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the reply"
        return f"{where}: {first['msg']}"
    return str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
