"""A model that splits vignettes into facts. A fact whose words are not in the vignette is rejected and counted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial

from pydantic import BaseModel

from core.asking.ask import Parsed, Request, ask, read_json, unreadable
from core.asking.calls import ModelAgent
from core.asking.parts import instruction_part
from core.case import Case
from core.events import Called, Token
from core.text.facts import AtomicFact, in_vignette, with_ids
from core.text.topics import TOPICS, Topic


class _SplitFact(BaseModel):
    text: str
    lay: str
    topic: Topic
    told: bool


class _Split(BaseModel):
    facts: list[_SplitFact]


@dataclass(frozen=True)
class SplitFacts:
    """The facts of a case, the texts of rejected (invented) facts, and why the reply is unreadable, if so."""

    facts: tuple[AtomicFact, ...]
    rejected: tuple[str, ...] = ()
    unreadable: str | None = None
    call_ids: tuple[str, ...] = ()


class FactSplitter(ModelAgent):
    """Splits vignettes into facts."""

    async def split(self, case: Case) -> AsyncIterator[Token | Called | SplitFacts]:
        """Yield the calls, then ``SplitFacts``. Raises ``CallFailed`` if the provider fails."""
        prompt = instruction_part(self._pack, "facts", vignette=case.vignette, topics=list(TOPICS))
        request = Request("facts", [prompt], "grader", "judge", partial(read_json, form=_Split), form=_Split)
        async for item in ask(self._voice, self._pack, request):
            if not isinstance(item, Parsed):
                yield item
            elif item.value is None:
                yield SplitFacts((), (), unreadable(self._voice, item), item.call_ids)
            else:
                accepted = [fact for fact in item.value.facts if in_vignette(fact.text, case.vignette)]
                rejected = tuple(fact.text for fact in item.value.facts if fact not in accepted)
                facts = with_ids(
                    AtomicFact(id=f.text, key=f.topic, text=f.text, lay=f.lay or f.text, told=f.told, topic=f.topic)
                    for f in accepted
                )
                yield SplitFacts(facts, rejected, None, item.call_ids)
