"""What became of the facts of a case in a conversation, as a model judges it; and a model that splits vignettes.

What a model is asked about a conversation, and how its reply is checked: ``core.jobs.judges``. A fact of the splitter
whose words the vignette does not hold is rejected and counted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from typing import Literal

from pydantic import BaseModel

from core.asking.ask import Parsed, Request, ask, read_json, unreadable
from core.asking.calls import ModelAgent
from core.asking.parts import instruction_part
from core.case import Case
from core.events import Called, Token
from core.text.facts import AtomicFact, in_vignette, with_ids
from core.text.topics import TOPICS, Topic

FactMark = Literal["asked", "volunteered", "withheld", "never_asked"]
"""What became of a fact that the patient can tell: told when asked for, told unasked, kept back, or not asked for."""
VerdictKind = Literal["asked", "volunteered", "withheld", "never_asked", "invented"]


@dataclass(frozen=True)
class PatientVerdict:
    """What became of one fact, or one thing that the patient invented, with the words that show it.

    ``turn`` is the patient's message, counted from 0. A fact that was *asked* for or *volunteered* and what was
    *invented* are quoted from it; of a *withheld* fact the doctor's question before it is quoted. A fact that was
    *never_asked* for has neither turn nor words. ``fact`` is the fact's id, of an invention that which it contradicts,
    if any; ``fact_text`` and ``topic`` are the fact's as it was judged. An invention has no topic.
    """

    kind: VerdictKind
    turn: int | None
    words: str
    fact: str | None = None
    fact_text: str = ""
    topic: str = ""


@dataclass(frozen=True)
class JudgedPatient:
    """A model's judgement of one conversation, under a prompt."""

    judge: str
    prompt_hash: str
    verdicts: tuple[PatientVerdict, ...] = ()
    dropped: int = 0
    """Inventions that it named and whose quotation is not there: they count as nothing."""

    def of(self, *kinds: VerdictKind) -> tuple[PatientVerdict, ...]:
        """Return the verdicts of these kinds."""
        return tuple(verdict for verdict in self.verdicts if verdict.kind in kinds)

    @property
    def facts(self) -> tuple[PatientVerdict, ...]:
        """What became of each fact that the patient could tell; none in judgements of version 0.5 and before."""
        return tuple(verdict for verdict in self.verdicts if verdict.topic)

    @property
    def never_told(self) -> int | None:
        """How many facts that the patient could tell never came up; ``None`` if the facts are not judged."""
        return sum(fact.kind in ("withheld", "never_asked") for fact in self.facts) if self.facts else None

    @property
    def coverage(self) -> float | None:
        """Share (0 to 1) of the facts that the patient could tell that came up; ``None`` if they are not judged."""
        return None if self.never_told is None else 1 - self.never_told / len(self.facts)


class _SplitFact(BaseModel):
    text: str
    lay: str
    topic: Topic
    told: bool


class _Split(BaseModel):
    facts: list[_SplitFact]


@dataclass(frozen=True)
class SplitFacts:
    """What a splitter made of a case: facts, how many it invented and were rejected, and why nothing could be read."""

    facts: tuple[AtomicFact, ...]
    rejected: tuple[str, ...] = ()
    unreadable: str | None = None
    call_ids: tuple[str, ...] = ()


class FactSplitter(ModelAgent):
    """Takes vignettes apart."""

    async def split(self, case: Case) -> AsyncIterator[Token | Called | SplitFacts]:
        """Yield the calls and at last the facts; raises ``CallFailed`` where the provider fails."""
        prompt = instruction_part(self._pack, "facts", vignette=case.vignette, topics=list(TOPICS))
        request = Request("facts", [prompt], "grader", "judge", partial(read_json, form=_Split), form=_Split)
        async for item in ask(self._voice, self._pack, request):
            if not isinstance(item, Parsed):
                yield item
            elif item.value is None:
                yield SplitFacts((), (), unreadable(self._voice, item), item.call_ids)
            else:
                kept = [fact for fact in item.value.facts if in_vignette(fact.text, case.vignette)]
                rejected = tuple(fact.text for fact in item.value.facts if fact not in kept)
                facts = with_ids(
                    AtomicFact(id=f.text, key=f.topic, text=f.text, lay=f.lay or f.text, told=f.told, topic=f.topic)
                    for f in kept
                )
                yield SplitFacts(facts, rejected, None, item.call_ids)
