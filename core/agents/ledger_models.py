"""A model's judgement of what became of the facts of a case in a conversation, and a model that splits vignettes.

For the judge's prompt and the check of its reply see ``core.jobs.judges``. A fact of the splitter whose words are not
in the vignette is rejected and counted.
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
"""What became of a fact that the patient can tell.

``asked``: told on request; ``volunteered``: told without a request; ``withheld``: requested and not told.
"""
VerdictKind = Literal["asked", "volunteered", "withheld", "never_asked", "invented"]


@dataclass(frozen=True)
class PatientVerdict:
    """What became of one fact, or one invention of the patient, with a quotation.

    Attributes:
        turn: The patient's message, from 0; ``None`` for *never_asked*.
        words: The quotation: from the patient's message for *asked*, *volunteered* and *invented*; from the doctor's
            question before it for *withheld*; empty for *never_asked*.
        fact: Id of the fact; for an invention, of the fact that it contradicts, if any.
        fact_text: The fact's text at the time of the judgement.
        topic: The fact's topic at that time; empty for an invention.
    """

    kind: VerdictKind
    turn: int | None
    words: str
    fact: str | None = None
    fact_text: str = ""
    topic: str = ""


@dataclass(frozen=True)
class JudgedPatient:
    """A model's judgement of one conversation with a certain prompt."""

    judge: str
    prompt_hash: str
    verdicts: tuple[PatientVerdict, ...] = ()
    dropped: int = 0
    """Inventions without a correct quotation; they do not count."""

    def of(self, *kinds: VerdictKind) -> tuple[PatientVerdict, ...]:
        return tuple(verdict for verdict in self.verdicts if verdict.kind in kinds)

    @property
    def facts(self) -> tuple[PatientVerdict, ...]:
        """The verdict on each fact that the patient can tell; empty in judgements of version 0.5 and before."""
        return tuple(verdict for verdict in self.verdicts if verdict.topic)

    @property
    def never_told(self) -> int | None:
        """Number of facts that the patient can tell and never told; ``None`` if the facts are not judged."""
        return sum(fact.kind in ("withheld", "never_asked") for fact in self.facts) if self.facts else None

    @property
    def coverage(self) -> float | None:
        """Share (0 to 1) of the patient's facts that were told; ``None`` if the facts are not judged."""
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
